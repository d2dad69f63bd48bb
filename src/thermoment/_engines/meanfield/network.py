"""The coupled nodes: mean field, fluctuating field and reaction, self-consistent and differentiable, in JAX.

With the tables of one node (docs/theory.md), for every node i at its effective drive h'

    g_a  = sum_j W_ij a_a,j                   the mean field on mode a; a_a,j is the mean of node j on mode a
    q_k  = sum_j W_ij^2 field_k(h'_j)         the covariance of the fluctuating field
    o_k  = sum_j W_ij W_ji memory_k(h'_j)     how node i's own fluctuation comes back through its neighbours
    h'_i = h_i + sum_a shift_a(h'_i) g_a      the constant drive that moves E[x_i] as much as the mean field does
    m_p  = M_p + rest_pa g_a + square_pab g_a g_b + by_field_pk q_k + by_memory_pk o_k       all at h'_i
    a_a  = the same for the mean trajectory

The unknowns h', g, q and o of all nodes are one array, the *state* (1 + r + K + R, S, N): r modes, K field kernels,
R reaction kernels, S samples, N nodes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from thermoment._engines.meanfield.curves import (
    FEWEST_CELLS,
    MOST_SHAPES,
    Column,
    Shapes,
    compress,
    curves,
    kept,
    summed,
    sums_in_cpp,
)
from thermoment._engines.meanfield.iteration import iterate
from thermoment._engines.meanfield.modes import SQUARES, TYPICAL_COUPLING
from thermoment._engines.meanfield.tables import NodeTables
from thermoment._engines.xla_calls import can_call
from thermoment.physics import LARGEST_DRIVE

TOLERANCE = 1e-5
"""Self-consistency: rounds end when the next one is predicted to move no effective drive or field by more than this."""
WIDE_TOLERANCE = 5e-4
"""The same for tables of drives above `LARGEST_DRIVE`, beside which float32 rounds to 3e-5."""
# Tolerance for a gradient, relative to its largest entry.
_GRADIENT_TOLERANCE = 1e-4
# A round that moves drives and fields by this or less changes what is of second order by less than the tolerance.
_SMALL_STEP = 1e-3
# Tolerances for compressing the tables, relative to the largest moment: _ALONE for a node by itself, _COUPLED for the
# correction by coupling at s_W = TYPICAL_COUPLING; and _SECOND for covariance, memory and dM/dh, relative to their own
# largest value.
_ALONE, _COUPLED, _SECOND = 1e-6, 1e-5, 1e-3
ERROR_OF_FIRST, ERROR_OF_SECOND = 4e-3, 1.5
"""The error estimate is ERROR_OF_FIRST times the first-order term plus ERROR_OF_SECOND * k times the second-order term,
added as squares (fitted in docs/accuracy.md; `solve_network` says what k is)."""
ERROR_OF_STRONG = 0.2
"""For drives above `LARGEST_DRIVE` this times what is not linear in the first-order term is added: see `_strong`."""
_DAMPING, _DAMPED_ROUNDS = 0.5, 1000
"""How much of every round is taken where whole rounds do not converge, and how many rounds."""


class NodeCurves(NamedTuple):
    """What the network reads of one node, at drives h >= 0 or with J3 at any: curves as combinations of shapes."""

    shapes: Shapes
    rounds: jax.Array
    """rows of combinations for a round of self-consistency: mean (r), shift (r), field (K), memory (R); then for each
    mode of the mean: rest (r), square (Q), by_field (K), by_memory (R)"""
    end: jax.Array
    """rows of combinations for the moments; for each order: M, dM/dh, rest (r), square (Q), by_field (K),
    by_memory (R)"""
    sizes: "Sizes"


@jax.tree_util.register_static
class Sizes(NamedTuple):
    """The orders of the moments, and how many modes and kernels there are."""

    orders: tuple[int, ...]
    r: int
    """time modes"""
    Q: int
    """products of two time modes"""
    K: int
    """field kernels"""
    R: int
    """reaction kernels"""
    wide: bool = False
    """whether the tables are of drives above `LARGEST_DRIVE`"""
    in_cpp: bool = False
    """whether curves are read in C++, which has no gradient"""

    @property
    def beyond(self) -> int:
        """How many fields act on a node beyond its effective drive."""
        return self.r + self.Q + self.K + self.R


def node_curves(
    tables: NodeTables,
    orders: tuple[int, ...],
    dtype: str = "float32",
    next_order: bool = True,
    in_cpp: bool = False,
) -> NodeCurves:
    """The tables as JAX arrays for moments of these orders. Without `next_order` only the mean field is left.

    `in_cpp` asks for curves that are read in C++ where that can be done: faster on a processor, without a gradient.
    """
    mean, r = tables.mean, tables.mean.shape[1]
    K, R = (tables.field.shape[1], tables.memory.shape[1]) if next_order else (0, 0)
    sizes = Sizes(orders, r, len(SQUARES), K, R, is_wide(tables.h_max))
    typical = TYPICAL_COUPLING * np.sqrt((mean**2).mean(axis=0))
    # Typical sizes of what rest, square, by_field and by_memory are multiplied by.
    fields = np.concatenate(
        [
            typical,
            [typical[a] * typical[b] for a, b in SQUARES],
            TYPICAL_COUPLING**2 * np.abs(tables.field[:, :K]).max(axis=0),
            TYPICAL_COUPLING**2 * np.abs(tables.memory[:, :R]).max(axis=0),
        ]
    )

    def column(beyond: list[Any], size: float) -> Column:
        rest, square, by_field, by_memory = beyond
        values = np.concatenate([rest, square, by_field[:, :K], by_memory[:, :R]], axis=1)
        return Column(values, _COUPLED * size / fields)

    size = np.abs(mean).max()
    rounds = [
        Column(mean, _ALONE * size),
        Column(tables.shift, _ALONE * size / typical),
        Column(tables.field[:, :K], _SECOND * np.abs(tables.field[:, :K]).max(axis=0)),
        Column(tables.memory[:, :R], _SECOND * np.abs(tables.memory[:, :R]).max(axis=0)),
    ]
    for a in range(r):
        of_mode = tables.mean_rest, tables.mean_square, tables.mean_by_field, tables.mean_by_memory
        rounds.append(column([table[:, a] for table in of_mode], size))
    end = []
    for p in orders:
        M, slope = tables.moments[:, [p - 1]], tables.slope[:, [p - 1]]
        size = np.abs(M).max()
        of_order = tables.rest, tables.square, tables.by_field, tables.by_memory
        end += [
            Column(M, _ALONE * size),
            Column(slope, _SECOND * np.abs(slope).max()),
            column([table[:, p - 1] for table in of_order], size),
        ]
    shapes, (of_rounds, of_end) = compress(tables.h, tables.scale.item(), [rounds, end], dtype)
    in_cpp = in_cpp and dtype == "float32" and can_call() and shapes.pieces.shape[2] <= MOST_SHAPES
    return NodeCurves(shapes, of_rounds, of_end, sizes._replace(in_cpp=in_cpp))


def is_wide(h_max: float) -> bool:
    """Whether tables up to this drive go beyond `LARGEST_DRIVE`, by more than rounding."""
    return h_max > 1.01 * LARGEST_DRIVE


def moments_of_drive(h: jax.Array, W: jax.Array, node: NodeCurves) -> jax.Array:
    """m_p for drives h (S, N) and coupling W (N, N): (S, len(orders), N); NaN for a sample that does not converge.

    A pure function, differentiable in h and W (implicitly, at the cost of about two more solutions).
    """
    return solve_network(h, W, node).moments


class Solution(NamedTuple):
    """The coupled nodes' moments, the effective drives they were read at, and their error."""

    moments: jax.Array
    """(S, len(orders), N)"""
    drive: jax.Array
    """h': (S, N)"""
    error: jax.Array
    """estimated mean square error over the nodes: (S, len(orders))"""


