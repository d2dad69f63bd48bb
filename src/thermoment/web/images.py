"""Images for a machine: strokes drawn as its training images were made, and small images enlarged to MNIST's size."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment.data.drawing import BOX, SIZE, draw

_SAMPLES = 6
"""Points of a pixel, along each side, over which a resized image is averaged."""

_BOLD = 1.6
"""How much more ink a pixel has in an image of another size than MNIST's: as bold as the digits of scikit-learn."""
_PALE, _BLACK = 0.25, 0.75
"""Grey levels of an enlarged image that become paper and ink."""

Array = NDArray[np.float64]


def side(n_inputs: int) -> int | None:
    """Pixels along each side of a square image; None where the inputs are none."""
    found = math.isqrt(n_inputs)
    return found if found * found == n_inputs and found >= 4 else None


def drawn(strokes: Sequence[Array], n_inputs: int) -> Array:
    """The image (D,), from 0 to 1, of strokes (P, 2) each.

    With D = 784 it is made as MNIST's images were: fitted into 20 x 20, its mass in the centre of 28 x 28. Any other
    square image is filled by the drawing from edge to edge, as the 8 x 8 digits of scikit-learn are.
    """
    length = side(n_inputs)
    if length is None:
        raise invalid("strokes", f"be given to a machine that sees square images, not {n_inputs} inputs", "strokes")
    image = draw(strokes)
    if length == SIZE:
        return image.ravel()
    return np.minimum(_BOLD * resized(image, _box(image), length), 1.0).ravel()


def enlarged(image: Array) -> Array:
    """A small image (k, k) of a digit that fills it, as an image of MNIST's kind: (28, 28).

    Enlarged strokes are blurred; with more contrast they are as black as MNIST's, and read right more often.
    """
    found = np.zeros((SIZE, SIZE))
    start = (SIZE - BOX) // 2
    grey = (resized(image, (0.0, 0.0, float(len(image))), BOX) - _PALE) / (_BLACK - _PALE)
    found[start : start + BOX, start : start + BOX] = np.clip(grey, 0.0, 1.0)
    axis = np.arange(SIZE) - (SIZE - 1) / 2
    mass = found.sum()
    down, right = ((found.sum(axis=1) @ axis) / mass, (found.sum(axis=0) @ axis) / mass) if mass else (0.0, 0.0)
    return np.roll(found, (-round(float(down)), -round(float(right))), (0, 1))


def resized(image: Array, square: tuple[float, float, float], length: int) -> Array:
    """The square (top, left, side) of an image as (length, length): linear between pixels, averaged over each pixel."""
    top, left, width = square
    at = (np.arange(length * _SAMPLES) + 0.5) / (length * _SAMPLES) * width - 0.5
    rows, columns = (_linear(start + at, size) for start, size in ((top, image.shape[0]), (left, image.shape[1])))
    fine = rows @ image @ columns.T
    return np.asarray(fine.reshape(length, _SAMPLES, length, _SAMPLES).mean(axis=(1, 3)))


def _linear(at: Array, size: int) -> Array:
    """The weights of linear interpolation at places `at` in pixels, zero outside: (len(at), size)."""
    return np.asarray(np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(size))))


def _box(image: Array) -> tuple[float, float, float]:
    """Top, left and side of the square around the ink."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    height, width = rows[-1] + 1 - rows[0], columns[-1] + 1 - columns[0]
    length = float(max(height, width))
    return rows[0] - (length - height) / 2, columns[0] - (length - width) / 2, length
