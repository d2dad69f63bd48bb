"""What a machine learnt: the course of its training, and which classes it takes for which."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_choice, check_numbers, invalid, quoted
from thermoment.machines.classifier import Classifier
from thermoment.plot.machine import refuse
from thermoment.plot.style import COLOURS, FAINT, INK, STROKES, canvas, grid, math_name, text
from thermoment.results.analysis import confusion_counts
from thermoment.results.naming import ModelKey
from thermoment.results.pictures import Curve

_ERRORS = LinearSegmentedColormap.from_list("errors", ["#ffffff", "#f3c19c", COLOURS[1]])
_RIGHT = "#d9e8f5"
_FULL = 5
"""Mistakes of one kind that the darkest colour stands for, at least: one or two are not much."""
_MOST_NUMBERED = 25
"""Classes up to which every cell of a confusion matrix has its number."""


def training(machine: Any, kind: str = "loss", *, ax: Axes | None = None) -> Axes:
    """The course of training: the loss, or the accuracy on images that were held out, after every epoch.

    Args:
        machine: a Classifier of a run, as `tm.load` gives it; or losses by name, such as {"K1": [2.3, 1.7, 1.2]}.
        kind: "loss" or "validation".
        ax: where to draw; new axes unless given.
    """
    which = check_choice("kind", kind, ("loss", "validation"))
    curves = _curves(machine)
    if which == "validation":
        curves = [curve for curve in curves if curve.validation]
        if not curves:
            raise invalid("machine", "have been trained with images held out", "one without validation")
    with canvas(ax) as axes:
        draw_training(axes, curves, which)
    return axes


def draw_training(axes: Axes, curves: Sequence[Curve], kind: str) -> None:
    """Draws curves. Beside others those of trainings through a static stand-in are called so."""
    for k, curve in enumerate(curves):
        y = np.asarray(curve.loss if kind == "loss" else curve.validation) * (1 if kind == "loss" else 100)
        label = math_name(curve.name)
        if curve.how == "static" and any(other.how != "static" for other in curves):
            label += " (stand-in)"
        style = {"color": COLOURS[k % len(COLOURS)], "linestyle": STROKES[k % len(STROKES)]}
        axes.plot(np.arange(1, len(y) + 1), y, label=label, **style)
    if kind == "loss" and all(min(curve.loss) > 0 for curve in curves):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlim(left=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss" if kind == "loss" else "held-out images right (%)")
    grid(axes, "y")
    axes.legend(loc="best")


def confusion(
    machine: Any,
    inputs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    **simulated: Any,
) -> Axes:
    """How often each class (row) was taken for each (column): right answers blue, mistakes the darker the more.

    Args:
        machine: a Classifier, or any other with `predict`; one of a run needs no inputs: the run has counted its test
            samples. Or the counts themselves, (C, C).
        inputs: (S, D).
        labels: (S,).
        names: of the classes, (C,); their numbers unless given.
        ax: where to draw; new axes unless given.
        simulated: `engine` and `sample_ids` of a Classifier, as in its `predict`.
    """
    counts, known = _counts(machine, inputs, labels, simulated)
    shown = known if names is None else [str(name) for name in names]
    if len(shown) != len(counts):
        raise invalid("names", f"be {len(counts)}, one for each class", f"{len(shown)} of them")
    side = confusion_side(len(counts))
    with canvas(ax, side, side) as axes:
        draw_confusion(axes, counts, shown)
    return axes


def confusion_side(n_classes: int) -> float:
    """Inches that a confusion matrix takes in each direction."""
    return max(2.6, min(7.0, 0.8 + 0.27 * n_classes))


def draw_confusion(axes: Axes, counts: NDArray[np.int64], names: Sequence[str]) -> None:
    """Draws counts (C, C), a row for every true class."""
    n_classes = len(counts)
    right = np.eye(n_classes, dtype=bool)
    wrong = np.where(right, 0, counts)
    most = max(1, int(wrong.max()))
    axes.imshow(np.ma.masked_where(right, wrong), cmap=_ERRORS, vmin=0, vmax=max(most, _FULL))
    axes.imshow(np.ma.masked_where(~right, wrong), cmap=ListedColormap([_RIGHT]))
    lines = np.arange(n_classes + 1) - 0.5
    axes.set_xticks(lines, minor=True)
    axes.set_yticks(lines, minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.4)
    if n_classes <= _MOST_NUMBERED:
        size = 8 if n_classes <= 12 else 6
        for (row, column), count in np.ndenumerate(counts):
            if count:
                dark = wrong[row, column] > 0.7 * max(most, _FULL)
                axes.text(
                    column, row, str(count), ha="center", va="center", fontsize=size, color="white" if dark else INK
                )
        ticks = np.arange(n_classes)
        axes.set_xticks(ticks, [text(name) for name in names])
        axes.set_yticks(ticks, [text(name) for name in names])
        if max(map(len, names)) > 3:
            axes.tick_params(axis="x", rotation=90)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("taken for")
    axes.set_ylabel("true class")


def _curves(machine: Any) -> list[Curve]:
    if isinstance(machine, Classifier):
        found = [
            Curve(one["name"], one["how"], tuple(one["loss"]), tuple(one["validation"]))
            for one in machine.facts.get("training", ())
        ]
        if not found:
            raise invalid("machine", "know the course of its training, as one of tm.load does", quoted(machine))
        return found
    if isinstance(machine, Mapping) and machine:
        losses = {str(name): check_array(f"machine[{name!r}]", values, ("E",)) for name, values in machine.items()}
        return [Curve(name, "", tuple(values.tolist())) for name, values in losses.items()]
    raise invalid("machine", "be a thermoment.Classifier, or losses by name", quoted(machine))


def _counts(
    machine: Any, inputs: ArrayLike | None, labels: ArrayLike | None, simulated: dict[str, Any]
) -> tuple[NDArray[np.int64], list[str]]:
    """Counts (C, C), and what the classes are called."""
    if callable(getattr(machine, "predict", None)):
        if inputs is not None:
            return _predicted(machine, inputs, labels, simulated)
        found = machine.facts.get("results", {}).get("confusion") if isinstance(machine, Classifier) else None
        if found is None or ModelKey.of_columns(found).key != machine.facts.get("model"):
            raise invalid("inputs", "be given with labels, since nothing was counted for this machine", inputs)
        return np.array(found["counts"]), list(map(str, range(len(found["counts"]))))
    refuse(machine, inputs=inputs, labels=labels)
    if np.ndim(machine) != 2:
        raise invalid("machine", "be a thermoment.Classifier, or counts (C, C)", quoted(machine))
    counts = check_numbers("machine", machine)
    if counts.shape[0] != counts.shape[1] or counts.dtype.kind not in "iu" or not counts.size or counts.min() < 0:
        raise invalid("machine", "be counts (C, C)", f"of dtype {counts.dtype} and shape {counts.shape}")
    return counts, list(map(str, range(len(counts))))


def _predicted(
    machine: Any, inputs: ArrayLike, labels: ArrayLike | None, simulated: dict[str, Any]
) -> tuple[NDArray[np.int64], list[str]]:
    """What the machine takes inputs for, counted. Classes may be numbers or words."""
    truth = np.asarray(labels)
    if truth.shape != (len(np.asarray(inputs)),):
        raise invalid("labels", f"have shape ({len(np.asarray(inputs))},)", f"of shape {truth.shape}")
    taken = np.asarray(machine.predict(inputs, **simulated))
    known = (
        np.arange(machine.n_classes) if isinstance(machine, Classifier) else np.unique(np.concatenate([truth, taken]))
    )
    if unknown := set(truth.tolist()) - set(known.tolist()):
        raise invalid("labels", f"be classes from 0 to {len(known) - 1}", min(unknown))
    rows, columns = np.searchsorted(known, truth), np.searchsorted(known, taken)
    return confusion_counts(rows, columns, len(known)), list(map(str, known.tolist()))
