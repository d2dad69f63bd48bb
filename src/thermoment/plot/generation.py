"""Images as they emerge from thermal noise: one row for each time, one column for each sample."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from thermoment._support.checks import check_integer, check_integers, invalid, quoted
from thermoment.machines.generative import Generated
from thermoment.plot.style import INK, MUTED, WIDTH, canvas

_MOST = 40
"""Columns in one plot."""


def generation(
    generated: Any, *, samples: int = 10, shape: tuple[int, int] | None = None, ax: Axes | None = None
) -> Axes:
    """Images as they emerge from noise, with the heat that each sample gave off below it.

    Args:
        generated: what `Generator.generate` gave, with several readings.
        samples: how many are shown, the first ones, up to 40.
        shape: height and width of an image; a square unless given.
        ax: where to draw; new axes unless given.
    """
    if not isinstance(generated, Generated):
        raise invalid("generated", "be what `Generator.generate` gives", quoted(generated))
    T, n, D = generated.images.shape
    count = min(n, check_integer("samples", samples, 1, _MOST))
    side = math.isqrt(D)
    height, width = (side, side) if shape is None else check_integers("shape", shape, 1, D)
    if height * width != D:
        raise invalid("shape", f"be the height and width of images of {D} pixels", quoted(shape))
    gap = max(1, round(0.12 * width))
    sheet = np.full((T * (height + gap) - gap, count * (width + gap) - gap), np.nan)
    for row in range(T):
        for column in range(count):
            top, left = row * (height + gap), column * (width + gap)
            sheet[top : top + height, left : left + width] = generated.images[row, column].reshape(height, width)
    inches = WIDTH * min(1.0, (count + 1.5) / 11)
    with canvas(ax, inches, 0.35 + inches * T * (height + gap) / ((count + 1.5) * (width + gap))) as axes:
        axes.imshow(1 - sheet, cmap="gray", vmin=0.0, vmax=1.0, interpolation="none")
        axes.set_axis_off()
        for row, time in enumerate(generated.times):
            middle = row * (height + gap) + height / 2
            axes.text(-gap, middle, f"$t = {time:g}$", ha="right", va="center", fontsize=8, color=INK)
        for column, heat in enumerate(generated.heat[:count]):
            where = column * (width + gap) + width / 2, sheet.shape[0] + gap
            axes.text(*where, f"{heat:.0f}", ha="center", va="top", fontsize=7, color=MUTED)
        axes.text(-gap, sheet.shape[0] + gap, "heat / $kT$", ha="right", va="top", fontsize=7, color=MUTED)
    return axes
