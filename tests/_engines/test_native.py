"""What is particular to the native engine: its kernels, its threads, its precision, and how it is stopped."""

import math
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment._engines import native
from thermoment._engines.native import Native
from thermoment._engines.task import Segment, Task

_STATUS = tm.engines()["native"]
pytestmark = pytest.mark.skipif(not _STATUS.can_run, reason=f"native {_STATUS.note}")


def _kernels() -> list[str]:
    if not _STATUS.can_run:
        return ["plain"]
    from thermoment._engines._native import kernels

    return [name for name, _, runs_here, _ in kernels() if runs_here]


KERNELS = _kernels()
each_kernel = pytest.mark.parametrize("isa", KERNELS)


def _reservoir(N: int, s_W: float = 0.3, **options: Any) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 4, s_W=s_W, s_K=2.0, seed=N, stream=5, **options)


def _inputs(S: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(0).normal(size=(S, 4))


@cache
def _reference(N: int, S: int, protocol: tm.Protocol, ids: tuple[int, ...] | None = None, **options: Any) -> tm.Moments:
    """The same for every kernel, so computed once."""
    sample_ids = None if ids is None else np.array(ids, np.uint64)
    return tm.simulate(_reservoir(N, **options), _inputs(S), protocol, engine="reference", sample_ids=sample_ids)


def _native(
    isa: str, N: int, S: int, protocol: tm.Protocol, ids: tuple[int, ...] | None = None, **options: Any
) -> tm.Moments:
    sample_ids = None if ids is None else np.array(ids, np.uint64)
    return tm.simulate(_reservoir(N, **options), _inputs(S), protocol, engine=Native(isa), sample_ids=sample_ids)


# Of 48 sizes 12 that leave lanes, groups and parts to be filled up in every way; the others repeat them.
SIZES = [
    pytest.param(N, M, S, marks=() if S == 13 and N in (3, 65, 256, 300) else pytest.mark.slow)
    for N in (1, 3, 5, 63, 64, 65, 256, 300)
    for M in (1, 7, 128)
    for S in (1, 13)
]


@each_kernel
@pytest.mark.parametrize(("N", "M", "S"), SIZES)
def test_every_kernel_follows_the_reference_at_odd_sizes(isa: str, N: int, M: int, S: int) -> None:
    # 20 steps go past the 16th, in which a bfloat16 product makes up for its rounding. W x moves the nodes by 1e-4 in
    # this time, a hundred times the tolerance.
    protocol = tm.Protocol(t_final=0.02, n_replicas=M, seed=M + S)
    ids = tuple(1000 * s + 7 for s in range(S))
    found, wanted = _native(isa, N, S, protocol, ids), _reference(N, S, protocol, ids)
    np.testing.assert_allclose(found.raw, wanted.raw, atol=1e-6, rtol=0)
    assert found.info.clip_count == wanted.info.clip_count == 0


@each_kernel
@pytest.mark.parametrize("s_W", [pytest.param(0.1, marks=pytest.mark.slow), 0.2])
def test_at_the_size_of_the_paper_moments_are_within_2e4_and_bias_within_2e5(isa: str, s_W: float) -> None:
    # The limits of the conformance suite; here a tenth of them, which every kernel keeps.
    protocol = tm.Protocol()
    difference = _native(isa, 256, 1, protocol, s_W=s_W).raw - _reference(256, 1, protocol, s_W=s_W).raw
    assert np.abs(difference).max() <= 2e-5
    assert np.abs(difference.mean(axis=(0, 2))).max() <= 2e-6


@each_kernel
def test_a_wrong_coupling_is_caught(isa: str) -> None:
    # The negative control of the two tests above: W transposed, and W rounded to bfloat16 and left so.
    reservoir, inputs = _reservoir(256, 0.2), _inputs(1)
    protocol = tm.Protocol()
    wanted = _reference(256, 1, protocol, s_W=0.2).raw
    bits = reservoir.W.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x8000) & 0xFFFF0000).view(np.float32).astype(np.float64)
    for W in (reservoir.W.T, rounded):
        found = tm.simulate(replace(reservoir, W=W), inputs, protocol, engine=Native(isa)).raw
        assert np.abs(found - wanted).max() > 2e-5


