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

from thermoment.engines.curves import Column, Curves, Shapes, compress, kept
from thermoment.engines.tables import SQUARES, TOP, Tables

TOLERANCE = 1e-5
"""Self-consistency: another round would move no node's effective drive or field by more than this."""
MOST_ROUNDS = 100
# Relative errors that do not matter in what is of first order in the coupling, and of second.
_FIRST, _SECOND = 1e-4, 1e-3
ERROR_OF_FIRST, ERROR_OF_SECOND = 4e-3, 1.5
"""Parts of the first and, times k, of the second order that the error is estimated at."""


class Law(NamedTuple):
    """The law of one node at t_final, standardised, to draw replicas from."""

    moments: Curves
    """of order 1 to 8"""
    shape: jax.Array
    """(H, Z)"""


class Node(NamedTuple):
    """What the coupled solution reads of one node."""

    shapes: Shapes
    rounds: Curves
    """mean (r), shift (r), field (K), memory (R); for the mean's modes: square (r Q), rest (r r), by_field (r K),
    by_memory (r R)"""
    end: Curves
    """for each order: M, dM/dh, square (Q), rest (r), by_field (K), by_memory (R)"""
    law: Law
    sizes: "Sizes"


@jax.tree_util.register_static
class Sizes(NamedTuple):
    """Modes, field kernels, reaction kernels."""

    r: int
    K: int
    R: int


