"""Accuracy over the values of a scan: every seed, the mean and its 95 % interval, and what no reservoir gets."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermoment.plot.style import COLOURS, INK, MUTED, WIDTH, grid, text
from thermoment.results.results import StudyResults
from thermoment.results.study import Headline, factors, headlines, value

_MOST_LINES = 8
_LOGARITHMIC = 8.0
"""The largest value over the smallest from which an axis is logarithmic."""


def scan(results: StudyResults) -> Figure:
    """A curve over the factor with most numbers, one for each value of the others; or a row for every point."""
    lines, keys = headlines(results), factors(results)
    found = {key: [value(line.point.changes or {}, key) for line in lines] for key in keys}
    numeric = [key for key in keys if len(set(map(str, found[key]))) > 1 and all(map(_is_number, found[key]))]
    along = max(numeric, key=lambda key: len(set(found[key])), default=None)
    if along is not None:
        groups: dict[str, list[tuple[float, Headline]]] = {}
        for k, line in enumerate(lines):
            rest = [
                f"{key.split('.')[-1]} {_word(found[key][k])}" for key in keys if key != along and _varies(found[key])
            ]
            groups.setdefault(", ".join(rest), []).append((found[along][k], line))
        distinct = all(len({x for x, _ in group}) == len(group) for group in groups.values())
        if len(groups) <= _MOST_LINES and distinct and any(len(group) > 1 for group in groups.values()):
            return _curves(results, along, groups)
    return _rows(results, lines)


def _curves(results: StudyResults, along: str, groups: dict[str, list[tuple[float, Headline]]]) -> Figure:
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    places = sorted({x for group in groups.values() for x, _ in group})
    for number, (name, group) in enumerate(groups.items()):
        colour = COLOURS[number % len(COLOURS)]
        ordered = sorted(group, key=lambda pair: pair[0])
        xs = [x for x, _ in ordered]
        axes.plot(xs, [100 * line.row.mean for _, line in ordered], color=colour, linewidth=1.1, label=text(name))
        for x, line in ordered:
            _marks(axes, line, x, colour, upright=True)
    if places[0] > 0 and places[-1] / places[0] >= _LOGARITHMIC:
        axes.set_xscale("log")
    axes.set_xticks(places, [f"{x:g}" for x in places], minor=False)
    axes.minorticks_off()
    axes.set_xlabel(text(along))
    axes.set_ylabel("test accuracy (%)")
    if (raw := _raw(results)) is not None:
        axes.axhline(raw, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), label="raw inputs")
    grid(axes, "y")
    if len(groups) > 1 or raw is not None:
        figure.legend(loc="outside right upper", labelcolor=MUTED)
    return figure


def _rows(results: StudyResults, lines: list[Headline]) -> Figure:
    figure = Figure(figsize=(WIDTH, 0.9 + 0.24 * len(lines)), layout="constrained")
    axes = figure.subplots()
    for y, line in enumerate(lines):
        _marks(axes, line, y, COLOURS[0], upright=False)
    axes.set_yticks(range(len(lines)), [text(line.point.description or line.point.variant) for line in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("test accuracy (%)")
    if (raw := _raw(results)) is not None:
        axes.axvline(raw, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)))
    grid(axes, "x")
    return figure


def _marks(axes: Axes, line: Headline, at: float, colour: str, *, upright: bool) -> None:
    """A dot for every seed, a mark for their mean, a bar for its interval."""
    dots = [100 * correct / line.row.total for correct in line.row.correct]
    ends = [100 * end for end in line.row.ci95] if line.row.ci95 else []
    mean = [100 * line.row.mean]
    for values, how in (
        (dots, {"marker": "o", "linestyle": "", "markersize": 2.4, "markeredgewidth": 0, "alpha": 0.6}),
        (ends, {"linewidth": 2.2, "alpha": 0.45, "solid_capstyle": "butt"}),
        (mean, {"marker": "_" if upright else "|", "markersize": 8, "markeredgecolor": INK, "zorder": 3}),
    ):
        style: dict[str, Any] = {"color": colour, **how}
        axes.plot(*(([at] * len(values), values) if upright else (values, [at] * len(values))), **style)


def _raw(results: StudyResults) -> float | None:
    """What the first baseline gets, in per cent."""
    found = results.study[0].baseline
    return 100 * found[0].mean if found else None


def _varies(values: list[Any]) -> bool:
    return len(set(map(str, values))) > 1


def _word(found: Any) -> str:
    return f"{found:g}" if _is_number(found) else str(found)


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and found != float("inf")
