"""The portable engine: JAX on whatever XLA can compile for. Any N and M, the contract's noise, bounded memory.

The work is cut into tiles of (samples, replicas), each one call of a compiled program. A tile's shape depends on N, M
and the kind of device, never on the batch: the last ones are padded. So a sample always goes through the same program
and its bits do not depend on what else is simulated. Threads keep several tiles under way.

What a tile's program does is in xla_program.py.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from thermoment._engines import xla_program as program
from thermoment._engines.tally import Tally
from thermoment._engines.task import (
    Array,
    Outcome,
    Report,
    Segment,
    Task,
    check_samples,
    outcome_of,
)
from thermoment._support.checks import invalid, quoted
from thermoment._support.threads import cores, in_blocks
from thermoment.noise import round_keys

LARGEST_EXACT = 32
"""Nodes up to which a GPU multiplies W x in float32. Beyond, that would take longer than the rest of a step."""


@dataclass(frozen=True)
class Xla:
    """JAX on CPU, GPU or TPU, in float32 (default) or float64.

    On a GPU, in float32, with more than 32 nodes, x and W are rounded to half precision (11 bits) for W x alone.
    """

    dtype: str = "float32"
    name = "xla"
    tasks_at_once = 1

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or self.dtype not in ("float32", "float64"):
            raise invalid("dtype", 'be "float32" or "float64"', quoted(self.dtype))

    def status(self) -> str:
        devices = jax.local_devices()
        return f"JAX {jax.__version__} with {len(devices)} x {devices[0].device_kind} in {self.dtype}"

    def check(self, task: Task) -> None:
        check_samples(task)

    def moments(self, task: Task, report: Report) -> Outcome:
        way = self._way(task)
        orders, layout = task.protocol.orders, _Layout.of(task, way)
        raw = np.zeros((task.n_reads, task.n_samples, len(orders), task.n_nodes))
        clip_counts, tallies = [0] * task.n_reads, [Tally(task) for _ in raw]
        states = np.empty((task.n_samples, task.n_replicas, task.n_nodes)) if task.keep_states else None
        watched, scene = None, None
        if task.observables:
            watched = program.Watched(task.observables, task.dynamics, task.protocol.dt)
            scene = program.Scene(layout.columns, task.step.mu_dt)
        products = np.zeros((task.n_reads, task.n_samples, 4, len(task.pairs)))

        def run(work: _Work) -> tuple[list[_Found], Any]:
            if task.is_plain and not task.pairs:  # one program, in which no state leaves the loop
                tile = work.tile(task.segments[0])
                with work.turn:
                    found = jax.device_get(program.moments(tile, task.n_steps, orders, scene, watched, way))
                return [(found, None)], None
            return work.course(scene, watched)

        for samples, replicas, (readings, x) in self._tiles(task, layout, run):
            count = samples.stop - samples.start
            for r, ((sums, clips, totals), joint) in enumerate(readings):
                raw[r, samples] += sums[:count, :, layout.columns]
                clip_counts[r] += int(clips[:count].sum())
                if watched:
                    tallies[r].add(samples, replicas, np.stack(totals)[:, :count, : replicas.stop - replicas.start])
                if joint is not None:
                    products[r, samples] += joint[:count]
            if states is not None:
                states[samples, replicas] = x[..., layout.columns]
            if replicas.stop == task.n_replicas:
                report(samples.stop)
        _check_finite(raw, way)
        raw /= task.n_replicas
        products /= task.n_replicas
        readings = zip(tallies, raw, clip_counts, products, strict=True)
        return outcome_of([tally.outcome(m, c, xy) for tally, m, c, xy in readings], states)

    def final_states(self, task: Task) -> Array:
        states = self.moments(replace(task, observables=(), keep_states=True), lambda _: None).states
        assert states is not None
        return states

    def sample_paths(self, task: Task, nodes: NDArray[np.intp], every: int) -> Array:
        way = self._way(task)
        layout = _Layout.of(task, way)
        records = task.n_steps // every
        paths = np.zeros((task.n_samples, task.n_replicas, records + 1, len(nodes)))
        columns = layout.columns[nodes]

        def run(work: _Work) -> Any:
            """(records, samples, replicas, len(nodes))"""
            if task.is_plain:
                return program.paths(work.tile(task.segments[0]), columns, every, records, work.wanted, way)
            return np.stack([state.x[: work.wanted[0], : work.wanted[1], columns] for state in work.record(every)])

        for samples, replicas, x in self._tiles(task, layout, run):
            paths[samples, replicas, 0] = task.started(samples, replicas)[..., nodes]
            paths[samples, replicas, 1:] = np.moveaxis(x, 0, 2)
        _check_finite(paths, way)
        return paths

    @property
    def on_gpu(self) -> bool:
        return bool(jax.local_devices()[0].platform == "gpu")

    def _way(self, task: Task) -> program.Way:
        """How steps are taken here. On a CPU, a TPU and in float64 there is one way only."""
        if self.dtype != "float32" or not self.on_gpu:
            return program.Way()
        return program.Way(on_gpu=True, counted=math.isfinite(task.protocol.clip))

    def _tiles(
        self, task: Task, layout: "_Layout", run: Callable[["_Work"], Any]
    ) -> Iterator[tuple[slice, slice, Any]]:
        """Runs every tile and yields (samples, replicas, NumPy results) in order."""
        devices = jax.local_devices()
        with jax.enable_x64(True):
            couplings = {id(one.W): one.W for one in task.segments}
            constants = [
                {key: jax.device_put(self._constants(task, W, layout), d) for key, W in couplings.items()}
                for d in devices
            ]

        dtype, way = np.dtype(self.dtype), self._way(task)
        on_cpu = devices[0].platform == "cpu"
        # Steps of two tiles in turn would drive each other out of a GPU's cache: a tile has the device for itself while
        # the host prepares the next.
        turns = [nullcontext() if on_cpu else Lock() for _ in devices]

        def one(job: tuple[int, slice, slice]) -> tuple[slice, slice, Any]:
            number, samples, replicas = job
            k = number % len(devices)
            work = _Work(task, layout, samples, replicas, dtype, devices[k], turns[k], way, constants[k])
            # The x64 setting belongs to the thread. Without it JAX has no 64-bit integers for the noise.
            with jax.enable_x64(True):
                return samples, replicas, jax.device_get(run(work))

        jobs = [
            (slice(s, min(s + layout.samples, task.n_samples)), slice(m, min(m + layout.replicas, task.n_replicas)))
            for s in range(0, task.n_samples, layout.samples)
            for m in range(0, task.n_replicas, layout.replicas)
        ]
        workers = cores() if on_cpu else 2 * len(devices)
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(one, [(number, *job) for number, job in enumerate(jobs)])

    def _constants(self, task: Task, coupling: Array, layout: "_Layout") -> tuple[Any, ...]:
        """The part of a tile that all tiles under one coupling share, in the order of `program.Tile`."""
        step, columns = task.step, layout.columns
        W = np.zeros((layout.width, layout.width), self.dtype)

        def fill(nodes: slice) -> None:
            W[columns, columns[nodes, None]] = step.mu_dt[nodes, None] * coupling[nodes]

        in_blocks(fill, task.n_nodes)
        nodes = np.zeros(layout.width, bool)
        nodes[columns] = True
        # The coefficients of columns without a node stay zero, and so does x there.
        coefficients = np.zeros((4, layout.width), self.dtype)
        coefficients[:, columns] = step.linear, step.cubic, step.sigma, step.square
        linear, cubic, sigma, square = coefficients
        clip = np.dtype(self.dtype).type(task.protocol.clip)
        keys = round_keys(task.protocol.seed, task.stream)
        constants = nodes, W, keys, linear, cubic, sigma, clip, square if step.square.any() else None
        if not self._way(task).on_gpu:
            return constants
        unit = np.float32(2.0 ** -power_of_two(W))
        return *constants, ((W / unit).astype(np.float16 if task.n_nodes > LARGEST_EXACT else np.float32), unit)


_Found = tuple[program.Reading, Any]
"""What is read at the end of a segment: the reading, and the products of pairs (q, 4, P) or None."""


def _check_finite(found: Array, way: program.Way) -> None:
    """Raises where x in half precision was infinite, which made all nodes of the replica NaN."""
    if way.on_gpu and not np.isfinite(found).all():
        raise RuntimeError(
            "States went beyond 65504, where the half-precision product of xla on a GPU ends. "
            'Xla("float64") has no such end.'
        )


def power_of_two(W: NDArray[Any]) -> int:
    """p that brings the largest element of W 2^p between 2^13 and 2^14: half precision is for 6e-5 to 65504."""
    largest = float(np.abs(W).max())
    return 14 - math.frexp(largest)[1] if largest else 0


class _Layout(NamedTuple):
    """How a task is laid out in tiles."""

    samples: int
    replicas: int
    width: int
    """N rounded up to whole groups of four."""
    columns: NDArray[np.intp]
    """(N,): the column of each node. Unless on a GPU, the nodes of a group are a quarter of the width apart, as in
    `program.noise`."""
    rows: int
    """Segments in one call of a program."""

    @classmethod
    def of(cls, task: Task, way: program.Way) -> "_Layout":
        groups = (task.n_nodes + 3) // 4
        # On a CPU a tile should stay in the cache of its core; on a GPU or TPU it should fill the device.
        on_cpu = jax.local_devices()[0].platform == "cpu"
        least, cells = (64, 2**15) if on_cpu else (1024, 2**24)
        rows = max(least, cells // (4 * groups))
        replicas = min(task.n_replicas, rows)
        samples = rows // replicas
        node = np.arange(task.n_nodes)
        quarter = np.array([0, 2, 1, 3])[node % 4]
        columns = node if way.on_gpu else quarter * groups + node // 4
        most = (2**18 if on_cpu else 2**21) // (samples * 4 * groups)
        return cls(samples, replicas, 4 * groups, columns, min(max(most, 1), 64))


class _Work(NamedTuple):
    """Some samples and replicas of a task, which one tile holds."""

    task: Task
    layout: _Layout
    samples: slice
    replicas: slice
    dtype: np.dtype[Any]
    device: Any
    turn: AbstractContextManager[Any]
    """held while a program runs on the device"""
    way: program.Way
    constants: Mapping[int, tuple[Any, ...]]
    """by the id of W, see `Xla._constants`"""

    @property
    def wanted(self) -> tuple[int, int]:
        """How many samples and replicas of the tile are more than padding."""
        return self.samples.stop - self.samples.start, self.replicas.stop - self.replicas.start

    def push(self, segment: Segment) -> NDArray[Any]:
        """mu dt h in a segment: (layout.samples, layout.width)."""
        h = np.zeros((self.layout.samples, self.layout.width))
        h[: self.wanted[0], self.layout.columns] = self.task.step.mu_dt * segment.drive[self.samples]
        return h.astype(self.dtype)

    def tile(self, segment: Segment) -> program.Tile:
        """The tile in a segment."""
        task, layout = self.task, self.layout
        S, M = self.wanted
        ids = np.zeros(layout.samples, np.uint64)
        ids[:S] = task.sample_ids[self.samples]
        live = np.arange(layout.replicas) < M
        own = jax.device_put((self.push(segment), ids, np.uint64(self.replicas.start), live), self.device)
        return program.Tile(*own, *self.constants[id(segment.W)])

    def begin(self, watched: "program.Watched | None" = None) -> program.State:
        """Before the first step."""
        layout, (S, M) = self.layout, self.wanted
        x = np.zeros((layout.samples, layout.replicas, layout.width), self.dtype)
        x[:S, :M, layout.columns] = self.task.started(self.samples, self.replicas)
        tile = self.tile(self.task.segments[0])
        state: program.State = program.begin(
            tile, jax.device_put(x, self.device), self.task.first_step, watched, self.way
        )
        return state

    def course(self, scene: "program.Scene | None", watched: "program.Watched | None") -> "tuple[list[_Found], Any]":
        """Through all segments: what is read, and the states at the end where the task wants them.

        Segments in a row that have the same coupling and number of steps are one call of a program, as many as
        `layout.rows` allows: a signal costs what its steps cost, not a call for each of its rows.
        """
        task, layout, (S, M) = self.task, self.layout, self.wanted
        pairs = tuple(layout.columns[np.array(task.pairs, np.intp).T]) if task.pairs else None
        state, n, readings = self.begin(watched), task.first_step, []
        for (each, _), group in groupby(task.segments, lambda one: (one.n_steps, id(one.W))):
            alike = list(group)
            for k in range(0, len(alike), layout.rows):
                segments = alike[k : k + layout.rows]
                drives = np.zeros((layout.rows, layout.samples, layout.width), self.dtype)
                drives[: len(segments)] = [self.push(one) for one in segments]
                what = jax.device_put(drives, self.device), len(segments), n, each
                read = task.protocol.orders, pairs, scene, watched
                tile = self.tile(segments[0])
                with self.turn:
                    state, found = program.course(tile, state, *what, *read, self.way)
                    at_ends = jax.device_get(found)
                n += len(segments) * each
                for row, one in enumerate(segments):
                    if one.read:  # a copy without the samples that only fill the tile up
                        readings.append(jax.tree.map(lambda rows, row=row: rows[row, :S].copy(), at_ends))
        return readings, state.x[:S, :M] if task.keep_states else None

    def record(self, every: int) -> Iterator[program.State]:
        """Through all segments: the state after every `every` steps."""
        first = n = self.task.first_step
        state = self.begin()
        for segment in self.task.segments:
            tile, end = self.tile(segment), n + segment.n_steps
            while n < end:
                stop = min(end, n + every - (n - first) % every)
                state, n = program.segment(tile, state, n, stop, self.way), stop
                if (n - first) % every == 0:
                    yield state
