"""A whole reservoir: its nodes as a grid, coloured by where they are; and its moments over the drive."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine
from thermoment._support.checks import check_array, check_integer, check_shape, invalid
from thermoment.machines.classifier import Classifier
from thermoment.moments import Moments
from thermoment.physics import Dynamics
from thermoment.plot.machine import protocol_of, refuse, reservoir_of, typical_drives, uncoupled
from thermoment.plot.style import COLOURS, DIVERGING, INK, MARKERS, STROKES, canvas
from thermoment.protocol import Protocol
from thermoment.simulation import simulate

Array = NDArray[np.float64]
_REPLICAS = 4096
"""Of a node by itself, where no protocol says how many."""
_POINTS = 61
_MOST_VECTORS = 2000
"""Marks that an SVG draws one by one; of more it holds a bitmap."""


def nodes(
    machine: Any,
    inputs: ArrayLike | None = None,
    *,
    sample: int = 0,
    reservoir: str | None = None,
    protocol: Protocol | None = None,
    engine: str | Engine | None = None,
    ax: Axes | None = None,
) -> Axes:
    """All nodes as a grid, row by row, coloured by their mean displacement m1 when they are read.

    Args:
        machine: Moments; or a Reservoir or Classifier, which is simulated.
        inputs: of a Reservoir or Classifier: (S, D), or a single one (D,).
        sample: which of the samples is shown.
        reservoir: of a Classifier: the name of a reservoir, the first unless given.
        protocol: how it is simulated; the machine's own unless given.
        engine: as in `simulate`.
        ax: where to draw; new axes unless given.
    """
    if isinstance(machine, Moments):
        refuse(machine, inputs=inputs, reservoir=reservoir, protocol=protocol, engine=engine)
        found = machine
    else:
        one = reservoir_of(machine, reservoir)
        images = np.atleast_2d(check_shape("inputs", inputs, np.shape(inputs))) if inputs is not None else None
        if images is None or images.ndim != 2 or images.shape[1] != one.n_inputs:
            shape = "missing" if images is None else f"of shape {images.shape}"
            raise invalid("inputs", f"have shape (S, {one.n_inputs})", shape)
        number = check_integer("sample", sample, 0, len(images) - 1)
        chosen = protocol_of(machine, protocol)
        found = simulate(one, images[[number]], chosen, engine=_engine(machine, engine), sample_ids=[number])
        sample = 0
    number = check_integer("sample", sample, 0, len(found.raw) - 1)
    displacement = found.order(1)[number]
    columns = math.ceil(math.sqrt(len(displacement)))
    rows = math.ceil(len(displacement) / columns)
    grid = np.full(rows * columns, np.nan)
    grid[: len(displacement)] = displacement
    largest = float(np.abs(displacement).max()) or 1.0
    with canvas(ax, height=2.9) as axes:
        cells = axes.pcolormesh(
            grid.reshape(rows, columns), cmap=DIVERGING, vmin=-largest, vmax=largest, edgecolors="white",
            linewidth=min(1.0, 16 / columns), rasterized=len(displacement) > _MOST_VECTORS,
        )  # fmt: skip
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_ylim(rows, 0)
        axes.get_figure().colorbar(cells, ax=axes, label="mean displacement $m_1$", shrink=0.8)  # type: ignore[union-attr]
    return axes


def moments(
    machine: Any,
    drives: ArrayLike | None = None,
    *,
    inputs: ArrayLike | None = None,
    reservoir: str | None = None,
    protocol: Protocol | None = None,
    engine: str | Engine | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Moments E[x^p] at t_final over the drive h, beside those of a node by itself in equilibrium (dotted).

    Args:
        machine: a Dynamics, for a node by itself: a curve for each order; or a Reservoir or Classifier: a dot for each
            order, node and input; or Moments, with their drives.
        drives: of a Dynamics: (H,), evenly spaced unless given; of Moments: (S, N), as `Reservoir.drive` gives them.
        inputs: of a Reservoir or Classifier: (S, D).
        reservoir: of a Classifier: the name of a reservoir, the first unless given.
        protocol: how it is simulated and which orders p are shown; unless given the machine's own, with 4096 replicas
            of a node by itself.
        engine: as in `simulate`.
        ax: where to draw; new axes unless given.
    """
    if isinstance(machine, Moments):
        refuse(machine, inputs=inputs, reservoir=reservoir, protocol=protocol, engine=engine)
        S, _, N = machine.raw.shape
        if drives is None:
            raise invalid("drives", f"have shape ({S}, {N}), as Reservoir.drive gives them", drives)
        return _draw(ax, check_array("drives", drives, (S, N)), machine, None)
    if isinstance(machine, Dynamics):
        refuse(machine, inputs=inputs, reservoir=reservoir)
        strongest = 1.5 * typical_drives(machine)[-1]
        given = np.linspace(-strongest, strongest, _POINTS) if drives is None else drives
        h = np.sort(check_array("drives", given, ("H",)))
        chosen = protocol_of(machine, protocol, _REPLICAS)
        return _draw(ax, h[None], simulate(uncoupled(h, machine), [[1.0]], chosen, engine=engine or "auto"), machine)
    one = reservoir_of(machine, reservoir)
    refuse(machine, drives=drives)
    if inputs is None:
        raise invalid("inputs", f"have shape (S, {one.n_inputs}): the drives follow from them", inputs)
    h = one.drive(inputs)
    found = simulate(one, inputs, protocol_of(machine, protocol), engine=_engine(machine, engine))
    shared = one.dynamics if one.dynamics.n_nodes is None else None
    return _draw(ax, h, found, shared, dots=True)


def _draw(ax: Axes | None, h: Array, found: Moments, dynamics: Dynamics | None, *, dots: bool | None = None) -> Axes:
    """Moments over their drives h, (S, N): as curves, or as dots, which Moments alone always are."""
    as_dots = dynamics is None if dots is None else dots
    with canvas(ax) as axes:
        for k, p in enumerate(found.orders):
            colour = COLOURS[k % len(COLOURS)]
            label = "$m_1 = E[x]$" if p == 1 else f"$m_{p} = E[x^{p}]$"
            if as_dots:
                axes.plot(
                    h.ravel(), found.order(p).ravel(), MARKERS[k % len(MARKERS)], color=colour, markersize=2.5,
                    alpha=0.5, markeredgewidth=0, label=label, rasterized=h.size > _MOST_VECTORS,
                )  # fmt: skip
            else:
                axes.plot(h[0], found.order(p)[0], color=colour, linestyle=STROKES[k % len(STROKES)], label=label)
        if dynamics is not None:
            _equilibrium(axes, np.linspace(h.min(), h.max(), 201), dynamics, found.orders)
        axes.set_xlabel("drive $h$")
        axes.set_ylabel("moment at $t_f$")
        axes.legend(loc="best", markerscale=2)
    return axes


def _equilibrium(axes: Axes, h: Array, dynamics: Dynamics, orders: Sequence[int]) -> None:
    for number, curve in enumerate(dynamics.boltzmann_moments(h, orders)):
        label = "equilibrium" if not number else None
        axes.plot(h, curve, color=INK, linewidth=0.8, linestyle=":", label=label)


def _engine(machine: Any, engine: str | Engine | None) -> str | Engine:
    if engine is not None:
        return engine
    return machine.engine if isinstance(machine, Classifier) else "auto"
