"""Functions of the drive in JAX: many tabulated curves as combinations of a few, each a cubic spline.

Over the drive the tables of a node are smooth and alike: a hundred of them are combinations of a dozen shapes to
rounding. So a look-up reads the shapes, and one matrix product gives the curves.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

Array = NDArray[np.float64]


def kept(value: Any) -> Any:
    """`value`, in memory: XLA on the CPU would otherwise compute it again for every use."""
    return lax.optimization_barrier(value)  # type: ignore[no-untyped-call]


class Column(NamedTuple):
    """Tabulated curves (H, n), 1 where they are odd in h or 0 where even, and what relative error of them matters."""

    values: Array
    odd: int
    tolerance: float = 1e-6


class Shapes(NamedTuple):
    """Cubic pieces in u = asinh(|h| / scale), evenly spaced."""

    scale: jax.Array
    spacing: jax.Array
    pieces: jax.Array
    """(H - 1, 4, B)"""

    def cell(self, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The interval that |h| lies in, and where in it, from 0 to 1. Beyond the last it goes on."""
        u = jnp.arcsinh(jnp.abs(h) / self.scale) / self.spacing
        cell = jnp.clip(u.astype(jnp.int32), 0, len(self.pieces) - 1)
        return cell, u - cell.astype(u.dtype)

    def __call__(self, h: jax.Array) -> jax.Array:
        """The shapes at drives h (S, N): (S, N, B)."""
        cell, f = kept(self.cell(h))
        f = f[..., None]
        c = kept(self.pieces[cell])
        value: jax.Array = ((c[..., 0, :] * f + c[..., 1, :]) * f + c[..., 2, :]) * f + c[..., 3, :]
        return value


class Curves(NamedTuple):
    """Combinations of shapes."""

    matrix: jax.Array
    """(E, B)"""
    odd: jax.Array
    """(E,)"""

    def __call__(self, shapes: jax.Array, h: jax.Array) -> jax.Array:
        """The curves at drives h (S, N) whose shapes are known: (E, S, N)."""
        flat = kept(shapes.reshape(-1, shapes.shape[-1]))
        value = jnp.dot(self.matrix, flat.T, precision=lax.Precision.HIGHEST).reshape(-1, *h.shape)
        return jnp.where(self.odd[:, None, None] & (h < 0), -value, value)


def compress(h: Array, scale: float, groups: list[list[Column]], dtype: str) -> tuple[Shapes, list[Curves]]:
    """The shapes that span all columns, each to its tolerance, and every group's combinations of them."""
    columns = [column for group in groups for column in group]
    size = np.concatenate([np.abs(c.values).max(axis=0) * c.tolerance for c in columns])
    size = np.where(size > 0, size, 1.0)
    left, s, right = np.linalg.svd(np.concatenate([c.values for c in columns], axis=1) / size, full_matrices=False)
    rank = max(1, int((s > 1.0).sum()))
    matrix = (right[:rank] * size).T * s[:rank]
    splits = np.cumsum([sum(c.values.shape[1] for c in group) for group in groups])[:-1]
    odd = np.concatenate([np.full(c.values.shape[1], c.odd == 1) for c in columns])
    curves = [
        Curves(jnp.asarray(m.astype(dtype)), jnp.asarray(o))
        for m, o in zip(np.split(matrix, splits), np.split(odd, splits), strict=True)
    ]
    return spline(h, scale, left[:, :rank], dtype), curves


def spline(h: Array, scale: float, values: Array, dtype: str) -> Shapes:
    """Columns of values (H, B) at drives h that are even in asinh(h / scale), from 0."""
    kind: Any = np.dtype(dtype).type
    spacing = np.arcsinh(h[-1] / scale) / (len(h) - 1)
    pieces = CubicSpline(np.arange(len(h)), values).c
    return Shapes(
        jnp.asarray(kind(scale)), jnp.asarray(kind(spacing)), jnp.asarray(np.moveaxis(pieces, 0, 1).astype(dtype))
    )
