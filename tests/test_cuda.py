"""What is special about the cuda engine: its products, its limits, and the second pass where updates are clipped."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

import thermoment as tm
from conformance import bits
from thermoment.engines import Task

cuda = pytest.importorskip("thermoment.engines.cuda", exc_type=ImportError)
cupy = pytest.importorskip("cupy")

if not tm.engines()["cuda"].can_run:
    pytest.skip(f"cuda cannot run: {tm.engines()['cuda'].note}", allow_module_level=True)

PROTOCOL = tm.Protocol(dt=5e-3, n_replicas=100)
INPUTS = np.random.default_rng(3).random((5, 10))


def network(N: int = 256, s_W: float = 0.5) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 10, s_W=s_W, s_K=4.0, seed=2)


@pytest.mark.parametrize("product", ["wgmma", "mma", "mma, W in global memory"])
@pytest.mark.parametrize("N", [1, 6, 63, 256])
def test_every_product_against_the_reference(product: str, N: int) -> None:
    try:
        moments = tm.simulate(network(N), INPUTS, PROTOCOL, engine=cuda.Cuda(product))
    except ValueError as why:
        pytest.skip(str(why))
    expected = tm.simulate(network(N), INPUTS, PROTOCOL, engine="reference")
    np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=2e-4)
    assert np.abs((moments.raw - expected.raw).mean(axis=(0, 2))).max() < 2e-5 * max(1, 256 / N) ** 0.5


def test_only_clipped_samples_are_done_again() -> None:
    """A batch of quiet samples and one that is clipped: the quiet ones keep the bits they have alone."""
    loud = INPUTS.copy()
    loud[2] *= 20
    protocol = tm.Protocol(dt=5e-3, n_replicas=100, clip=1.5)
    moments = tm.simulate(network(64), loud, protocol, engine="cuda")
    expected = tm.simulate(network(64), loud, protocol, engine="reference")
    assert moments.info.clip_count == pytest.approx(expected.info.clip_count, rel=1e-3)
    assert moments.info.clip_count > 1000
    np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=2e-4)
    quiet = tm.simulate(network(64), loud[:2], protocol, engine="cuda")
    assert bits(quiet) == np.ascontiguousarray(moments.raw[:2]).tobytes()


def test_short_memory_means_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tm.simulate(network(), INPUTS, PROTOCOL, engine="cuda")
    real = cuda._launch
    room = 2

    def launch(task: Task, path: str, samples: NDArray[np.intp], *, clip: bool) -> object:
        if len(samples) > room:
            raise cupy.cuda.memory.OutOfMemoryError(1, 0, 0)
        return real(task, path, samples, clip=clip)

    monkeypatch.setattr(cuda, "_launch", launch)
    assert bits(tm.simulate(network(), INPUTS, PROTOCOL, engine="cuda")) == bits(whole)
    room = 0
    with pytest.raises(MemoryError, match="no memory left for even one sample"):
        tm.simulate(network(), INPUTS, PROTOCOL, engine="cuda")


def test_a_launch_is_short_however_many_the_steps_and_replicas() -> None:
    """Ctrl-C waits for a launch: its tiles times their steps are bounded, down to one tile for each that runs."""
    at = {steps: cuda._launch_samples(132, blocks=2, n_steps=steps) for steps in (1, 1000, 2000, 20_000, 10**6)}
    assert at == {1: 5280, 1000: 5280, 2000: 2640, 20_000: 264, 10**6: 132}
    assert cuda._launch_samples(132, blocks=2**14, n_steps=1000) == 1


_LONG_RUN = """
import os, signal, threading
import numpy as np
import thermoment as tm

reservoir = tm.Reservoir.draw(256, 4, seed=1)
tm.simulate(reservoir, np.zeros((1, 4)), tm.Protocol(t_final=0.01), engine="cuda")
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    tm.simulate(reservoir, np.zeros((10**7, 4)), engine="cuda")
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupt_stops_it_between_launches() -> None:
    # The whole would take ten minutes. A run that does not stop is killed, and raises TimeoutExpired.
    result = subprocess.run([sys.executable, "-c", _LONG_RUN], capture_output=True, text=True, timeout=100)
    assert result.stdout == "stopped\n", result.stderr


def test_more_nodes_are_sent_to_xla() -> None:
    with pytest.raises(ValueError, match=r"`W` must couple at most 256 nodes for cuda \(engine xla takes more\)"):
        tm.simulate(network(257), INPUTS, PROTOCOL, engine="cuda")


def test_an_unknown_product_is_refused() -> None:
    with pytest.raises(ValueError, match="`product` must be one of wgmma, mma"):
        cuda.Cuda("abacus")
