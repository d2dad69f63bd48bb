"""Moments of coupled nodes and the shot noise of M replicas as training computes them: cheap and differentiable.

For every node, with the tables of a single node (docs/theory.md) and the mean field of the others,

    h'  = h + sum_a shift_a(h) sum_j W_ij mean_a(h_j)           a: time modes; a second round starts from h'
    phi = M_p(h') + L_pq(h') xi_q / sqrt(M)                     xi: standard normals
    L L^T = M_{p+q} - M_p M_q                                   the covariance of x^p and x^q

Two approximations beyond the `meanfield` engine make this cheap: two rounds replace the search for self-consistency,
and a field only shifts the drive. On the paper's reservoirs they move the moments by 2e-4 rms, where 128 replicas
scatter by 1e-2 (docs/training.md). Accuracy is always measured by sampling the full dynamics.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from thermoment._engines.meanfield.curves import PER_UNIT, kept, spline
from thermoment._engines.meanfield.tables import TOP, NodeTables, node_tables
from thermoment._support.checks import invalid
from thermoment.learning.options import FiniteTime
from thermoment.physics import LARGEST_DRIVE, Dynamics

Array = NDArray[np.float64]

MODES = (1, 3)
"""Number of time modes of the mean field in each round. One is enough in the first, which only has to come near."""


class Curves(NamedTuple):
    """Functions of |h|, each as cubic pieces in u = asinh(|h| / scale)."""

    scale: jax.Array
    pieces: jax.Array
    """(curves, 4, U): all values of one coefficient lie side by side. XLA on the CPU reads this five times as fast as
    the four coefficients of a piece side by side."""


class TrainingCurves(NamedTuple):
    """What training looks up of a single node."""

    rounds: Curves
    """for every time mode its mean, then for every time mode its shift"""
    end: Curves
    """for every order p: M_p, then the elements of row p of L"""
    powers: jax.Array
    """the orders, (P,)"""

    @property
    def n_orders(self) -> int:
        return int(self.powers.shape[0])


def training_curves(
    dynamics: Dynamics, t_final: float, orders: tuple[int, ...], dtype: str = "float32", t_rest: float = 0.0
) -> TrainingCurves:
    """The curves for moments of these orders at t_final, after a rest. The tables behind them are kept on disk."""
    check_trainable(orders, dynamics)
    table = node_tables(dynamics, t_final, LARGEST_DRIVE, t_rest)
    L = noise_factor(table, orders)
    modes = max(MODES)
    rounds = np.concatenate([table.mean[:, :modes], table.shift[:, :modes]], axis=1)
    end = [column for k, p in enumerate(orders) for column in (table.moments[:, p - 1], *L[:, k, : k + 1].T)]
    return TrainingCurves(_curves(table, rounds, dtype), _curves(table, np.stack(end, 1), dtype), jnp.asarray(orders))


def check_trainable(orders: tuple[int, ...], dynamics: Dynamics) -> None:
    """Refuses orders whose noise the tables do not know, wells that differ, and wells that are not even in x."""
    if dynamics.n_nodes is not None:
        raise invalid("dynamics", "be the same for all nodes to train through the finite-time moments", dynamics)
    if np.any(dynamics.J3):
        raise invalid("J3", "be zero to train through the finite-time moments", dynamics.J3)
    if 2 * max(orders) > TOP:
        raise invalid("orders", f"be at most {TOP // 2} to train through their noise", orders)


def check_work(options: FiniteTime, n_replicas: float, orders: tuple[int, ...]) -> None:
    """Refuses a penalty on work where the work is infinite, or where its mean is not among the features."""
    if options.work_penalty is not None and not math.isfinite(n_replicas):
        raise invalid("n_replicas", "be finite to be trained with work_penalty: every replica costs work", n_replicas)
    if options.work_penalty is not None and orders[0] != 1:
        raise invalid("orders", "contain 1 to be trained with work_penalty", orders)


def noise_factor(table: NodeTables, orders: tuple[int, ...]) -> Array:
    """L (H, P, P), lower triangular, for each of the H drives of the tables: L L^T is the covariance of x^p and x^q.

    At low temperature x hardly varies, so its powers are nearly proportional and the covariance nearly singular. Where
    the tables' error makes an eigenvalue of the correlation negative, twice its size is added to every variance: 1e-7
    of the variance for the coldest nodes.
    """
    M = table.moments
    covariance = np.array([[M[:, p + q - 1] - M[:, p - 1] * M[:, q - 1] for q in orders] for p in orders])
    covariance = np.moveaxis(covariance, 2, 0)
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    lowest = float(np.linalg.eigvalsh(correlation)[:, 0].min())
    lifted = correlation + max(0.0, -2 * lowest) * np.eye(len(orders))
    return np.asarray(deviation[:, :, None] * np.linalg.cholesky(lifted))


class NoisyMoments(NamedTuple):
    """Moments with their shot noise, and the largest effective drive behind them."""

    moments: list[jax.Array]
    """for every order (S, N)"""
    mean: jax.Array | None
    """<x> without noise, (S, N); None where order 1 is not among the moments"""
    strongest: jax.Array
    """max |h'|, a scalar"""