@each_kernel
@pytest.mark.parametrize(
    ("s_W", "dynamics", "options"),
    [
        (2.0, tm.Dynamics(), {}),
        (8.0, tm.Dynamics(), {}),
        (0.2, tm.Dynamics(kT=0.0), {}),
        (0.2, tm.Dynamics(), {"dt": 0.1, "t_final": 2.0}),
        (1.0, tm.Dynamics(J2=-1.0), {}),
    ],
    ids=["strong", "chaotic", "cold", "coarse", "double-well"],
)
def test_precision_holds_where_bfloat16_would_not(
    isa: str, s_W: float, dynamics: tm.Dynamics, options: dict[str, float]
) -> None:
    protocol = tm.Protocol(**({"n_replicas": 16} | options))  # type: ignore[arg-type]
    found = _native(isa, 128, 2, protocol, s_W=s_W, dynamics=dynamics)
    wanted = _reference(128, 2, protocol, s_W=s_W, dynamics=dynamics)
    np.testing.assert_allclose(found.raw, wanted.raw, atol=2e-5, rtol=1e-5)


@pytest.mark.skipif("avx512bf16" not in KERNELS, reason="this processor has no bfloat16 products")
@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
def test_bfloat16_is_used_where_it_is_good_enough_and_only_there() -> None:
    # Seen from outside: float32 products are the same bits in both kernels, bfloat16 products are not.
    def same_bits(s_W: float, protocol: tm.Protocol, dynamics: tm.Dynamics | None = None) -> bool:
        options: dict[str, Any] = {"s_W": s_W, "dynamics": dynamics}
        return all(
            np.array_equal(*pair)
            for pair in zip(
                _native("avx512bf16", 64, 2, protocol, **options).raw,
                _native("avx512", 64, 2, protocol, **options).raw,
                strict=True,
            )
        )

    short = tm.Protocol(t_final=0.1, n_replicas=16)
    assert not same_bits(0.1, short)
    assert not same_bits(0.2, short)
    assert same_bits(4.0, short)
    assert same_bits(0.2, replace(short, clip=0.5))
    assert same_bits(0.2, replace(short, dt=0.05))
    assert same_bits(0.2, short, tm.Dynamics(kT=0.0))


def _bfloat16(drives: list[float], s_W: float = 0.1, t_final: float = 1.0, **dynamics: float) -> list[bool]:
    """For samples in which all nodes have one drive: whether bfloat16 is good enough. There is no clip."""
    protocol = tm.Protocol(t_final=t_final, clip=math.inf)
    W, drive = _reservoir(64, s_W).W, np.repeat(np.array(drives)[:, None], 64, axis=1)
    segment = Segment(protocol.n_steps, drive, W)
    task = Task((segment,), tm.Dynamics(**dynamics), protocol, np.arange(len(drives), dtype=np.uint64), 0)
    return [bool(good) for (good,) in native._bfloat16_suffices(task)]


def test_float32_where_the_network_amplifies_what_bfloat16_leaves() -> None:
    # In a double well errors grow as exp(2 mu t): after t = 4 by 3000. A single well forgets them.
    assert _bfloat16([0.5], 0.01, t_final=1.0, J2=-1.0) == [True]
    assert _bfloat16([0.5], 0.01, t_final=4.0, J2=-1.0) == [False]
    assert _bfloat16([0.5], 0.01, t_final=4.0, J2=1.0) == [True]


def test_an_early_reading_has_bfloat16_where_the_whole_run_does_not() -> None:
    """In a double well bfloat16 is enough until t = 1 and not until t = 4; each reading is a run that ends there."""
    reservoir = _reservoir(64, 0.01, dynamics=tm.Dynamics(J2=-1.0))
    protocol = tm.Protocol(n_replicas=3, t_final=4.0)
    several = tm.course(reservoir, _inputs(2) / 20, protocol, times=(0.5, 1.0, 4.0), engine="native")
    for t in several.times:
        alone = tm.simulate(reservoir, _inputs(2) / 20, replace(protocol, t_final=t), engine="native")
        np.testing.assert_array_equal(several.at(t).raw, alone.raw)
    if "avx512bf16" in KERNELS:
        part = tm.course(reservoir, _inputs(2) / 20, protocol, times=(0.5, 4.0), engine="native", keep_end=True)
        assert not np.array_equal(part.at(0.5).raw, several.at(0.5).raw), "a part is done in float32"


@each_kernel
def test_parts_of_a_signal_have_the_bits_of_the_whole(isa: str) -> None:
    """Also where bfloat16 would be enough for one part and not for the whole: the second row drives very strongly."""
    reservoir, protocol = _reservoir(64, 0.1), tm.Protocol(n_replicas=20)
    signal = _inputs(2)[:, None] * np.array([1.0, 100.0])[:, None]
    options: dict[str, Any] = {"hold": 0.02, "engine": Native(isa)}
    whole = tm.course(reservoir, signal, protocol, **options)
    first = tm.course(reservoir, signal[:, :1], protocol, keep_end=True, **options)
    second = tm.course(reservoir, signal[:, 1:], protocol, x0=first.end, **options)
    np.testing.assert_array_equal(np.concatenate([first.raw, second.raw]), whole.raw)
    if isa == "avx512bf16":
        alone = tm.course(reservoir, signal[:, 0], protocol, times=(0.02,), engine=Native(isa))
        assert not np.array_equal(alone.raw, first.raw), "bfloat16 is enough for the first row"


