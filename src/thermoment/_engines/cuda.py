"""The GPU engine: one fused kernel, compiled at run time. kernels/cuda/README.md explains how it works."""

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

from thermoment._engines.task import Outcome, Report, Task, check_no_observables, check_plain, check_samples
from thermoment._support.checks import invalid
from thermoment.noise import round_keys

try:
    import cupy
    from cupy.cuda import nvrtc
except ModuleNotFoundError:
    raise ImportError(
        "CuPy is not installed: pip install '.[cuda13]' in a checkout of thermoment (cuda12 for CUDA 12)"
    ) from None

WIDTH = 256
"""Nodes that a tile holds."""
ROWS = 64
"""Replicas that a tile holds."""
# Half precision, in which W x is multiplied and added up, ends at 65504. States are kept below _LARGEST_STATE and sums
# below _LARGEST_SUM, which leaves room for rounding.
_LARGEST_STATE = 6e4
_LARGEST_SUM = 2.0**15
# A launch covers at most _ROUNDS tiles for each tile that the GPU works on at a time, fewer if tiles times steps would
# exceed _ROUND_STEPS. So it lasts a fraction of a second, and Ctrl-C is noticed. A tile is never split over launches.
_ROUNDS, _ROUND_STEPS = 10, 40_000

_KERNELS = Path(__file__).parent / "kernels" / "cuda"
_HEADERS = ("product_wgmma.cuh", "product_mma.cuh")

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
"""`Task` of langevin.cu."""

_TILES = 2
"""Number of tiles that a multiprocessor works on at a time."""
_WORKSPACE_BYTES = _TILES * 5 * WIDTH * 4
_X_BYTES = _TILES * ROWS * WIDTH * 2
_W_BYTES = WIDTH * WIDTH * 2
_THREADS = _TILES * 256


class _Path(NamedTuple):
    """A way to multiply by W: what the kernel is compiled with, and the shared memory it needs."""

    defines: tuple[str, ...]
    shared_bytes: int


_PATHS = {
    "wgmma": _Path(("-DHOPPER", "-DW_IN_SHARED"), _W_BYTES + _X_BYTES + _WORKSPACE_BYTES),
    "mma": _Path(("-DW_IN_SHARED",), _W_BYTES + _X_BYTES + _WORKSPACE_BYTES),
    "mma, W in global memory": _Path((), _X_BYTES + _WORKSPACE_BYTES),
}


