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

from thermoment._engines.cuda_layout import K_BLOCK, WIDTH, pack, pack_wide
from thermoment._engines.cuda_plan import (
    COURSE,
    LARGEST_STATE,
    NETWORK,
    ROWS,
    Found,
    Plan,
    check_start,
    settle,
)
from thermoment._engines.task import (
    Array,
    Outcome,
    Report,
    Task,
    check_no_observables,
    check_no_pairs,
    check_samples,
    check_well,
    outcome_of,
)
from thermoment._support.checks import invalid

try:
    import cupy
    from cupy.cuda import nvrtc
except ModuleNotFoundError:
    raise ImportError(
        "CuPy is not installed: pip install '.[cuda13]' in a checkout of thermoment (cuda12 for CUDA 12)"
    ) from None

CLUSTER = 2
"""Multiprocessors that share W as it comes, in the kernel for more than `WIDTH` nodes."""

_KERNELS = Path(__file__).parent / "kernels" / "cuda"
_HEADERS = ("node.cuh", "segments.cuh", "pipe.cuh", "product_wgmma.cuh", "product_mma.cuh")

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
        check_start(task)
        devices = range(cupy.cuda.runtime.getDeviceCount())
        most = min(self._most_nodes(device) for device in devices)
        if task.n_nodes > most:
            raise invalid("W", f"couple at most {most} nodes for cuda here (engine xla takes more)", task.n_nodes)
        columns, steps = math.ceil(task.n_nodes / WIDTH), task.first_step + task.n_steps
        if columns > 1:
            rounds = math.ceil(task.n_replicas / ROWS / min(_tiles_at_once(device, columns) for device in devices))
            steps = max(steps, rounds * task.n_steps)
        if steps >= 2**32:  # the kernels count them
            raise invalid("t_final", "be of fewer steps for cuda with as many nodes and replicas", task.n_steps)

    def moments(self, task: Task, report: Report) -> Outcome:
        n_devices = int(cupy.cuda.runtime.getDeviceCount())
        plan = Plan.of(task)
        jobs = [_Job.of(plan, self._product(device), device) for device in range(n_devices)]
        raw = np.empty((task.n_reads, task.n_samples, len(task.protocol.orders), task.n_nodes))
        states = np.empty((task.n_samples, task.n_replicas, task.n_nodes)) if task.keep_states else None
        clip_counts = np.zeros(task.n_reads, np.int64)
        chunks = plan.chunks(jobs[0].tiles_at_once)

        def one(number: int) -> NDArray[np.int64]:
            with _stream(number % n_devices):
                return _chunk(jobs[number % n_devices], chunks[number], raw, states)

        # Three chunks to a device, so that it computes one while the host is busy with the others; of segments more,
        # since many readings are more work for the host than for the device.
        with ThreadPoolExecutor((3 if plan.plain else 8) * n_devices) as pool:
            for chunk, clipped in zip(chunks, pool.map(one, range(len(chunks))), strict=True):
                clip_counts += clipped
                report(chunk.stop)
        if clip_counts[-1] and task.protocol.clip > LARGEST_STATE:
            raise RuntimeError(f"States went beyond {LARGEST_STATE:g}, where cuda's half-precision product ends.")
        return outcome_of([Outcome(*one) for one in zip(raw, clip_counts.tolist(), strict=True)], states)

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

    plan: Plan
    path: _Path
    device: int
    W: Any
    """every W on the device, as the kernel reads it"""
    segments: Any

    @classmethod
    def of(cls, plan: Plan, product: str, device: int) -> "_Job":
        mu_dt, *_ = plan.task.step.uniform()
        factors = [mu_dt * 2.0**power for power in plan.powers]
        one = plan.columns == 1
        packed = [
            pack(W, factor, product) if one else pack_wide(W, factor)
            for W, factor in zip(plan.couplings, factors, strict=True)
        ]
        with cupy.cuda.Device(device):
            W, segments = (cupy.asarray(table) for table in (np.stack(packed), plan.segments.view(np.uint8)))
            cupy.cuda.get_current_stream().synchronize()  # launches are in other streams
        return cls(plan, _PATHS[product] if one else _WIDE, device, W, segments)

    @property
    def tiles_at_once(self) -> int:
        return _tiles_at_once(self.device, self.plan.columns)


def _chunk(job: _Job, chunk: slice, raw: Array, states: Array | None) -> NDArray[np.int64]:
    """Writes moments and states of some samples, in smaller pieces where memory is short.

    Returns the number of clipped updates up to each reading, (R,).
    """
    try:
        return _samples(job, chunk, raw, states)
    except cupy.cuda.memory.OutOfMemoryError:
        if chunk.stop - chunk.start == 1:
            raise MemoryError("The GPU has no memory left for even one sample.") from None
    cupy.get_default_memory_pool().free_all_blocks()
    middle = (chunk.start + chunk.stop) // 2
    first, second = (_chunk(job, part, raw, states) for part in (slice(chunk.start, middle), slice(middle, chunk.stop)))
    return first + second


