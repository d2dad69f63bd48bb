"""Where reservoirs err together: error sets, overlaps of wrong sets, and every model's errors with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from thermoment.plot.style import (
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    MUTED,
    STROKES,
    WIDTH,
    darker,
    grid,
    math_name,
    panel,
    short_name,
    text,
)
from thermoment.report.figures import venn
from thermoment.report.formatting import FIT_NAMES
from thermoment.results import paper
from thermoment.results.naming import FITS, REFITTED, Fit, ModelKey
from thermoment.results.results import Accuracy, Baseline, Overlap, Results
from thermoment.results.table import Table

_MOST_SETS = 14
"""Rows of a list of sets; the rest are added up."""
_MOST_BARS = 32
_BAR, _BAR_INCHES = 0.72, 0.23
"""A bar's height in rows, and a row's height."""
_GREY = "#9a9a9a"


@dataclass(frozen=True)
class Bar:
    """One model: its errors with one readout as a bar, with others as marks on it."""

    name: str
    fit: Fit
    row: Accuracy | Baseline
    marks: Mapping[Fit, Accuracy | Baseline]
    paper: int | None = None
    colour: str = COLOURS[0]


def errors(results: Results) -> Figure:
    """Error sets of the single reservoirs, their Jaccard overlaps, and the errors of every model."""
    table, published = Table.of(results.accuracy), paper.beside(results)
    first = table.fits[0]
    singles = [model.name for model in table.singles if table.get(model, first)]
    shown = _bars(results, table, published)
    height = 1.0 + _BAR_INCHES * len(shown)
    if len(singles) < 2:
        figure = Figure(figsize=(0.6 * WIDTH, height), layout="constrained")
        bars(figure.subplots(), shown)
        return figure
    figure = Figure(figsize=(WIDTH, max(4.4, height)), layout="constrained")
    cells = figure.add_gridspec(2, 2, width_ratios=[1.0, 1.25], height_ratios=[1.15, 1.0])
    sets, overlap, models = (figure.add_subplot(cell) for cell in (cells[0, 0], cells[1, 0], cells[:, 1]))
    regions = {
        frozenset(map(singles.index, region.wrong)): region.count
        for region in results.regions
        if region.readout == first
    }
    drawn = venn.circles(regions, len(singles)) if regions and len(singles) <= 3 else None
    spots = venn.spots(drawn) if drawn is not None else {}
    if drawn is not None and spots.keys() >= regions.keys():
        circles(sets, singles, regions, drawn, spots)
    else:
        listing(sets, singles, regions)
    panel(sets, "a", "Error sets")
    matrix(overlap, singles, [row for row in results.jaccard if row.readout == first])
    panel(overlap, "b", "Overlap of error sets (Jaccard)")
    bars(models, shown)
    panel(models, "c", "Test errors")
    return figure


def circles(
    axes: Axes,
    names: Sequence[str],
    regions: Mapping[venn.Members, int],
    drawn: venn.Circles,
    spots: Mapping[venn.Members, venn.Spot],
) -> None:
    """Two or three sets of wrong samples as circles, every region with its count."""
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()
    reach = drawn.reach
    narrow = [m for m, spot in spots.items() if spot.room <= reach * (0.05 + 0.022 * len(str(regions.get(m, 0))))]
    outside = [m for m in narrow if m in regions]  # an empty sliver, which circles cannot avoid, needs no number
    points = [*map(tuple, drawn.centres), *((spots[m].x, spots[m].y) for m in outside)]
    places = venn.around(drawn, points, [(150, 30, 270)[k] for k in range(len(names))] + [90] * len(outside))
    for k, (centre, radius) in enumerate(zip(drawn.centres, drawn.radii, strict=True)):
        axes.add_patch(Circle(centre, radius, facecolor=COLOURS[k] + "2b", linewidth=0))
        axes.add_patch(Circle(centre, radius, fill=False, edgecolor=COLOURS[k], linestyle=STROKES[k], linewidth=1.3))
        size = sum(count for members, count in regions.items() if k in members)
        x, y = places[k]
        side = "right" if x < -0.3 * reach else "left" if x > 0.3 * reach else "center"
        upright = "center" if side != "center" else "top" if y < 0 else "bottom"
        name = f"{math_name(names[k])}: {size} wrong"
        axes.text(x, y, name, ha=side, va=upright, color=darker(COLOURS[k]), fontsize=8.5)
    for members, (x, y) in zip(outside, places[len(names) :], strict=True):
        axes.annotate(
            str(regions[members]), (spots[members].x, spots[members].y), (1.06 * x, 1.06 * y), fontsize=8,
            ha="center", va="center", arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkB": 0},
        )  # fmt: skip
    for members, spot in spots.items():
        if members not in narrow:
            axes.text(spot.x, spot.y, str(regions.get(members, 0)), ha="center", va="center", fontsize=8)
    axes.update_datalim([(-reach, -reach), (reach, reach)])
    axes.autoscale_view()


def listing(axes: Axes, names: Sequence[str], regions: Mapping[venn.Members, int]) -> None:
    """Any number of sets: the most frequent combinations as dots, how often each occurs as bars."""
    axes.set_axis_off()
    if not regions:
        axes.text(0.5, 0.5, "no errors", ha="center", va="center", transform=axes.transAxes, color=MUTED)
        return
    ranked = sorted(regions.items(), key=lambda item: (-item[1], len(item[0]), sorted(item[0])))
    shown, rest = ranked[:_MOST_SETS], ranked[_MOST_SETS:]
    most = max(regions.values())
    room = len(names) + 1.0
    for row, (members, count) in enumerate(shown):
        axes.plot([min(members), max(members)], [row, row], color=INK, linewidth=0.8, zorder=1)
        for k in range(len(names)):
            axes.plot(k, row, "o", color=INK if k in members else FAINT, markersize=4.2, zorder=2)
        axes.add_patch(Rectangle((room - 0.5, row - 0.32), count / most * room, 0.64, color=COLOURS[0]))
        axes.text(room - 0.4 + count / most * room, row, str(count), va="center", fontsize=7.5)
    if rest:
        note = f"{len(rest)} more combinations, {sum(count for _, count in rest)} samples"
        axes.text(-0.3, len(shown), note, va="center", fontsize=7.5, color=MUTED)
    for k, name in enumerate(names):
        axes.text(k, -1, math_name(name), ha="center", va="center", fontsize=8 if len(names) <= 8 else 6)
    axes.set_xlim(-0.6, 2.6 * room)
    axes.set_ylim(len(shown) + 0.6, -1.6)


def matrix(axes: Axes, names: Sequence[str], rows: Sequence[Overlap]) -> None:
    """Jaccard overlap of each pair as a shade and a number, from 0 white to 1 dark."""
    joined = next((row.b for row in rows if row.b not in names), None)
    labels = [*names, joined] if joined else list(names)
    value = {frozenset((row.a, row.b)): row.jaccard for row in rows}
    size = len(labels)
    small = 8 if size <= 4 else max(4.5, 34 / size)
    axes.set_aspect("equal", anchor="NW")
    for i, a in enumerate(labels):
        for j, b in enumerate(labels[:i]):
            found = value.get(frozenset((a, b)))
            shade = 0.0 if found is None else found
            axes.add_patch(
                Rectangle(
                    (j, i), 1, 1, facecolor=(1 - 0.95 * shade, 1 - 0.62 * shade, 1 - 0.33 * shade), edgecolor="white"
                )
            )
            text = "none" if found is None else f"{found:.2f}" if size > 4 else f"{found:.3f}"
            axes.text(
                j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=small, color="white" if shade > 0.72 else INK
            )
    axes.set_xlim(0, size - 1)
    axes.set_ylim(size, 1)
    if size > 3:
        formula = "$J = |A \\cap B| \\, / \\, |A \\cup B|$"
        axes.text(1, 1, formula, transform=axes.transAxes, ha="right", va="top", fontsize=8, color=MUTED)
    shown = [math_name(name) for name in names] + (["all"] if joined else [])
    axes.set_xticks(np.arange(size - 1) + 0.5, shown[:-1])
    axes.set_yticks(np.arange(1, size) + 0.5, shown[1:])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def bars(axes: Axes, shown: Sequence[Bar]) -> None:
    """Test errors in per cent from zero with Wilson's intervals, the accuracy beside them, the paper's as a diamond."""
    known = {y: 100 * (1 - bar.paper / paper.N_TEST) for y, bar in enumerate(shown) if bar.paper is not None}
    limit = 1.04 * max([*known.values(), *(100 * (1 - bar.row.ci95.low) for bar in shown)])
    legend: dict[str, Artist] = {}
    for y, bar in enumerate(shown):
        error, low, high = (100 * (1 - x) for x in (bar.row.accuracy, bar.row.ci95.high, bar.row.ci95.low))
        what = "no reservoir" if isinstance(bar.row, Baseline) else FIT_NAMES[bar.fit]
        legend.setdefault(what, axes.barh(y, error, _BAR, color=bar.colour, linewidth=0)[0])
        axes.plot([low, high], [y, y], color="white", linewidth=2.2, solid_capstyle="butt")
        axes.plot([low, high], [y, y], color=INK, linewidth=0.9)
        for fit, row in bar.marks.items():
            (mark,) = axes.plot(
                100 * (1 - row.accuracy), y, MARKERS[FITS.index(fit)], color="white", markeredgecolor=INK,
                markersize=4.2, markeredgewidth=0.7, zorder=4, linestyle="none",
            )  # fmt: skip
            legend.setdefault(FIT_NAMES[fit], mark)
        weight = "bold" if bar.fit == "trained" else "normal"
        axes.text(limit, y, f" {100 * bar.row.accuracy:.2f}", va="center", ha="left", fontsize=7.5, weight=weight)
    if known:
        (legend["the paper"],) = axes.plot(
            list(known.values()), list(known), "D", color="white", markeredgecolor=COLOURS[1], markersize=4.2,
            markeredgewidth=1.0, zorder=5, linestyle="none",
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [bar.name for bar in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, limit)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("test error (%)")
    axes.text(limit, -0.6, "accuracy (%)", fontsize=6.5, color=MUTED, va="bottom", ha="center")
    grid(axes, "x")
    axes.figure.legend(
        list(legend.values()), list(legend), loc="outside lower right", ncols=3, columnspacing=1.2, handlelength=1.6
    )


def _bars(results: Results, table: Table[Accuracy], published: paper.Beside) -> list[Bar]:
    """The machine as trained first, then every model with a readout fitted afterwards, then what has no reservoir."""
    found = []
    for model in table.models("trained"):
        rows = table.rows[model]
        marks: dict[Fit, Accuracy | Baseline] = {fit: row for fit, row in rows.items() if fit == "predicted"}
        name = f"{short_name(model, table.largest, table.full)}, trained"
        found.append(Bar(name, "trained", rows["trained"], marks, colour=COLOURS[1]))
    for model in _shown(table):
        fitted: dict[Fit, Accuracy | Baseline] = {f: row for f, row in table.rows[model].items() if f in REFITTED}
        if fitted:
            fit = next(iter(fitted))
            name = short_name(model, table.largest, table.full)
            found.append(Bar(name, fit, fitted.pop(fit), fitted, published.correct(model)))
    for name in dict.fromkeys(raw.model for raw in results.baseline):
        raw: dict[Fit, Accuracy | Baseline] = {row.readout: row for row in results.baseline if row.model == name}
        fit = min(raw, key=FITS.index)
        found.append(Bar(text(name), fit, raw.pop(fit), raw, colour=_GREY))
    return found


def _shown(table: Table[Accuracy]) -> list[ModelKey]:
    """All models; of very many only the single reservoirs and those of most reservoirs."""
    if len(table.rows) <= _MOST_BARS:
        return list(table.rows)
    return [model for model in table.rows if len(model.reservoirs) in (1, len(table.largest))]
