"""The figures of docs/training.md, from the results alone.

python studies/draw.py            # docs/figures/{ingredients,conditions}.{svg,png}
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from thermoment.plot.style import COLOURS, FAINT, INK, WIDTH, grid, look, write
from thermoment.results.statistics import spread

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[1] / "docs" / "figures"

HOW = {
    "as it is": ("trained at M = 128, kT = 0.1, t = 1, used here", "#777777", "s:"),
    "head refitted": ("the same with a new readout", COLOURS[1], "^--"),
    "trained for it": ("trained here", COLOURS[0], "o-"),
}
AXES = {"n_replicas": "replicas $M$", "kT": "temperature $kT$", "t_final": "reading time $t$"}


def ingredients(files: list[Path]) -> Figure:
    """Errors on images held out, a row for each machine: every seed, their mean and its 95 % interval."""
    counts, total = rows(files, "name")
    figure = Figure(figsize=(WIDTH, 0.26 * len(counts) + 0.8), layout="constrained")
    panel = figure.subplots()
    for place, correct in enumerate(reversed(counts.values())):
        wrong = 100 * (1 - np.array(correct) / total)
        mean, low, high = interval(wrong)
        panel.plot(wrong, np.full(len(wrong), place), "o", color="#9a9a9a", markersize=3)
        panel.errorbar(
            mean, place, xerr=[[mean - low], [high - mean]], fmt="o", color=COLOURS[0], capsize=2, markersize=4
        )
    panel.set_yticks(range(len(counts)), [name for (name,) in reversed(counts)])
    panel.tick_params(axis="y", length=0)
    panel.set_xlim(left=0)
    grid(panel, "x")
    panel.set_xlabel(f"wrong of {total} images held out (%)")
    return figure


def conditions(files: list[Path]) -> Figure:
    """Errors over replicas, temperature and time: as it is, with its head refitted, trained for it."""
    counts, total = rows(files, "name", "how", "value")
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for panel, (name, label) in zip(panels, AXES.items(), strict=True):
        for shift, (how, (words, colour, style)) in enumerate(HOW.items()):
            points = {value: correct for (n, h, value), correct in counts.items() if (n, h) == (name, how)}
            values = sorted(points)
            found = np.array([interval(100 * (1 - np.array(points[value]) / total)) for value in values])
            bars = np.abs(found[:, 1:] - found[:, :1]).T
            apart = [value * 1.06 ** (shift - 1) for value in values]  # so that no point hides another
            panel.errorbar(apart, found[:, 0], bars, fmt=style, color=colour, label=words, capsize=2, markersize=3.5)
        ticks(panel, sorted({value for n, _, value in counts if n == name}))
        panel.set_xlabel(label)
        grid(panel, "y")
    panels[0].set_ylabel(f"wrong of {total} images held out (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(HOW), frameon=False)
    return figure


def ticks(panel: Axes, values: list[float]) -> None:
    """Logarithmic axes with plain numbers: every value that was measured, and 0.5 to 50 per cent."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(values, [f"{value:g}" for value in values])
    panel.set_yticks([0.5, 1, 2, 5, 10, 20, 50])
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_locator(NullLocator())
    panel.tick_params(color=INK)
    panel.spines["left"].set_color(FAINT)


def interval(values: Any) -> tuple[float, float, float]:
    """The mean over seeds and its 95 % interval; nothing but the mean where there are fewer than three."""
    found = spread(values)
    return (found.mean, *(found.ci95 if found.ci95 and len(values) > 2 else (found.mean, found.mean)))


def rows(files: list[Path], *keys: str) -> tuple[dict[tuple[Any, ...], list[int]], int]:
    """Images right for every seed, by `keys`, in the order of the files; and how many images there are."""
    results = [json.loads(file.read_text()) for file in files]
    counts: dict[tuple[Any, ...], list[int]] = {}
    for row in (row for result in results for row in result["rows"]):
        counts.setdefault(tuple(row[key] for key in keys), []).append(row["correct"])
    return counts, results[0]["held_out"]


def main() -> None:
    """Draws both."""
    with look():
        for draw in (ingredients, conditions):
            write(draw(sorted(RESULTS.glob(f"training-{draw.__name__}*.json"))), FIGURES / draw.__name__)


if __name__ == "__main__":
    main()
