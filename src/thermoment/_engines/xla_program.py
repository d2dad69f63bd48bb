"""The programs of the `xla` engine: the steps of one tile, as JAX compiles them.

Two facts about XLA on the CPU shape the loop (measurements in docs/log.md). XLA recomputes noise wherever it is used;
therefore the noise of the next step is carried through the loop, which forces it into memory once. And XLA computes one
output per loop; therefore a Box-Muller pair is one complex number, whose parts share logarithm, square root and Philox.
A GPU wants it otherwise, and has steps of its own: `Way`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from thermoment._engines.jax_noise import box_muller, high_words, normals_in_groups
from thermoment._engines.task import Move, Observable
from thermoment._support.compilation import REPRODUCIBLE
from thermoment.noise import counters, philox
from thermoment.physics import Dynamics

BLOCK = 50
"""Steps of a loop whose length the compiler knows. After every other step the host asks a GPU whether to go on."""
UNROLL = 5
"""Steps in one turn of that loop. What does not depend on the step is prepared by small kernels in every turn."""
OPTIONS = REPRODUCIBLE | {"xla_gpu_enable_triton_gemm": False}
"""Matrix products by the vendor's library. XLA's own have to be chosen by stopwatch, or are several times slower."""


class Tile(NamedTuple):
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
    square: jax.Array | None = None
    """(width,); None where J3 = 0, and the program then has no trace of it"""
    scaled: tuple[jax.Array, jax.Array] | None = None
    """on a GPU mu dt W^T 2^p, in half precision or in float32, and 2^-p"""


class Way(NamedTuple):
    """What a program is compiled for beside its shapes (measurements in docs/log.md)."""

    on_gpu: bool = False
    """Noise made in the step that needs it, node by node; loops of a known length."""
    counted: bool = True
    """Whether updates are held against the clip."""


class State(NamedTuple):
    x: jax.Array
    """(q, r, width)"""
    noise: jax.Array | None
    """(q, r, width / 2) complex: the noise of the coming step; None where it is made in its step"""
    clipped: jax.Array
    """(q, r): updates so far that went beyond the clip"""
    totals: tuple[jax.Array, ...] = ()
    """(q, r) each: what the observables have added up to"""
    half: jax.Array | None = None
    """x in half precision, where W x is multiplied in it: (q, r, width)"""


class Watched(NamedTuple):
    """What a program with observables is compiled for."""

    observables: tuple[Observable, ...]
    dynamics: Dynamics
    dt: float


class Scene(NamedTuple):
    """What is needed to undo the layout and the scale of a tile's arrays, for observables to see."""

    columns: Any
    """(N,): `columns` of `_Layout`"""
    mu_dt: Any
    """(N,)"""


Watch = Callable[[jax.Array, jax.Array], tuple[jax.Array, ...]]
"""From x before and after a step, (q, r, width), what each observable gains: (q, r)."""


def watch(tile: Tile, scene: Scene, watched: Watched) -> Watch:
    """Shows a step to the observables: the nodes in order, without padding, in float64, so that sums stay accurate."""
    columns, mu_dt = scene
    h, W = tile.h[:, None, columns] / mu_dt, (tile.W[jnp.ix_(columns, columns)] / mu_dt).T

    def gains(before: jax.Array, after: jax.Array) -> tuple[jax.Array, ...]:
        x, y = (state[..., columns].astype(jnp.float64) for state in (before, after))
        move = Move(x, y, h, W, watched.dynamics, watched.dt)
        return tuple(one.increment(move) for one in watched.observables)

    return gains


def noise(tile: Tile, n: jax.Array) -> jax.Array:
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


