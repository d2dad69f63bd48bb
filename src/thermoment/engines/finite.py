"""Moments of finitely many replicas: draws of x(t_final) from each node's own law, with the contract's noise.

A replica of node i is x = mean + spread Y(z; h'), with z standard normal, Y the standardised law of a node at the
effective drive h', and mean and spread those of the coupled node. M such draws have the mean, the covariance between
orders and the distribution of M sampled replicas of this node, whatever M. Different nodes are drawn independently:
in a network they are correlated through W, by about W_ij, which no moment of a single node shows.
"""

from math import comb
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from thermoment.engines.coupled import Node
from thermoment.engines.single_node import NORMALS
from thermoment.engines.xla import box_muller
from thermoment.noise import MAX_STEPS, counters, philox

STEP = MAX_STEPS - 1
"""The step of the noise contract that the draws use: no simulation reaches it in practice."""
MOST_DRAWS = 1024
"""Draws for each node. For more replicas the fluctuation of this many is scaled down: mean and covariance stay right,
and the distribution is as close to a Gaussian as that of 1024 replicas."""


def normals(replica: jax.Array, ids: jax.Array, n_nodes: int, keys: jax.Array, dtype: Any) -> jax.Array:
    """xi of one replica of all samples: (S, N). Needs 64-bit integers to be enabled."""
    groups = lax.broadcasted_iota(jnp.uint64, (len(ids), (n_nodes + 3) // 4), 1)
    ab, cd = counters(jnp.uint64(STEP), replica.astype(jnp.uint64), groups, ids[:, None])
    pairs = [box_muller(pair, dtype) for pair in philox(ab, jnp.broadcast_to(cd, ab.shape), keys)]
    xi = jnp.stack([part for z in pairs for part in (z.real, z.imag)], axis=-1)
    return xi.reshape(len(ids), -1)[:, :n_nodes]


def fluctuation(
    drive: jax.Array,
    mean: jax.Array,
    second: jax.Array,
    orders: tuple[int, ...],
    node: Node,
    ids: jax.Array,
    keys: jax.Array,
    n_replicas: jax.Array,
) -> jax.Array:
    """Moments of `n_replicas` draws less their expectation, (S, len(orders), N).

    drive: effective drive h', mean, second: m_1 and m_2 of the coupled nodes; all (S, N).
    """
    dtype = drive.dtype
    spread = jnp.sqrt(jnp.maximum(second - mean**2, 0))
    cell, f = node.shapes.cell(drive)
    width = node.law.shape.shape[1]
    table = node.law.shape.reshape(-1)
    sign = jnp.where(drive < 0, -1, 1).astype(dtype)
    y_moments = node.law.moments(node.shapes(drive), drive)
    # sign * |law|: a node at -h is the mirror image of one at h.
    per_interval = dtype.type((len(NORMALS) - 1) / (NORMALS[-1] - NORMALS[0]))

    def draw(m: jax.Array, sums: jax.Array) -> jax.Array:
        z = normals(m, ids, drive.shape[1], keys, dtype)
        v = jnp.clip((z - dtype.type(NORMALS[0])) * per_interval, 0, width - 1.001)
        k = v.astype(jnp.int32)
        w = v - k.astype(dtype)
        at = cell * width + k
        low = table[at] * (1 - w) + table[at + 1] * w
        high = table[at + width] * (1 - w) + table[at + width + 1] * w
        x = mean + spread * sign * (low * (1 - f) + high * f)
        return sums + jnp.stack([x**p for p in orders], axis=1)

    draws = jnp.minimum(n_replicas, MOST_DRAWS).astype(jnp.int64)
    sums = lax.fori_loop(jnp.int64(0), draws, draw, jnp.zeros((drive.shape[0], len(orders), drive.shape[1]), dtype))
    expected = []
    for p in orders:
        terms = [comb(p, k) * mean ** (p - k) * spread**k * y_moments[k - 1] for k in range(1, p + 1)]
        expected.append(mean**p + sum(terms))
    shrink = jnp.sqrt(draws.astype(dtype) / n_replicas.astype(dtype))
    noise: jax.Array = (sums / draws.astype(dtype) - jnp.stack(expected, axis=1)) * shrink
    return noise