def _samples(job: _Job, chunk: slice, raw: Array, states: Array | None) -> NDArray[np.int64]:
    """Does the work of `_chunk` in one piece."""
    samples = np.arange(chunk.start, chunk.stop)
    found = _launch(job, samples, raw[:, chunk], clip=False)
    if states is not None:
        states[chunk] = found.states

    def again(some: NDArray[np.intp]) -> Found:
        return _launch(job, samples[some], np.empty((len(raw), len(some), *raw.shape[2:])), clip=True)

    return settle(job.plan.task, found, again)


def _multiprocessors(device: int) -> int:
    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def _tiles_at_once(device: int, columns: int) -> int:
    """As many as the device works on: two to a multiprocessor, or to a row of them where there are more columns."""
    if columns > 1:
        return _TILES * CLUSTER * (_multiprocessors(device) // (CLUSTER * columns))
    return _TILES * _multiprocessors(device)


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


def _launch(job: _Job, samples: NDArray[np.intp], means: Array, *, clip: bool) -> Found:
    """Runs the kernel on these samples and fills `means`; with `clip` the one that clips and counts accurately.

    Nothing but the kernel runs on the GPU's cores. The kernel fills them, so any other work for one chunk of samples
    would wait until the kernel of another chunk has ended, and the host would wait with it.
    """
    plan, task = job.plan, job.plan.task
    S, in_segments = len(samples), clip or not plan.plain
    arrays = {
        "drive": cupy.asarray(plan.drive(samples, in_segments=in_segments)),
        "ids": cupy.asarray(task.sample_ids[samples]),
        "sums": cupy.empty(plan.sums_shape(S, in_segments=in_segments), np.float32),
        "clipped": cupy.asarray(np.zeros((task.n_reads, S), np.int64)),
        "unsure": cupy.asarray(np.zeros((task.n_reads, S), np.uint8)),
    }
    parameters = _pointing(plan.parameters(S), arrays)
    course, states = np.zeros((), COURSE), None
    course["n_segments"], course["first_step"] = len(plan.segments), task.first_step
    kept = {"segments": job.segments}
    if task.start is not None:
        start, course["sample_stride"], course["replica_stride"] = plan.start(samples)
        kept["start"] = cupy.asarray(start)
    if task.keep_states:
        kept["states"] = states = cupy.empty((S, task.n_replicas, task.n_nodes), np.float32)
    _pointing(course, kept)
    tiles = min(job.tiles_at_once, S * plan.blocks)
    kernel = _compile(job.device, job.path, ("-DSEGMENTS",) * in_segments + ("-DCLIP",) * clip)
    if plan.columns == 1:
        grid = math.ceil(tiles / _TILES)
        kernel((grid,), (job.path.threads,), (job.W, parameters, course), shared_mem=job.path.shared_bytes)
    else:
        rows = CLUSTER * math.ceil(tiles / (_TILES * CLUSTER))
        room = {
            "W": job.W,
            "x": cupy.empty((rows, 2, plan.columns * WIDTH // K_BLOCK, _X_STAGE), np.uint8),
            "published": cupy.asarray(np.zeros((rows, 32), np.uint32)),
        }
        network = _pointing(np.zeros((), NETWORK), room)
        network["columns"], network["k_blocks"] = plan.columns, math.ceil(task.n_nodes / K_BLOCK)
        # Multiprocessors wait for each other, so they must all be there: a cooperative launch.
        kernel(
            (rows * plan.columns,),
            (job.path.threads,),
            (parameters, network, course),
            shared_mem=job.path.shared_bytes,
            enable_cooperative_groups=True,
        )
    sums, clipped, unsure = (cupy.asnumpy(arrays[name]) for name in ("sums", "clipped", "unsure"))
    plan.fill_means(means, sums, in_segments=in_segments)
    return Found(means, clipped, unsure, None if states is None else cupy.asnumpy(states))


def _pointing(arguments: NDArray[Any], arrays: dict[str, Any]) -> NDArray[Any]:
    """A structure for the kernel, now with pointers to arrays on the device."""
    for name, array in arrays.items():
        arguments[name] = array.data.ptr
    return arguments


@cache
def _compile(device: int, path: _Path, defines: tuple[str, ...]) -> Any:
    """The kernel for one device, as machine code for just its architecture."""
    capability = cupy.cuda.Device(device).compute_capability
    options = [
        "--std=c++17",
        f"--gpu-architecture=sm_{capability}{'a' if '-DHOPPER' in path.defines else ''}",
        *path.defines,
        *defines,
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
