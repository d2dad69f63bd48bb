"""Random distortion of images, so that no training step sees the same image twice: affine maps and elastic fields.

The pixel at r of the distorted image, measured from the centre, has the colour of the original image at

    A r + s + u(r)          A = rotation, shear and scale;  s = shift;  u = elastic field

interpolated bilinearly; outside the original image all is zero. u is a Gaussian random field of correlation
exp(-d^2 / (4 smoothness^2)): white noise smoothed by a Gaussian of width `smoothness`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from thermoment.learning.options import Distortion

_LEFT_OUT = 1e-4
"""Part of the elastic field's variance that may be left out."""


class Strengths(NamedTuple):
    """The strengths of a `Distortion`: numbers, or traced scalars in a compiled program."""

    rotation: Any
    scale: Any
    shear: Any
    shift: Any
    elastic: Any


def strengths(distortion: Distortion) -> Strengths:
    """The strengths in float32."""
    return Strengths(*(np.float32(getattr(distortion, name)) for name in Strengths._fields))


def distort(
    key: jax.Array, images: jax.Array, shape: tuple[int, int], strengths: Strengths, smoothness: float | None
) -> jax.Array:
    """Images (S, H * W) of shape (H, W), each distorted in its own way: (S, H * W). `key` decides all random draws.

    `smoothness` is that of the elastic field, in pixels; None leaves the field out.
    """
    for_map, for_field = jax.random.split(key)
    draws = jax.random.uniform(for_map, (6, len(images)), images.dtype, -1.0, 1.0)
    angle, shear = strengths.rotation * draws[0], strengths.shear * draws[1]
    scale_y, scale_x = 1 + strengths.scale * draws[2], 1 + strengths.scale * draws[3]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    matrix = jnp.stack(
        [
            jnp.stack([scale_y * cos, -scale_y * sin], -1),
            jnp.stack([scale_x * (sin + shear * cos), scale_x * (cos - shear * sin)], -1),
        ],
        axis=1,
    )
    field = None
    if smoothness is not None:
        field = strengths.elastic * elastic_field(for_field, len(images), shape, smoothness, images.dtype)
    return warp(images, shape, matrix, strengths.shift * draws[4:].T, field)


def elastic_field(key: jax.Array, count: int, shape: tuple[int, int], smoothness: float, dtype: jnp.dtype) -> jax.Array:
    """Smooth Gaussian fields of unit variance: (count, 2, H, W), with independent components y and x.

    The correlation is a product of one along y and one along x. The field is a combination of a few leading
    eigenvectors of each, so that a field takes some tens of normals instead of one for every pixel.
    """
    along_y, along_x = (jnp.asarray(_factor(length, smoothness), dtype) for length in shape)
    normals = jax.random.normal(key, (count, 2, along_y.shape[1], along_x.shape[1]), dtype)
    return jnp.einsum("ya,ncab,xb->ncyx", along_y, normals, along_x, precision="highest")


def warp(
    images: jax.Array,
    shape: tuple[int, int],
    matrix: jax.Array,
    shift: jax.Array,
    field: jax.Array | None = None,
) -> jax.Array:
    """Images (S, H * W) read at matrix r + shift + field: matrix (S, 2, 2), shift (S, 2), field (S, 2, H, W).

    Axis 0 of a vector is y, down the rows.
    """
    height, width = shape
    centre = np.array([(height - 1) / 2, (width - 1) / 2])
    r = jnp.asarray(np.indices(shape).reshape(2, -1) - centre[:, None], images.dtype)
    place = jnp.einsum("nij,jp->nip", matrix, r, precision="highest") + shift[:, :, None]
    if field is not None:
        place = place + field.reshape(len(field), 2, -1)
    # A frame of zeros around the image, where everything outside ends up.
    y, x = (jnp.clip(place[:, axis] + (centre[axis] + 1), 0, shape[axis] + 1) for axis in (0, 1))
    framed = jnp.pad(images.reshape(-1, height, width), ((0, 0), (1, 2), (1, 2))).reshape(len(images), -1)
    return _bilinear(framed, y, x, width + 3)


def _bilinear(images: jax.Array, y: jax.Array, x: jax.Array, width: int) -> jax.Array:
    """Images (S, rows * width) at places y, x (S, P) that lie above the last row and left of the last column."""
    row, column = jnp.floor(y), jnp.floor(x)
    corner = (row * width + column).astype(jnp.int32)
    down, right, corner = lax.optimization_barrier((y - row, x - column, corner))  # type: ignore[no-untyped-call]
    pixel = partial(_pixel, images)
    above = pixel(corner) * (1 - right) + pixel(corner + 1) * right
    below = pixel(corner + width) * (1 - right) + pixel(corner + width + 1) * right
    value: jax.Array = above * (1 - down) + below * down
    return value


def _pixel(images: jax.Array, where: jax.Array) -> jax.Array:
    return jnp.take_along_axis(images, where, axis=1, mode="promise_in_bounds")


def _factor(length: int, smoothness: float) -> NDArray[np.float64]:
    """G (length, rank) with G G^T the field's correlation along an axis, every pixel of unit variance."""
    d = np.subtract.outer(np.arange(length), np.arange(length))
    values, vectors = np.linalg.eigh(np.exp(-(d**2) / (4 * smoothness**2)))
    left = np.cumsum(values) / length
    rank = max(1, int((left > _LEFT_OUT).sum()))
    # The sign of an eigenvector depends on the library: make its first pixel positive.
    G = vectors[:, -rank:] * np.sqrt(values[-rank:]) * np.sign(vectors[0, -rank:])
    return np.asarray(G / np.sqrt((G**2).sum(axis=1, keepdims=True)))
