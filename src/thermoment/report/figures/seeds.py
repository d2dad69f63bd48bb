"""Accuracy over seeds, of one experiment or a study: every repeat, the range of one more run, the paper's number."""

import math
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermoment.plot.style import COLOURS, INK, MUTED, WIDTH, grid, panel, short_name, text
from thermoment.report.formatting import FIT_NAMES
from thermoment.results import paper
from thermoment.results.naming import ModelKey
from thermoment.results.results import Results, StudyResults, Summary
from thermoment.results.study import headlines
from thermoment.results.table import Table

_PANELS_IN_A_ROW = 5


def repeats(results: Results) -> Figure:
    """Every model's accuracy in every repeat, one panel a readout."""
    table, published = Table.of(results.repeats), paper.beside(results)
    models = list(table.rows)
    figure = Figure(figsize=(WIDTH, 1.0 + 0.26 * len(models)), layout="constrained")
    panels = figure.subplots(1, len(table.fits), sharex=True, sharey=True, squeeze=False)[0]
    for letter, axes, fit in zip("abcd", panels, table.fits, strict=False):
        for y, model in enumerate(models):
            if row := table.get(model, fit):
                strip(axes, y, row, published.correct(model))
        axes.set_yticks(range(len(models)), [short_name(model, table.largest, table.full) for model in models])
        axes.set_ylim(len(models) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("test accuracy (%)")
        grid(axes, "x")
        panel(axes, letter, FIT_NAMES[fit].capitalize())
    _legend(figure, published)
    return figure


def study(results: StudyResults) -> Figure:
    """A panel a model that several variants have; in it every variant's repeats, and the paper's number as a line.

    Before them, where variants are judged by different models, a panel of what each is judged by.
    """
    variants, published = results.study, paper.beside(results)
    table = Table.of(row for variant in variants for row in variant.accuracy)  # its rows are those of one variant
    found = _panels(results, table)
    columns = min(_PANELS_IN_A_ROW, len(found))
    rows = math.ceil(len(found) / columns)
    figure = Figure(figsize=(WIDTH, rows * (0.75 + 0.2 * len(variants)) + 0.3), layout="constrained")
    cells = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for cell in cells[len(found) :]:
        cell.set_axis_off()
    for axes in cells[max(len(found) - columns, 0) : len(found)]:
        axes.set_xlabel("accuracy (%)")
    for (model, judged), axes in zip(found, cells, strict=False):
        correct = None if model is None else published.correct(model)
        if correct is not None:
            axes.axvline(100 * correct / paper.N_TEST, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
        for y, row in enumerate(judged):
            if row:
                strip(axes, y, row, None)
        title = "all its reservoirs" if model is None else short_name(model, table.largest, table.full)
        axes.set_title(title, fontsize=9)
        axes.set_yticks(range(len(variants)), [text(variant.variant) for variant in variants])
        axes.set_ylim(len(variants) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
        grid(axes, "x")
    _legend(figure, published, line=True)
    return figure


def _panels(results: StudyResults, table: Table[Summary]) -> list[tuple[ModelKey | None, list[Summary | None]]]:
    """Models, each with its row of every variant; None for the model that each variant is judged by."""
    fit = table.fits[0]
    of_models = [
        (model, [variant.row(replace(model, readout=fit)) for variant in results.study]) for model in table.models(fit)
    ]
    shared = [(model, rows) for model, rows in of_models if sum(row is not None for row in rows) > 1]
    judged: list[Summary | None] = [one.row for one in headlines(results)]
    if len({row.model for row in judged if row}) > 1:
        return [(None, judged), *((model, rows) for model, rows in shared if not _same(rows, judged))]
    return list(shared or of_models)


def _same(rows: list[Summary | None], judged: list[Summary | None]) -> bool:
    """Whether rows are those that the variants are judged by, as far as they are there."""
    return all(row is None or row == other for row, other in zip(rows, judged, strict=True))


def strip(axes: Axes, y: float, row: Summary, correct: int | None) -> None:
    """One model's repeats at height y: a dot each, a bar for the range of one more run, a tick for their mean."""
    dots = [100 * n / row.total for n in row.correct]
    if row.range95 is not None:
        low, high = (100 * value for value in row.range95)
        axes.plot([low, high], [y, y], color=COLOURS[5], linewidth=4, alpha=0.55, solid_capstyle="butt", zorder=1)
    axes.plot([100 * row.mean] * 2, [y - 0.28, y + 0.28], color=INK, linewidth=1.1, zorder=3)
    axes.plot(dots, [y] * len(dots), "o", color=COLOURS[0], markersize=2.8, markeredgewidth=0, zorder=2)
    if correct is not None:
        axes.plot(
            100 * correct / paper.N_TEST, y, "D", color="white", markeredgecolor=COLOURS[1], markersize=4.5,
            markeredgewidth=1.0, zorder=4,
        )  # fmt: skip


def _legend(figure: Figure, published: paper.Beside, line: bool = False) -> None:
    axes = figure.axes[0]
    handles = [
        axes.plot([], [], "o", color=COLOURS[0], markersize=3, markeredgewidth=0, label="one seed")[0],
        axes.plot([], [], "|", color=INK, markersize=7, label="mean")[0],
        axes.plot([], [], color=COLOURS[5], linewidth=4, alpha=0.55, label="95 % range of one more run")[0],
    ]
    if published and line:
        handles.append(axes.plot([], [], color=INK, linewidth=0.8, linestyle=(0, (4, 2)), label="the paper")[0])
    elif published:
        handles.append(
            axes.plot([], [], "D", color="white", markeredgecolor=COLOURS[1], markersize=4.5, label="the paper")[0]
        )
    figure.legend(handles=handles, loc="outside lower right", ncols=4, columnspacing=1.4, labelcolor=MUTED)
