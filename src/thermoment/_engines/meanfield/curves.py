"""Functions of the drive in JAX: many tabulated curves as combinations of a few, each a cubic spline.

Over the drive the tables of a node are smooth and alike: a hundred of them are combinations of a dozen shapes to
rounding. So a look-up reads the shapes, and one matrix product gives the curves.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline, make_interp_spline

Array = NDArray[np.float64]

PER_UNIT = 32
"""Cubic pieces in a unit of u. A constant: XLA on the CPU hoists it out of the loop over shapes, a variable it does
not, which makes a look-up five times slower."""


def kept(value: Any) -> Any:
    """`value`, in memory: XLA would otherwise compute it again for every use."""
    return lax.optimization_barrier(value)  # type: ignore[no-untyped-call]


class Column(NamedTuple):
    """Tabulated curves (H, n) and the error of each that does not matter, (n,) or one for all."""

    values: Array
    allowed: ArrayLike


class Shapes(NamedTuple):
    """Cubic pieces in u = asinh(h / scale), h >= 0."""

    scale: jax.Array
    pieces: jax.Array
    """(U, 4, B)"""

    def cell(self, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The piece that h lies in, and where in it, from 0 to 1. Beyond the last it goes on."""
        a = h / self.scale
        u = jnp.log(a + jnp.sqrt(a * a + 1)) * PER_UNIT
        cell = jnp.clip(u.astype(jnp.int32), 0, len(self.pieces) - 1)
        return cell, u - cell.astype(u.dtype)

    def coefficients(self, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The cubics of the shapes at drives h (S, N), highest power first: (4, S, N, B); where in them: (S, N, 1)."""
        cell, f = kept(self.cell(h))
        c = self.pieces.at[cell].get(mode="promise_in_bounds", wrap_negative_indices=False)
        return jnp.moveaxis(c, -2, 0), f[..., None]


@jax.custom_vjp
def curves(matrix: jax.Array, shapes: Shapes, h: jax.Array) -> jax.Array:
    """Combinations, matrix (E, B), of the shapes at drives h (S, N): (E, S, N). Differentiable in h alone."""
    (c3, c2, c1, c0), f = shapes.coefficients(h)
    return _combined(matrix, ((c3 * f + c2) * f + c1) * f + c0)


def _combined(matrix: jax.Array, values: jax.Array) -> jax.Array:
    flat = kept(values.reshape(-1, values.shape[-1]))
    return jnp.dot(matrix, flat.T, precision=lax.Precision.HIGHEST).reshape(-1, *values.shape[:2])


def _with_slopes(matrix: jax.Array, shapes: Shapes, h: jax.Array) -> tuple[jax.Array, Any]:
    """The slopes of all curves are found here, so that the way back is a sum over curves, not a sum over shapes."""
    (c3, c2, c1, _), f = shapes.coefficients(h)
    slopes = _combined(matrix, (3 * c3 * f + 2 * c2) * f + c1)
    return curves(matrix, shapes, h), kept(slopes * (PER_UNIT / jnp.sqrt(h * h + shapes.scale**2)))


def _back(slopes: jax.Array, cotangent: jax.Array) -> tuple[None, None, jax.Array]:
    return None, None, summed(list(slopes), list(cotangent))


curves.defvjp(_with_slopes, _back)


def summed(table: list[jax.Array], fields: list[jax.Array]) -> jax.Array:
    """sum_k table_k fields_k, written out: XLA on the CPU vectorises this, and not a reduction over a short axis."""
    total: jax.Array = table[0] * fields[0]
    for curve, field in zip(table[1:], fields[1:], strict=True):
        total = total + curve * field
    return total


def compress(h: Array, scale: float, groups: list[list[Column]], dtype: str) -> tuple[Shapes, list[jax.Array]]:
    """The shapes that span all columns, each to the error allowed, and the matrix of each group's combinations."""
    columns = [column for group in groups for column in group]
    allowed = np.concatenate([np.broadcast_to(c.allowed, c.values.shape[1:]) for c in columns])
    values = np.concatenate([c.values for c in columns], axis=1)
    left, s, right = np.linalg.svd(values / allowed, full_matrices=False)
    rank = max(1, int((s > 1.0).sum()))
    matrix = (right[:rank] * allowed).T * s[:rank]
    splits = np.cumsum([sum(c.values.shape[1] for c in group) for group in groups])[:-1]
    matrices = [jnp.asarray(part.astype(dtype)) for part in np.split(matrix, splits)]
    return spline(h, scale, left[:, :rank], dtype), matrices


def spline(h: Array, scale: float, values: Array, dtype: str) -> Shapes:
    """Columns of values (H, B) at increasing drives h from 0."""
    u = np.arcsinh(h / scale)
    through = make_interp_spline(u, values, k=7)
    points = np.arange(math.ceil(u[-1] * PER_UNIT) + 1)
    pieces = CubicSpline(points, through(points / PER_UNIT)).c
    return Shapes(jnp.asarray(np.dtype(dtype).type(scale)), jnp.asarray(np.moveaxis(pieces, 0, 1).astype(dtype)))
