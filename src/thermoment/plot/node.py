"""One node: its well under a drive, its paths, and its density when it is read, beside equilibrium."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_integer, invalid
from thermoment.physics import Dynamics
from thermoment.plot.machine import (
    MOST_CURVES,
    drives_for,
    dynamics_of,
    every_for,
    protocol_of,
    refuse,
    reservoir_of,
    uncoupled,
)
from thermoment.plot.style import COLOURS, INK, MARKERS, STROKES, canvas
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import final_states, sample_paths
from thermoment.thermodynamics.relaxation import stationary_drive

Array = NDArray[np.float64]
_ALONE, _COUPLED = 1024, 256
"""Replicas of a node by itself, and of a whole network, where no protocol says how many: of paths, and"""
_ALONE_STATES, _COUPLED_STATES = 16384, 1024
"""of final states."""
_MOST_ROUNDS, _TOLERANCE = 200, 1e-9
"""For the mean field in equilibrium: rounds, and when they end."""


class _Watched(NamedTuple):
    """A node under several drives: by itself, or one of a network that sees several inputs."""

    reservoir: Reservoir
    inputs: Array
    """(S, D)"""
    nodes: Sequence[int]
    """all nodes of the reservoir for a single input, or one node for S inputs"""
    labels: list[str]
    """(H,)"""
    equilibrium: Array
    """drives under which a node by itself has the same equilibrium: (H,)"""
    alone: bool
    """whether it is a node by itself"""

    def by_drive(self, found: Array) -> Array:
        """What was recorded of each input, replica and node, (S, M, ..., nodes), as (H, M, ...)."""
        return np.moveaxis(found[0], -1, 0) if len(self.nodes) > 1 or len(found) == 1 else found[..., 0]


def well(machine: Any, drives: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """The potential U(x; h) of a node under each drive, with its minimum marked and a bar as high as kT.

    Args:
        machine: a Dynamics, or a Reservoir or Classifier, whose well is drawn.
        drives: h, (H,) with H up to 6; no drive, a weak and a strong one unless given.
        ax: where to draw; new axes unless given.
    """
    dynamics = dynamics_of(machine)
    h = drives_for(dynamics, drives)
    lowest = dynamics.stationary_point(h)
    reach = _reach(dynamics, lowest) or 1.0
    x = np.linspace(-reach, reach, 261)
    bottom, top = float(dynamics.potential(lowest, h).min()), float(dynamics.potential([-reach, reach]).max())
    with canvas(ax) as axes:
        for k, (drive, minimum) in enumerate(zip(h, lowest, strict=True)):
            axes.plot(x, dynamics.potential(x, drive), color=COLOURS[k], linestyle=STROKES[k], label=f"$h = {drive:g}$")
            # A double well without drive has two, unless it leans.
            minima = np.unique([minimum, -minimum] if drive == 0 and not dynamics.J3 else minimum)
            depth = dynamics.potential(minima, drive)
            axes.plot(minima, depth, MARKERS[k], color=COLOURS[k], markersize=5, clip_on=False)
        axes.set_ylim(bottom - 0.12 * (top - bottom), top)
        axes.set_xlim(-reach, reach)
        if dynamics.kT > 0:
            place = -0.86 * reach
            axes.plot([place] * 2, [bottom, bottom + dynamics.kT], color=INK, linewidth=2.5, solid_capstyle="butt")
            axes.annotate("$k_BT$", (place, bottom + dynamics.kT / 2), (5, 0), textcoords="offset points", va="center")
        axes.set_xlabel("state $x$")
        axes.set_ylabel("potential $U(x; h)$")
        axes.legend(loc="upper center")  # between the walls
    return axes


def _reach(dynamics: Dynamics, lowest: Array) -> float:
    """How far from zero the well is worth seeing: beyond every minimum, and beyond three thermal widths of it."""
    with np.errstate(divide="ignore"):
        widths = np.sqrt(dynamics.kT / dynamics.curvature(lowest))
    widest = np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0])  # where a purely quartic well has no curvature
    return float(max(1.3 * np.abs(lowest).max(), (np.abs(lowest) + 3 * np.fmin(widths, widest)).max()))


def paths(
    machine: Any,
    drives: ArrayLike | None = None,
    *,
    inputs: ArrayLike | None = None,
    node: int | None = None,
    reservoir: str | None = None,
    protocol: Protocol | None = None,
    n_paths: int = 6,
    ax: Axes | None = None,
) -> Axes:
    """Paths x(t) of a node from x = 0 to t_final: a few replicas (thin), and the mean of all (thick).

    Args:
        machine: a Dynamics, for a node by itself; or a Reservoir or Classifier, for one of its nodes.
        drives: of a Dynamics: h, (H,) with H up to 6.
        inputs: of a Reservoir or Classifier: (S, D) with S up to 6.
        node: of a Reservoir or Classifier: which node, the first unless given.
        reservoir: of a Classifier: the name of a reservoir, the first unless given.
        protocol: how it is simulated; unless given the machine's own, with 1024 replicas of a node by itself and 256 of
            a network.
        n_paths: how many replicas are shown.
        ax: where to draw; new axes unless given.
    """
    watched = _watched(machine, drives, inputs, node, reservoir)
    chosen = protocol_of(machine, protocol, _ALONE if watched.alone else _COUPLED)
    count = check_integer("n_paths", n_paths, 0, 1000)
    every = every_for(chosen.n_steps)
    engine = "reference" if watched.alone else "xla"  # a few nodes are done before XLA has compiled anything
    times, found = sample_paths(
        watched.reservoir, watched.inputs, chosen, nodes=watched.nodes, every=every, engine=engine
    )
    x = watched.by_drive(found)
    with canvas(ax) as axes:
        draw_paths(axes, watched.labels, times, x[:, :count], x.mean(axis=1))
        axes.legend(loc="best")
    return axes


def draw_paths(axes: Axes, labels: Sequence[str], times: Array, kept: Array, means: Array) -> None:
    """Draws paths. times: (T,); kept: (H, P, T), shown one by one; means: (H, T)."""
    for k, label in enumerate(labels):
        axes.plot(times, kept[k].T, color=COLOURS[k], linewidth=0.45, alpha=0.55)
        axes.plot(times, means[k], color=COLOURS[k], linestyle=STROKES[k], linewidth=1.8, label=label)
    axes.set_xlim(0, times[-1])
    axes.set_xlabel("time $t$")
    axes.set_ylabel("state $x(t)$")


def density(
    machine: Any,
    drives: ArrayLike | None = None,
    *,
    inputs: ArrayLike | None = None,
    node: int | None = None,
    reservoir: str | None = None,
    protocol: Protocol | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The density of a node's position at t_final, a histogram of all replicas, beside equilibrium (dotted).

    Args: those of `paths`. Unless a protocol is given there are 16384 replicas of a node by itself, 1024 of a network.

    Equilibrium is Boltzmann's law of the node; in a network that of the node in the mean field of the others,
    h_i + sum_j W_ij <x_j>. Needs kT > 0.
    """
    dynamics = dynamics_of(machine, node or 0)
    if dynamics.kT == 0:
        raise invalid("kT", "be positive for a density", dynamics.kT)
    watched = _watched(machine, drives, inputs, node, reservoir)
    chosen = protocol_of(machine, protocol, _ALONE_STATES if watched.alone else _COUPLED_STATES)
    states = final_states(watched.reservoir, watched.inputs, chosen)[..., list(watched.nodes)]
    with canvas(ax) as axes:
        draw_density(axes, watched.labels, watched.by_drive(states), watched.equilibrium, dynamics, chosen.t_final)
        axes.legend(loc="best")
    return axes


