"""MNIST's test images as a person would draw them again: thinned to lines that a pen follows, or thresholded.

`strokes` gives the lines to `thermoment.data.drawing`, as the page does with what is drawn on it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment.data.drawing import BOX, SIZE, draw

Images = NDArray[np.float64]
_INK = 0.4
"""Grey level from which a pixel of an enlarged image is ink."""
_FINER = 2
"""Pixels of the enlarged image in which lines are found, to one of the image, along each side."""


def strokes(images: Images) -> Images:
    """Images (S, 28, 28) thinned to lines and drawn again with the page's pen."""
    fine = _finer(images) > _INK
    lines = _thinned(fine)
    return np.array([draw(_segments(line)) for line in lines])


def thresholded(images: Images) -> Images:
    """Images (S, 28, 28) in black and white, fitted into 20 x 20 and centred by their mass again."""
    return np.array([_recentred(image) for image in (_finer(images) > _INK).astype(float)])


def _finer(images: Images) -> Images:
    """Linear between pixels: (S, 28 n, 28 n)."""
    at = (np.arange(SIZE * _FINER) + 0.5) / _FINER - 0.5
    weights = np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(SIZE)))
    return np.asarray(np.einsum("ai,sij,bj->sab", weights, images, weights))


def _thinned(ink: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Lines of one pixel, by the thinning of Zhang and Suen (1984), all images at once."""
    ink = np.pad(ink, ((0, 0), (1, 1), (1, 1)))
    while True:
        before = ink.sum()
        for turn in (0, 1):
            # The eight neighbours of every pixel, clockwise from above.
            ways = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
            n = np.array([np.roll(ink, (-down, -right), (1, 2)) for down, right in ways])
            count = n.sum(axis=0)
            changes = (~n & np.roll(n, -1, axis=0)).sum(axis=0)
            up, right, below, left = n[0], n[2], n[4], n[6]
            if turn == 0:
                edge = ~(up & right & below) & ~(right & below & left)
            else:
                edge = ~(up & right & left) & ~(up & below & left)
            ink = ink & ~((count >= 2) & (count <= 6) & (changes == 1) & edge)
        if ink.sum() == before:
            return np.asarray(ink[:, 1:-1, 1:-1])


def _segments(line: NDArray[np.bool_]) -> list[NDArray[Any]]:
    """A stroke between every two neighbours among the pixels of a line; a dot where there is but one."""
    found = []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        shifted = np.roll(line, (-down, -right), (0, 1))
        for row, column in np.argwhere(line & shifted):
            found.append(np.array([(column, row), (column + right, row + down)], float))
    if not found:
        found = [np.array([(column, row)], float) for row, column in np.argwhere(line)[:1]]
    return found


def _recentred(image: Images) -> Images:
    """An image of ink, any size, fitted into 20 x 20, its mass in the centre of 28 x 28."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    cut = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = max(cut.shape) / BOX
    place = np.array([cut.sum(axis=1) @ np.arange(cut.shape[0]), cut.sum(axis=0) @ np.arange(cut.shape[1])]) / cut.sum()
    fine = 4
    grids = []
    for centre, size in zip(place, cut.shape, strict=True):
        at = centre + ((np.arange(SIZE * fine) + 0.5) / fine - SIZE / 2) * scale
        grids.append(np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(size))))
    found = grids[0] @ cut @ grids[1].T
    return np.asarray(found.reshape(SIZE, fine, SIZE, fine).mean(axis=(1, 3)))
