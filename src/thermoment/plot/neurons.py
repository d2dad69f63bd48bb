"""Neurons: activation curves, and the error of a layered machine over the time at which it is read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatterSciNotation
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_positive, invalid, quoted
from thermoment.machines.neurons.activation import activation as activation_of
from thermoment.machines.neurons.layers import Layered, check_targets, first_moments
from thermoment.plot.machine import MOST_CURVES, dynamics_of
from thermoment.plot.style import COLOURS, FAINT, INK, MUTED, STROKES, canvas, grid
from thermoment.protocol import Protocol

_REPLICAS = 512


def activation(
    machine: Any,
    times: Sequence[float] = (),
    drives: ArrayLike | None = None,
    *,
    protocol: Protocol | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The mean position <x> of a node over its drive: in equilibrium (dotted), and at each of the times.

    Args:
        machine: a Dynamics, or a Reservoir or Classifier, whose well is drawn.
        times: when the node is read, up to 6 times; equilibrium alone unless given.
        drives: h, (H,); 41 from -10 to 10 unless given.
        protocol: how it is simulated; `Protocol(n_replicas=4096)` unless given. Its t_final is not used.
        ax: where to draw; new axes unless given.
    """
    dynamics = dynamics_of(machine)
    h = np.linspace(-10, 10, 41) if drives is None else check_array("drives", drives, ("H",))
    chosen = first_moments(Protocol(n_replicas=4096) if protocol is None else protocol)
    when = [check_positive("times", t) for t in times]
    if len(when) > MOST_CURVES:
        raise invalid("times", f"be at most {MOST_CURVES}, a curve each", f"{len(when)} of them")
    curves = {t: activation_of(dynamics, h, replace(chosen, t_final=t)) for t in when}
    with canvas(ax) as axes:
        draw_activation(axes, h, activation_of(dynamics, h), curves)
        axes.legend(loc="upper left")
    return axes


def draw_activation(
    axes: Axes, drives: NDArray[Any], equilibrium: NDArray[Any], curves: dict[float, NDArray[Any]]
) -> None:
    """Draws <x> (H,) in equilibrium and by the time it is read."""
    axes.axhline(0, color=FAINT, linewidth=0.6)
    axes.axvline(0, color=FAINT, linewidth=0.6)
    axes.plot(drives, equilibrium, ":", color=INK, label="equilibrium")
    for k, (t, x) in enumerate(curves.items()):
        axes.plot(drives, x, color=COLOURS[k], linestyle=STROKES[k], label=f"$t = {t:g}$")
    axes.set_xlim(drives.min(), drives.max())
    axes.set_xlabel("input $I$")
    axes.set_ylabel(r"activation $\langle x \rangle$")


def clock(
    machine: Any,
    inputs: ArrayLike,
    targets: ArrayLike,
    times: Sequence[float],
    *,
    trained_for: float | None = None,
    protocol: Protocol | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The mean squared error of a layered machine over the time at which it is read.

    Args:
        machine: a thermoment.neurons.Layered.
        inputs: (S, D).
        targets: (S, C), or (S,) where C = 1.
        times: when it is read, increasing multiples of dt.
        trained_for: a time that is marked.
        protocol: how it is simulated; `Protocol(n_replicas=512)` unless given. Its t_final is not used.
        ax: where to draw; new axes unless given.
    """
    if not isinstance(machine, Layered):
        raise invalid("machine", "be a thermoment.neurons.Layered", quoted(machine))
    y = check_targets(machine, inputs, targets)
    marked = None if trained_for is None else check_positive("trained_for", trained_for)
    found = machine.answers_at(inputs, times, Protocol(n_replicas=_REPLICAS) if protocol is None else protocol)
    errors = ((found - y) ** 2).mean(axis=(1, 2))
    with canvas(ax) as axes:
        draw_clock(axes, np.asarray(times, float), {"": errors}, marked)
    return axes


def draw_clock(axes: Axes, times: NDArray[Any], errors: dict[str, NDArray[Any]], trained_for: float | None) -> None:
    """Draws mean squared errors (T,) by name, over the times (T,)."""
    if trained_for is not None:
        axes.axvline(trained_for, color=MUTED, linewidth=0.6, linestyle=(0, (2, 2)))
    for k, (name, error) in enumerate(errors.items()):
        style: Any = {"color": COLOURS[k], "linestyle": STROKES[k], "marker": "o", "markersize": 2.5}
        axes.plot(times, error, label=name, **style)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatterSciNotation())
    axes.set_xlabel("time at which it is read")
    axes.set_ylabel("mean squared error")
    grid(axes, "y")
    if any(errors):
        axes.legend(loc="lower left")
