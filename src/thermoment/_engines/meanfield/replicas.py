"""Moments of finitely many replicas: draws of x(t_final) from each node's own law, with the contract's noise.

A replica of node i is x = mean + spread Y(z; h'), with z standard normal, Y the standardised quantile function of a
node at the effective drive h' (quantiles.py), and mean and spread those of the coupled node. M such draws have the
mean, the covariance between orders and the distribution of M sampled replicas of this node, for any M. Different nodes
are drawn independently; in a network they are correlated through W, by about W_ij, which no moment of one node shows.

As in the xla engine, what a step needs is carried through the loop: XLA on the CPU would otherwise compute it again for
every use.
"""

import math
from math import comb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from thermoment._engines.jax_noise import box_muller
from thermoment._engines.meanfield.quantiles import NORMALS, shape_moments, standardised
from thermoment._engines.meanfield.tables import TOP, NodeTables
from thermoment._engines.xla_calls import KERNEL, can_call
from thermoment.noise import MAX_STEPS, counters, philox

STEP = MAX_STEPS - 1
"""The step of the noise contract that the draws use: no simulation reaches it in practice."""
MOST_DRAWS = 1024
"""Draws for each node. For more replicas the fluctuation of this many is scaled down: mean and covariance stay right,
and the distribution is as close to a Gaussian as that of 1024 replicas."""
_ROWS_PER_UNIT = 16
"""Distribution shapes are tabulated 16 per unit of asinh(h / scale). A node uses the nearest shape; its mean and
standard deviation stay exact."""


class Quantiles(NamedTuple):
    """Standardised quantile functions Y(z; h) at L drives, evenly in asinh(h / scale), for h >= 0 or for any h."""

    scale: jax.Array
    """()"""
    value: jax.Array
    """Y at `NORMALS`: (L * Z,)"""
    rise: jax.Array
    """by how much Y rises to the next of `NORMALS`: (L * Z,)"""
    moments: jax.Array
    """E[Y^p], p = 1..8: (8, L)"""
    below: jax.Array | None = None
    """how many of the drives are below 0; None where h >= 0"""


def quantiles(tables: NodeTables, dtype: str) -> Quantiles:
    """The quantile functions of the tables, at more drives than the tables have."""
    u = np.arcsinh(tables.h / tables.scale)
    numbers = np.arange(math.floor(u[0] * _ROWS_PER_UNIT), math.ceil(u[-1] * _ROWS_PER_UNIT) + 1)
    rows = numbers / _ROWS_PER_UNIT
    shape = standardised(np.array([np.interp(rows, u, column) for column in tables.shape.T]).T)
    rise = np.diff(shape, axis=1, append=shape[:, -1:])
    return Quantiles(
        jnp.asarray(tables.scale.astype(dtype)[0]),
        jnp.asarray(shape.astype(dtype).reshape(-1)),
        jnp.asarray(rise.astype(dtype).reshape(-1)),
        jnp.asarray(shape_moments(shape, TOP).T.astype(dtype)),
        jnp.asarray(np.dtype(dtype).type(-numbers[0])) if tables.signed else None,
    )


def fluctuation(
    drive: jax.Array,
    mean: jax.Array,
    second: jax.Array,
    orders: tuple[int, ...],
    law: Quantiles,
    ids: jax.Array,
    keys: jax.Array,
    n_replicas: jax.Array,
) -> jax.Array:
    """Moments of `n_replicas` draws less their expectation: (S, len(orders), N). Needs 64-bit integers to be enabled.

    drive: effective drive h'; mean, second: m_1 and m_2 of the coupled nodes; all (S, N);
    ids: sample ids (S,); keys: the round keys of seed and stream.
    """
    dtype, n_rows = drive.dtype, law.moments.shape[1]
    spread = jnp.sqrt(jnp.maximum(second - mean**2, 0))
    if law.below is None:
        # A node at -h is the mirror image of a node at h: its Y counts with the other sign.
        spread = spread * jnp.where(drive < 0, -1, 1).astype(dtype)
        u = jnp.arcsinh(jnp.abs(drive) / law.scale) * _ROWS_PER_UNIT
    else:
        u = jnp.arcsinh(drive / law.scale) * _ROWS_PER_UNIT + law.below
    row = jnp.clip(jnp.round(u).astype(jnp.int32), 0, n_rows - 1)
    draws = jnp.minimum(n_replicas, MOST_DRAWS).astype(jnp.int64)
    compiled = dtype == jnp.float32 and can_call()
    sums = (_sums_in_cpp if compiled else _sums)(mean, spread, row, orders, law, ids, keys, draws)
    means = sums / draws.astype(dtype)
    y_moments = law.moments[: max(orders), row]
    expected = []
    for p in orders:
        terms = [comb(p, k) * mean ** (p - k) * spread**k * y_moments[k - 1] for k in range(1, p + 1)]
        expected.append(mean**p + sum(terms))
    shrink = jnp.sqrt(draws.astype(dtype) / n_replicas.astype(dtype))
    noise: jax.Array = (means - jnp.stack(expected, axis=1)) * shrink
    return noise


