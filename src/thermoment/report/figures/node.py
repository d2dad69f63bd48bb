"""One driven node in the experiment's well: its potential, its paths, and the density that it is read from."""

import numpy as np
from matplotlib.figure import Figure

from thermoment.physics import Dynamics
from thermoment.report.figures.style import COLOURS, HALF, INK, MARKERS, MUTED, STROKES, WIDTH, panel
from thermoment.results.node import NodeSample

_BINS = 48


def potential(node: NodeSample, dynamics: Dynamics) -> Figure:
    """U(x; h) under each drive, with its minimum."""
    figure = Figure(figsize=(HALF, 2.7), layout="constrained")
    axes = figure.subplots()
    furthest = float(dynamics.stationary_point(node.drives[-1]))
    x = np.linspace(-1.3, 1.3, 261) * furthest
    for k, h in enumerate(node.drives):
        lowest = float(dynamics.stationary_point(h))
        axes.plot(x, dynamics.potential(x, h), color=COLOURS[k], linestyle=STROKES[k], label=f"$h = {h:g}$")
        axes.plot(lowest, dynamics.potential(lowest, h), MARKERS[k], color=COLOURS[k], markersize=5, clip_on=False)
    top, bottom = float(dynamics.potential(x[-1])), float(dynamics.potential(furthest, node.drives[-1]))
    axes.set_ylim(bottom - 0.12 * (top - bottom), top)
    axes.set_xlim(x[0], x[-1])
    if dynamics.kT > 0:
        at = x[0] * 0.86
        axes.plot([at, at], [bottom, bottom + dynamics.kT], color=INK, linewidth=2.5, solid_capstyle="butt")
        axes.annotate("$k_BT$", (at, bottom + dynamics.kT / 2), (5, 0), textcoords="offset points", va="center")
    axes.set_xlabel("state $x$")
    axes.set_ylabel("potential $U(x; h)$")
    axes.legend(loc="best")
    return figure


def paths(node: NodeSample) -> Figure:
    """A few replicas under each drive, the mean of all, and where all replicas are when they are read."""
    t = node.times
    figure = Figure(figsize=(HALF, 2.7), layout="constrained")
    axes, side = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1], gridspec_kw={"wspace": 0.03})
    edges = np.linspace(node.extent[0], node.extent[1], _BINS + 1)
    for k, h in enumerate(node.drives):
        axes.plot(t, node.paths[k].T, color=COLOURS[k], linewidth=0.45, alpha=0.55)
        axes.plot(t, node.means[k], color=COLOURS[k], linestyle=STROKES[k], linewidth=1.8, label=f"$h = {h:g}$")
        side.hist(
            node.ends[k], edges, density=True, orientation="horizontal", histtype="stepfilled",
            facecolor=COLOURS[k] + "40", edgecolor=COLOURS[k], linestyle=STROKES[k], linewidth=0.9,
        )  # fmt: skip
    axes.set_xlim(0, t[-1])
    axes.set_xlabel("time $t$")
    axes.set_ylabel("state $x(t)$")
    side.set_xticks([])
    side.spines["bottom"].set_visible(False)
    side.tick_params(left=False)
    side.set_xlabel(f"at $t_f = {t[-1]:g}$")
    axes.legend(loc="upper left", ncols=3, columnspacing=1.0, handlelength=2.0, bbox_to_anchor=(0, 1.14), borderpad=0)
    return figure


def density(node: NodeSample, dynamics: Dynamics) -> Figure:
    """Densities at t_final beside equilibrium, and what each moment weighs: x^p P(x), whose area is E[x^p]."""
    states = node.states
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    edges = np.linspace(states.min(), states.max(), 2 * _BINS + 1)
    x = np.linspace(edges[0], edges[-1], 401)
    for k, (h, sample) in enumerate(zip(node.drives, states, strict=True)):
        left.hist(sample, edges, density=True, histtype="stepfilled", color=COLOURS[k], alpha=0.35, linewidth=0)
        left.hist(
            sample, edges, density=True, histtype="step", color=COLOURS[k], linestyle=STROKES[k], label=f"$h = {h:g}$"
        )
        left.plot(x, dynamics.boltzmann_density(x, h), color=INK, linewidth=0.8, linestyle=":")
    left.plot([], [], color=INK, linewidth=0.8, linestyle=":", label="equilibrium")
    left.set_xlabel("state $x$")
    left.set_ylabel(f"density $P(x, t_f = {node.times[-1]:g} \\mid h)$")
    left.legend(loc="upper left")
    panel(left, "a", "Density when read")

    sample = states[-1]
    edges = np.linspace(sample.min(), sample.max(), _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    P, _ = np.histogram(sample, edges, density=True)
    for k, p in enumerate((1, 2, 4)):
        power = sample**p
        error = power.std(ddof=1) / np.sqrt(len(sample))
        name = "x" if p == 1 else f"x^{p}"
        text = f"$E[{name}] = {power.mean():.4f} \\pm {error:.4f}$"
        weight = middle**p * P
        right.fill_between(middle, weight, step="mid", color=COLOURS[k], alpha=0.18, linewidth=0)
        right.step(middle, weight, where="mid", color=COLOURS[k], linestyle=STROKES[k], label=text)
    right.step(middle, P, where="mid", color=MUTED, linewidth=0.7, label="$P(x)$")
    right.axhline(0, color=INK, linewidth=0.6)
    right.set_xlim(left=1.5 * edges[0] - 0.5 * edges[-1])  # room for the legend
    right.set_xlabel("state $x$")
    right.set_ylabel("$x^p\\,P(x)$")
    right.legend(loc="upper left")
    panel(right, "b", f"What the moments weigh, $h = {node.drives[-1]:g}$")
    return figure
