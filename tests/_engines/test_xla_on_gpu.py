"""The steps that xla takes on a GPU, taken on the CPU: noise node by node, loops in blocks, W x in half precision."""

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
        return xla_program.Way(on_gpu=True, counted=math.isfinite(task.protocol.clip))

    monkeypatch.setattr(xla.Xla, "_way", way)
    monkeypatch.setattr(xla_program, "UNROLL", 1)  # a CPU takes long to compile the steps of a turn


def network(N: int) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 3, s_W=0.5, s_K=4.0, s_b=0.2, seed=11, stream=2**32 - 1)


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
@pytest.mark.parametrize(("N", "M", "n_steps", "clip"), [(1, 3, 7, np.inf), (9, 130, 120, 0.3), (30, 7, 50, np.inf)])
def test_against_the_reference(N: int, M: int, n_steps: int, clip: float) -> None:
    """Whole blocks of steps, a rest, and no block at all; with a clip that counts, and without one."""
    assert xla_program.BLOCK == 50
    assert N <= xla.LARGEST_EXACT
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


@pytest.mark.parametrize("scale", [1.0, 1e-6, 50.0])
def test_half_precision_rounds_x_and_w_to_eleven_bits(scale: float) -> None:
    """Whatever the size of W: the error of W x is that of two factors rounded by at most 2^-11, and not of none.

    After one step a node that was at zero is at dt W x.
    """
    N, dt = xla.LARGEST_EXACT + 6, 1e-3
    W = scale * np.random.default_rng(2).normal(size=(N, N)) * (1 - np.eye(N))
    x0 = np.random.default_rng(3).normal(size=N) * (np.arange(N) % 2)
    reservoir = tm.Reservoir(W, np.zeros((N, 1)), np.zeros(N), tm.Dynamics(J4=0.0, kT=0.0))
    protocol = tm.Protocol(dt=dt, t_final=dt, n_replicas=1, orders=(1,))
    moved = tm.simulate(reservoir, [[1.0]], protocol, engine="xla", x0=x0).raw[0, 0, ::2]
    expected, size = dt * (W @ x0)[::2], dt * (np.abs(W) @ np.abs(x0))[::2]
    error = np.abs(moved - expected) / size
    assert error.max() < 2 * 2**-11
    assert error.max() > 1e-6


def test_states_that_half_precision_cannot_hold_are_refused() -> None:
    """A linear node under a drive of 1e5 goes to 1e5."""
    N = xla.LARGEST_EXACT + 6
    linear = tm.Dynamics(J2=0.5, J4=0.0, kT=0.01)
    protocol = tm.Protocol(dt=0.1, t_final=5.0, n_replicas=2, orders=(1,))
    driven = tm.Reservoir(np.zeros((N, N)), np.ones((N, 1)), np.zeros(N), linear)
    with pytest.raises(RuntimeError, match="went beyond 65504"):
        tm.simulate(driven, [[1e5]], protocol, engine="xla")
    with pytest.raises(RuntimeError, match="went beyond 65504"):
        tm.sample_paths(driven, [[1e5]], protocol, nodes=(0,), every=10, engine="xla")
