"""The two ways to read several reservoirs: one readout of all features joined, or one each and averaged logits."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from thermoment.plot.style import COLOURS, HATCHES, INK, MUTED, WIDTH, math_name, panel
from thermoment.results.results import Results

_MOST = 4
"""Reservoirs that are drawn; of more, the first three and the last."""
_LONGEST = 14


def fusion(results: Results) -> Figure:
    """Feature-level fusion beside averaged logits, with the sizes of this experiment."""
    settings, dataset = results.settings, results.dataset
    orders, n_classes = settings["readout"].get("reads") or settings["protocol"]["orders"], dataset.n_classes
    sizes = {reservoir["name"]: len(orders) * reservoir["n_nodes"] for reservoir in settings["reservoirs"]}
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    joined, averaged = figure.subplots(1, 2)
    _joined(joined, sizes, dataset.n_inputs, n_classes)
    panel(joined, "a", "Joined features: one readout")
    _averaged(averaged, sizes, dataset.n_inputs, n_classes)
    panel(averaged, "b", "Averaged logits: one readout each")
    return figure


def _joined(axes: Axes, sizes: Mapping[str, int], n_inputs: int, n_classes: int) -> None:
    rows = _reservoirs(axes, sizes, n_inputs)
    total = sum(sizes.values())
    low, high = rows[-1][1] - 0.42, rows[0][1] + 0.42
    edges = [high - (high - low) * k / len(rows) for k in range(len(rows) + 1)]
    for (k, y), top, bottom in zip(rows, edges[:-1], edges[1:], strict=True):
        axes.add_patch(
            Rectangle(
                (5.0, bottom),
                0.55,
                top - bottom,
                facecolor=COLOURS[k % 6] + "40",
                edgecolor=INK,
                linewidth=0.6,
                hatch=HATCHES[k % 6],
            )
        )
        _arrow(axes, (3.75, y), (4.95, (top + bottom) / 2))
    axes.text(5.27, low - 0.2, f"$\\Phi \\in \\mathbb{{R}}^{{{total}}}$", ha="center", va="top", fontsize=8.5)
    _box(axes, 7.35, 0.0, 1.5, 0.85, "linear\nreadout")
    _arrow(axes, (5.6, 0.0), (6.55, 0.0))
    _arrow(axes, (8.15, 0.0), (8.95, 0.0))
    axes.text(9.05, 0.0, f"$z \\in \\mathbb{{R}}^{{{n_classes}}}$", va="center", fontsize=8.5)


def _averaged(axes: Axes, sizes: Mapping[str, int], n_inputs: int, n_classes: int) -> None:
    rows = _reservoirs(axes, sizes, n_inputs)
    for k, y in rows:
        _arrow(axes, (3.75, y), (4.5, y))
        _box(axes, 5.2, y, 1.3, 0.72, "readout")
        _arrow(axes, (5.9, y), (6.55, y))
        axes.text(6.85, y, f"$z_{{{k + 1}}}$", ha="center", va="center", fontsize=9)
        _arrow(axes, (7.1, y), (7.72, 0.12 * (y > 0) - 0.12 * (y < 0)))
    _box(axes, 8.3, 0.0, 1.05, 0.85, "mean")
    axes.text(
        6.85,
        rows[-1][1] - 0.62,
        f"each in $\\mathbb{{R}}^{{{n_classes}}}$",
        ha="center",
        va="top",
        fontsize=8,
        color=MUTED,
    )
    _arrow(axes, (8.88, 0.0), (9.4, 0.0))
    axes.text(9.5, 0.0, "$z$", va="center", fontsize=9)


def _reservoirs(axes: Axes, sizes: Mapping[str, int], n_inputs: int) -> list[tuple[int, float]]:
    """The input and the reservoirs it drives, and for each drawn one its number and height."""
    names = list(sizes)
    shown = list(range(len(names))) if len(names) <= _MOST else [0, 1, 2, len(names) - 1]
    middle = (len(shown) - 1) / 2
    rows = [(k, (middle - place) * 1.15) for place, k in enumerate(shown)]
    axes.text(
        0.35, 0.0, f"$I$\n$\\in \\mathbb{{R}}^{{{n_inputs}}}$", ha="center", va="center", fontsize=8.5, linespacing=1.3
    )
    for k, y in rows:
        _arrow(axes, (0.85, 0.22 * (y > 0) - 0.22 * (y < 0)), (1.6, y))
        name, space = _short(names[k]), f"$\\varphi \\in \\mathbb{{R}}^{{{sizes[names[k]]}}}$"
        text = f"{name}:  {space}" if len(names[k]) <= 3 else f"{name}\n{space}"
        _box(axes, 2.7, y, 2.05, 0.72, text, COLOURS[k % 6])
    if len(shown) < len(names):
        axes.text(2.7, (rows[-1][1] + rows[-2][1]) / 2, "…", ha="center", va="center")
    reach = middle * 1.15 + 0.95
    axes.set_xlim(-0.2, 10.3)
    axes.set_ylim(-reach, reach)
    axes.set_axis_off()
    return rows


def _short(name: str) -> str:
    return math_name(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")


def _box(axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str = INK) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0.03,rounding_size=0.12",
            facecolor="white" if colour == INK else colour + "1f", edgecolor=colour, linewidth=0.9,
        )
    )  # fmt: skip
    axes.text(x, y, text, ha="center", va="center", fontsize=8.5, linespacing=1.1)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=7,
            color=MUTED,
            linewidth=0.8,
            shrinkA=0,
            shrinkB=0,
        )
    )
