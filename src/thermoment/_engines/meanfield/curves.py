"""Functions of the drive in JAX: many tabulated curves as combinations of a few shapes, each a cubic spline.

The tables of a node are smooth functions of the drive and resemble each other: a hundred curves are combinations of a
dozen shapes to rounding. So a look-up reads the shapes, and one matrix product gives the curves.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # whose parts load when they are first used
from jax import lax
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.xla_calls import KERNEL

Array = NDArray[np.float64]

PER_UNIT = 32
"""Cubic pieces per unit of u = asinh(h / scale). It is a constant because XLA on the CPU hoists a constant out of the
loop over shapes; with a variable a look-up takes five times as long."""


def kept(value: Any) -> Any:
    """`value`, computed once and kept in memory: XLA would otherwise compute it again for every use."""
    return lax.optimization_barrier(value)  # type: ignore[no-untyped-call]


class Column(NamedTuple):
    """Tabulated curves and the error that compression may make in them."""

    values: Array
    """(H, n)"""
    allowed: ArrayLike
    """largest error: (n,), or one number for all n curves"""


class Shapes(NamedTuple):
    """B functions of the drive as cubic splines in u = asinh(h / scale), for h >= 0 or for any h."""

    scale: jax.Array
    """()"""
    pieces: jax.Array
    """coefficients of U cubics, highest power first: (U, 4, B)"""
    below: jax.Array | None = None
    """how many of the pieces lie below h = 0; None where h >= 0"""

    def cell(self, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The piece that h lies in, and how far along it h is, from 0 to 1; more than 1 beyond the last piece."""
        a = h / self.scale
        if self.below is None:
            u = jnp.log(a + jnp.sqrt(a * a + 1)) * PER_UNIT
        else:
            u = jnp.arcsinh(a) * PER_UNIT + self.below
        cell = jnp.clip(u.astype(jnp.int32), 0, len(self.pieces) - 1)
        return cell, u - cell.astype(u.dtype)

    def coefficients(self, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Coefficients of the cubics at drives h (S, N), (4, S, N, B), and how far along the piece: (S, N, 1)."""
        cell, f = kept(self.cell(h))
        c = self.pieces.at[cell].get(mode="promise_in_bounds", wrap_negative_indices=False)
        return jnp.moveaxis(c, -2, 0), f[..., None]


MOST_SHAPES, FEWEST_CELLS = 32, 16
"""How many shapes `sums_in_cpp` can have at most, and how many drives at least."""


def sums_in_cpp(matrix: jax.Array, shapes: Shapes, h: jax.Array, fields: jax.Array | None = None) -> jax.Array:
    """`curves`, or with `fields` (K, S, N) the sums of field k times curve a K + k, for every a: (E / K, S, N).

    In float32 on a processor (kernels/cpu/README.md), without a gradient. The curves that are summed are not stored.
    """
    fields = jnp.zeros((0, *h.shape), h.dtype) if fields is None else fields
    n_rows = len(matrix) // max(1, len(fields))
    result = jax.ShapeDtypeStruct((n_rows, *h.shape), jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call("thermoment_curve_sums", result)
    return jnp.asarray(call(*shapes.cell(h), shapes.pieces, matrix, fields, kernel=np.int32(KERNEL)))


@jax.custom_vjp
def curves(matrix: jax.Array, shapes: Shapes, h: jax.Array) -> jax.Array:
    """E curves at drives h (S, N): the combinations `matrix` (E, B) of the shapes. (E, S, N); differentiable in h."""
    (c3, c2, c1, c0), f = shapes.coefficients(h)
    return _combined(matrix, ((c3 * f + c2) * f + c1) * f + c0)


def _combined(matrix: jax.Array, values: jax.Array) -> jax.Array:
    """matrix (E, B) times values (S, N, B): (E, S, N)."""
    flat = kept(values.reshape(-1, values.shape[-1]))
    return jnp.dot(matrix, flat.T, precision=lax.Precision.HIGHEST).reshape(-1, *values.shape[:2])


def _with_slopes(matrix: jax.Array, shapes: Shapes, h: jax.Array) -> tuple[jax.Array, Any]:
    """The curves and their slopes: with the slopes at hand, the backward pass is a sum over curves, without shapes."""
    (c3, c2, c1, _), f = shapes.coefficients(h)
    slopes = _combined(matrix, (3 * c3 * f + 2 * c2) * f + c1)
    return curves(matrix, shapes, h), kept(slopes * (PER_UNIT / jnp.sqrt(h * h + shapes.scale**2)))


def _back(slopes: jax.Array, cotangent: jax.Array) -> tuple[None, None, jax.Array]:
    return None, None, summed(list(slopes), list(cotangent))


curves.defvjp(_with_slopes, _back)


def summed(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
    """sum_k left_k right_k, written out: XLA on the CPU does not vectorise a reduction over a short axis."""
    total: jax.Array = left[0] * right[0]
    for one, other in zip(left[1:], right[1:], strict=True):
        total = total + one * other
    return total


def compress(h: Array, scale: float, groups: list[list[Column]], dtype: str) -> tuple[Shapes, list[jax.Array]]:
    """The fewest shapes that span all columns to the error allowed, and for each group the matrix of its curves.

    h: the drives of the columns' rows, (H,). A group's matrix has the shape (curves in the group, B).
    """
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
    """Cubic splines through the columns of values (H, B), at drives h (H,) that increase, from 0 or from below 0."""
    u = np.arcsinh(h / scale)
    through = scipy.interpolate.make_interp_spline(u, values, k=7)
    points = np.arange(math.floor(u[0] * PER_UNIT), math.ceil(u[-1] * PER_UNIT) + 1)
    pieces = np.moveaxis(scipy.interpolate.CubicSpline(points, through(points / PER_UNIT)).c, 0, 1).astype(dtype)
    below = jnp.asarray(np.dtype(dtype).type(-points[0])) if points[0] < 0 else None
    return Shapes(jnp.asarray(np.dtype(dtype).type(scale)), jnp.asarray(pieces), below)
