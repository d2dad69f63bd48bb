"""The portable engine: JAX on whatever XLA can compile for. Any N and M, the contract's noise, bounded memory.

The work is cut into tiles of (samples, replicas), each one call of a compiled program. A tile's shape depends on N, M
and the kind of device, never on the batch: the last ones are padded. So a sample always goes through the same program
and its bits do not depend on what else is simulated. Threads keep several tiles under way.

Two facts about XLA on the CPU shape the loop (measurements in docs/log.md). XLA recomputes noise wherever it is used;
therefore the noise of the next step is carried through the loop, which forces it into memory once. And XLA computes one
output per loop; therefore a Box-Muller pair is one complex number, whose parts share logarithm, square root and Philox.
A GPU wants it otherwise, and has steps of its own: `_Way`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from thermoment._engines.jax_noise import box_muller, normals_in_quarters
from thermoment._engines.tally import Tally
from thermoment._engines.task import (
    Array,
    Move,
    Observable,
    Outcome,
    Report,
    Segment,
    Task,
    check_samples,
    outcome_of,
)
from thermoment._support.checks import invalid, quoted
from thermoment._support.compilation import REPRODUCIBLE
from thermoment._support.threads import cores, in_blocks
from thermoment.noise import counters, philox, round_keys
from thermoment.physics import Dynamics

_BLOCK = 50
"""Steps of a loop whose length the compiler knows. After every other step the host asks a GPU whether to go on."""


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
            watched = _Watched(task.observables, task.dynamics, task.protocol.dt)
            scene = _Scene(layout.columns, task.step.mu_dt)
        way = self._way(task)

        def run(work: _Work) -> tuple[list[_Reading], Any]:
            if task.is_plain:  # one program, in which no state leaves the loop
                return [_moments(work.tile(task.segments[0]), task.n_steps, orders, scene, watched, way)], None
            readings = []
            for segment, tile, state in work.advance(scene, watched):
                if segment.read:
                    readings.append(_reading(tile, state, orders))
            return readings, state.x[: work.wanted[0], : work.wanted[1]] if task.keep_states else None

        for samples, replicas, (readings, x) in self._tiles(task, layout, run):
            count = samples.stop - samples.start
            for r, (sums, clips, totals) in enumerate(readings):
                raw[r, samples] += sums[:count, :, layout.columns]
                clip_counts[r] += int(clips[:count].sum())
                if watched:
                    tallies[r].add(samples, np.stack(totals)[:, :count, : replicas.stop - replicas.start])
            if states is not None:
                states[samples, replicas] = x[..., layout.columns]
            if replicas.stop == task.n_replicas:
                report(samples.stop)
        raw /= task.n_replicas
        observed = [tally.observed(task.n_replicas) for tally in tallies]
        return outcome_of([Outcome(m, c, None, o) for m, c, o in zip(raw, clip_counts, observed, strict=True)], states)

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
                return _paths(work.tile(task.segments[0]), columns, every, records, work.wanted, way)
            moving = work.advance(every=every)
            return np.stack([state.x[: work.wanted[0], : work.wanted[1], columns] for _, _, state in moving])

        for samples, replicas, x in self._tiles(task, layout, run):
            paths[samples, replicas, 0] = task.started(samples, replicas)[..., nodes]
            paths[samples, replicas, 1:] = np.moveaxis(x, 0, 2)
        return paths

    @property
    def on_gpu(self) -> bool:
        return bool(jax.local_devices()[0].platform == "gpu")

    def _way(self, task: Task) -> "_Way":
        """How steps are taken here. On a CPU, a TPU and in float64 there is one way only."""
        if self.dtype != "float32" or not self.on_gpu:
            return _Way()
        return _Way(quarters=True, counted=math.isfinite(task.protocol.clip))

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
        """The part of a tile that all tiles under one coupling share, in the order of `_Tile`."""
        step, columns = task.step, layout.columns
        W = np.zeros((layout.width, layout.width), self.dtype)

        def fill(nodes: slice) -> None:
            W[columns, columns[nodes, None]] = step.mu_dt[nodes, None] * coupling[nodes]

        in_blocks(fill, task.n_nodes)
        nodes = np.zeros(layout.width, bool)
        nodes[columns] = True
        # The coefficients of columns without a node stay zero, and so does x there.
        coefficients = np.zeros((3, layout.width), self.dtype)
        coefficients[:, columns] = step.linear, step.cubic, step.sigma
        clip = np.dtype(self.dtype).type(task.protocol.clip)
        return nodes, W, round_keys(task.protocol.seed, task.stream), *coefficients, clip


class _Layout(NamedTuple):
    """How a task is laid out in tiles."""

    samples: int
    replicas: int
    width: int
    """N rounded up to whole groups of four."""
    columns: NDArray[np.intp]
    """(N,): the column of each node. The four nodes of a group are a quarter of the width apart, as in `_noise`."""

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


class _Tile(NamedTuple):
    """What a compiled program works on. q samples, r replicas, `width` columns."""

    h: jax.Array
    """mu dt h: (q, width)"""
    ids: jax.Array
    """(q,)"""
    first_replica: jax.Array
    live: jax.Array
    """(r,): False for replicas that only fill the tile up"""
    nodes: jax.Array
    """(width,): False for columns that only fill the last group up"""
    W: jax.Array
    """mu dt W^T: (width, width)"""
    keys: jax.Array
    linear: jax.Array
    """(width,), as are `cubic` and `sigma`"""
    cubic: jax.Array
    sigma: jax.Array
    clip: jax.Array


class _Way(NamedTuple):
    """What a program is compiled for beside its shapes (measurements in docs/log.md)."""

    quarters: bool = False
    """Noise made in the step that needs it, in quarters of the columns; loops of a known length."""
    counted: bool = True
    """Whether updates are held against the clip. XLA makes a second kernel of the count, a fifth of the time."""


class _Work(NamedTuple):
    """Some samples and replicas of a task, which one tile holds."""

    task: Task
    layout: _Layout
    samples: slice
    replicas: slice
    dtype: np.dtype[Any]
    device: Any
    way: _Way
    constants: Mapping[int, tuple[Any, ...]]
    """by the id of W, see `Xla._constants`"""

    @property
    def wanted(self) -> tuple[int, int]:
        """How many samples and replicas of the tile are more than padding."""
        return self.samples.stop - self.samples.start, self.replicas.stop - self.replicas.start

    def tile(self, segment: Segment) -> _Tile:
        """The tile in a segment."""
        task, layout = self.task, self.layout
        S, M = self.wanted
        h = np.zeros((layout.samples, layout.width))
        h[:S, layout.columns] = task.step.mu_dt * segment.drive[self.samples]
        ids = np.zeros(layout.samples, np.uint64)
        ids[:S] = task.sample_ids[self.samples]
        live = np.arange(layout.replicas) < M
        own = jax.device_put((h.astype(self.dtype), ids, np.uint64(self.replicas.start), live), self.device)
        return _Tile(*own, *self.constants[id(segment.W)])

    def advance(
        self, scene: "_Scene | None" = None, watched: "_Watched | None" = None, every: int | None = None
    ) -> "Iterator[tuple[Segment, _Tile, _State]]":
        """Through all segments: the state at the end of each, or after every `every` steps."""
        layout, first = self.layout, self.task.first_step
        S, M = self.wanted
        x = np.zeros((layout.samples, layout.replicas, layout.width), self.dtype)
        x[:S, :M, layout.columns] = self.task.started(self.samples, self.replicas)
        state, n = None, first
        for segment in self.task.segments:
            tile, end = self.tile(segment), n + segment.n_steps
            if state is None:
                state = _begin(tile, jax.device_put(x, self.device), n, watched, self.way)
            while n < end:
                stop = end if every is None else min(end, n + every - (n - first) % every)
                state, n = _segment(tile, state, n, stop, scene, watched, self.way), stop
                if every is None or (n - first) % every == 0:
                    yield segment, tile, state


class _State(NamedTuple):
    x: jax.Array
    """(q, r, width)"""
    noise: jax.Array | None
    """(q, r, width / 2) complex: the noise of the coming step; None where it is made in its step"""
    clipped: jax.Array
    """(q, r): updates so far that went beyond the clip"""
    totals: tuple[jax.Array, ...] = ()
    """(q, r) each: what the observables have added up to"""


class _Watched(NamedTuple):
    """What a program with observables is compiled for."""

    observables: tuple[Observable, ...]
    dynamics: Dynamics
    dt: float


class _Scene(NamedTuple):
    """What is needed to undo the layout and the scale of a tile's arrays, for observables to see."""

    columns: Any
    """(N,): `columns` of `_Layout`"""
    mu_dt: Any
    """(N,)"""