def start(tile: Tile, way: Way, n_observables: int = 0, x: jax.Array | None = None, n: Any = 0) -> State:
    """Before step n, at x (q, r, width); at zero unless given."""
    if x is None:
        x = jnp.zeros((len(tile.ids), len(tile.live), tile.h.shape[1]), tile.h.dtype)
    totals = (jnp.zeros(x.shape[:2], jnp.float64),) * n_observables
    first = None if way.on_gpu else noise(tile, jnp.asarray(n, jnp.uint64))
    in_halves = tile.scaled is not None and tile.scaled[0].dtype == jnp.float16
    half = x.astype(jnp.float16) if in_halves else None
    return State(x, first, jnp.zeros(x.shape[:2], jnp.uint64), totals, half)


def coupled(tile: Tile, state: State) -> jax.Array:
    """mu dt W x: (q, r, width)."""
    rows = (-1, state.x.shape[-1])
    if tile.scaled is None:  # HIGH is float32 on a CPU
        product = jnp.dot(state.x.reshape(rows), tile.W, precision=lax.Precision.HIGH)
    else:
        # XLA does not know the unit. Without it the product would also add the force, which would go through memory.
        W, unit = tile.scaled
        x, precision = (state.half, None) if state.half is not None else (state.x, lax.Precision.HIGHEST)
        product = jnp.dot(x.reshape(rows), W, precision=precision, preferred_element_type=jnp.float32) * unit
    return product.reshape(state.x.shape)


def advance(tile: Tile, state: State, first: Any, last: Any, way: Way, watch: Watch | None = None) -> State:
    """Steps `first` to `last` - 1 of the recursion."""
    replicas = tile.first_replica + jnp.arange(len(tile.live), dtype=jnp.uint64)
    keys = high_words(tile.keys)

    def step(n: jax.Array, state: State) -> State:
        x = state.x
        if state.noise is None:
            xi = normals_in_groups(n, replicas, x.shape[-1] // 4, tile.ids, keys)
        else:
            xi = jnp.concatenate([state.noise.real, state.noise.imag], axis=-1)
        Wx = coupled(tile, state)
        if tile.square is None:
            local = x * (tile.linear + tile.cubic * x * x)
        else:
            local = x * (tile.linear + x * (tile.square + tile.cubic * x))
        y = x + (local + tile.h[:, None] + Wx) + tile.sigma * xi
        after, clipped = y, state.clipped
        if way.counted:
            beyond = (jnp.abs(y) > tile.clip) & tile.nodes
            clipped += beyond if way.on_gpu else beyond.sum(axis=-1, dtype=jnp.uint32)
            after = jnp.clip(y, -tile.clip, tile.clip)
        gains = watch(x, after) if watch else ()
        totals = tuple(total + gain for total, gain in zip(state.totals, gains, strict=True))
        half = None if state.half is None else after.astype(jnp.float16)
        return State(after, None if state.noise is None else noise(tile, n + 1), clipped, totals, half)

    def steps(begin: jax.Array, count: Any, state: State) -> State:
        """`count` steps on a GPU, at most `BLOCK`. Clipped updates are counted node by node, then summed.

        A sum in each step would be a kernel of its own.
        """
        before = state.clipped
        if way.counted:
            state = state._replace(clipped=jnp.zeros(state.x.shape, jnp.uint8))
        unroll = UNROLL if isinstance(count, int) else None
        state = lax.fori_loop(0, count, lambda i, state: step(begin + i, state), state, unroll=unroll)
        if way.counted:
            before += state.clipped.sum(axis=-1, dtype=jnp.uint32)
        return state._replace(clipped=before)

    first = jnp.asarray(first, jnp.int64)
    if way.on_gpu:
        blocks = (last - first) // BLOCK
        state = lax.fori_loop(0, blocks, lambda k, state: steps(first + k * BLOCK, BLOCK, state), state)
        done = first + blocks * BLOCK
        return steps(done, last - done, state)
    advanced: State = lax.fori_loop(first, last, step, state)
    return advanced


Reading = tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]
"""Sums of x^p over the tile's replicas in float64 (q, len(orders), width), clipped updates (q,), and of each observable
the total for every replica (q, r)."""