@dataclass(frozen=True)
class Cuda:
    """All NVIDIA GPUs from Ampere on, N up to 256, any M, in float32 with W x in half precision.

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
        return f"{count} x {name} with {self._path(0)}"

    def check(self, task: Task) -> None:
        check_samples(task)
        check_no_observables(task, self.name)
        check_plain(task, self.name)
        if task.n_nodes > WIDTH:
            raise invalid("W", f"couple at most {WIDTH} nodes for cuda (engine xla takes more)", task.n_nodes)

    def moments(self, task: Task, report: Report) -> Outcome:
        n_devices = int(cupy.cuda.runtime.getDeviceCount())
        raw = np.empty((task.n_samples, len(task.protocol.orders), task.n_nodes))
        clip_count = 0
        multiprocessors = cupy.cuda.Device(0).attributes["MultiProcessorCount"]
        length = _launch_samples(multiprocessors, math.ceil(task.n_replicas / ROWS), task.protocol.n_steps)
        chunks = [slice(s, min(s + length, task.n_samples)) for s in range(0, task.n_samples, length)]

        def one(number: int) -> int:
            with _stream(number % n_devices):
                return self._chunk(task, chunks[number], raw)

        # Three chunks to a device, so that it computes one while the host is busy with the others.
        with ThreadPoolExecutor(3 * n_devices) as pool:
            for chunk, clipped in zip(chunks, pool.map(one, range(len(chunks))), strict=True):
                clip_count += clipped
                report(chunk.stop)
        if clip_count and task.protocol.clip > _LARGEST_STATE:
            raise RuntimeError(f"States went beyond {_LARGEST_STATE:g}, where cuda's half-precision product ends.")
        return Outcome(raw, clip_count)

    def _path(self, device: int) -> str:
        """How this device multiplies by W."""
        hopper = cupy.cuda.Device(device).compute_capability == "90"
        shared_bytes = cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]
        fits = shared_bytes >= _PATHS["mma"].shared_bytes
        best = "wgmma" if hopper else "mma" if fits else "mma, W in global memory"
        if self.product == "wgmma" and not hopper:
            raise invalid("product", "be mma on this GPU, which is not a Hopper", self.product)
        return self.product or best

    def _chunk(self, task: Task, chunk: slice, raw: NDArray[np.float64]) -> int:
        """Writes the moments of some samples to `raw`, in smaller pieces where memory is short.

        Returns the number of clipped updates.
        """
        try:
            return self._samples(task, np.arange(chunk.start, chunk.stop), raw)
        except cupy.cuda.memory.OutOfMemoryError:
            if chunk.stop - chunk.start == 1:
                raise MemoryError("The GPU has no memory left for even one sample.") from None
        cupy.get_default_memory_pool().free_all_blocks()
        middle = (chunk.start + chunk.stop) // 2
        return sum(self._chunk(task, part, raw) for part in (slice(chunk.start, middle), slice(middle, chunk.stop)))

    def _samples(self, task: Task, samples: NDArray[np.intp], raw: NDArray[np.float64]) -> int:
        """Does the work of `_chunk` in one piece. Samples that may have been clipped run again, with a clip."""
        path = self._path(cupy.cuda.Device().id)
        raw[samples], _, unsure = _launch(task, path, samples, clip=False)
        again = samples[np.flatnonzero(unsure)]
        if not again.size:
            return 0
        raw[again], clipped, _ = _launch(task, path, again, clip=True)
        return int(clipped.sum())


def _launch_samples(multiprocessors: int, blocks: int, n_steps: int) -> int:
    """Number of samples in one launch: work for a fraction of a second."""
    rounds = max(1, min(_ROUNDS, _ROUND_STEPS // n_steps))
    return max(1, rounds * multiprocessors * _TILES // blocks)


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
    task: Task, path: str, samples: NDArray[np.intp], *, clip: bool
) -> tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.uint8]]:
    """Runs the kernel on these samples: means (S, orders, N), clipped updates (S,), which may have been clipped (S,).

    Nothing but the kernel runs on the GPU's cores. The kernel fills them, so any other work for one chunk of samples
    would wait until the kernel of another chunk has ended, and the host would wait with it.
    """
    protocol = task.protocol
    mu_dt, linear, cubic, sigma = task.step.uniform()
    S, blocks, n_orders = len(samples), math.ceil(task.n_replicas / ROWS), len(protocol.orders)
    column = np.argsort(_node_of_column())[: task.n_nodes]
    drive = np.zeros((S, WIDTH), np.float32)
    drive[:, column] = mu_dt * task.drive[samples]
    clip_at = min(protocol.clip, _LARGEST_STATE)
    power = _power_of_two(mu_dt * task.W, clip_at)
    W = cupy.asarray(_pack(mu_dt * task.W * 2.0**power, path))
    arrays = {
        "drive": cupy.asarray(drive),
        "ids": cupy.asarray(task.sample_ids[samples]),
        "sums": cupy.empty((S, blocks, n_orders, WIDTH), np.float32),
        "clipped": cupy.asarray(np.zeros(S, np.uint64)),
        "unsure": cupy.asarray(np.zeros(S, np.uint8)),
    }
    arguments = np.zeros((), _TASK)
    for name, array in arrays.items():
        arguments[name] = array.data.ptr
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
        ("clip", clip_at),
        ("unit", 2.0**-power),
        ("limit", int(np.float16(clip_at).view(np.uint16))),
        ("keys", (round_keys(protocol.seed, task.stream) >> np.uint64(32)).ravel()),
    ):
        arguments[name] = value
    kernel = _compile(cupy.cuda.Device().id, path, clip)
    grid = min(cupy.cuda.Device().attributes["MultiProcessorCount"], math.ceil(S * blocks / _TILES))
    kernel((grid,), (_THREADS,), (W, arguments), shared_mem=_PATHS[path].shared_bytes)
    sums, clipped, unsure = (cupy.asnumpy(arrays[name]) for name in ("sums", "clipped", "unsure"))
    means = sums[:, 0].astype(np.float64)
    for block in range(1, blocks):  # in the same order in any batch
        means += sums[:, block]
    means /= task.n_replicas
    return means.take(column, axis=2), clipped, unsure


@cache
def _compile(device: int, path: str, clip: bool) -> Any:
    """The kernel for one device, as machine code for just its architecture."""
    capability = cupy.cuda.Device(device).compute_capability
    options = [
        "--std=c++17",
        f"--gpu-architecture=sm_{capability}{'a' if path == 'wgmma' else ''}",
        *_PATHS[path].defines,
        *(["-DCLIP"] if clip else []),
    ]
    source = (_KERNELS / "langevin.cu").read_text()
    headers = [(_KERNELS / name).read_bytes() for name in _HEADERS]
    program = nvrtc.createProgram(source, "langevin.cu", headers, [name.encode() for name in _HEADERS])
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"the kernel does not compile: {error}\n{nvrtc.getProgramLog(program)}") from None
    module = cupy.cuda.function.Module()
    module.load(nvrtc.getCUBIN(program))
    kernel = module.get_function("langevin")
    cupy.cuda.driver.funcSetAttribute(
        kernel.ptr, cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, _PATHS[path].shared_bytes
    )
    return kernel


def _node_of_column() -> NDArray[np.intp]:
    """The node of each column: (WIDTH,). Column 8 j + 2 c + e is node 2 (j % 2) + e of group 4 (j / 2) + c."""
    column = np.arange(WIDTH)
    j, c, e = column // 8, column % 8 // 2, column % 2
    return 16 * (j // 2) + 4 * c + 2 * (j % 2) + e


def _power_of_two(W: NDArray[np.float64], clip: float) -> int:
    """The largest p for which no sum over j of 2^p W_ij x_j, with |x_j| <= clip, exceeds `_LARGEST_SUM`."""
    largest = max(clip, 1.0) * float(np.abs(W).sum(axis=1).max())
    return int(np.clip(math.floor(math.log2(_LARGEST_SUM / largest)), -100, 100)) if largest else 0


def _pack(W: NDArray[np.float64], path: str) -> NDArray[np.uint16]:
    """W in half precision, as the product reads it: described in product_wgmma.cuh and product_mma.cuh."""
    node = _node_of_column()
    padded = np.zeros((WIDTH, WIDTH))
    padded[: len(W), : len(W)] = W
    by_column = padded[np.ix_(node, node)].astype(np.float16).view(np.uint16)
    if path == "wgmma":
        rows = by_column.reshape(WIDTH, 4, 8, 8).transpose(1, 0, 2, 3)
        n = np.arange(WIDTH)[:, None]
        return np.ascontiguousarray(rows[:, n, np.arange(8) ^ (n % 8)])
    lane = np.arange(32)
    k16, pair, tile, half, e = np.ogrid[:16, :16, :2, :2, :2]
    n = 8 * (2 * pair + tile)[..., None] + lane // 4
    k = (16 * k16 + 8 * half + e)[..., None] + 2 * (lane % 4)
    return np.ascontiguousarray(np.moveaxis(by_column[n, k], -1, 2))
