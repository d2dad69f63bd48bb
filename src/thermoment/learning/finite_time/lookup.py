"""The machine as training sees it: moments of coupled nodes and the shot noise of M replicas, cheap and differentiable.

For every node, with the tables of one node (docs/theory.md) and the mean field alone,

    h'  = h + sum_a shift_a(h) sum_j W_ij mean_a(h_j)           a: time modes; in rounds, the next one from h'
    phi = M_p(h') + L_pq(h') xi_q / sqrt(M)                     xi: standard normals
    L L^T = M_{p+q} - M_p M_q                                   the covariance of x^p and x^q

A fixed number of rounds replaces the search for self-consistency, and what a field does beyond shifting the drive is
left out. On the paper's machine this moves the moments by 2e-4 rms, where 128 replicas scatter by 1e-2
(docs/training.md). Accuracy is always measured by sampling the full dynamics.
"""

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
from thermoment.physics import LARGEST_DRIVE, Dynamics

Array = NDArray[np.float64]

MODES = (1, 3)
"""Time modes of the mean field in each round: the first only has to be near."""


class Curves(NamedTuple):
    """Functions of |h|, each as cubic pieces in u = asinh(|h| / scale)."""

    scale: jax.Array
    pieces: jax.Array
    """(curves, 4, U): one contiguous row for every coefficient, which XLA on the CPU reads five times as fast as the
    coefficients of a piece together."""


class Machine(NamedTuple):
    """What training reads of one node."""

    rounds: Curves
    """mean and shift of every mode"""
    end: Curves
    """for every order: M_p, then the row of L"""
    powers: jax.Array
    """the orders"""

    @property
    def n_orders(self) -> int:
        return int(self.powers.shape[0])


def machine(dynamics: Dynamics, t_final: float, orders: tuple[int, ...], dtype: str = "float32") -> Machine:
    """The machine for moments of these orders; its tables are built once and kept on disk."""
    if 2 * max(orders) > TOP:
        raise invalid("orders", f"be at most {TOP // 2} to train through their noise", orders)
    table = node_tables(dynamics, t_final, LARGEST_DRIVE)
    L = noise_factor(table, orders)
    modes = max(MODES)
    rounds = np.concatenate([table.mean[:, :modes], table.shift[:, :modes]], axis=1)
    end = [column for k, p in enumerate(orders) for column in (table.moments[:, p - 1], *L[:, k, : k + 1].T)]
    return Machine(_curves(table, rounds, dtype), _curves(table, np.stack(end, 1), dtype), jnp.asarray(orders))


def noise_factor(table: NodeTables, orders: tuple[int, ...]) -> Array:
    """L (H, P, P), lower triangular, with L L^T the covariance of x^p and x^q over the drives of the tables.

    Powers of a narrow x are all but proportional to each other. Where the error of the tables leaves a direction of
    negative variance, every variance is lifted by twice as much: 1e-7 of itself for the coldest nodes.
    """
    M = table.moments
    covariance = np.array([[M[:, p + q - 1] - M[:, p - 1] * M[:, q - 1] for q in orders] for p in orders])
    covariance = np.moveaxis(covariance, 2, 0)
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    correlation = covariance / deviation[:, :, None] / deviation[:, None, :]
    lowest = float(np.linalg.eigvalsh(correlation)[:, 0].min())
    lifted = correlation + max(0.0, -2 * lowest) * np.eye(len(orders))
    return np.asarray(deviation[:, :, None] * np.linalg.cholesky(lifted))


class Seen(NamedTuple):
    """Features of a batch, and the largest effective drive behind them."""

    features: list[jax.Array]
    """for every order (S, N)"""
    strongest: jax.Array


def features(h: jax.Array, W: Sequence[jax.Array], machine: Machine, xi: jax.Array | None, n_replicas: float) -> Seen:
    """What nodes driven by h (S, N) show: their moments, with the shot noise of standard normals xi (P, S, N).

    The nodes are those of one reservoir after the other, and W has the coupling within each. A pure function,
    differentiable in h and W. Cost: about 28 us an image of 256 nodes on 2 cores, slopes included.
    """
    drive = effective_drive(h, W, machine)
    sign = _sign(drive)
    curves = iter(kept(look_up(machine.end, sign * drive)))
    found = []
    for k in range(machine.n_orders):
        moment, *factor = [next(curves) for _ in range(k + 2)]
        if xi is not None:
            moment = moment + sum(L * xi[q] for q, L in enumerate(factor)) / jnp.sqrt(n_replicas).astype(h.dtype)
        # An odd power of a node at -h is the mirror image of that at h, and so is its noise.
        found.append(jnp.where(machine.powers[k] % 2 == 1, sign, 1) * moment)
    return Seen(kept(found), jnp.abs(drive).max())


def effective_drive(h: jax.Array, W: Sequence[jax.Array], machine: Machine) -> jax.Array:
    """h', (S, N), after the rounds of `MODES`."""
    drive = h
    ends = list(accumulate(len(one) for one in W))[:-1]
    for modes in MODES:
        sign = _sign(drive)
        curves = kept(look_up(machine.rounds, sign * drive))
        mean, shift = curves[: max(MODES)], curves[max(MODES) :]
        stacked = jnp.concatenate([sign * curve for curve in mean[:modes]])
        within = zip(jnp.split(stacked, ends, axis=1), W, strict=True)
        fields = [jnp.dot(part, one.T, precision=lax.Precision.HIGHEST) for part, one in within]
        field = kept(jnp.concatenate(fields, axis=1)).reshape(modes, *h.shape)
        drive = kept(h + sum(shift[a] * field[a] for a in range(modes)))
    return drive


@jax.custom_vjp
def look_up(curves: Curves, h: jax.Array) -> list[jax.Array]:
    """Every curve at drives h >= 0, differentiable in h: a list of arrays like h. Beyond the tables it goes on."""
    cell, f, _ = kept(_place(curves, h))
    return [
        ((_read(c[0], cell) * f + _read(c[1], cell)) * f + _read(c[2], cell)) * f + _read(c[3], cell)
        for c in curves.pieces
    ]


def _forward(curves: Curves, h: jax.Array) -> tuple[list[jax.Array], Any]:
    return look_up(curves, h), (curves, h)


def _backward(seen: Any, cotangents: list[jax.Array]) -> tuple[None, jax.Array]:
    """All slopes summed in one loop: XLA's own transpose keeps them as arrays, and takes twice as long."""
    curves, h = seen
    cell, f, root = kept(_place(curves, h))
    slope = sum(
        ((3 * _read(c[0], cell) * f + 2 * _read(c[1], cell)) * f + _read(c[2], cell)) * cotangent
        for c, cotangent in zip(curves.pieces, kept(cotangents), strict=True)
    )
    return None, slope * (PER_UNIT / (curves.scale * root))


look_up.defvjp(_forward, _backward)


def _place(curves: Curves, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The piece that h lies in, where in it, and d asinh(a)/da = 1/root."""
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