_Watch = Callable[[jax.Array, jax.Array], tuple[jax.Array, ...]]
"""From x before and after a step, (q, r, width), what each observable gains: (q, r)."""


def _watch(tile: _Tile, scene: _Scene, watched: _Watched) -> _Watch:
    """Shows a step to the observables: the nodes in order, without padding, in float64, so that sums stay accurate."""
    columns, mu_dt = scene
    h, W = tile.h[:, None, columns] / mu_dt, (tile.W[jnp.ix_(columns, columns)] / mu_dt).T

    def gains(before: jax.Array, after: jax.Array) -> tuple[jax.Array, ...]:
        x, y = (state[..., columns].astype(jnp.float64) for state in (before, after))
        move = Move(x, y, h, W, watched.dynamics, watched.dt)
        return tuple(one.increment(move) for one in watched.observables)

    return gains


def _noise(tile: _Tile, n: jax.Array) -> jax.Array:
    """Two normals to a complex number: column g holds xi_4g + i xi_4g+1, column width/4 + g xi_4g+2 + i xi_4g+3."""
    half = tile.h.shape[1] // 2
    shape = (len(tile.ids), len(tile.live), half)
    replica = tile.first_replica + lax.broadcasted_iota(jnp.uint64, shape, 1)
    column = lax.broadcasted_iota(jnp.uint64, shape, 2)
    second = column >= half // 2
    group = jnp.where(second, column - half // 2, column)
    ids = jnp.broadcast_to(tile.ids[:, None, None], shape)
    ab, cd = philox(*counters(n.astype(jnp.uint64), replica, group, ids), tile.keys)
    return box_muller(jnp.where(second, cd, ab), tile.h.dtype)


def _start(tile: _Tile, way: _Way, n_observables: int = 0, x: jax.Array | None = None, n: Any = 0) -> _State:
    """Before step n, at x (q, r, width); at zero unless given."""
    if x is None:
        x = jnp.zeros((len(tile.ids), len(tile.live), tile.h.shape[1]), tile.h.dtype)
    totals = (jnp.zeros(x.shape[:2], jnp.float64),) * n_observables
    noise = None if way.quarters else _noise(tile, jnp.asarray(n, jnp.uint64))
    return _State(x, noise, jnp.zeros(x.shape[:2], jnp.uint64), totals)


def _advance(tile: _Tile, state: _State, first: Any, last: Any, way: _Way, watch: _Watch | None = None) -> _State:
    """Steps `first` to `last` - 1 of the recursion."""

    def step(n: jax.Array, state: _State) -> _State:
        x = state.x
        if state.noise is None:
            replicas = tile.first_replica + jnp.arange(len(tile.live), dtype=jnp.uint64)
            xi = normals_in_quarters(n, replicas, x.shape[-1] // 4, tile.ids, tile.keys)
        else:
            xi = jnp.concatenate([state.noise.real, state.noise.imag], axis=-1)
        # HIGH is float32 on a CPU and TF32 on a GPU, where it moves the paper's moments by less than 1e-6. DEFAULT is a
        # little faster there, and was 4e-5 off: it seems to cut x and W off instead of rounding them.
        Wx = jnp.dot(x.reshape(-1, x.shape[-1]), tile.W, precision=lax.Precision.HIGH)
        local = x * (tile.linear + tile.cubic * x * x)
        y = x + (local + tile.h[:, None] + Wx.reshape(x.shape)) + tile.sigma * xi
        after, clipped = y, state.clipped
        if way.counted:
            clipped += ((jnp.abs(y) > tile.clip) & tile.nodes).sum(axis=-1, dtype=jnp.uint32)
            after = jnp.clip(y, -tile.clip, tile.clip)
        gains = watch(x, after) if watch else ()
        totals = tuple(total + gain for total, gain in zip(state.totals, gains, strict=True))
        return _State(after, None if state.noise is None else _noise(tile, n + 1), clipped, totals)

    def block(k: jax.Array, state: _State) -> _State:
        begin: jax.Array = first + k * _BLOCK
        advanced: _State = lax.fori_loop(0, _BLOCK, lambda i, state: step(begin + i, state), state)
        return advanced

    first = jnp.asarray(first, jnp.int64)
    if way.quarters:
        blocks = (last - first) // _BLOCK
        state = lax.fori_loop(0, blocks, block, state)
        first += blocks * _BLOCK
    advanced: _State = lax.fori_loop(first, last, step, state)
    return advanced


_Reading = tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]
"""Sums of x^p over the tile's replicas in float64 (q, len(orders), width), clipped updates (q,), and of each observable
the total for every replica (q, r)."""


@partial(jax.jit, static_argnames=("orders", "watched", "way"), compiler_options=REPRODUCIBLE)
def _moments(
    tile: _Tile, n_steps: int, orders: tuple[int, ...], scene: _Scene | None, watched: _Watched | None, way: _Way
) -> _Reading:
    """All steps from x = 0 and a reading. Without observables the program has no trace of them."""
    if watched and scene:
        start = _start(tile, way, len(watched.observables))
        state = _advance(tile, start, 0, n_steps, way, _watch(tile, scene, watched))
    else:
        state = _advance(tile, _start(tile, way), 0, n_steps, way)
    return _read(tile, state, orders)


def _read(tile: _Tile, state: _State, orders: tuple[int, ...]) -> _Reading:
    x = jnp.where(tile.live[:, None], state.x.astype(jnp.float64), 0.0)
    counted = jnp.where(tile.live, state.clipped, 0)
    sums = jnp.stack([(x**p).sum(axis=1) for p in orders], axis=1)
    return sums, counted.sum(axis=1), state.totals


_reading = jax.jit(_read, static_argnames="orders", compiler_options=REPRODUCIBLE)


@partial(jax.jit, static_argnames=("watched", "way"), compiler_options=REPRODUCIBLE)
def _begin(tile: _Tile, x: jax.Array, n: int, watched: _Watched | None, way: _Way) -> _State:
    return _start(tile, way, len(watched.observables) if watched else 0, x, n)


@partial(jax.jit, static_argnames=("watched", "way"), compiler_options=REPRODUCIBLE)
def _segment(
    tile: _Tile, state: _State, first: int, last: int, scene: _Scene | None, watched: _Watched | None, way: _Way
) -> _State:
    """Steps `first` to `last` - 1 in one segment."""
    return _advance(tile, state, first, last, way, _watch(tile, scene, watched) if watched and scene else None)


@partial(jax.jit, static_argnames=("records", "wanted", "way"), compiler_options=REPRODUCIBLE)
def _paths(
    tile: _Tile, columns: NDArray[np.intp], every: int, records: int, wanted: tuple[int, int], way: _Way
) -> jax.Array:
    """x of some columns after each `every` steps: (records, *wanted, len(columns))."""

    def record(state: _State, k: jax.Array) -> tuple[_State, jax.Array]:
        state = _advance(tile, state, k * every, (k + 1) * every, way)
        return state, state.x[: wanted[0], : wanted[1], columns]

    return lax.scan(record, _start(tile, way), jnp.arange(records))[1]
