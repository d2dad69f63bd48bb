"""The figures of docs/studies.md: of what every answer rests on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judged import Answer, Comparison, Point, Study, Values, sd_interval
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from questions import MAP
from reading_points import COUPLING, J2, PAPER, REPLICAS, SYMMETRIC, coupled, the_map, trained, trained_values, wells

from thermoment.plot.style import COLOURS, INK, MUTED, WIDTH, grid, look, text, write
from thermoment.report.formatting import MINUS


def draw(answered: Sequence[tuple[Study, Answer]], path: Path) -> None:
    """Writes path.svg and path.png of a study, for one data set or for several beside each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    studies = [study for study, _ in answered]
    with look():
        if studies[0].name == "seeds":
            figure = deviations(studies)
        elif studies[0].name == MAP:
            (study,) = studies
            figure = reading_points(study)
        else:
            figure = forest({study.data: answer.comparisons for study, answer in answered})
        write(figure, path)


def forest(found: Mapping[str, Sequence[Comparison]]) -> Figure:
    """Every difference with its interval, a colour for each data set; filled where it is established."""
    names = list(dict.fromkeys((one.a, one.b) for comparisons in found.values() for one in comparisons))
    figure = Figure(figsize=(WIDTH, 0.8 + (0.2 + 0.08 * len(found)) * len(names)), layout="constrained")
    axes = figure.subplots()
    for number, (data, comparisons) in enumerate(found.items()):
        colour = COLOURS[number]
        for one in comparisons:
            y = names.index((one.a, one.b)) + 0.28 * (number - (len(found) - 1) / 2)
            if np.isfinite(one.ci95).all():
                axes.plot([100 * end for end in one.ci95], [y, y], color=colour, linewidth=1.4)
            face = colour if one.established else "white"
            axes.plot(100 * one.mean, y, "o", color=face, markeredgecolor=colour, markersize=4.5)
        axes.plot([], [], "o", color=colour, markersize=4.5, label=data)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(names)), [text(f"{a} {MINUS} {b}") for a, b in names], fontsize=7.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference of the test accuracies (percentage points)")
    if len(found) > 1:
        axes.legend(labelcolor=MUTED, fontsize=7.5)
    grid(axes, "x")
    return figure


def deviations(studies: Sequence[Study]) -> Figure:
    """The standard deviation over each kind of seed, with its interval, a colour for each data set."""
    kinds = ["everything", "draw", "batches", "noise", "fit"]
    figure = Figure(figsize=(WIDTH, 1.4 + 0.8 * len(studies)), layout="constrained")
    axes = figure.subplots()
    height = 0.7 / len(studies)
    for number, study in enumerate(studies):
        for row, kind in enumerate(kinds):
            values = study.values(kind)
            sd, y = float(values.std(ddof=1)), row + height * (number - (len(studies) - 1) / 2)
            label = study.data if row == 0 and len(studies) > 1 else None
            axes.barh(y, 100 * sd, color=COLOURS[number], height=0.9 * height, alpha=0.7, label=label)
            axes.plot([100 * end for end in sd_interval(sd, len(values) - 1)], [y, y], color=INK, linewidth=1.2)
    if len(studies) > 1:
        axes.legend(labelcolor=MUTED, fontsize=7.5)
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
