"""The figures of docs/studies.md: one a study, of what its answer rests on."""

from pathlib import Path
from typing import Any

import numpy as np
from judged import Answer, Comparison, Point, Study, Values, sd_interval
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from reading_points import COUPLING, J2, PAPER, REPLICAS, SYMMETRIC, coupled, the_map, trained, trained_values, wells

from thermoment.plot.style import COLOURS, INK, MUTED, WIDTH, grid, look, text, write
from thermoment.report.formatting import MINUS


def draw(study: Study, answer: Answer, path: Path) -> None:
    """Writes path.svg and path.png."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with look():
        if study.name == "seeds":
            figure = deviations(study)
        elif study.name == "time-and-temperature":
            figure = reading_points(study)
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
        axes.plot([100 * end for end in sd_interval(sd, len(values) - 1)], [y, y], color=INK, linewidth=1.2)
    axes.set_yticks(range(len(kinds)), ["all seeds", "draw", "batches", "noise", "readout"])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("standard deviation of the test accuracy (percentage points)")
    grid(axes, "x")
    return figure


def reading_points(study: Study) -> Figure:
    """Accuracy and distance to equilibrium over the reading time; accuracy over replicas, coupling and wells."""
    figure = Figure(figsize=(WIDTH, 5.4), layout="constrained")
    cells = figure.subplot_mosaic("tttddd;mmssww")
    points, there = the_map(study), trained(study)
    times = sorted({t for _, t in points})
    for number, kT in enumerate(sorted({kT for kT, _ in points})):
        colour = COLOURS[number]
        own = {t: one for (other, t), one in points.items() if other == kT}
        _curve(cells["t"], {t: study.values(one.variant) for t, one in own.items()}, colour, label=f"kT = {kT:g}")
        learnt = {t: trained_values(study, one) for (other, t), one in there.items() if other == kT}
        _curve(cells["t"], learnt, colour, linestyle="--", markerfacecolor="white")
        known = {t: one.distance for t, one in own.items() if one.distance is not None}
        cells["d"].plot(list(known), list(known.values()), color=colour, marker="o", markersize=3)
    cells["t"].plot([], [], color=MUTED, linestyle="--", label="K trained there")
    cells["t"].legend(labelcolor=MUTED, fontsize=7)
    for name, label in (("t", "test accuracy (%)"), ("d", "distance to equilibrium")):
        cells[name].set(xscale="log", xlabel="reading time t", ylabel=label)
        cells[name].set_xticks(times, [f"{t:g}" for t in times])
        cells[name].minorticks_off()
    paper, many = points[PAPER], study.group("replicas")
    replicas = {float(one.settings[REPLICAS]): study.values(one.variant) for one in many}
    _curve(cells["m"], replicas | _at_home(study, paper, 128.0, replicas), COLOURS[0])
    cells["m"].set(xscale="log", xlabel="replicas M", ylabel="test accuracy (%)")
    for number, symmetric in enumerate((False, True)):
        of_kind = {
            float(one.settings[COUPLING]): study.values(one.variant)
            for one in coupled(study)
            if one.settings[SYMMETRIC] is symmetric
        }
        _curve(cells["s"], of_kind, COLOURS[number], label="symmetric W" if symmetric else "directed W")
    cells["s"].set_xlabel("strength of the coupling s_W")
    cells["s"].legend(labelcolor=MUTED, fontsize=7, loc="lower left")
    others = {float(one.settings[J2]): study.values(one.variant) for one in wells(study)}
    _curve(cells["w"], others | _at_home(study, paper, 1.0, others), COLOURS[0])
    cells["w"].set_xlabel("quadratic part of the well J2")
    for axes in cells.values():
        grid(axes, "y")
    return figure


def _at_home(study: Study, paper: Point, place: float, beside: dict[float, Values]) -> dict[float, Values]:
    """The paper's point at its place on a curve, with no more seeds than the points beside it have."""
    seeds = max((len(values) for values in beside.values()), default=None)
    return {place: study.values(paper.variant)[:seeds]}


def _curve(axes: Axes, found: dict[float, Values], colour: str, **how: Any) -> None:
    """Means over the seeds with their standard errors, in per cent."""
    places = sorted(found)
    means = [100 * found[x].mean() for x in places]
    errors = [100 * found[x].std(ddof=1) / np.sqrt(len(found[x])) if len(found[x]) > 1 else 0.0 for x in places]
    axes.errorbar(places, means, yerr=errors, color=colour, marker="o", markersize=3, linewidth=1.1, **how)