def test_float32_where_thermal_motion_does_not_blur_the_rounding_of_x() -> None:
    # x* is 0.38 for h = 1, where bfloat16 numbers are 0.0015 apart; at kT = 1e-6 the node moves by 0.0005.
    assert _bfloat16([1.0, 0.01], kT=0.1) == [True, True]
    assert _bfloat16([1.0, 0.01], kT=1e-6) == [False, True]
    assert _bfloat16([1.0, 0.0], kT=0.0) == [False, False]


@each_kernel
@pytest.mark.parametrize("M", [1, 3, 16, 70])
def test_bits_do_not_depend_on_batch_order_or_threads(isa: str, M: int) -> None:
    # Drives of very different strength: on AVX-512 with bfloat16 some samples are done in float32, some not. Samples of
    # few replicas share a tile, unless they are alone.
    reservoir, protocol = _reservoir(37), tm.Protocol(dt=1e-4, t_final=3e-3, n_replicas=M, clip=math.inf)
    inputs = _inputs(9) * np.logspace(-1, 3, 9)[:, None]
    ids = np.arange(9)
    whole = tm.simulate(reservoir, inputs, protocol, engine=Native(isa, threads=1), sample_ids=ids).raw
    for threads in (2, 7):
        again = tm.simulate(reservoir, inputs, protocol, engine=Native(isa, threads), sample_ids=ids).raw
        np.testing.assert_array_equal(again, whole)
    order = np.random.default_rng(1).permutation(9)
    shuffled = tm.simulate(reservoir, inputs[order], protocol, engine=Native(isa), sample_ids=ids[order]).raw
    np.testing.assert_array_equal(shuffled, whole[order])
    alone = tm.simulate(reservoir, inputs[4:5], protocol, engine=Native(isa), sample_ids=[4]).raw
    np.testing.assert_array_equal(alone, whole[4:5])
    other = tm.simulate(reservoir, inputs[4:5], protocol, engine=Native(isa), sample_ids=[5]).raw
    assert np.all(other != whole[4:5])


@each_kernel
@pytest.mark.parametrize("M", [2049, 5000])
def test_many_replicas_are_cut_into_parts_and_none_is_lost(isa: str, M: int) -> None:
    # A replica lost or taken twice changes m1 by 0.02 / M, its spread over their number, forty times the tolerance.
    protocol = tm.Protocol(t_final=0.003, n_replicas=M)
    found, wanted = _native(isa, 2, 1, protocol), _reference(2, 1, protocol)
    np.testing.assert_allclose(found.raw, wanted.raw, atol=1e-7, rtol=0)


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
@each_kernel
def test_clipped_updates_are_counted_exactly(isa: str) -> None:
    # Counts are equal unless an update comes within rounding, about 1e-7, of the limit. Near it updates are spread over
    # about 0.1, so of these 2e5 updates 0.2 would be that close on average, and an update on the other side moves
    # the count by one: with this seed there is none. N and M leave lanes, nodes and a group to be filled up, which clip
    # at this limit as often as the others and must not be counted.
    for N, S, M in ((5, 1, 45), (91, 1, 45), (5, 5, 3)):
        protocol = tm.Protocol(dt=0.01, t_final=0.5, n_replicas=M, clip=0.3)
        found, wanted = _native(isa, N, S, protocol), _reference(N, S, protocol)
        assert found.info.clip_count == wanted.info.clip_count > 100


@each_kernel
@pytest.mark.parametrize("M", [2, 19])
def test_every_order_64_bit_ids_and_no_clip(isa: str, M: int) -> None:
    protocol = tm.Protocol(dt=0.01, t_final=0.1, n_replicas=M, clip=math.inf, orders=tuple(range(1, 9)), seed=2**32 - 1)
    ids = (2**40 + 3, 2**64 - 1)
    found, wanted = _native(isa, 6, 2, protocol, ids), _reference(6, 2, protocol, ids)
    np.testing.assert_allclose(found.raw, wanted.raw, atol=1e-6, rtol=2e-5)
    low_half = _native(isa, 6, 2, protocol, (3, 2**32 - 1))
    assert np.all(low_half.raw != found.raw)