@partial(jax.jit, static_argnames=("orders", "watched", "way"), compiler_options=OPTIONS)
def moments(
    tile: Tile, n_steps: int, orders: tuple[int, ...], scene: Scene | None, watched: Watched | None, way: Way
) -> Reading:
    """All steps from x = 0 and a reading. Without observables the program has no trace of them."""
    if watched and scene:
        before = start(tile, way, len(watched.observables))
        state = advance(tile, before, 0, n_steps, way, watch(tile, scene, watched))
    else:
        state = advance(tile, start(tile, way), 0, n_steps, way)
    return read(tile, state, orders)


def read(tile: Tile, state: State, orders: tuple[int, ...]) -> Reading:
    x = jnp.where(tile.live[:, None], state.x.astype(jnp.float64), 0.0)
    counted = jnp.where(tile.live, state.clipped, 0)
    sums = jnp.stack([(x**p).sum(axis=1) for p in orders], axis=1)
    return sums, counted.sum(axis=1), state.totals


def products(tile: Tile, state: State, pairs: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Sums over the tile's replicas, in float64, of x y, x^2 y, x y^2 and x^2 y^2 of P pairs of columns: (q, 4, P)."""
    live = jnp.where(tile.live[:, None], state.x.astype(jnp.float64), 0.0)
    x, y = (live[..., columns] for columns in pairs)
    return jnp.stack([term.sum(axis=1) for term in (x * y, x * x * y, x * y * y, (x * y) ** 2)], axis=1)


@partial(jax.jit, static_argnames=("watched", "way"), compiler_options=OPTIONS)
def begin(tile: Tile, x: jax.Array, n: int, watched: Watched | None, way: Way) -> State:
    return start(tile, way, len(watched.observables) if watched else 0, x, n)


@partial(jax.jit, static_argnames="way", compiler_options=OPTIONS)
def segment(tile: Tile, state: State, first: int, last: int, way: Way) -> State:
    """Steps `first` to `last` - 1 in one segment."""
    return advance(tile, state, first, last, way)


@partial(jax.jit, static_argnames=("orders", "watched", "way"), compiler_options=OPTIONS)
def course(
    tile: Tile,
    state: State,
    drives: jax.Array,
    count: int,
    first: int,
    each: int,
    orders: tuple[int, ...],
    pairs: tuple[jax.Array, jax.Array] | None,
    scene: Scene | None,
    watched: Watched | None,
    way: Way,
) -> tuple[State, tuple[Reading, jax.Array | None]]:
    """`count` segments of `each` steps from step `first` on, and what is read at the end of each, in rows (C, ...).

    `drives` (C, q, width) has mu dt h of every segment. The rows from `count` on are filling.
    """

    def found(own: Tile, state: State) -> tuple[Reading, jax.Array | None]:
        return read(own, state, orders), None if pairs is None else products(own, state, pairs)

    def one(k: jax.Array, carried: Any) -> Any:
        state, rows = carried
        own = tile._replace(h=drives[k])
        begin = first + k * each
        state = advance(own, state, begin, begin + each, way, watch(own, scene, watched) if watched and scene else None)
        new = found(own, state)
        return state, jax.tree.map(lambda all_rows, row: all_rows.at[k].set(row), rows, new)

    rows = jax.tree.map(lambda row: jnp.zeros((len(drives), *row.shape), row.dtype), jax.eval_shape(found, tile, state))
    return lax.fori_loop(jnp.int64(0), jnp.asarray(count, jnp.int64), one, (state, rows))  # type: ignore[no-any-return]


@partial(jax.jit, static_argnames=("records", "wanted", "way"), compiler_options=OPTIONS)
def paths(
    tile: Tile, columns: NDArray[np.intp], every: int, records: int, wanted: tuple[int, int], way: Way
) -> jax.Array:
    """x of some columns after each `every` steps: (records, *wanted, len(columns))."""

    def record(state: State, k: jax.Array) -> tuple[State, jax.Array]:
        state = advance(tile, state, k * every, (k + 1) * every, way)
        return state, state.x[: wanted[0], : wanted[1], columns]

    return lax.scan(record, start(tile, way), jnp.arange(records))[1]