def solve_network(h: jax.Array, W: jax.Array, node: NodeCurves, damped: bool = False) -> Solution:
    """Solves for the effective drives (h (S, N), W (N, N)), then reads the moments and estimates their error.

    Each order of the expansion in W is smaller than the one before by a factor k, k_i^2 = sum_j (W_ij dM_1/dh_j)^2, by
    which a change of all drives comes back through the neighbours. So what is left out, the third order, is about k
    times the second-order term of the node itself. A node's neighbours have the same error in their means; it reaches
    the node as an error of its drive, smaller by another factor k, and moves m_p by dM_p/dh over dM_1/dh of that.
    The time modes leave out a few thousandths of the first order. Both factors are fitted in docs/accuracy.md.

    `damped` takes half of every round, for samples in which whole rounds do not converge; without a gradient.
    """
    state = _damped_state(h, W, node) if damped else _self_consistent_state(h, W, node)
    drive, parts = state[0], _read(state, node)
    moments, slopes, seconds = ([part[k] for part in parts] for k in range(3))
    k2 = _couple(W * W, slopes[0] ** 2).mean(axis=-1, keepdims=True)
    firsts = [slope * (drive - h) for slope in slopes]
    first, second, slope = ((jnp.stack(part, axis=1) ** 2).mean(axis=-1) for part in (firsts, seconds, slopes))
    passed_on = k2 * second[:, :1] * slope / slope[:, :1]
    error = ERROR_OF_FIRST**2 * first + ERROR_OF_SECOND**2 * k2 * (second + passed_on)
    if node.sizes.wide:
        error = error + ERROR_OF_STRONG**2 * (_strong(h, drive, node) ** 2).mean(axis=-1)
    return Solution(jnp.stack(moments, axis=1), drive, error)


