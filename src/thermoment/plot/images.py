"""Images beside each other: the weights of the nodes' inputs, and the images that a classifier got wrong."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_integer, check_integers, check_labels, invalid, quoted
from thermoment.machines.classifier import Classifier
from thermoment.plot.machine import refuse, reservoir_of
from thermoment.plot.style import DIVERGING, FAINT, INK, WIDTH, canvas, text
from thermoment.results.pictures import MOST_MISREAD, Misread

Array = NDArray[np.float64]
_NODES = 24
_ACROSS = 8
"""Misread images in a row."""
_MOST = 400
"""Images in one plot."""


class _Tiles(NamedTuple):
    """Where images lie beside each other on axes whose unit is one pixel of an image."""

    image: AxesImage
    bottoms: list[tuple[float, float]]
    """the middle of each image's lower edge"""


def weights(
    machine: Any,
    *,
    nodes: Sequence[int] | None = None,
    shape: tuple[int, int] | None = None,
    reservoir: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The input weights K of some nodes as images: what drives a node up (vermilion) and what drives it down (blue).

    Args:
        machine: a Reservoir or a Classifier.
        nodes: which nodes, up to 400; the first 24 unless given.
        shape: height and width of an image; unless given those of the run's data set, or a square.
        reservoir: of a Classifier: the name of a reservoir, the first unless given.
        ax: where to draw; new axes unless given.
    """
    one = reservoir_of(machine, reservoir)
    size = _shape(machine, shape, one.n_inputs)
    chosen = range(min(_NODES, one.n_nodes)) if nodes is None else check_integers("nodes", nodes, 0, one.n_nodes - 1)
    if not 0 < len(chosen) <= _MOST:
        raise invalid("nodes", f"name from 1 to {_MOST} nodes", f"{len(chosen)} of them")
    images = one.K[list(chosen)].reshape(-1, *size)
    with canvas(ax, height=3.0) as axes:
        image = draw_weights(axes, images, float(np.abs(images).max()))
        axes.get_figure().colorbar(image, ax=axes, label="weight $K$", shrink=0.8)  # type: ignore[union-attr]
    return axes


def draw_weights(axes: Axes, images: Array, limit: float, columns: int | None = None) -> AxesImage:
    """Draws weights (n, H, W) beside each other, colours from -limit to limit."""
    largest = limit or 1.0
    gap = max(1, round(0.12 * images.shape[2]))
    return _tiles(axes, images, columns, gap, gap, cmap=DIVERGING, vmin=-largest, vmax=largest).image


def misread(
    machine: Any,
    inputs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    most: int = MOST_MISREAD,
    shape: tuple[int, int] | None = None,
    ax: Axes | None = None,
    **simulated: Any,
) -> Axes:
    """The images that a classifier got wrong: what each is, what it was taken for, and with which probability.

    Args:
        machine: a Classifier, or any other with `predict_proba`.
        inputs: (S, D), pixels from 0 to 1.
        labels: (S,), class numbers from 0.
        most: how many are shown at most, up to 400: those in which the wrong class got the highest probability.
        shape: height and width of an image; unless given those of the run's data set, or a square.
        ax: where to draw; new axes unless given.
        simulated: `engine` and `sample_ids` of a Classifier, as in its `predict`.
    """
    check_integer("most", most, 1, _MOST)
    if isinstance(machine, Misread):
        refuse(machine, inputs=inputs, labels=labels, shape=shape)
        found = machine
    else:
        found = _misread(machine, inputs, labels, most, shape, simulated)
    count = min(len(found), most)
    with canvas(ax, WIDTH * min(1, max(count, 2) / _ACROSS), misread_height(count)) as axes:
        draw_misread(axes, found, most, min(count, _ACROSS))
    return axes


def misread_height(count: int) -> float:
    """Inches that so many misread images take."""
    return 0.3 + 1.05 * max(1, math.ceil(count / _ACROSS))


def _misread(
    machine: Any,
    inputs: ArrayLike | None,
    labels: ArrayLike | None,
    most: int,
    shape: tuple[int, int] | None,
    simulated: dict[str, Any],
) -> Misread:
    if not callable(getattr(machine, "predict_proba", None)):
        raise invalid("machine", "be a thermoment.Classifier", quoted(machine))
    images = check_array("inputs", inputs if inputs is not None else (), ("S", "D"))
    size = _shape(machine, shape, images.shape[1])
    truth = check_labels("labels", labels if labels is not None else (), len(images))
    return Misread.of(images, truth, machine.predict_proba(images, **simulated), size, most)


def draw_misread(axes: Axes, found: Misread, most: int = MOST_MISREAD, columns: int = _ACROSS) -> None:
    """Draws misread images row by row, what they are and were taken for below each."""
    if not len(found):
        axes.set_axis_off()
        axes.text(0.5, 0.5, "none was misread", ha="center", va="center", transform=axes.transAxes)
        return
    images = 1 - np.asarray(found.images[:most], np.float64)
    height, width = images.shape[1:]
    gaps = round(0.25 * width), round(0.5 * height)
    tiles = _tiles(axes, images, columns, *gaps, cmap="gray", vmin=0.0, vmax=1.0)
    for x, y in tiles.bottoms:
        corner = x - width / 2, y - height
        axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=FAINT, linewidth=0.5, clip_on=False))
    for (x, y), is_, taken, sure in zip(tiles.bottoms, found.labels, found.taken, found.probability, strict=False):
        words = text(f"{is_} → {taken}")
        axes.text(x, y + 0.04 * height, words, ha="center", va="top", fontsize=9, color=INK, fontweight="bold")
        axes.text(x, y + 0.27 * height, _per_cent(sure), ha="center", va="top", fontsize=7, color=INK)
    bottom = max(y for _, y in tiles.bottoms)
    axes.set_ylim(bottom + 0.5 * height, -0.5)


def _tiles(axes: Axes, images: Array, columns: int | None, gap: int, gap_below: int, **colours: Any) -> _Tiles:
    """Draws images (n, H, W) row by row, white between them."""
    count, height, width = images.shape
    across = columns or math.ceil(math.sqrt(count))
    down = math.ceil(count / across)
    canvas_of = np.full((down * (height + gap_below) - gap_below, across * (width + gap) - gap), np.nan)
    bottoms = []
    for number, image in enumerate(images):
        row, column = divmod(number, across)
        top, left = row * (height + gap_below), column * (width + gap)
        canvas_of[top : top + height, left : left + width] = image
        bottoms.append((left + width / 2 - 0.5, top + height - 0.5))
    shown = axes.imshow(canvas_of, interpolation="none", **colours)
    axes.set_axis_off()
    return _Tiles(shown, bottoms)


def _shape(machine: Any, shape: tuple[int, int] | None, n_inputs: int) -> tuple[int, int]:
    """Height and width of an input as an image: as asked for, as the machine's data set has it, or a square."""
    if shape is None and isinstance(machine, Classifier):
        known = machine.facts.get("results", {}).get("dataset", {}).get("image_shape", ())
        shape = tuple(known) if len(known) == 2 else None
    side = math.isqrt(n_inputs)
    if shape is None and side * side == n_inputs:
        return side, side
    height, width = (
        (0, 0) if shape is None else check_integers("shape", shape, 1, n_inputs) if len(shape) == 2 else (0, 0)
    )
    if height * width != n_inputs:
        raise invalid("shape", f"be the height and width of images of {n_inputs} pixels", quoted(shape))
    return height, width


def _per_cent(probability: float) -> str:
    """A probability in whole per cent; one that would be rounded to 100 is not."""
    return "> 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"
