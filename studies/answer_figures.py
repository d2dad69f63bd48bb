"""The figures of docs/studies.md: one a study, of what its answer rests on."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from judged import Comparison, Study, sd_interval
from matplotlib.figure import Figure

from thermoment.plot.style import COLOURS, INK, MUTED, WIDTH, grid, look, text, write
from thermoment.report.formatting import MINUS

if TYPE_CHECKING:
    from answers import Answer


def draw(study: Study, answer: "Answer", path: Path) -> None:
    """Writes path.svg and path.png."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with look():
        if study.name == "seeds":
            figure = deviations(study)
        elif study.name == "time-and-temperature":
            figure = curves(study)
        else:
            figure = forest(list(answer.comparisons))
        write(figure, path)


def forest(comparisons: list[Comparison]) -> Figure:
    """Every difference with its interval; filled where it is established."""
    figure = Figure(figsize=(WIDTH, 0.8 + 0.26 * len(comparisons)), layout="constrained")
    axes = figure.subplots()
    for y, one in enumerate(comparisons):
        colour = COLOURS[0] if one.established else MUTED
        if np.isfinite(one.ci95).all():
            axes.plot([100 * end for end in one.ci95], [y, y], color=colour, linewidth=1.6)
        axes.plot(100 * one.mean, y, "o", color=colour if one.established else "white", markeredgecolor=colour)
    axes.axvline(0, color=INK, linewidth=0.8)
    names = [text(f"{one.a} {MINUS} {one.b}") for one in comparisons]
    axes.set_yticks(range(len(comparisons)), names, fontsize=7.5)
    axes.set_ylim(len(comparisons) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference of the test accuracies (percentage points)")
    grid(axes, "x")
    return figure


def deviations(study: Study) -> Figure:
    """The standard deviation over each kind of seed, with its interval."""
    kinds = ["everything", "draw", "batches", "noise", "fit"]
    figure = Figure(figsize=(WIDTH, 2.2), layout="constrained")
    axes = figure.subplots()
    for y, kind in enumerate(kinds):
        values = study.values(kind)
        sd = float(values.std(ddof=1))
        axes.barh(y, 100 * sd, color=COLOURS[0], height=0.6, alpha=0.7)
        axes.plot([100 * end for end in sd_interval(sd, len(values))], [y, y], color=INK, linewidth=1.2)
    axes.set_yticks(range(len(kinds)), ["all seeds", "draw", "batches", "noise", "readout"])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("standard deviation of the test accuracy (percentage points)")
    grid(axes, "x")
    return figure


def curves(study: Study) -> Figure:
    """Accuracy over the reading time, a curve for each temperature."""
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots()
    every = {tuple(row["settings"].values()): row["variant"] for row in study.rows}
    times = sorted({t for _, t in every})
    for number, kT in enumerate(sorted({kT for kT, _ in every})):
        values = [100 * study.values(every[kT, t]) for t in times]
        errors = [one.std(ddof=1) / np.sqrt(len(one)) if len(one) > 1 else 0.0 for one in values]
        means = [one.mean() for one in values]
        axes.errorbar(times, means, yerr=errors, color=COLOURS[number], marker="o", markersize=3, label=f"kT = {kT:g}")
    axes.set_xscale("log")
    axes.set_xticks(times, [f"{t:g}" for t in times])
    axes.minorticks_off()
    axes.set_xlabel("reading time t")
    axes.set_ylabel("test accuracy (%)")
    axes.legend(labelcolor=MUTED)
    grid(axes, "y")
    return figure
