"""One driven node in the experiment's well: its potential, its paths, the density it is read from; all simulated."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.report.figures.style import COLOURS, HALF, INK, MARKERS, MUTED, STROKES, WIDTH, panel
from thermoment.reservoir import Reservoir
from thermoment.simulation import final_states, sample_paths

Array = NDArray[np.float64]

REPLICAS, COPIES = 1024, 16
"""A node is copied without coupling: 16384 samples in one block of the reference engine."""
PATHS, _RECORDS = 6, 200
_MOST_STEPS = 2000
_BINS = 48


@dataclass(frozen=True)
class Node:
    """A node under a few drives, and how it is driven and read."""

    dynamics: Dynamics
    protocol: Protocol
    drives: tuple[float, ...]

    @classmethod
    def of(cls, settings: dict[str, Any]) -> "Node":
        """The experiment's well, with drives that would move a harmonic node by 0, 2 and 6 thermal widths."""
        dynamics, given = Dynamics(**settings["dynamics"]), settings["protocol"]
        drives: tuple[float, ...] = (0.0, 1.0, 3.0)
        if dynamics.kT > 0:
            width = float(np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
            drives = (0.0, *(float(f"{factor * dynamics.kT / width:.1g}") for factor in (2, 6)))
        # A protocol of very many steps is drawn with fewer where that is stable: one cannot see the difference.
        steps = round(given["t_final"] / given["dt"])
        dt = given["t_final"] / min(steps, _MOST_STEPS)
        if dt > dynamics.largest_stable_step(drives[-1]) / 20:
            dt = given["dt"]
        clip = math.inf if given["clip"] is None else given["clip"]
        protocol = Protocol(dt, given["t_final"], REPLICAS, clip, given["seed"])
        return cls(dynamics, protocol, drives)

    def states(self) -> Array:
        """x(t_final): (drives, samples)."""
        x = final_states(self._copies(COPIES), [[1.0]], self.protocol, engine="reference")[0]
        return np.asarray(x.T.reshape(len(self.drives), -1))

    def paths(self) -> tuple[Array, Array]:
        """Times (T,) and x (drives, replicas, T)."""
        every = max(1, self.protocol.n_steps // _RECORDS)
        while self.protocol.n_steps % every:
            every -= 1
        nodes = range(len(self.drives))
        t, x = sample_paths(self._copies(1), [[1.0]], self.protocol, nodes=nodes, every=every, engine="reference")
        return t, np.moveaxis(x[0], 2, 0)

    def _copies(self, count: int) -> Reservoir:
        h = np.repeat(self.drives, count)
        return Reservoir(np.zeros((len(h), len(h))), h[:, None], np.zeros(len(h)), self.dynamics)


def potential(node: Node) -> Figure:
    """U(x; h) under each drive, with its minimum."""
    dynamics = node.dynamics
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


def paths(node: Node) -> Figure:
    """A few replicas from x = 0 under each drive, their mean, and where all replicas are when they are read."""
    t, x = node.paths()
    figure = Figure(figsize=(HALF, 2.7), layout="constrained")
    axes, side = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1], gridspec_kw={"wspace": 0.03})
    edges = np.linspace(x.min(), x.max(), _BINS + 1)
    for k, h in enumerate(node.drives):
        axes.plot(t, x[k, :PATHS].T, color=COLOURS[k], linewidth=0.45, alpha=0.55)
        axes.plot(t, x[k].mean(axis=0), color=COLOURS[k], linestyle=STROKES[k], linewidth=1.8, label=f"$h = {h:g}$")
        side.hist(
            x[k, :, -1], edges, density=True, orientation="horizontal", histtype="stepfilled",
            facecolor=COLOURS[k] + "40", edgecolor=COLOURS[k], linestyle=STROKES[k], linewidth=0.9,
        )  # fmt: skip
    axes.set_xlim(0, t[-1])
    axes.set_xlabel("time $t$")
    axes.set_ylabel("state $x(t)$")
    side.set_xticks([])
    side.spines["bottom"].set_visible(False)
    side.tick_params(left=False)
    side.set_xlabel(f"at $t_f = {node.protocol.t_final:g}$")
    axes.legend(loc="upper left", ncols=3, columnspacing=1.0, handlelength=2.0, bbox_to_anchor=(0, 1.14), borderpad=0)
    return figure


def density(node: Node) -> Figure:
    """Densities at t_final beside equilibrium, and what each moment weighs: x^p P(x), whose area is E[x^p]."""
    states = node.states()
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    edges = np.linspace(states.min(), states.max(), 2 * _BINS + 1)
    x = np.linspace(edges[0], edges[-1], 401)
    for k, (h, sample) in enumerate(zip(node.drives, states, strict=True)):
        left.hist(sample, edges, density=True, histtype="stepfilled", color=COLOURS[k], alpha=0.35, linewidth=0)
        left.hist(
            sample, edges, density=True, histtype="step", color=COLOURS[k], linestyle=STROKES[k], label=f"$h = {h:g}$"
        )
        left.plot(x, node.dynamics.boltzmann_density(x, h), color=INK, linewidth=0.8, linestyle=":")
    left.plot([], [], color=INK, linewidth=0.8, linestyle=":", label="equilibrium")
    left.set_xlabel("state $x$")
    left.set_ylabel(f"density $P(x, t_f = {node.protocol.t_final:g} \\mid h)$")
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