def node(tables: Tables, orders: tuple[int, ...], dtype: str = "float32", next_order: bool = True) -> Node:
    """The tables as JAX arrays for moments of these orders. Without `next_order` only the mean field is left."""
    H, r = tables.mean.shape
    K, R = tables.field.shape[1], tables.memory.shape[1]
    keep = 1.0 if next_order else 0.0

    def of_mean(table: Any, odd: int, tolerance: float) -> Column:
        return Column(table.reshape(H, -1), odd, tolerance)

    rounds = [
        Column(tables.mean, 1),
        Column(tables.shift, 0),
        Column(keep * tables.field, 0, _SECOND),
        Column(keep * tables.memory, 0, _SECOND),
        of_mean(tables.mean_square, 1, _SECOND),
        of_mean(tables.mean_rest, 0, _FIRST),
        of_mean(tables.mean_by_field, 1, _SECOND),
        of_mean(tables.mean_by_memory, 1, _SECOND),
    ]
    end = []
    for p in orders:
        odd, even = p % 2, 1 - p % 2
        end += [
            Column(tables.moments[:, p - 1, None], odd),
            Column(tables.slope[:, p - 1, None], even, _SECOND),
            Column(tables.square[:, p - 1], odd, _SECOND),
            Column(tables.rest[:, p - 1], even, _FIRST),
            Column(tables.by_field[:, p - 1], odd, _SECOND),
            Column(tables.by_memory[:, p - 1], odd, _SECOND),
        ]
    law = [Column(tables.shape_moments[:, [p - 1]], p % 2, _FIRST) for p in range(1, TOP + 1)]
    shapes, curves = compress(tables.h, tables.scale.item(), [rounds, end, law], dtype)
    return Node(shapes, curves[0], curves[1], Law(curves[2], jnp.asarray(tables.shape.astype(dtype))), Sizes(r, K, R))


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
    neighbour: what is left out is about k times the part of second order, in the node itself and, through an error in
    the mean of its neighbours, once more times k and dM_p/dM_1. The modes leave out a few thousandths of the first
    order. Factors from the scan in docs/accuracy.md.
    """
    r, K, R = node.sizes
    state = effective_drive(h, W, node)
    drive, g = state[0], state[1:]
    shapes = kept(node.shapes(drive))
    kernels = Curves(*(part[2 * r : 2 * r + K + R] for part in node.rounds))
    field, memory = _split(kernels(shapes, drive), (K, R))
    q, o = kept(_second_order(field, memory, W))
    lengths = (1, 1, len(SQUARES), r, K, R)
    table = kept(node.end(shapes, drive))
    products = _products(g)
    moments: list[jax.Array] = []
    first: Any = []
    second: Any = []
    slopes: Any = []
    for part in jnp.split(table, len(table) // sum(lengths)):
        M, slope, square, rest, by_field, by_memory = _split(part, lengths)
        beyond = _sum(square, products) + _sum(rest, g) + _sum(by_field, q) + _sum(by_memory, o)
        moments.append(M[0] + beyond)
        first.append(slope[0] * (drive - h))
        second.append(beyond)
        slopes.append(slope[0])
    k2 = _couple(W * W, slopes[0] ** 2).mean(axis=-1, keepdims=True)
    first, second, slopes = ((jnp.stack(part, axis=1) ** 2).mean(axis=-1) for part in (first, second, slopes))
    passed_on = k2 * second[:, :1] * slopes / slopes[:, :1]
    error = ERROR_OF_FIRST**2 * first + ERROR_OF_SECOND**2 * k2 * (second + passed_on)
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


def _sum(table: jax.Array, fields: jax.Array) -> jax.Array:
    """sum_k table_k fields_k, written out: XLA on the CPU vectorises this, and not a reduction over a short axis."""
    total = table[0] * fields[0]
    for k in range(1, len(fields)):
        total = total + table[k] * fields[k]
    return total


def _round(h: jax.Array, W: jax.Array, node: Node, state: jax.Array) -> jax.Array:
    """One round of self-consistency: (h', g) to (h', g)."""
    r, K, R = node.sizes
    g = state[1:]
    table = kept(node.rounds(node.shapes(state[0]), state[0]))
    mean, shift, field, memory, square, rest, by_field, by_memory = _split(
        table, (r, r, K, R, r * len(SQUARES), r * r, r * K, r * R)
    )
    q, o = kept(_second_order(field, memory, W))
    products = _products(g)

    def mean_on(a: int) -> jax.Array:
        def part(table: jax.Array) -> jax.Array:
            return table[a * len(table) // r : (a + 1) * len(table) // r]

        second = _sum(part(square), products) + _sum(part(by_field), q) + _sum(part(by_memory), o)
        return mean[a] + _sum(part(rest), g) + second

    g = kept(_couple(W, jnp.stack([mean_on(a) for a in range(r)])))
    return jnp.concatenate([(h + _sum(shift, g))[None], g])


def _split(table: jax.Array, lengths: tuple[int, ...]) -> list[jax.Array]:
    ends = np.cumsum(lengths)
    return [table[end - n : end] for n, end in zip(lengths, ends, strict=True)]


def _iterate(step: Any, start: jax.Array) -> jax.Array:
    """step(step(...(start))) until no sample moves by more than the tolerance. Axis 1 of the state counts samples.

    A sample that has converged is left alone, so what becomes of it does not depend on the others. NaN otherwise.
    """

    def body(carry: Any) -> Any:
        state, moving, before, n = carry
        new = jnp.where(moving[:, None], step(state), state)
        moved = jnp.abs(new - state).max(axis=(0, 2))
        # Rounds shrink by a steady factor, so this one and the one before tell the next: moved^2 / before.
        still = ~((moved <= TOLERANCE) | (moved * moved <= TOLERANCE * before))
        return new, moving & still, moved, n + 1

    def going(carry: Any) -> Any:
        _, moving, _, n = carry
        return moving.any() & (n < MOST_ROUNDS)

    samples = start.shape[1]
    begin = (start, jnp.ones(samples, bool), jnp.zeros(samples, start.dtype), 0)
    state, moving, _, _ = lax.while_loop(going, body, begin)
    return jnp.where(moving[:, None], jnp.nan, state)


@partial(jax.custom_vjp)
def _fixed_point(h: jax.Array, W: jax.Array, node: Node) -> jax.Array:
    # Nearly a round for a third of its cost: the field of the uncoupled nodes.
    r = node.sizes.r
    leading = Curves(*(part[: 2 * r] for part in node.rounds))
    mean, shift = _split(kept(leading(node.shapes(h), h)), (r, r))
    g = kept(_couple(W, mean))
    return _iterate(partial(_round, h, W, node), jnp.concatenate([(h + _sum(shift, g))[None], g]))


def _forward(h: jax.Array, W: jax.Array, node: Node) -> tuple[jax.Array, Any]:
    state = _fixed_point(h, W, node)
    return state, (h, W, node, state)


def _backward(kept: Any, cotangent: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    """state = round(state): lambda = cotangent + J^T lambda, then through h and W once."""
    h, W, node, state = kept
    _, back = jax.vjp(lambda state: _round(h, W, node, state), state)
    size = jnp.maximum(jnp.abs(cotangent).max(), 1e-30)
    adjoint = _iterate(lambda v: cotangent / size + back(v)[0], cotangent / size) * size
    _, through = jax.vjp(lambda h, W: _round(h, W, node, state), h, W)
    return *through(adjoint), None


_fixed_point.defvjp(_forward, _backward)