@each_kernel
def test_without_noise_it_is_the_deterministic_recursion(isa: str) -> None:
    node = tm.Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), tm.Dynamics(kT=0.0))
    x = 0.0
    for _ in range(100):
        x += 0.01 * (-2 * x - 4 * x**3 + 1.0)
    raw = tm.simulate(node, [[1.0]], tm.Protocol(dt=0.01, t_final=1.0, n_replicas=3), engine=Native(isa)).raw
    np.testing.assert_allclose(raw[0, :, 0], [x, x**2, x**4], rtol=1e-6)


def test_progress_rises_to_the_number_of_samples() -> None:
    seen: list[tuple[int, int]] = []
    tm.simulate(
        _reservoir(8),
        _inputs(40),
        tm.Protocol(t_final=0.5),
        engine="native",
        progress=lambda done, total: seen.append((done, total)),
    )
    done = [count for count, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1] == (40, 40)


def test_an_error_in_the_callback_stops_the_work_and_comes_out() -> None:
    # The whole would take minutes: 20000 samples of 0.1 s or so.
    def fail(done: int, total: int) -> None:
        raise LookupError(f"{done} of {total}")

    with pytest.raises(LookupError, match="of 20000"):
        tm.simulate(_reservoir(64), _inputs(20000), tm.Protocol(), engine="native", progress=fail)


_ENDLESS_RUN = """
import os, signal, threading
import numpy as np
import thermoment as tm

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits it as ignored
reservoir = tm.Reservoir.draw(256, 4, seed=1)
protocol = tm.Protocol(dt=1e-6, n_replicas=2**20)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    tm.simulate(reservoir, np.zeros((1, 4)), protocol, engine="native")
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupt_stops_it_in_the_middle_of_a_sample() -> None:
    # One sample that would take days: no progress is reported, so no Python runs that could see the signal by itself.
    # A run that does not stop is killed, and raises TimeoutExpired.
    result = subprocess.run([sys.executable, "-c", _ENDLESS_RUN], capture_output=True, text=True, timeout=100)
    assert result.stdout == "stopped\n", result.stderr


def test_a_kernel_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`isa` must be one of .*plain, but was 'mmx'"):
        Native("mmx")
    with pytest.raises(ValueError, match="`threads` must be an integer from 1 to 4096, but was 0"):
        Native(threads=0)


def test_a_kernel_that_the_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [("avx512", "AVX-512", False, False), ("plain", "plain C++", True, False)]
    monkeypatch.setattr(native, "kernels", lambda: old)
    with pytest.raises(ValueError, match=r"one that this processor can run \(plain\), but was 'avx512'"):
        Native("avx512")
    assert Native().status().startswith("plain C++, ")


# What /proc/cpuinfo calls the instructions that each kernel is compiled with.
AVX512_FLAGS = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
FLAGS = {
    "avx512bf16": AVX512_FLAGS | {"avx512_bf16"},
    "avx512": AVX512_FLAGS,
    "avx2": {"avx2", "fma"},
    "plain": set[str](),
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo")
def test_the_kernels_that_run_here_are_those_that_linux_says_the_processor_has() -> None:
    from thermoment._engines._native import kernels

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    has = {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}
    for name, _, runs_here, _ in kernels():
        assert runs_here == (has >= FLAGS[name]), name
    assert KERNELS[-1] == "plain"


_SUMS = """
import numpy as np
import thermoment as tm
from thermoment._engines.native import Native, kernels

reservoir, inputs = tm.Reservoir.draw(13, 4, seed=1), np.random.default_rng(0).normal(size=(2, 4))
for name, _, runs_here, _ in kernels():
    if runs_here:
        raw = tm.simulate(reservoir, inputs, tm.Protocol(dt=0.01, n_replicas=37), engine=Native(name)).raw
        print(name, raw.tobytes().hex())
print(Native(threads=2).status())
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="there is no qemu-x86_64")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates an older processor of the same architecture")
def test_on_a_processor_without_avx_the_plain_kernel_gives_its_bits() -> None:
    """QEMU as a Nehalem (2008) stops a program at the first AVX instruction."""
    python = [sys.executable, "-c", _SUMS]
    here = subprocess.run(python, capture_output=True, text=True, check=True).stdout.splitlines()
    old = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", *python], capture_output=True, text=True, timeout=500)
    assert old.returncode == 0, old.stderr
    assert old.stdout.splitlines() == [here[-2], "plain C++, 2 threads"]


def test_status_names_the_kernel_and_the_threads() -> None:
    assert Native("plain", threads=3).status() == "plain C++, 3 threads"
    assert _STATUS.note.endswith("threads") or _STATUS.note.endswith(", 1 thread")


def test_infinitely_many_replicas_are_refused() -> None:
    with pytest.raises(ValueError, match="`n_replicas` must be finite"):
        tm.simulate(_reservoir(2), _inputs(1), tm.Protocol(n_replicas=math.inf), engine="native")
