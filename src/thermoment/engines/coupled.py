"""The coupled nodes: mean field, fluctuating field and reaction, self-consistent and differentiable, in JAX.

With the tables of one node (docs/theory.md), for every node i at its effective drive h'

    g_a  = sum_j W_ij a_j                     the mean field on mode a, a_j: the mean of node j on mode a
    q_k  = sum_j W_ij^2 field_k(h'_j)         the covariance of the fluctuating field
    o_k  = sum_j W_ij W_ji memory_k(h'_j)     how node i's own fluctuation comes back through its neighbours
    h'_i = h_i + sum_a shift_a(h'_i) g_a      the constant drive that moves E[x_i] as much as the mean field does
    m_p  = M_p + rest_pa g_a + square_pab g_a g_b + by_field_pk q_k + by_memory_pk o_k       all at h'_i
    a_a  = the same for the mean trajectory
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.interpolate import CubicSpline

from thermoment.engines.tables import SQUARES, TOP, Tables

TOLERANCE = 1e-5
"""Self-consistency: the last round moved no node's effective drive by more than this."""
MOST_ROUNDS = 100


ERROR_OF_FIRST, ERROR_OF_SECOND = 1e-3, 1.5
"""Parts of the first and, times k, of the second order that the error is estimated at."""


class Lookup(NamedTuple):
    """Cubic pieces of tables in u = asinh(|h| / scale), and how a row of them is divided."""

    scale: jax.Array
    spacing: jax.Array
    odd: jax.Array
    """(E,): 1 for what is odd in h, 0 for what is even"""
    pieces: jax.Array
    """(H - 1, 4, E)"""

    def cell(self, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The interval of the table that |h| lies in, and where in it, from 0 to 1."""
        u = jnp.arcsinh(jnp.abs(h) / self.scale) / self.spacing
        cell = jnp.clip(u.astype(jnp.int32), 0, len(self.pieces) - 1)
        return cell, u - cell.astype(u.dtype)

    def __call__(self, h: jax.Array) -> jax.Array:
        """Rows of the table at the drives h: (*h.shape, E)."""
        cell, f = self.cell(h)
        f = f[..., None]
        c = self.pieces[cell]
        value = ((c[..., 0, :] * f + c[..., 1, :]) * f + c[..., 2, :]) * f + c[..., 3, :]
        sign = jnp.where(h < 0, -1.0, 1.0).astype(value.dtype)[..., None]
        return value * jnp.where(self.odd == 1, sign, 1)


class Law(NamedTuple):
    """The law of one node at t_final, standardised, to draw replicas from."""

    moments: Lookup
    """of order 1 to 8"""
    shape: jax.Array
    """(H, Z)"""


class Node(NamedTuple):
    """What the coupled solution reads of one node: for each round, and for the moments at the end."""

    rounds: Lookup
    """mean (r), shift (r), field (K), memory (R), mean_square (r Q), mean_rest (r r), mean_by_field (r K), ...by_memory (r R)"""
    end: Lookup
    """for each order: M, dM/dh, square (Q), rest (r), by_field (K), by_memory (R)"""
    law: "Law"
    sizes: "Sizes"


@jax.tree_util.register_static
class Sizes(NamedTuple):
    """Modes, field kernels, reaction kernels."""

    r: int
    K: int
    R: int


def node(tables: Tables, orders: tuple[int, ...], dtype: str = "float32", next_order: bool = True) -> Node:
    """The tables as JAX arrays for moments of these orders. Without `next_order` only the mean field is left."""
    r, K, R = tables.mean.shape[1], tables.field.shape[1], tables.memory.shape[1]
    keep = 1.0 if next_order else 0.0
    H = len(tables.h)
    rounds = [
        (tables.mean, 1),
        (tables.shift, 0),
        (keep * tables.field, 0),
        (keep * tables.memory, 0),
        (tables.mean_square.reshape(H, -1), 1),
        (tables.mean_rest.reshape(H, -1), 0),
        (tables.mean_by_field.reshape(H, -1), 1),
        (tables.mean_by_memory.reshape(H, -1), 1),
    ]
    end = []
    for p in orders:
        end += [
            (tables.moments[:, p - 1, None], p % 2),
            (tables.slope[:, p - 1, None], 1 - p % 2),
            (tables.square[:, p - 1], p % 2),
            (tables.rest[:, p - 1], 1 - p % 2),
            (tables.by_field[:, p - 1], p % 2),
            (tables.by_memory[:, p - 1], p % 2),
        ]
    law = Law(
        _lookup(tables, [(tables.shape_moments[:, [p - 1]], p % 2) for p in range(1, TOP + 1)], dtype),
        jnp.asarray(tables.shape.astype(dtype)),
    )
    return Node(_lookup(tables, rounds, dtype), _lookup(tables, end, dtype), law, Sizes(r, K, R))


def _lookup(tables: Tables, columns: list[tuple[Any, int]], dtype: str) -> Lookup:
    u = np.arcsinh(tables.h / tables.scale)
    u = np.linspace(0, u[-1], len(u))
    spacing = u[1]
    pieces = CubicSpline(u / spacing, np.concatenate([c for c, _ in columns], axis=1)).c
    odd = np.concatenate([np.full(c.shape[1], parity) for c, parity in columns])
    kind = np.dtype(dtype).type
    return Lookup(
        jnp.asarray(kind(tables.scale)),
        jnp.asarray(kind(spacing)),
        jnp.asarray(odd, jnp.int8),
        jnp.asarray(np.moveaxis(pieces, 0, 1).astype(dtype)),
    )


def moments_of_drive(h: jax.Array, W: jax.Array, node: Node) -> jax.Array:
    """m_p for drives h (S, N) and coupling W (N, N): (S, len(orders), N); NaN for a sample that does not converge.

    A pure function, differentiable in h and W (implicitly, at the cost of about two more solutions).
    """
    return solution(h, W, node).moments


class Solution(NamedTuple):
    """The coupled nodes' moments and what they came from."""

    moments: jax.Array
    """(S, len(orders), N)"""
    drive: jax.Array
    """h': (S, N)"""
    error: jax.Array
    """estimated mean square error over the nodes: (S, len(orders))"""


def solution(h: jax.Array, W: jax.Array, node: Node) -> Solution:
    """Solves for the effective drives, then reads the moments and estimates their error.

    The expansion in W goes on by a factor k per order, k_i^2 = sum_j (W_ij dM_1/dh_j)^2, the gain of one more
    neighbour: what is left out is about k times the part of second order. The modes leave out a part in a thousand of
    the first order. Factors from the scan in docs/accuracy.md.
    """
    r, K, R = node.sizes
    state = effective_drive(h, W, node)
    drive, g = state[0], state[1:]
    field, memory = jnp.split(jnp.moveaxis(node.rounds(drive)[..., 2 * r : 2 * r + K + R], -1, 0), [K])
    q, o = _second_order(field, memory, W)
    row = jnp.moveaxis(node.end(drive), -1, 0)
    moments, first, second, slopes = [], [], [], []
    Q = len(SQUARES)
    for part in jnp.split(row, row.shape[0] // (2 + Q + r + K + R)):
        M, slope, square, rest, by_field, by_memory = jnp.split(part, np.cumsum([1, 1, Q, r, K]))
        beyond = (square * _products(g)).sum(axis=0) + (rest * g).sum(axis=0)
        beyond = beyond + (by_field * q).sum(axis=0) + (by_memory * o).sum(axis=0)
        moments.append(M[0] + beyond)
        first.append(slope[0] * (drive - h))
        second.append(beyond)
        slopes.append(slope[0])
    k2 = _couple(W * W, slopes[0] ** 2).mean(axis=-1, keepdims=True)
    squares = [(jnp.stack(part, axis=1) ** 2).mean(axis=-1) for part in (first, second)]
    error = ERROR_OF_FIRST**2 * squares[0] + ERROR_OF_SECOND**2 * k2 * squares[1]
    return Solution(jnp.stack(moments, axis=1), drive, error)


def effective_drive(h: jax.Array, W: jax.Array, node: Node) -> jax.Array:
    """The self-consistent (h', g_1..g_r): (1 + r, S, N); NaN for a sample that does not converge."""
    return _fixed_point(h, W, node)


def _couple(W: jax.Array, a: jax.Array) -> jax.Array:
    """sum_j W_ij a_j over the last axis of a."""
    return jnp.dot(a.reshape(-1, a.shape[-1]), W.T, precision=lax.Precision.HIGHEST).reshape(a.shape)


def _products(g: jax.Array) -> jax.Array:
    """g_a g_b for the pairs in `SQUARES`: (Q, S, N)."""
    return jnp.stack([g[a] * g[b] for a, b in SQUARES])


def _second_order(field: jax.Array, memory: jax.Array, W: jax.Array) -> tuple[jax.Array, jax.Array]:
    """q and o: (K, S, N), (R, S, N) from the covariance and memory of all nodes."""
    return _couple(W * W, field), _couple(W * W.T, memory)


def _round(h: jax.Array, W: jax.Array, node: Node, state: jax.Array) -> jax.Array:
    """One round of self-consistency: (h', g) to (h', g)."""
    r, K, R = node.sizes
    Q = len(SQUARES)
    g = state[1:]
    row = jnp.moveaxis(node.rounds(state[0]), -1, 0)
    mean, shift, field, memory, square, rest, by_field, by_memory = jnp.split(
        row, np.cumsum([r, r, K, R, r * Q, r * r, r * K]), axis=0
    )
    q, o = _second_order(field, memory, W)
    shape = h.shape
    a = mean + (square.reshape(r, Q, *shape) * _products(g)).sum(axis=1)
    a = a + (rest.reshape(r, r, *shape) * g).sum(axis=1)
    a = a + (by_field.reshape(r, K, *shape) * q).sum(axis=1) + (by_memory.reshape(r, R, *shape) * o).sum(axis=1)
    g = _couple(W, a)
    return jnp.concatenate([(h + (shift * g).sum(axis=0))[None], g])


def _iterate(step: Any, start: jax.Array) -> jax.Array:
    """step(step(...(start))) until no sample moves by more than the tolerance. Axis 1 of the state counts samples.

    A sample that has converged is left alone, so what becomes of it does not depend on the others. NaN otherwise.
    """

    def body(carry: Any) -> Any:
        state, moving, n = carry
        new = jnp.where(moving[:, None], step(state), state)
        moved = jnp.abs(new - state).max(axis=(0, 2))
        return new, ~(moved <= TOLERANCE), n + 1

    def going(carry: Any) -> Any:
        _, moving, n = carry
        return moving.any() & (n < MOST_ROUNDS)

    state, moving, _ = lax.while_loop(going, body, (start, jnp.ones(start.shape[1], bool), 0))
    return jnp.where(moving[:, None], jnp.nan, state)


@partial(jax.custom_vjp)
def _fixed_point(h: jax.Array, W: jax.Array, node: Node) -> jax.Array:
    start = jnp.concatenate([h[None], jnp.zeros((node.sizes.r, *h.shape), h.dtype)])
    return _iterate(partial(_round, h, W, node), start)


def _forward(h: jax.Array, W: jax.Array, node: Node) -> tuple[jax.Array, Any]:
    state = _fixed_point(h, W, node)
    return state, (h, W, node, state)


def _backward(kept: Any, cotangent: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    """state = round(state): lambda = cotangent + J^T lambda, then through h and W once."""
    h, W, node, state = kept
    _, back = jax.vjp(lambda state: _round(h, W, node, state), state)
    size = jnp.abs(cotangent).max() + jnp.finfo(cotangent.dtype).tiny
    adjoint = _iterate(lambda v: cotangent / size + back(v)[0], cotangent / size) * size
    _, through = jax.vjp(lambda h, W: _round(h, W, node, state), h, W)
    return *through(adjoint), None


_fixed_point.defvjp(_forward, _backward)
