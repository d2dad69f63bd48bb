"""One driven node in the experiment's well: its potential, its paths, and the density that it is read from."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermoment.physics import Dynamics
from thermoment.plot.node import draw_density, draw_paths, well
from thermoment.plot.style import COLOURS, HALF, INK, MUTED, STROKES, WIDTH, panel
from thermoment.results.node import NodeSample

_BINS = 48


def potential(node: NodeSample, dynamics: Dynamics) -> Figure:
    """U(x; h) under each drive, with its minimum."""
    figure = Figure(figsize=(HALF, 2.7), layout="constrained")
    well(dynamics, node.drives, ax=figure.subplots())
    return figure


def paths(node: NodeSample) -> Figure:
    """A few replicas under each drive, the mean of all, and where all replicas are when they are read."""
    figure = Figure(figsize=(HALF, 2.7), layout="constrained")
    axes, side = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1], gridspec_kw={"wspace": 0.03})
    draw_paths(axes, _labels(node), node.times, node.paths, node.means)
    edges = np.linspace(node.extent[0], node.extent[1], _BINS + 1)
    for k, ends in enumerate(node.ends):
        side.hist(
            ends, edges, density=True, orientation="horizontal", histtype="stepfilled",
            facecolor=COLOURS[k] + "40", edgecolor=COLOURS[k], linestyle=STROKES[k], linewidth=0.9,
        )  # fmt: skip
    side.set_xticks([])
    side.spines["bottom"].set_visible(False)
    side.tick_params(left=False)
    side.set_xlabel(f"at $t_f = {node.times[-1]:g}$")
    axes.legend(loc="upper left", ncols=3, columnspacing=1.0, handlelength=2.0, bbox_to_anchor=(0, 1.14), borderpad=0)
    return figure


def density(node: NodeSample, dynamics: Dynamics) -> Figure:
    """Densities at t_final beside equilibrium, and what each moment weighs: x^p P(x), whose area is E[x^p]."""
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_density(left, _labels(node), node.states, node.drives, dynamics, float(node.times[-1]))
    left.legend(loc="upper left")
    panel(left, "a", "Density when read")
    _weighed(right, node)
    panel(right, "b", f"What the moments weigh, $h = {node.drives[-1]:g}$")
    return figure


def _weighed(axes: Axes, node: NodeSample) -> None:
    """x^p P(x) under the strongest drive, with the area under it."""
    sample = node.states[-1]
    edges = np.linspace(sample.min(), sample.max(), _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    P, _ = np.histogram(sample, edges, density=True)
    for k, p in enumerate((1, 2, 4)):
        power = sample**p
        error = power.std(ddof=1) / np.sqrt(len(sample))
        name = "x" if p == 1 else f"x^{p}"
        text = f"$E[{name}] = {power.mean():.4f} \\pm {error:.4f}$"
        weight = middle**p * P
        axes.fill_between(middle, weight, step="mid", color=COLOURS[k], alpha=0.18, linewidth=0)
        axes.step(middle, weight, where="mid", color=COLOURS[k], linestyle=STROKES[k], label=text)
    axes.step(middle, P, where="mid", color=MUTED, linewidth=0.7, label="$P(x)$")
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_xlim(left=1.5 * edges[0] - 0.5 * edges[-1])  # room for the legend
    axes.set_xlabel("state $x$")
    axes.set_ylabel("$x^p\\,P(x)$")
    axes.legend(loc="upper left")


def _labels(node: NodeSample) -> list[str]:
    return [f"$h = {h:g}$" for h in node.drives]
