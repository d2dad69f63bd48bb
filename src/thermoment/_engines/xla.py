"""The portable engine: JAX on whatever XLA can compile for. Any N and M, the contract's noise, bounded memory.

The work is cut into tiles of (samples, replicas), each one call of a compiled program. A tile's shape depends on N, M
and the kind of device, never on the batch: the last ones are padded. So a sample always goes through the same program
and its bits do not depend on what else is simulated. Threads keep several tiles under way.

What a tile's program does is in xla_program.py.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Xla:
    """JAX on CPU, GPU or TPU, in float32 (default) or float64."""

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
        orders, layout = task.protocol.orders, _Layout.of(task)
        raw = np.zeros((task.n_reads, task.n_samples, len(orders), task.n_nodes))
        clip_counts, tallies = [0] * task.n_reads, [Tally(task) for _ in raw]
        states = np.empty((task.n_samples, task.n_replicas, task.n_nodes)) if task.keep_states else None
        watched, scene = None, None
        if task.observables:
            watched = program.Watched(task.observables, task.dynamics, task.protocol.dt)
            scene = program.Scene(layout.columns, task.step.mu_dt)
        i, j = layout.columns[np.array(task.pairs, np.intp).reshape(-1, 2).T]
        products = np.zeros((task.n_reads, task.n_samples, 4, len(i)))
        way = self._way(task)

        def run(work: _Work) -> tuple[list[program.Reading], Any, list[Any]]:
            if task.is_plain and not task.pairs:  # one program, in which no state leaves the loop
                found = program.moments(work.tile(task.segments[0]), task.n_steps, orders, scene, watched, way)
                return [found], None, []
            readings, joint = [], []
            for segment, tile, state in work.advance(scene, watched):
                if segment.read:
                    readings.append(program.reading(tile, state, orders))
                    if task.pairs:
                        joint.append(program.products(tile, state, i, j))
            return readings, state.x[: work.wanted[0], : work.wanted[1]] if task.keep_states else None, joint

        for samples, replicas, (readings, x, joint) in self._tiles(task, layout, run):
            count = samples.stop - samples.start
            for r, (sums, clips, totals) in enumerate(readings):
                raw[r, samples] += sums[:count, :, layout.columns]
                clip_counts[r] += int(clips[:count].sum())
                if watched:
                    tallies[r].add(samples, replicas, np.stack(totals)[:, :count, : replicas.stop - replicas.start])
            for r, sums in enumerate(joint):
                products[r, samples] += sums[:count]
            if states is not None:
                states[samples, replicas] = x[..., layout.columns]
            if replicas.stop == task.n_replicas:
                report(samples.stop)
        raw /= task.n_replicas
        products /= task.n_replicas
        readings = zip(tallies, raw, clip_counts, products, strict=True)
        return outcome_of([tally.outcome(m, c, xy) for tally, m, c, xy in readings], states)

    def final_states(self, task: Task) -> Array:
        states = self.moments(replace(task, observables=(), keep_states=True), lambda _: None).states
        assert states is not None
        return states

    def sample_paths(self, task: Task, nodes: NDArray[np.intp], every: int) -> Array:
        layout = _Layout.of(task)
        records = task.n_steps // every
        paths = np.zeros((task.n_samples, task.n_replicas, records + 1, len(nodes)))
        columns, way = layout.columns[nodes], self._way(task)

        def run(work: _Work) -> Any:
            """(records, samples, replicas, len(nodes))"""
            if task.is_plain:
                return program.paths(work.tile(task.segments[0]), columns, every, records, work.wanted, way)
            moving = work.advance(every=every)
            return np.stack([state.x[: work.wanted[0], : work.wanted[1], columns] for _, _, state in moving])

        for samples, replicas, x in self._tiles(task, layout, run):
            paths[samples, replicas, 0] = task.started(samples, replicas)[..., nodes]
            paths[samples, replicas, 1:] = np.moveaxis(x, 0, 2)
        return paths

    @property
    def on_gpu(self) -> bool:
        return bool(jax.local_devices()[0].platform == "gpu")

    def _way(self, task: Task) -> program.Way:
        """How steps are taken here. On a CPU, a TPU and in float64 there is one way only."""
        if self.dtype != "float32" or not self.on_gpu:
            return program.Way()
        return program.Way(quarters=True, counted=math.isfinite(task.protocol.clip))

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

        def one(job: tuple[int, slice, slice]) -> tuple[slice, slice, Any]:
            number, samples, replicas = job
            k = number % len(devices)
            work = _Work(task, layout, samples, replicas, dtype, devices[k], way, constants[k])
            # The x64 setting belongs to the thread. Without it JAX has no 64-bit integers for the noise.
            with jax.enable_x64(True):
                return samples, replicas, jax.device_get(run(work))

        jobs = [
            (slice(s, min(s + layout.samples, task.n_samples)), slice(m, min(m + layout.replicas, task.n_replicas)))
            for s in range(0, task.n_samples, layout.samples)
            for m in range(0, task.n_replicas, layout.replicas)
        ]
        workers = cores() if devices[0].platform == "cpu" else 2 * len(devices)
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
        return nodes, W, keys, linear, cubic, sigma, clip, square if step.square.any() else None


class _Layout(NamedTuple):
    """How a task is laid out in tiles."""

    samples: int
    replicas: int
    width: int
    """N rounded up to whole groups of four."""
    columns: NDArray[np.intp]
    """(N,): the column of each node. The nodes of a group are a quarter of the width apart, as in `program.noise`."""

    @classmethod
    def of(cls, task: Task) -> "_Layout":
        groups = (task.n_nodes + 3) // 4
        # On a CPU a tile should stay in the cache of its core; on a GPU or TPU it should fill the device.
        on_cpu = jax.local_devices()[0].platform == "cpu"
        least, cells = (64, 2**15) if on_cpu else (1024, 2**24)
        rows = max(least, cells // (4 * groups))
        replicas = min(task.n_replicas, rows)
        node = np.arange(task.n_nodes)
        quarter = np.array([0, 2, 1, 3])[node % 4]
        return cls(rows // replicas, replicas, 4 * groups, quarter * groups + node // 4)


class _Work(NamedTuple):
    """Some samples and replicas of a task, which one tile holds."""

    task: Task
    layout: _Layout
    samples: slice
    replicas: slice
    dtype: np.dtype[Any]
    device: Any
    way: program.Way
    constants: Mapping[int, tuple[Any, ...]]
    """by the id of W, see `Xla._constants`"""

    @property
    def wanted(self) -> tuple[int, int]:
        """How many samples and replicas of the tile are more than padding."""
        return self.samples.stop - self.samples.start, self.replicas.stop - self.replicas.start

    def tile(self, segment: Segment) -> program.Tile:
        """The tile in a segment."""
        task, layout = self.task, self.layout
        S, M = self.wanted
        h = np.zeros((layout.samples, layout.width))
        h[:S, layout.columns] = task.step.mu_dt * segment.drive[self.samples]
        ids = np.zeros(layout.samples, np.uint64)
        ids[:S] = task.sample_ids[self.samples]
        live = np.arange(layout.replicas) < M
        own = jax.device_put((h.astype(self.dtype), ids, np.uint64(self.replicas.start), live), self.device)
        return program.Tile(*own, *self.constants[id(segment.W)])

    def advance(
        self, scene: "program.Scene | None" = None, watched: "program.Watched | None" = None, every: int | None = None
    ) -> "Iterator[tuple[Segment, program.Tile, program.State]]":
        """Through all segments: the state at the end of each, or after every `every` steps."""
        layout, first = self.layout, self.task.first_step
        S, M = self.wanted
        x = np.zeros((layout.samples, layout.replicas, layout.width), self.dtype)
        x[:S, :M, layout.columns] = self.task.started(self.samples, self.replicas)
        state, n = None, first
        for segment in self.task.segments:
            tile, end = self.tile(segment), n + segment.n_steps
            if state is None:
                state = program.begin(tile, jax.device_put(x, self.device), n, watched, self.way)
            while n < end:
                stop = end if every is None else min(end, n + every - (n - first) % every)
                state, n = program.segment(tile, state, n, stop, scene, watched, self.way), stop
                if every is None or (n - first) % every == 0:
                    yield segment, tile, state