def _sums(
    mean: jax.Array,
    spread: jax.Array,
    row: jax.Array,
    orders: tuple[int, ...],
    law: Quantiles,
    ids: jax.Array,
    keys: jax.Array,
    draws: jax.Array,
) -> jax.Array:
    """Sums of x^p over the draws: (S, len(orders), N). A node's shape is that of its row of the law."""
    dtype, n_nodes, width = mean.dtype, mean.shape[1], len(NORMALS)
    mean_, spread_, first = (_by_quarter(a) for a in (mean, spread, row * width))
    per_interval = dtype.type((width - 1) / (NORMALS[-1] - NORMALS[0]))

    def normals(m: jax.Array) -> list[jax.Array]:
        """The normals of replica m, in the contract's complex pairs."""
        groups = lax.broadcasted_iota(jnp.uint64, (len(ids), (n_nodes + 3) // 4), 1)
        ab, cd = counters(jnp.uint64(STEP), m.astype(jnp.uint64), groups, ids[:, None])
        return [box_muller(pair, dtype) for pair in philox(ab, jnp.broadcast_to(cd, ab.shape), keys)]

    def state(pairs: list[jax.Array]) -> jax.Array:
        """x = mean + spread Y(z), Y linear between `NORMALS`."""
        z = jnp.concatenate([part for pair in pairs for part in (pair.real, pair.imag)], axis=1)
        v = jnp.clip((z - dtype.type(NORMALS[0])) * per_interval, 0, width - 1)
        k = v.astype(jnp.int32)
        value, rise = (
            part.at[first + k].get(mode="promise_in_bounds", wrap_negative_indices=False)
            for part in (law.value, law.rise)
        )
        return mean_ + spread_ * (value + (v - k.astype(dtype)) * rise)

    def draw(m: jax.Array, carry: Any) -> Any:
        sums, x, pairs = carry
        return [total + x**p for p, total in zip(orders, sums, strict=True)], state(pairs), normals(m + 2)

    begin = [jnp.zeros_like(mean_) for _ in orders], state(normals(jnp.int64(0))), normals(jnp.int64(1))
    sums, _, _ = lax.fori_loop(jnp.int64(0), draws, draw, begin)
    return jnp.stack([_by_node(total, n_nodes) for total in sums], axis=1)


def _sums_in_cpp(
    mean: jax.Array,
    spread: jax.Array,
    row: jax.Array,
    orders: tuple[int, ...],
    law: Quantiles,
    ids: jax.Array,
    keys: jax.Array,
    draws: jax.Array,
) -> jax.Array:
    """The same in a quarter of the time, in float32 on a processor: kernels/cpu/README.md. The rounding differs."""
    result = jax.ShapeDtypeStruct((len(mean), len(orders), mean.shape[1]), jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call("thermoment_draw_sums", result)
    key = (keys[0] >> jnp.uint64(32)).astype(jnp.uint32)
    shapes, powers = law.value.reshape(-1, len(NORMALS)), jnp.asarray(orders, jnp.int32)
    arrays = mean, spread, row, shapes, ids, key, draws.astype(jnp.uint32), powers
    return jnp.asarray(call(*arrays, end=np.float32(NORMALS[-1]), kernel=np.int32(KERNEL)))


def _by_quarter(a: jax.Array) -> jax.Array:
    """(S, N) to (S, 4 G) in the order of the noise: the first node of every group of four, then the second, ..."""
    S, N = a.shape
    padded = jnp.pad(a, ((0, 0), (0, -N % 4)))
    return jnp.swapaxes(padded.reshape(S, -1, 4), 1, 2).reshape(S, -1)


def _by_node(a: jax.Array, n_nodes: int) -> jax.Array:
    """(S, 4 G) back to (S, N)."""
    return jnp.swapaxes(a.reshape(len(a), 4, -1), 1, 2).reshape(len(a), -1)[:, :n_nodes]
