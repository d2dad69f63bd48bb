"""Grids for one node: cells in x for each drive, and one time grid for all drives of a table.

Cells are even, and x = 0, where every node starts, is the centre of one. Time steps are short at both ends of
[0, t_final] and double towards its middle. The drive comes at t = 0. A rest before it lies at negative times; t = 0 is
then there twice, so that a function of time can jump with the drive.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment.physics import Dynamics

Array = NDArray[np.float64]

# The grid ends where U has risen 34 kT above the lowest point passed on the way: the density beyond is below
# exp(-34) = 2e-15.
_TAIL_KT = 34.0
# It also ends 8.5 standard deviations of the linearised motion from the noiseless path: exp(-8.5^2 / 2) = 2e-16.
_TAIL_WIDTHS = 8.5
# Cells of the coarse grid per thermal width; the number of all cells is then kept between the other two.
_CELLS_PER_WIDTH, _LEAST_CELLS, _MOST_CELLS = 3.0, 120, 1500
# The coarse grid has at least this many cells below x = 0: under a strong drive the density, which starts as a delta,
# oscillates a little over the cells upstream in its first steps.
_MARGIN = 50
# For the first and for the second half of [0, t_final]: coarse time steps before the step doubles, and the shortest
# step as a part of the fastest relaxation time. At the end a longer step will do: a fast node hardly responds there.
_LEVELS = ((16, 0.1), (10, 0.4))
# Steps per interval of the time grid in which the noiseless path is solved.
_PATH_STEPS = 16
_MOST_SUBSTEPS = 64


class Grid(NamedTuple):
    """The cells of one drive."""

    x: Array
    """centres: (n,)"""
    dx: float
    origin: int
    """the cell whose centre is x = 0"""


def mirrored(dynamics: Dynamics) -> Dynamics:
    """The mirror image: a node in this well at drive h is at -x as often as one in `dynamics` at -h is at x."""
    return replace(dynamics, J3=-dynamics.J3) if dynamics.J3 else dynamics


def farthest(dynamics: Dynamics, h: ArrayLike) -> Array:
    """How far from 0 the stationary points under drives h >= 0 and -h are, whichever is farther."""
    if not dynamics.J3:
        return dynamics.stationary_point(h)
    return np.maximum(*(np.abs(dynamics.stationary_point(one)) for one in (h, -np.asarray(h))))


class NoiselessPath(NamedTuple):
    """The noiseless path of every drive and the width of the linearised motion around it: (T + 1, H) each."""

    x: Array
    width: Array


def noiseless_path(dynamics: Dynamics, h: Array, t: Array) -> NoiselessPath:
    """dx/dt = mu F, dw^2/dt = -2 mu U''(x) w^2 + 2 mu kT from x = w = 0, for drives h (H,) at times t (T + 1,).

    Before t = 0 there is no drive. Good to a few per cent, which is enough to choose grids.
    """
    x, variance = np.zeros_like(h), np.zeros_like(h)
    xs, variances = [x], [variance]
    steps = np.repeat(np.diff(t) / _PATH_STEPS, _PATH_STEPS)
    for step, end in zip(steps, np.repeat(t[1:], _PATH_STEPS), strict=True):
        slope = -dynamics.mu * dynamics.curvature(x)
        x = x + dynamics.mu * dynamics.force(x, h if end > 0 else 0 * h) * step / (1 + np.maximum(-slope, 0) * step)
        variance = (variance + 2 * dynamics.mu * dynamics.kT * step) / np.maximum(1 - 2 * slope * step, 0.1)
        variance = np.minimum(variance, 1e6)
        xs.append(x)
        variances.append(variance)
    return NoiselessPath(np.array(xs)[::_PATH_STEPS], np.sqrt(np.array(variances)[::_PATH_STEPS]))


def substeps(dynamics: Dynamics, h: Array, t: Array, noiseless: NoiselessPath) -> NDArray[np.intp]:
    """How many steps to take in each interval of t, so that the density moves by half its width in each: (T, H)."""
    speed = dynamics.mu * np.abs(dynamics.force(noiseless.x, h))
    way = np.maximum(speed[1:], speed[:-1]) * np.diff(t)[:, None]
    return np.clip(np.ceil(way / (0.5 * noiseless.width[1:])), 1, _MOST_SUBSTEPS).astype(np.intp)


def _widest(dynamics: Dynamics, t: float) -> float:
    """The width that a node has after a time t, at the most: that in a well as soft as this one is at its softest."""
    softest = 2 * dynamics.mu * float(dynamics.curvature(-dynamics.J3 / (4 * dynamics.J4)))
    stretch = -math.expm1(-min(max(softest * t, -50.0), 50.0)) / softest if softest else t
    return math.sqrt(2 * dynamics.mu * dynamics.kT * stretch)


def reach(
    dynamics: Dynamics, h: Array, noiseless: NoiselessPath, rested: bool = False, since: float = 0.0
) -> tuple[Array, Array]:
    """Ends (low, high) of the interval that a node leaves before t_final with probability below 1e-14: (H,) each.

    The drives h are at least 0 and increase. A node does not climb 34 kT, it does not get 8.5 widths ahead of its
    noiseless path, and it does not get 8.5 widths behind the noiseless path of the least drive. Where the drive comes
    to a node that has `rested`, the node may be as far below 0 as one under the least drive. The node was at x = 0 a
    time `since` before; that matters with J3 only.
    """
    outermost = float(2 * farthest(dynamics, h.max()) + 2)
    lowest = dynamics.potential(dynamics.stationary_point(h), h)
    signs = (1.0, -1.0) if dynamics.J3 else (1.0,)
    ceiling = lowest + 2 * _TAIL_KT * dynamics.kT
    while any(np.any(dynamics.potential(sign * outermost, h) < ceiling) for sign in signs):
        outermost *= 1.5
    way = np.linspace(0.0, outermost, 20_001)
    ends = []
    for sign in (-1.0, 1.0):
        end = np.empty_like(h)
        for k, drive in enumerate(h):
            U = dynamics.potential(sign * way, drive)
            climbed = U - np.minimum.accumulate(U) > _TAIL_KT * dynamics.kT
            end[k] = sign * way[int(np.argmax(climbed)) if climbed.any() else -1]
        ends.append(end)
    width = noiseless.width.max(axis=0)
    if dynamics.J3:  # on one side the well is softer than at x = 0
        width = np.maximum(width, _widest(dynamics, since))
    low = np.maximum(ends[0][0] if rested else ends[0], -_TAIL_WIDTHS * width[0])
    high = np.minimum(ends[1], noiseless.x[-1] + _TAIL_WIDTHS * np.maximum(width, width[0]))
    return np.broadcast_to(low, high.shape), high


def cell_grid(dynamics: Dynamics, h: float, low: float, high: float, t_final: float, refine: int) -> Grid:
    """Even cells from low to high, `refine` times finer than the coarsest, for a node that started t_final ago."""
    stiffness = max(float(dynamics.curvature(dynamics.stationary_point(h))), 1e-12)
    if dynamics.J3:  # x = 0 may lie in another well than the stationary point
        stiffness = max(stiffness, 2 * dynamics.J2)
    width = min(np.sqrt(dynamics.kT / stiffness), np.sqrt(2 * dynamics.mu * dynamics.kT * t_final))
    cells = int(np.clip(np.ceil((high - low) / width * _CELLS_PER_WIDTH), _LEAST_CELLS, _MOST_CELLS))
    dx = (high - low) / cells
    below, above = max(math.ceil(-low / dx), _MARGIN) * refine, math.ceil(high / dx) * refine
    return Grid(np.asarray((np.arange(below + above + 1) - below) * (dx / refine), np.float64), dx / refine, below)


@dataclass(frozen=True, eq=False)
class NodeGrids:
    """The grids on which a node is solved at every drive of a table."""

    dynamics: Dynamics
    h: Array
    """(H,), increasing: from 0 upwards, or as many below 0 as above"""
    t: Array
    """the coarse time grid of all drives: (T + 1,)"""
    n_substeps: NDArray[np.intp]
    """steps in each interval of t: (T, H)"""
    low: Array
    high: Array
    """ends of the cells: (H,) each"""
    since: float
    """how long before t_final every node was at x = 0"""

    @classmethod
    def of(cls, dynamics: Dynamics, h: Array, t_final: float, t_rest: float) -> "NodeGrids":
        """After a rest of t_rest. Drives below 0 have the grids of the mirror image, mirrored."""
        since = t_rest + t_final
        t = with_rest(dynamics, time_grid(dynamics, float(h[-1]), t_final), t_rest)

        def side(one: Dynamics) -> tuple[NDArray[np.intp], Array, Array]:
            above = h[h >= 0]
            noiseless = noiseless_path(one, above, t)
            return substeps(one, above, t, noiseless), *reach(one, above, noiseless, t_rest > 0, since)

        n_substeps, low, high = side(dynamics)
        if h[0] < 0:
            theirs, low_, high_ = side(mirrored(dynamics))
            n_substeps = np.concatenate([theirs[:, :0:-1], n_substeps], axis=1)
            low, high = np.concatenate([-high_[:0:-1], low]), np.concatenate([-low_[:0:-1], high])
        return cls(dynamics, h, t, n_substeps, low, high, since)

    def cells(self, k: int, refine: int) -> Grid:
        """The cells of drive k, `refine` times finer than the coarsest."""
        h, low, high = float(self.h[k]), float(self.low[k]), float(self.high[k])
        if h >= 0:
            return cell_grid(self.dynamics, h, low, high, self.since, refine)
        x, dx, origin = cell_grid(mirrored(self.dynamics), -h, -high, -low, self.since, refine)
        return Grid(-x[::-1], dx, len(x) - 1 - origin)


def time_grid(dynamics: Dynamics, h_max: float, t_final: float) -> Array:
    """Coarse time grid from 0 to t_final, for all drives up to h_max: (T + 1,).

    The first steps resolve the start of the fastest node, the last steps how a node forgets what drove it just before
    it is read.
    """
    x = float(farthest(dynamics, h_max))
    stiff = max(float(dynamics.curvature(x)), 2 * abs(dynamics.J2), 1e-12)
    if dynamics.J3:
        stiff = max(stiff, float(dynamics.curvature(-x)))
    fastest = min(1 / (dynamics.mu * stiff), t_final / 16)
    if h_max > 0:
        fastest = min(fastest, x / (dynamics.mu * h_max))
    halves = []
    for steps_per_level, first_step in _LEVELS:
        step, t, steps = fastest * first_step, 0.0, []
        while t < t_final / 2:
            for _ in range(steps_per_level):
                t += step
                steps.append(step)
                if t >= t_final / 2:
                    break
            step *= 2
        # The steps end a little beyond the middle: scaled by a few per cent they end exactly there.
        halves.append(np.array(steps) * (t_final / 2 / t))
    return np.concatenate([[0.0], np.cumsum(np.concatenate([halves[0], halves[1][::-1]]))])


def with_rest(dynamics: Dynamics, t: Array, t_rest: float) -> Array:
    """The time grid t, which starts at 0, with a rest of t_rest before it: (T + 1,); t itself where there is none."""
    if not t_rest:
        return t
    rest = time_grid(dynamics, 0.0, t_rest) - t_rest
    rest[-1] = 0.0  # without what rounding left
    return np.concatenate([rest, t])


def driven(t: Array) -> Array:
    """1 when the drive is there, 0 in the rest before it: (T + 1,)."""
    return np.asarray(np.arange(len(t)) >= np.flatnonzero(t == 0)[-1], np.float64)


def halved(t: Array) -> Array:
    """The time grid with every step cut in two; or a function on it (T + 1,), linear in between."""
    found = np.empty(2 * len(t) - 1)
    found[::2], found[1::2] = t, (t[1:] + t[:-1]) / 2
    return found


def inner_products(t: Array) -> Array:
    """The matrix B (T + 1, T + 1) with f @ B @ g = int f(t) g(t) dt, exact where f and g are linear between times t."""
    step = np.diff(t)
    diagonal = np.zeros_like(t)
    diagonal[1:] += step / 3
    diagonal[:-1] += step / 3
    return np.diag(diagonal) + np.diag(step / 6, 1) + np.diag(step / 6, -1)
