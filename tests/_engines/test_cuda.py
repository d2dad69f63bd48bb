"""The cuda engine by itself: its products, many nodes, its limits, and the second pass where updates are clipped."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

import thermoment as tm
from support.conformance import bits

cuda = pytest.importorskip("thermoment._engines.cuda", exc_type=ImportError)
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
    np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=1e-4)
    assert np.abs((moments.raw - expected.raw).mean(axis=(0, 2))).max() < 2e-5 * max(1, 256 / N) ** 0.5


@pytest.mark.parametrize("product", ["wgmma", "mma, W in global memory"])
def test_every_product_gives_the_bits_of_mma(product: str) -> None:
    try:
        found = tm.simulate(network(200), INPUTS, PROTOCOL, engine=cuda.Cuda(product))
    except ValueError as why:
        pytest.skip(str(why))
    assert bits(found) == bits(tm.simulate(network(200), INPUTS, PROTOCOL, engine=cuda.Cuda("mma")))


wide = pytest.mark.skipif(cupy.cuda.Device(0).compute_capability != "90", reason="more than 256 nodes need a Hopper")


@wide
@pytest.mark.parametrize("N", [257, 300, 511, 512, 1000, 1024, 2047, 2048, 4096])
def test_more_nodes_than_a_multiprocessor_holds(N: int) -> None:
    """Odd numbers of nodes, of replicas and of tiles, long enough for every node to feel every other one twice."""
    protocol = tm.Protocol(dt=5e-3, t_final=0.1 if N < 2000 else 0.03, n_replicas=70 if N < 2000 else 5)
    moments = tm.simulate(network(N), INPUTS, protocol, engine="cuda")
    expected = tm.simulate(network(N), INPUTS, protocol, engine="reference")
    np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=2e-5)
    assert np.abs((moments.raw - expected.raw).mean(axis=(0, 2))).max() < 1e-6
    uncoupled = tm.Reservoir(np.zeros((N, N)), network(N).K, network(N).b)
    without = tm.simulate(uncoupled, INPUTS, protocol, engine="cuda").raw
    assert np.abs(without - expected.raw).max() > 1e-3, "the coupling must matter"


@wide
def test_long_runs_of_many_nodes() -> None:
    """The whole time of the paper's protocol, where the rounding of many steps adds up."""
    protocol = tm.Protocol(n_replicas=64)
    found = tm.simulate(network(600, s_W=1.0), INPUTS[:1], protocol, engine="cuda").raw
    expected = tm.simulate(network(600, s_W=1.0), INPUTS[:1], protocol, engine="reference").raw
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.5e-4)
    assert np.abs((found - expected).mean(axis=2)).max() < 1e-5


