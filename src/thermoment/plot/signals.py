"""Signals: a target and its predictions over time, and memory over the delay."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, invalid, quoted
from thermoment.machines.signals.memory import Memory
from thermoment.plot.machine import MOST_CURVES
from thermoment.plot.style import COLOURS, INK, STROKES, WIDTH, canvas, grid, text


def prediction(
    target: ArrayLike, predictions: ArrayLike | Mapping[str, ArrayLike], *, first: int = 0, ax: Axes | None = None
) -> Axes:
    """A target over its rows (black), and predictions of it.

    Args:
        target: (T,).
        predictions: (T,); or several of them by name.
        first: the number of the first row.
        ax: where to draw; new axes unless given.
    """
    y = check_array("target", target, ("T",))
    named = predictions if isinstance(predictions, Mapping) else {"prediction": predictions}
    shown = _by_name("predictions", named, len(y))
    rows = first + np.arange(len(y))
    with canvas(ax, WIDTH, 2.2) as axes:
        axes.plot(rows, y, color=INK, linewidth=1.6, alpha=0.75, label="target")
        for k, (name, values) in enumerate(shown.items()):
            axes.plot(rows, values, color=COLOURS[k], linestyle=STROKES[k], linewidth=1.0, label=text(name))
        axes.set_xlim(rows[0], rows[-1])
        axes.set_xlabel("row")
        axes.set_ylabel("signal")
        axes.legend(loc="upper center", ncols=1 + len(shown), bbox_to_anchor=(0.5, 1.2))
    return axes


def memory(capacities: Any, *, ax: Axes | None = None) -> Axes:
    """How much of the input of k rows ago is left in the moments, over the delay k.

    Args:
        capacities: what `thermoment.signals.memory_capacity` gave; or several of them by name.
        ax: where to draw; new axes unless given.
    """
    named = capacities if isinstance(capacities, Mapping) else {"": capacities}
    for one in named.values():
        if not isinstance(one, Memory):
            raise invalid("capacities", "be what thermoment.signals.memory_capacity gives", quoted(one))
    shown = _by_name("capacities", {name: one.by_delay for name, one in named.items()}, None)
    with canvas(ax) as axes:
        for k, (name, values) in enumerate(shown.items()):
            delays = np.arange(1, len(values) + 1)
            label = f"{text(name)} ({values.sum():.1f})" if name else f"{values.sum():.1f} in all"
            axes.plot(delays, values, color=COLOURS[k], linestyle=STROKES[k], label=label)
        axes.set_ylim(0, 1.03)
        axes.set_xlim(left=0)
        axes.set_xlabel("delay in rows")
        axes.set_ylabel("squared correlation")
        grid(axes, "y")
        axes.legend(loc="best")
    return axes


def _by_name(argument: str, values: Mapping[str, ArrayLike], length: int | None) -> dict[str, NDArray[np.float64]]:
    """Curves by name, up to six, each of one length."""
    if not 1 <= len(values) <= MOST_CURVES:
        raise invalid(argument, f"be from 1 to {MOST_CURVES}, a curve each", f"{len(values)} of them")
    shape: tuple[int | str, ...] = ("T",) if length is None else (length,)
    return {str(name): check_array(argument, one, shape) for name, one in values.items()}
