"""A drawing as an image of MNIST's kind: fitted into 20 x 20 pixels, its mass in the centre of 28 x 28."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, invalid

SIZE, BOX = 28, 20
"""Pixels of an image, and of the box that a drawing is fitted into, along each side."""
_PEN = 1.3
"""Half the width of a stroke, in pixels of the image."""
_SAMPLES = 4
"""Points of a pixel, along each side, at which ink is looked for."""
_ROUNDS = 3
"""Times the drawing is moved to put its mass into the centre: the first leaves a few hundredths of a pixel."""
_MOST_POINTS = 100_000
_FAINTEST = 0.05
"""Contrast of a picture, from its border to its strongest ink, below which there is nothing to see."""
_PAPER = 0.3
"""Share of the strongest ink below which a pixel of a picture is paper."""

Array = NDArray[np.float64]


def draw(strokes: Sequence[ArrayLike]) -> Array:
    """The image (28, 28), from 0 to 1, of strokes; each is (P, 2): points x, y, x to the right and y down.

    Only shape and proportions matter, not where on the canvas the drawing is or how large. A stroke of one point is a
    dot. Cost: about a millisecond for every hundred points.
    """
    if not len(strokes):
        raise invalid("strokes", "hold at least one", "empty")
    lines = [check_array(f"strokes[{k}]", stroke, ("P", 2)) for k, stroke in enumerate(strokes)]
    if sum(map(len, lines)) > _MOST_POINTS:
        raise invalid("strokes", f"have at most {_MOST_POINTS} points", sum(map(len, lines)))
    points = np.concatenate(lines)
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (BOX - 2 * _PEN) / max(float((high - low).max()), 1e-12)
    starts = np.concatenate([line[:-1] if len(line) > 1 else line for line in lines])
    ends = np.concatenate([line[1:] if len(line) > 1 else line for line in lines])
    starts, ends = ((part - (low + high) / 2) * scale for part in (starts, ends))
    place = np.zeros(2)
    for _ in range(_ROUNDS):
        image = _ink(starts + place, ends + place)
        place = place - _mass_centre(image)
    return _ink(starts + place, ends + place)


def _ink(starts: Array, ends: Array) -> Array:
    """The share of every pixel that is within the pen of a segment: (28, 28). The centre is at 0, 0."""
    step = 1 / _SAMPLES
    axis = np.arange(SIZE * _SAMPLES) * step - SIZE / 2 + step / 2
    x, y = np.meshgrid(axis, axis)
    nearest = np.full(x.shape, np.inf)
    for (x0, y0), (x1, y1) in zip(starts, ends, strict=True):
        length = (x1 - x0) ** 2 + (y1 - y0) ** 2
        along = ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length if length else np.zeros_like(x)
        t = np.clip(along, 0, 1)
        nearest = np.minimum(nearest, (x - x0 - t * (x1 - x0)) ** 2 + (y - y0 - t * (y1 - y0)) ** 2)
    inside = (nearest <= _PEN**2).reshape(SIZE, _SAMPLES, SIZE, _SAMPLES)
    return np.asarray(inside.mean(axis=(1, 3)))


def _mass_centre(image: Array) -> Array:
    """x and y of the ink's mean place, from the centre of the image, in pixels."""
    axis = np.arange(SIZE) - (SIZE - 1) / 2
    mass = image.sum()
    return np.asarray(np.array([(image @ axis).sum(), (image.T @ axis).sum()]) / mass)


def fit(picture: ArrayLike) -> NDArray[np.float32]:
    """The image (28, 28) of what is drawn on a picture (height, width) of grey levels from 0 to 1, as MNIST was made.

    The background is what most of the picture's border is; ink may be darker or lighter. Ink is cut out, shrunk or
    enlarged to 20 pixels along its longer side, and its mass put into the centre, to the nearest pixel.
    """
    from PIL import Image

    levels = check_array("picture", picture, ("height", "width"))
    border = np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])
    ink = np.abs(levels - np.median(border))
    if ink.max() < _FAINTEST:
        raise invalid("picture", "show something darker or lighter than its border", "all of one shade")
    ink = np.where(ink < _PAPER * ink.max(), 0, ink / ink.max())
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    height, width = (max(1, round(side * BOX / max(cut.shape))) for side in cut.shape)
    small = np.asarray(Image.fromarray(cut.astype(np.float32)).resize((width, height), Image.Resampling.BOX))
    centre = [
        float(small.sum(axis=1 - axis) @ (np.arange(side) + 0.5)) / float(small.sum())
        for axis, side in enumerate(small.shape)
    ]
    top, left = (
        int(np.clip(round(SIZE / 2 - at), 0, SIZE - side)) for at, side in zip(centre, small.shape, strict=True)
    )
    image = np.zeros((SIZE, SIZE), np.float32)
    image[top : top + height, left : left + width] = small
    return image