@wide
@pytest.mark.parametrize(("N", "M", "S"), [(512, 128, 150), (1000, 65, 70), (2048, 300, 9)])
def test_a_sample_of_many_nodes_has_the_same_bits_in_any_batch(N: int, M: int, S: int) -> None:
    """More samples than run at a time, so that they come in several rounds and places."""
    protocol = tm.Protocol(dt=5e-3, t_final=0.1, n_replicas=M)
    inputs = np.random.default_rng(7).random((S, 10))
    whole = tm.simulate(network(N), inputs, protocol, engine="cuda").raw
    again = tm.simulate(network(N), inputs, protocol, engine="cuda").raw
    assert np.array_equal(whole, again)
    for part in ([0], [S - 1], [S // 2, 1], list(range(S))[::-3]):
        alone = tm.simulate(network(N), inputs[part], protocol, engine="cuda", sample_ids=part).raw
        assert np.array_equal(alone, whole[part]), part


@wide
@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
def test_clipped_updates_of_many_nodes_are_counted() -> None:
    loud = INPUTS.copy()
    loud[2] *= 20
    protocol = tm.Protocol(dt=5e-3, t_final=0.5, n_replicas=70, clip=1.5)
    moments = tm.simulate(network(700), loud, protocol, engine="cuda")
    expected = tm.simulate(network(700), loud, protocol, engine="reference")
    assert moments.info.clip_count == pytest.approx(expected.info.clip_count, rel=1e-3)
    assert moments.info.clip_count > 1000
    np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=2e-4)


@wide
@pytest.mark.parametrize("clip", [5.0, np.inf])
def test_no_coupling_of_many_nodes_is_too_large(clip: float) -> None:
    """All nodes drive each other to about x = 4.8: sums as large as they can get below the clip."""
    N = 1100
    reservoir = tm.Reservoir(96 / N * (1 - np.eye(N)), network(N).K, np.zeros(N))
    protocol = tm.Protocol(t_final=0.1, n_replicas=20, clip=clip)
    found = tm.simulate(reservoir, INPUTS, protocol, engine="cuda")
    expected = tm.simulate(reservoir, INPUTS, protocol, engine="reference")
    assert found.info.clip_count == expected.info.clip_count == 0
    scale = np.maximum(1, np.abs(expected.raw))
    np.testing.assert_allclose(found.raw / scale, expected.raw / scale, rtol=0, atol=4e-3)


@wide
def test_several_tasks_of_many_nodes_at_a_time() -> None:
    """Multiprocessors wait for each other: two kernels that each hold a part of them would wait for ever."""
    protocol = tm.Protocol(dt=5e-3, t_final=0.1, n_replicas=128)
    inputs = np.random.default_rng(7).random((200, 10))

    def run(N: int) -> NDArray[np.float64]:
        return tm.simulate(network(N), inputs, protocol, engine="cuda").raw

    sizes = (300, 900, 300, 600)
    with ThreadPoolExecutor(len(sizes)) as pool:
        together = list(pool.map(run, sizes))
    for N, raw in zip(sizes, together, strict=True):
        assert np.array_equal(raw, run(N))


N_COUPLED = 32
PATTERN = np.random.default_rng(8).standard_normal((N_COUPLED, N_COUPLED)) * (1 - np.eye(N_COUPLED))


@pytest.mark.parametrize(
    ("W", "tolerance"),
    [
        pytest.param(0 * PATTERN, 1e-5, id="none"),
        pytest.param(1e-9 * PATTERN, 1e-5, id="tiny"),
        pytest.param(3 * PATTERN * np.geomspace(1e-6, 1, N_COUPLED)[:, None], 2e-4, id="uneven"),
        pytest.param(5 * PATTERN, 4e-3, id="large"),
        # All nodes drive each other to x = 4.8: sums as large as they can get below the clip.
        pytest.param(3 * (1 - np.eye(N_COUPLED)), 4e-3, id="aligned"),
    ],
)
@pytest.mark.parametrize("kT", [0.0, 0.1])
@pytest.mark.parametrize("clip", [5.0, np.inf])
@pytest.mark.parametrize("product", ["wgmma", "mma"])
def test_no_coupling_is_too_small_or_too_large(
    product: str, clip: float, kT: float, W: NDArray[np.float64], tolerance: float
) -> None:
    """Sums in half precision end at 65504 and are coarse below 6e-5; W is scaled so that neither matters."""
    reservoir = tm.Reservoir(W, network(N_COUPLED).K, np.zeros(N_COUPLED), tm.Dynamics(kT=kT))
    protocol = tm.Protocol(t_final=0.1, n_replicas=20, clip=clip)
    try:
        found = tm.simulate(reservoir, INPUTS, protocol, engine=cuda.Cuda(product))
    except ValueError as why:
        pytest.skip(str(why))
    expected = tm.simulate(reservoir, INPUTS, protocol, engine="reference")
    assert found.info.clip_count == expected.info.clip_count == 0
    scale = np.maximum(1, np.abs(expected.raw))
    np.testing.assert_allclose(found.raw / scale, expected.raw / scale, rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
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

    def launch(job: object, samples: NDArray[np.intp], means: NDArray[np.float64], *, clip: bool) -> object:
        if len(samples) > room:
            raise cupy.cuda.memory.OutOfMemoryError(1, 0, 0)
        return real(job, samples, means, clip=clip)

    monkeypatch.setattr(cuda, "_launch", launch)
    assert bits(tm.simulate(network(), INPUTS, PROTOCOL, engine="cuda")) == bits(whole)
    room = 0
    with pytest.raises(MemoryError, match="no memory left for even one sample"):
        tm.simulate(network(), INPUTS, PROTOCOL, engine="cuda")


_LONG_RUN = """
import os, signal, threading
import numpy as np
import thermoment as tm

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits it as ignored
reported = []

def started(done, total):
    if not reported:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    reported.append(done)

try:
    tm.simulate(tm.Reservoir.draw(256, 4, seed=1), np.zeros((10**6, 4)), engine="cuda", progress=started)
except KeyboardInterrupt:
    print("stopped early" if reported[-1] < 10**6 else "went on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupt_stops_it_between_launches() -> None:
    # The whole would take a minute.
    result = subprocess.run([sys.executable, "-c", _LONG_RUN], capture_output=True, text=True, timeout=100)
    assert result.stdout == "stopped early\n", result.stderr


def test_more_nodes_are_sent_to_xla() -> None:
    """mma is not made for them, and auto goes on to an engine that is."""
    with pytest.raises(ValueError, match=r"`W` must couple at most 256 nodes for cuda here \(engine xla takes more\)"):
        tm.simulate(network(257), INPUTS, PROTOCOL, engine=cuda.Cuda("mma"))


@wide
def test_more_steps_than_the_kernel_counts_are_refused() -> None:
    """125 rounds of 1e8 steps: some days of work."""
    protocol = tm.Protocol(dt=1e-7, t_final=10.0, n_replicas=2**20)
    with pytest.raises(ValueError, match="`t_final` must be of fewer steps"):
        tm.simulate(network(300), INPUTS, protocol, engine="cuda")


@wide
def test_auto_takes_cuda_for_many_nodes() -> None:
    assert tm.simulate(network(600), INPUTS, tm.Protocol(t_final=0.01, n_replicas=3)).info.engine == "cuda"


def test_an_unknown_product_is_refused() -> None:
    with pytest.raises(ValueError, match="`product` must be one of wgmma, mma"):
        cuda.Cuda("abacus")
