"""The kernel of `xla` on a GPU, interpreted on the CPU: the same step as the one that XLA compiles by itself."""

from collections.abc import Iterator

import numpy as np
import pytest

import thermoment as tm
from support.conformance import bits
from thermoment._engines.xla import Xla


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[Xla]:
    monkeypatch.setattr(Xla, "_fused", lambda _: True)
    return Xla()


def network(N: int) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 3, s_W=0.5, s_K=4.0, s_b=0.2, seed=11, stream=2**32 - 1)


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
@pytest.mark.parametrize(("N", "M", "clip"), [(1, 3, np.inf), (9, 130, 0.3), (30, 7, 0.3)])
def test_against_the_reference(fused: Xla, N: int, M: int, clip: float) -> None:
    """Noise, coupling, drive and clip of every node, with tiles that are padded in nodes, replicas and samples."""
    protocol = tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=M, clip=clip)
    inputs = np.random.default_rng(5).random((2, 3))
    ids = np.array([2**63 + 2**40 + 3, 7], np.uint64)
    found = tm.simulate(network(N), inputs, protocol, engine=fused, sample_ids=ids)
    expected = tm.simulate(network(N), inputs, protocol, engine="reference", sample_ids=ids)
    np.testing.assert_allclose(found.raw, expected.raw, rtol=0, atol=2e-6)
    assert found.info.clip_count == expected.info.clip_count
    assert (expected.info.clip_count > 100) == (clip < np.inf)


def test_a_sample_has_the_same_bits_in_any_batch(fused: Xla) -> None:
    protocol, inputs = tm.Protocol(dt=1e-2, t_final=0.1, n_replicas=9), np.random.default_rng(5).random((4, 3))
    whole = tm.simulate(network(6), inputs, protocol, engine=fused)
    alone = tm.simulate(network(6), inputs[2:3], protocol, engine=fused, sample_ids=[2])
    assert bits(alone) == np.ascontiguousarray(whole.raw[2:3]).tobytes()
