"""A signal in xla: its rows are few calls of one program, with the bits of rows that are run one by one."""

from typing import Any

import jax
import numpy as np
import pytest

import thermoment as tm
from thermoment._engines import xla_program

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="on a GPU a tile fills the device, and so few rows fit into a call"
)

S, T, M, N = 2, 130, 7, 9
PROTOCOL = tm.Protocol(dt=1e-2, n_replicas=M, clip=0.75)
RESERVOIR = tm.Reservoir.draw(N, 3, s_W=0.5, s_K=4.0, s_b=0.2, seed=11, stream=3)
SIGNAL = np.random.default_rng(5).random((S, T, 3))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of segments in each call of the program, in the order of the calls."""
    found: list[int] = []
    course = xla_program.course

    def counted(tile: Any, state: Any, drives: Any, count: int, *rest: Any) -> Any:
        found.append(count)
        return course(tile, state, drives, count, *rest)

    monkeypatch.setattr(xla_program, "course", counted)
    return found


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
def test_rows_of_a_signal_are_few_calls_and_have_the_bits_of_rows_one_by_one(calls: list[int]) -> None:
    options: dict[str, Any] = {"hold": 0.03, "engine": "xla", "keep_end": True}
    whole = tm.course(RESERVOIR, SIGNAL, PROTOCOL, **options)
    assert sum(calls) == T
    assert len(calls) <= 5
    assert max(calls) < T, "the signal must be longer than a call"
    end, clipped = None, 0
    for row in range(T):
        one = tm.course(RESERVOIR, SIGNAL[:, row : row + 1], PROTOCOL, x0=end, **options)
        end = one.end
        clipped += one.moments[0].info.clip_count
        assert np.array_equal(one.raw[0], whole.raw[row])
        assert whole.moments[row].info.clip_count == clipped
    assert end is not None
    assert whole.end is not None
    assert np.array_equal(end.x, whole.end.x)
    assert clipped > 0


def test_a_change_of_coupling_or_of_duration_begins_another_call(calls: list[int]) -> None:
    """With all that can be read: moments, observables that add up over calls, and pairs."""
    held = SIGNAL[:, 0]
    phases = [
        *(tm.Phase(0.05, SIGNAL[:, k]) for k in range(3)),
        tm.Phase(0.02, held),
        tm.Phase(0.02, held, RESERVOIR.W.T.copy()),
    ]
    options: dict[str, Any] = {"observables": (tm.Heat(),), "pairs": ((0, 1), (8, 3))}
    found, expected = (
        tm.course(RESERVOIR, phases, tm.Protocol(dt=1e-2, n_replicas=M), engine=engine, **options)
        for engine in ("xla", "reference")
    )
    assert calls == [3, 1, 1]
    np.testing.assert_allclose(found.raw, expected.raw, rtol=0, atol=2e-6)
    for one, other in zip(found.moments, expected.moments, strict=True):
        np.testing.assert_allclose(one.observed["heat"].mean, other.observed["heat"].mean, rtol=0, atol=1e-4)
        np.testing.assert_allclose(one.joint, other.joint, rtol=0, atol=2e-6)