def draw_density(
    axes: Axes, labels: Sequence[str], states: Array, equilibrium: Array, dynamics: Dynamics, t_final: float
) -> None:
    """Draws densities. states: (H, S); equilibrium: (H,), the drives of the Boltzmann laws beside them."""
    bins = int(np.clip(0.75 * np.sqrt(states.shape[1]), 40, 96))
    edges = np.linspace(states.min(), states.max(), bins + 1).tolist()
    x = np.linspace(edges[0], edges[-1], 401)
    for k, (label, sample, h) in enumerate(zip(labels, states, equilibrium, strict=True)):
        axes.hist(sample, edges, density=True, histtype="stepfilled", color=COLOURS[k], alpha=0.35, linewidth=0)
        axes.hist(sample, edges, density=True, histtype="step", color=COLOURS[k], linestyle=STROKES[k], label=label)
        axes.plot(x, dynamics.boltzmann_density(x, float(h)), color=INK, linewidth=0.8, linestyle=":")
    axes.plot([], [], color=INK, linewidth=0.8, linestyle=":", label="equilibrium")
    axes.set_xlabel("state $x$")
    axes.set_ylabel(f"density $P(x, t_f = {t_final:g} \\mid h)$")


def _fields(h: Array, W: Array, dynamics: Dynamics) -> Array:
    """The drives of the nodes (S, N) and the mean field of the others in equilibrium, self-consistent: (S, N)."""
    if dynamics.n_nodes is None and not dynamics.J3:
        return stationary_drive(h, W, dynamics)
    drive = h
    for _ in range(_MOST_ROUNDS):
        new = h + dynamics.boltzmann_moments(drive, [1])[0] @ W.T
        if np.abs(new - drive).max() < _TOLERANCE:
            return np.asarray(new)
        drive = new
    raise RuntimeError("The coupling is too strong: the mean field in equilibrium is not self-consistent.")


def _watched(
    machine: Any, drives: ArrayLike | None, inputs: ArrayLike | None, node: int | None, name: str | None
) -> _Watched:
    """What is to be simulated, every argument checked."""
    if isinstance(machine, Dynamics):
        refuse(machine, inputs=inputs, node=node, reservoir=name)
        h = drives_for(machine, drives)
        labels = [f"$h = {drive:g}$" for drive in h]
        return _Watched(uncoupled(h, machine), np.ones((1, 1)), range(len(h)), labels, h, True)
    reservoir = reservoir_of(machine, name)
    refuse(machine, drives=drives)
    if inputs is None:
        raise invalid("inputs", f"have shape (S, {reservoir.n_inputs}): the drives follow from them", inputs)
    images = np.atleast_2d(np.asarray(inputs))
    h = reservoir.drive(images)
    if len(h) > MOST_CURVES:
        raise invalid("inputs", f"be at most {MOST_CURVES} samples, a curve each", f"{len(h)} of them")
    which = check_integer("node", 0 if node is None else node, 0, reservoir.n_nodes - 1)
    labels = [f"input {k}, $h = {drive:.2g}$" for k, drive in enumerate(h[:, which])]
    fields = _fields(h, reservoir.W, reservoir.dynamics) if np.all(reservoir.dynamics.kT > 0) else h
    return _Watched(reservoir, images, [which], labels, fields[:, which], False)