def noisy_moments(
    h: jax.Array, W: Sequence[jax.Array], node: TrainingCurves, xi: jax.Array | None, scatter: float | jax.Array
) -> NoisyMoments:
    """Moments of nodes driven by h (S, N), with the shot noise of M replicas.

    The N nodes are those of one reservoir after the other, and W lists the coupling within each. xi (P, S, N) are
    standard normals, None for no noise; scatter is 1 / sqrt(M). A pure function, differentiable in h and W.
    Cost: about 28 us for an image and 256 nodes on 2 cores, derivatives included.
    """
    drive = effective_drive(h, W, node)
    sign = _sign(drive)
    curves = iter(kept(look_up(node.end, sign * drive)))
    found, mean = [], None
    for k in range(node.n_orders):
        moment, *factor = [next(curves) for _ in range(k + 2)]
        if k == 0:
            mean = sign * moment
        if xi is not None:
            moment = moment + scatter * sum(L * xi[q] for q, L in enumerate(factor))
        # An odd power of a node at -h is the mirror image of that at h, and so is its noise.
        found.append(jnp.where(node.powers[k] % 2 == 1, sign, 1) * moment)
    return NoisyMoments(kept(found), mean, jnp.abs(drive).max())


def effective_drive(h: jax.Array, W: Sequence[jax.Array], node: TrainingCurves) -> jax.Array:
    """h' (S, N), after one round for every entry of `MODES`."""
    drive = h
    ends = list(accumulate(len(one) for one in W))[:-1]
    for modes in MODES:
        sign = _sign(drive)
        curves = kept(look_up(node.rounds, sign * drive))
        mean, shift = curves[: max(MODES)], curves[max(MODES) :]
        stacked = jnp.concatenate([sign * curve for curve in mean[:modes]])
        within = zip(jnp.split(stacked, ends, axis=1), W, strict=True)
        fields = [jnp.dot(part, one.T, precision=lax.Precision.HIGHEST) for part, one in within]
        field = kept(jnp.concatenate(fields, axis=1)).reshape(modes, *h.shape)
        drive = kept(h + sum(shift[a] * field[a] for a in range(modes)))
    return drive


@jax.custom_vjp
def look_up(curves: Curves, h: jax.Array) -> list[jax.Array]:
    """Every curve at drives h >= 0: a list of arrays of the shape of h. Differentiable in h.

    Beyond the tables the last piece is continued.
    """
    cell, f, _ = kept(_place(curves, h))
    return [
        ((_read(c[0], cell) * f + _read(c[1], cell)) * f + _read(c[2], cell)) * f + _read(c[3], cell)
        for c in curves.pieces
    ]


def _forward(curves: Curves, h: jax.Array) -> tuple[list[jax.Array], Any]:
    return look_up(curves, h), (curves, h)


def _backward(arguments: Any, cotangents: list[jax.Array]) -> tuple[None, jax.Array]:
    """The slopes of all curves summed in one loop: the transpose by JAX stores each, which takes twice as long."""
    curves, h = arguments
    cell, f, root = kept(_place(curves, h))
    slope = sum(
        ((3 * _read(c[0], cell) * f + 2 * _read(c[1], cell)) * f + _read(c[2], cell)) * cotangent
        for c, cotangent in zip(curves.pieces, kept(cotangents), strict=True)
    )
    return None, slope * (PER_UNIT / (curves.scale * root))


look_up.defvjp(_forward, _backward)


def _place(curves: Curves, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Which piece h lies in, where in it from 0 to 1, and root, with d asinh(a)/da = 1/root at a = h / scale."""
    a = h / curves.scale
    root = jnp.sqrt(a * a + 1)
    u = jnp.log(a + root) * PER_UNIT
    cell = jnp.clip(u.astype(jnp.int32), 0, curves.pieces.shape[-1] - 1)
    return cell, u - cell.astype(u.dtype), root


def _read(row: jax.Array, cell: jax.Array) -> jax.Array:
    return row.at[cell].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _sign(h: jax.Array) -> jax.Array:
    return jnp.where(h < 0, -1, 1).astype(h.dtype)


def _curves(table: NodeTables, columns: Array, dtype: str) -> Curves:
    shapes = spline(table.h, table.scale.item(), columns, dtype)
    return Curves(shapes.scale, jnp.asarray(np.ascontiguousarray(np.asarray(shapes.pieces).transpose(2, 1, 0))))
