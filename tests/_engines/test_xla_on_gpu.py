"""The steps that xla takes on a GPU, taken on the CPU: other noise in form, the same in value; loops in blocks."""

import math

import jax
import numpy as np
import pytest

import thermoment as tm
from support.conformance import bits
from thermoment._engines import xla, xla_program
from thermoment._engines.task import Task

if jax.default_backend() != "cpu":
    pytest.skip("tests/_engines/test_conformance.py does it on the GPU itself", allow_module_level=True)

INPUTS = np.random.default_rng(5).random((2, 3))
IDS = np.array([2**63 + 2**40 + 3, 7], np.uint64)


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def way(_: xla.Xla, task: Task) -> xla_program.Way:
        return xla_program.Way(quarters=True, counted=math.isfinite(task.protocol.clip))

    monkeypatch.setattr(xla.Xla, "_way", way)


def network(N: int) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 3, s_W=0.5, s_K=4.0, s_b=0.2, seed=11, stream=2**32 - 1)


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
@pytest.mark.parametrize(("N", "M", "n_steps", "clip"), [(1, 3, 7, np.inf), (9, 130, 120, 0.3), (30, 7, 50, np.inf)])
def test_against_the_reference(N: int, M: int, n_steps: int, clip: float) -> None:
    """Whole blocks of steps, a rest, and no block at all; with a clip that counts, and without one."""
    assert xla_program.BLOCK == 50
    protocol = tm.Protocol(dt=1e-2, t_final=n_steps * 1e-2, n_replicas=M, clip=clip)
    found = tm.simulate(network(N), INPUTS, protocol, engine="xla", sample_ids=IDS)
    expected = tm.simulate(network(N), INPUTS, protocol, engine="reference", sample_ids=IDS)
    np.testing.assert_allclose(found.raw, expected.raw, rtol=0, atol=2e-6)
    assert found.info.clip_count == expected.info.clip_count
    assert (expected.info.clip_count > 1000) == (clip < np.inf)


def test_paths_and_final_states() -> None:
    protocol = tm.Protocol(dt=1e-2, t_final=1.2, n_replicas=5)
    paths = {
        engine: tm.sample_paths(network(6), INPUTS, protocol, nodes=range(6), every=60, engine=engine)[1]
        for engine in ("xla", "reference")
    }
    np.testing.assert_allclose(paths["xla"], paths["reference"], rtol=0, atol=2e-6)
    x = tm.final_states(network(6), INPUTS, protocol, engine="xla")
    assert np.array_equal(x, paths["xla"][:, :, -1])


def test_a_sample_has_the_same_bits_in_any_batch() -> None:
    protocol = tm.Protocol(dt=1e-2, t_final=0.6, n_replicas=9)
    whole = tm.simulate(network(6), INPUTS, protocol, engine="xla", sample_ids=IDS)
    alone = tm.simulate(network(6), INPUTS[1:], protocol, engine="xla", sample_ids=IDS[1:])
    assert bits(alone) == np.ascontiguousarray(whole.raw[1:]).tobytes()