class Trajectories(NamedTuple):
    """The mean trajectories of the coupled nodes, on the time modes of the tables."""

    drive: jax.Array
    """h': (S, N)"""
    mean: jax.Array
    """a_a, with <x(t)> = sum_a a_a phi_a(t): (r, S, N)"""


def solve_trajectories(h: jax.Array, W: jax.Array, node: NodeCurves) -> Trajectories:
    """The mean trajectories at drives h (S, N) and coupling W (N, N), self-consistent as in `solve_network`."""
    state = _self_consistent_state(h, W, node)
    drive = _split_state(state, node)[0]
    sign = _sign(drive, node)
    alone = curves(node.rounds[: node.sizes.r], node.shapes, sign * drive)
    return Trajectories(drive, sign * alone + _round(h, W, node, state)[1])


def _read(state: jax.Array, node: NodeCurves) -> list[tuple[jax.Array, jax.Array, jax.Array]]:
    """For each order: m_p, and at |h'| the slope dM_p/dh and m_p - M_p; (S, N) each."""
    drive, g, q_and_o = _split_state(state, node)
    sign = _sign(drive, node)
    fields = _fields(sign * g, q_and_o)
    found, n = [], len(node.sizes.orders)
    if _in_cpp(drive, node):
        matrix = node.end.reshape(n, -1, node.end.shape[1])
        alone, rest = (part.reshape(-1, matrix.shape[2]) for part in (matrix[:, :2], matrix[:, 2:]))
        by_fields = sums_in_cpp(rest, node.shapes, sign * drive, jnp.stack(fields))
        M_and_slope = sums_in_cpp(alone, node.shapes, sign * drive)
        return [
            (sign**p * (M_and_slope[2 * k] + by_fields[k]), M_and_slope[2 * k + 1], by_fields[k])
            for k, p in enumerate(node.sizes.orders)
        ]
    table = kept(curves(node.end, node.shapes, sign * drive))
    for p, part in zip(node.sizes.orders, _split(table, n * (len(table) // n,)), strict=True):
        M, slope, *tables = _rows(part)
        beyond = summed(tables, fields)
        found.append((sign**p * (M + beyond), slope, beyond))
    return found


def _strong(h: jax.Array, drive: jax.Array, node: NodeCurves) -> jax.Array:
    """M_p(h') - M_p(h) - (h' - h) dM_p/dh', what a field does to a node beyond the linear: (S, len(orders), N).

    A field that comes while the node moves is treated as a small change of a constant drive. Where the field is as
    strong as the drive it is not small, and the expansion in it need not converge. This is a scale for its error.
    """

    def alone(h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """M_p and dM_p/dh: (S, len(orders), N) each."""
        sign, n = _sign(h, node), len(node.sizes.orders)
        table = curves(node.end, node.shapes, sign * h)
        rows = [(p, k * (len(table) // n)) for k, p in enumerate(node.sizes.orders)]
        moments, slopes = [sign**p * table[k] for p, k in rows], [sign ** (p - 1) * table[k + 1] for p, k in rows]
        return jnp.stack(moments, axis=1), jnp.stack(slopes, axis=1)

    (before, _), (after, slope) = alone(h), alone(drive)
    return after - before - slope * (drive - h)[:, None]


def _couple(W: jax.Array, a: jax.Array) -> jax.Array:
    """sum_j W_ij a_j over the last axis of a."""
    return jnp.dot(a.reshape(-1, a.shape[-1]), W.T, precision=lax.Precision.HIGHEST).reshape(a.shape)


def _sign(h: jax.Array, node: NodeCurves) -> jax.Array:
    """1 or -1: a node at -h is the mirror image of a node at h. 1 at 0, so that |h| = sign * h has a slope there.

    1 throughout where the curves are for drives of both signs: with J3 there is no mirror image.
    """
    if node.shapes.below is not None:
        return jnp.ones_like(h)
    return jnp.where(h < 0, -1, 1).astype(h.dtype)


def _split_state(state: jax.Array, node: NodeCurves) -> tuple[jax.Array, jax.Array, jax.Array]:
    """h' (S, N), g (r, S, N), and q with o (K + R, S, N)."""
    drive, g, q_and_o = _split(state, (1, node.sizes.r, node.sizes.K + node.sizes.R))
    return drive[0], g, q_and_o


def _fields(g: jax.Array, q_and_o: jax.Array) -> list[jax.Array]:
    """What acts on a node beyond its effective drive: g_a, their products in the order of `SQUARES`, q_k, o_k."""
    each = _rows(g)
    return [*each, *(each[a] * each[b] for a, b in SQUARES), *_rows(q_and_o)]


def _in_cpp(drive: jax.Array, node: NodeCurves) -> bool:
    """Whether curves at these drives are read in C++."""
    return node.sizes.in_cpp and drive.size >= FEWEST_CELLS


def _leading_round(
    h: jax.Array, W: jax.Array, node: NodeCurves, drive: jax.Array, beyond: Any, q_and_o: jax.Array
) -> jax.Array:
    """A cheap round: the new state if the means are those of uncoupled nodes at `drive` plus `beyond` (r, S, N)."""
    r, sign = node.sizes.r, _sign(drive, node)
    read = sums_in_cpp if _in_cpp(drive, node) else curves
    mean, shift = _split(kept(read(node.rounds[: 2 * r], node.shapes, sign * drive)), (r, r))
    return _state(h, W, sign * mean + beyond, shift, q_and_o)


def _state(h: jax.Array, W: jax.Array, mean: jax.Array, shift: jax.Array, q_and_o: jax.Array) -> jax.Array:
    """The state from the means of all nodes (r, S, N), `shift` (r, S, N) and q with o."""
    g = kept(_couple(W, mean))
    return jnp.concatenate([(h + summed(_rows(shift), _rows(g)))[None], g, q_and_o])


def _round(h: jax.Array, W: jax.Array, node: NodeCurves, state: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A full round: the new state, and by how much the means differ from those of uncoupled nodes (r, S, N)."""
    r, K, R = node.sizes.r, node.sizes.K, node.sizes.R
    drive, g, _ = _split_state(state, node)
    sign = _sign(drive, node)
    in_cpp, alone = _in_cpp(drive, node), 2 * r + K + R
    if in_cpp:
        table = sums_in_cpp(node.rounds[:alone], node.shapes, sign * drive)
    else:
        table = kept(curves(node.rounds, node.shapes, sign * drive))
    mean, shift, field, memory, *tables = _split(table, (r, r, K, R, *([] if in_cpp else r * [node.sizes.beyond])))
    q_and_o = kept(jnp.concatenate([_couple(W * W, field), _couple(W * W.T, memory)]))
    fields = _fields(sign * g, q_and_o)
    if in_cpp:
        beyond = sign * sums_in_cpp(node.rounds[alone:], node.shapes, sign * drive, jnp.stack(fields))
    else:
        beyond = kept(jnp.stack([sign * summed(_rows(tables[a]), fields) for a in range(r)]))
    return _state(h, W, sign * mean + beyond, shift, q_and_o), beyond


def _split(table: jax.Array, lengths: tuple[int, ...]) -> list[jax.Array]:
    """Pieces of these lengths. The gradient of `lax.split` is one concatenation, that of slices many sums."""
    return list(lax.split(table, lengths))


def _rows(table: jax.Array) -> list[jax.Array]:
    return [row[0] for row in lax.split(table, (1,) * len(table))] if len(table) else []


@jax.custom_vjp
def _self_consistent_state(h: jax.Array, W: jax.Array, node: NodeCurves) -> jax.Array:
    """The state (h', g_1..g_r, q_1..q_K, o_1..o_R) that a round leaves as it is; NaN for samples without."""

    def steps(state: jax.Array) -> tuple[jax.Array, jax.Array]:
        # The second step keeps what is beyond the means of uncoupled nodes, for less than half the cost of the first.
        one, beyond = _round(h, W, node, state)
        drive, _, q_and_o = _split_state(one, node)
        return one, _leading_round(h, W, node, drive, beyond, q_and_o)

    tolerance = WIDE_TOLERANCE if node.sizes.wide else TOLERANCE
    return iterate(steps, _first_state(h, W, node), tolerance, _SMALL_STEP, 1 + node.sizes.r)


def _first_state(h: jax.Array, W: jax.Array, node: NodeCurves) -> jax.Array:
    """The state in which the means are those of uncoupled nodes."""
    none = jnp.zeros((node.sizes.K + node.sizes.R, *h.shape), h.dtype)
    return _leading_round(h, W, node, h, 0.0, none)


def _damped_state(h: jax.Array, W: jax.Array, node: NodeCurves) -> jax.Array:
    """The same state by half rounds, which converge where whole ones go back and forth."""

    def step(state: jax.Array) -> jax.Array:
        return state + _DAMPING * (_round(h, W, node, state)[0] - state)

    def steps(state: jax.Array) -> tuple[jax.Array, jax.Array]:
        one = step(state)
        return one, step(one)

    none = 0.0  # no step counts as small: half rounds shrink slowly, so that the next one says little
    return iterate(steps, _first_state(h, W, node), WIDE_TOLERANCE, none, 1 + node.sizes.r, _DAMPED_ROUNDS)


def _forward(h: jax.Array, W: jax.Array, node: NodeCurves) -> tuple[jax.Array, Any]:
    state = _self_consistent_state(h, W, node)
    return state, (h, W, node, state)


def _backward(residuals: Any, cotangent: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    """From state = round(state; h, W): lambda = cotangent + J^T lambda, J = d round / d state, then through h and W."""
    h, W, node, state = residuals
    node = node._replace(sizes=node.sizes._replace(in_cpp=False))
    _, back = jax.vjp(lambda h, W, state: _round(h, W, node, state)[0], h, W, state)
    size = jnp.maximum(jnp.abs(cotangent).max(), 1e-30)

    def steps(v: jax.Array) -> tuple[jax.Array, jax.Array]:
        one = cotangent / size + back(v)[2]
        return one, cotangent / size + back(one)[2]

    adjoint = iterate(steps, cotangent / size, _GRADIENT_TOLERANCE) * size
    return *back(adjoint)[:2], None


_self_consistent_state.defvjp(_forward, _backward)
