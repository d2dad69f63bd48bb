"""The GPU engine: two fused kernels, compiled at run time. kernels/cuda/README.md explains how they work."""

import math
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.cuda_layout import K_BLOCK, WIDTH, node_of_column, pack, pack_wide, power_of_two
from thermoment._engines.task import (
    Outcome,
    Report,
    Task,
    check_no_observables,
    check_no_pairs,
    check_plain,
    check_samples,
    check_well,
)
from thermoment._support.checks import invalid
from thermoment.noise import round_keys

try:
    import cupy
    from cupy.cuda import nvrtc
except ModuleNotFoundError:
    raise ImportError(
        "CuPy is not installed: pip install '.[cuda13]' in a checkout of thermoment (cuda12 for CUDA 12)"
    ) from None

ROWS = 64
"""Replicas that a tile holds."""
CLUSTER = 2
"""Multiprocessors that share W as it comes, in the kernel for more than `WIDTH` nodes."""
_LARGEST_STATE = 6e4
"""States are kept below this: half precision, in which W x is multiplied, ends at 65504."""
# A launch covers at most _ROUNDS tiles for each tile that the GPU works on at a time, fewer if tiles times steps would
# exceed _ROUND_STEPS. So it lasts a fraction of a second, and Ctrl-C is noticed. A tile is never split over launches. A
# step of more nodes counts as many as there are blocks of columns.
_ROUNDS, _ROUND_STEPS = 10, 40_000

_KERNELS = Path(__file__).parent / "kernels" / "cuda"
_HEADERS = ("node.cuh", "pipe.cuh", "product_wgmma.cuh", "product_mma.cuh")

_TASK = np.dtype(
    [
        *((name, np.uint64) for name in ("drive", "ids", "sums", "clipped", "unsure")),
        *((name, np.int32) for name in ("n_samples", "blocks", "n_replicas", "n_nodes")),
        *((name, np.uint32) for name in ("n_steps", "orders")),
        *((name, np.float32) for name in ("linear", "cubic", "log_scale", "clip", "unit")),
        ("limit", np.uint32),
        ("keys", np.uint32, 20),
    ],
    align=True,
)
"""`Task` of node.cuh."""

_NETWORK = np.dtype(
    [*((name, np.uint64) for name in ("W", "x", "published")), *((name, np.int32) for name in ("columns", "k_blocks"))],
    align=True,
)
"""`Network` of wide.cu."""

_TILES = 2
"""Number of tiles that a multiprocessor works on at a time."""
_WORKSPACE_BYTES = _TILES * 5 * WIDTH * 4
_X_BYTES = _TILES * ROWS * WIDTH * 2
_W_BYTES = WIDTH * WIDTH * 2
_THREADS = _TILES * 256
# The stages of pipe.cuh: blocks of 64 columns of W and x, with their barriers.
_X_STAGE = _TILES * ROWS * K_BLOCK * 2
_STAGES_BYTES = 4 * (WIDTH * K_BLOCK * 2 + _X_STAGE) + 128


class _Path(NamedTuple):
    """A way to multiply by W: the kernel, what it is compiled with, and what it needs."""

    kernel: str
    defines: tuple[str, ...]
    shared_bytes: int
    threads: int = _THREADS


_PATHS = {
    "wgmma": _Path("langevin", ("-DHOPPER", "-DW_IN_SHARED"), _W_BYTES + _X_BYTES + _WORKSPACE_BYTES),
    "mma": _Path("langevin", ("-DW_IN_SHARED",), _W_BYTES + _X_BYTES + _WORKSPACE_BYTES),
    "mma, W in global memory": _Path("langevin", (), _X_BYTES + _WORKSPACE_BYTES),
}
_WIDE = _Path("wide", ("-DHOPPER", f"-DCLUSTER={CLUSTER}"), _STAGES_BYTES + _WORKSPACE_BYTES, _THREADS + 128)


@dataclass(frozen=True)
class Cuda:
    """NVIDIA GPUs, any M, in float32 with W x in half precision: N up to 256 from Ampere on, any N on Hopper.

    `product` asks for a way to multiply by W (`wgmma`, Hopper only, or `mma`); the fastest is used unless given.
    """

    product: str | None = None
    name = "cuda"
    tasks_at_once = 3

    def __post_init__(self) -> None:
        if self.product not in (None, *_PATHS):
            raise invalid("product", f"be one of {', '.join(_PATHS)}", repr(self.product))

    def status(self) -> str:
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(f"CUDA does not answer: {error}") from None
        if count == 0:
            raise RuntimeError("there is no NVIDIA GPU")
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        name, capability = properties["name"].decode(), (properties["major"], properties["minor"])
        driver, compiler = cupy.cuda.runtime.driverGetVersion() // 1000, nvrtc.getVersion()[0]
        if driver < compiler:
            raise RuntimeError(f"the driver knows CUDA {driver}, and the kernel would be compiled by CUDA {compiler}")
        if capability < (8, 0):
            raise RuntimeError(f"{name} has compute capability {capability[0]}.{capability[1]}, 8.0 is needed (Ampere)")
        return f"{count} x {name} with {self._product(0)}"

    def check(self, task: Task) -> None:
        check_samples(task)
        check_no_observables(task, self.name)
        check_no_pairs(task, self.name)
        check_well(task, self.name)
        check_plain(task, self.name)
        devices = range(cupy.cuda.runtime.getDeviceCount())
        most = min(self._most_nodes(device) for device in devices)
        if task.n_nodes > most:
            raise invalid("W", f"couple at most {most} nodes for cuda here (engine xla takes more)", task.n_nodes)
        columns = math.ceil(task.n_nodes / WIDTH)
        rounds = math.ceil(task.n_replicas / ROWS / min(_tiles_at_once(device, columns) for device in devices))
        if columns > 1 and rounds * task.protocol.n_steps >= 2**32:  # the kernel counts them
            raise invalid(
                "t_final", "be of fewer steps for cuda with as many nodes and replicas", task.protocol.n_steps
            )

    def moments(self, task: Task, report: Report) -> Outcome:
        n_devices = int(cupy.cuda.runtime.getDeviceCount())
        jobs = [_Job.of(task, self._product(device), device) for device in range(n_devices)]
        raw = np.empty((task.n_samples, len(task.protocol.orders), task.n_nodes))
        clip_count = 0
        length = _launch_samples(jobs[0].tiles_at_once, jobs[0].blocks, task.protocol.n_steps * jobs[0].columns)
        chunks = [slice(s, min(s + length, task.n_samples)) for s in range(0, task.n_samples, length)]

        def one(number: int) -> int:
            with _stream(number % n_devices):
                return _chunk(jobs[number % n_devices], chunks[number], raw)

        # Three chunks to a device, so that it computes one while the host is busy with the others.
        with ThreadPoolExecutor(3 * n_devices) as pool:
            for chunk, clipped in zip(chunks, pool.map(one, range(len(chunks))), strict=True):
                clip_count += clipped
                report(chunk.stop)
        if clip_count and task.protocol.clip > _LARGEST_STATE:
            raise RuntimeError(f"States went beyond {_LARGEST_STATE:g}, where cuda's half-precision product ends.")
        return Outcome(raw, clip_count)

    def _product(self, device: int) -> str:
        """How this device multiplies by W."""
        hopper = cupy.cuda.Device(device).compute_capability == "90"
        shared_bytes = cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]
        fits = shared_bytes >= _PATHS["mma"].shared_bytes
        best = "wgmma" if hopper else "mma" if fits else "mma, W in global memory"
        if self.product == "wgmma" and not hopper:
            raise invalid("product", "be mma on this GPU, which is not a Hopper", self.product)
        return self.product or best

    def _most_nodes(self, device: int) -> int:
        """A row of multiprocessors holds all columns of its tiles, and a cluster is of more than one row."""
        return WIDTH * (_multiprocessors(device) // CLUSTER if self._product(device) == "wgmma" else 1)


@dataclass(frozen=True, eq=False)
class _Job:
    """A task on one device: what all its launches have in common."""

    task: Task
    path: _Path
    device: int
    columns: int
    """Blocks of `WIDTH` columns."""
    clip: float
    power: int
    """W is multiplied by 2^power."""
    W: Any
    """On the device, as the kernel reads it."""

    @classmethod
    def of(cls, task: Task, product: str, device: int) -> "_Job":
        columns = math.ceil(task.n_nodes / WIDTH)
        mu_dt, *_ = task.step.uniform()
        clip = min(task.protocol.clip, _LARGEST_STATE)
        power = power_of_two(task.W, mu_dt, clip)
        packed = pack(task.W, mu_dt * 2.0**power, product) if columns == 1 else pack_wide(task.W, mu_dt * 2.0**power)
        with cupy.cuda.Device(device):
            on_device = cupy.asarray(packed)
        return cls(task, _PATHS[product] if columns == 1 else _WIDE, device, columns, clip, power, on_device)

    @property
    def blocks(self) -> int:
        """Tiles of a sample."""
        return math.ceil(self.task.n_replicas / ROWS)

    @property
    def width(self) -> int:
        return self.columns * WIDTH

    @property
    def tiles_at_once(self) -> int:
        return _tiles_at_once(self.device, self.columns)


def _chunk(job: _Job, chunk: slice, raw: NDArray[np.float64]) -> int:
    """Writes the moments of some samples to `raw`, in smaller pieces where memory is short.

    Returns the number of clipped updates.
    """
    try:
        return _samples(job, np.arange(chunk.start, chunk.stop), raw)
    except cupy.cuda.memory.OutOfMemoryError:
        if chunk.stop - chunk.start == 1:
            raise MemoryError("The GPU has no memory left for even one sample.") from None
    cupy.get_default_memory_pool().free_all_blocks()
    middle = (chunk.start + chunk.stop) // 2
    return sum(_chunk(job, part, raw) for part in (slice(chunk.start, middle), slice(middle, chunk.stop)))


def _samples(job: _Job, samples: NDArray[np.intp], raw: NDArray[np.float64]) -> int:
    """Does the work of `_chunk` in one piece. Samples that may have been clipped run again, with a clip."""
    raw[samples], _, unsure = _launch(job, samples, clip=False)
    again = samples[np.flatnonzero(unsure)]
    if not again.size:
        return 0
    raw[again], clipped, _ = _launch(job, again, clip=True)
    return int(clipped.sum())


def _multiprocessors(device: int) -> int:
    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def _tiles_at_once(device: int, columns: int) -> int:
    """As many as the device works on: two to a multiprocessor, or to a row of them where there are more columns."""
    if columns > 1:
        return _TILES * CLUSTER * (_multiprocessors(device) // (CLUSTER * columns))
    return _TILES * _multiprocessors(device)


def _launch_samples(tiles_at_once: int, blocks: int, n_steps: int) -> int:
    """Number of samples in one launch: work for a fraction of a second."""
    rounds = max(1, min(_ROUNDS, _ROUND_STEPS // n_steps))
    return max(1, rounds * tiles_at_once // blocks)


_idle: defaultdict[int, list[Any]] = defaultdict(list)
"""For each device the streams that no thread uses now. They are kept: CuPy gives a stream the memory it had before."""


@contextmanager
def _stream(device: int) -> Iterator[None]:
    """Work of this thread goes to the device, in a stream of its own."""
    with cupy.cuda.Device(device):
        try:
            stream = _idle[device].pop()
        except IndexError:
            stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            yield
        _idle[device].append(stream)


def _launch(
    job: _Job, samples: NDArray[np.intp], *, clip: bool
) -> tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.uint8]]:
    """Runs the kernel on these samples: means (S, orders, N), clipped updates (S,), which may have been clipped (S,).

    Nothing but the kernel runs on the GPU's cores. The kernel fills them, so any other work for one chunk of samples
    would wait until the kernel of another chunk has ended, and the host would wait with it.
    """
    task, protocol = job.task, job.task.protocol
    mu_dt, linear, cubic, sigma = task.step.uniform()
    S, blocks, n_orders = len(samples), job.blocks, len(protocol.orders)
    column = np.argsort(node_of_column(job.columns))[: task.n_nodes]
    drive = np.zeros((S, job.width), np.float32)
    drive[:, column] = mu_dt * task.drive[samples]
    arrays = {
        "drive": cupy.asarray(drive),
        "ids": cupy.asarray(task.sample_ids[samples]),
        "sums": cupy.empty((S, blocks, n_orders, job.width), np.float32),
        "clipped": cupy.asarray(np.zeros(S, np.uint64)),
        "unsure": cupy.asarray(np.zeros(S, np.uint8)),
    }
    arguments = _arguments(_TASK, arrays)
    for name, value in (
        ("n_samples", S),
        ("blocks", blocks),
        ("n_replicas", task.n_replicas),
        ("n_nodes", task.n_nodes),
        ("n_steps", protocol.n_steps),
        ("orders", sum(1 << (p - 1) for p in protocol.orders)),
        ("linear", 1 + linear),
        ("cubic", cubic),
        ("log_scale", -2 * math.log(2) * sigma**2),
        ("clip", job.clip),
        ("unit", 2.0**-job.power),
        ("limit", int(np.float16(job.clip).view(np.uint16))),
        ("keys", (round_keys(protocol.seed, task.stream) >> np.uint64(32)).ravel()),
    ):
        arguments[name] = value
    tiles = min(job.tiles_at_once, S * blocks)
    kernel = _compile(job.device, job.path, clip)
    if job.columns == 1:
        grid = math.ceil(tiles / _TILES)
        kernel((grid,), (job.path.threads,), (job.W, arguments), shared_mem=job.path.shared_bytes)
    else:
        rows = CLUSTER * math.ceil(tiles / (_TILES * CLUSTER))
        room = {
            "W": job.W,
            "x": cupy.empty((rows, 2, job.columns * WIDTH // K_BLOCK, _X_STAGE), np.uint8),
            "published": cupy.asarray(np.zeros((rows, 32), np.uint32)),
        }
        network = _arguments(_NETWORK, room)
        network["columns"], network["k_blocks"] = job.columns, math.ceil(task.n_nodes / K_BLOCK)
        # Multiprocessors wait for each other, so they must all be there: a cooperative launch.
        kernel(
            (rows * job.columns,),
            (job.path.threads,),
            (arguments, network),
            shared_mem=job.path.shared_bytes,
            enable_cooperative_groups=True,
        )
    sums, clipped, unsure = (cupy.asnumpy(arrays[name]) for name in ("sums", "clipped", "unsure"))
    means = sums[:, 0].astype(np.float64)
    for block in range(1, blocks):  # in the same order in any batch
        means += sums[:, block]
    means /= task.n_replicas
    return means.take(column, axis=2), clipped, unsure


def _arguments(kind: np.dtype[Any], arrays: dict[str, Any]) -> Any:
    """A structure for the kernel, with pointers to arrays on the device."""
    arguments = np.zeros((), kind)
    for name, array in arrays.items():
        arguments[name] = array.data.ptr
    return arguments


@cache
def _compile(device: int, path: _Path, clip: bool) -> Any:
    """The kernel for one device, as machine code for just its architecture."""
    capability = cupy.cuda.Device(device).compute_capability
    options = [
        "--std=c++17",
        f"--gpu-architecture=sm_{capability}{'a' if '-DHOPPER' in path.defines else ''}",
        *path.defines,
        *(["-DCLIP"] if clip else []),
    ]
    name = f"{path.kernel}.cu"
    headers = [(_KERNELS / header).read_bytes() for header in _HEADERS]
    program = nvrtc.createProgram(
        (_KERNELS / name).read_text(), name, headers, [header.encode() for header in _HEADERS]
    )
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"the kernel does not compile: {error}\n{nvrtc.getProgramLog(program)}") from None
    module = cupy.cuda.function.Module()
    module.load(nvrtc.getCUBIN(program))
    kernel = module.get_function(path.kernel)
    cupy.cuda.driver.funcSetAttribute(
        kernel.ptr, cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, path.shared_bytes
    )
    return kernel
