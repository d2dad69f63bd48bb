"""One node under a drive that varies a little in time: its law to second order, for one constant drive h at a time.

The drive is h + f(t) with f(t) = sum_a f_a phi_a(t). With L the Fokker-Planck operator at drive h and L' = dL/dh,

    L P  = d/dx [ -mu F(x; h) P + mu kT dP/dx ]            L' P = -mu dP/dx
    dP/dt    = L P                                          P(x, 0) = delta(x)
    dP_a/dt  = L P_a + phi_a L' P                           first order in f_a
    dZ_a/dt  = L Z_a + phi_a (x - <x>) P                    E[delta(x - x(t)) int_0^t phi_a (x - <x>) ds]
    dQ_G/dt  = L Q_G + L' sum_ab G_ab phi_a P_b             second order: a Gaussian field of covariance G
    dO_r/dt  = L O_r + L' sum_ab r_ab phi_a Z_b             a force int r(t, s) (x(s) - <x(s)>) ds of the node on itself

All start at zero. They are solved together, forward in time: moments, linear response, two-time covariance, response
of second order and reaction are sums over x of the solutions. docs/theory.md derives them.

In x: centred finite volumes on an even grid with x = 0 on it. The lattice walk has the exact first two jump moments, so
the error in moments is of order dx^2 even where the density is a few cells wide. In t: Crank-Nicolson on a grid whose
steps double from time to time, after four half steps of backward Euler that smooth the delta. Both errors fall by
four where both grids are halved, and `richardson` removes them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.linalg.lapack import dgttrf, dgttrs
from scipy.special import ndtri

from thermoment.physics import Dynamics

Array = NDArray[np.float64]

# The density beyond the point that is this many kT above the way to it is below exp(-34) = 2e-15.
_TAIL_KT = 34.0
# The same for the transient, in standard deviations of the linearised motion: exp(-8.5^2 / 2) = 2e-16.
_TAIL_WIDTHS = 8.5
# Cells of the coarse grid per thermal width, and at least and at most so many cells.
_CELLS_PER_WIDTH, _LEAST_CELLS, _MOST_CELLS = 3.0, 120, 1500
# Coarse cells below x = 0 at least: a delta under a strong drive first rings a little over the cells upstream.
_MARGIN = 50
# Coarse time steps before the step doubles, from the start and back from the end; and the first of them, as a part of
# the fastest time. At the end only the slow nodes matter: the fast ones hardly respond.
_LEVELS = ((16, 0.1), (10, 0.4))
NORMALS = np.linspace(-6.0, 6.0, 193)
"""Where the law at t_final is tabulated, as a function of a standard normal. Beyond them lies a part of 2e-9."""
_PATH_STEPS, _MOST_SUBSTEPS = 16, 64
_SMOOTHING = 2
"""Crank-Nicolson steps replaced by two half steps of backward Euler each."""


class Grid(NamedTuple):
    """Cells of one drive."""

    x: Array
    """(n,) centres; one of them is 0"""
    dx: float
    origin: int


class Path(NamedTuple):
    """The noiseless path of every drive and the width of the linearised motion around it: (T + 1, H) each."""

    x: Array
    width: Array


def path(dynamics: Dynamics, h: Array, t: Array) -> Path:
    """dx/dt = mu F, dw^2/dt = -2 mu U''(x) w^2 + 2 mu kT from x = w = 0, to a few per cent: it only chooses grids."""
    x, variance = np.zeros_like(h), np.zeros_like(h)
    xs, variances = [x], [variance]
    for step in np.repeat(np.diff(t) / _PATH_STEPS, _PATH_STEPS):
        slope = -dynamics.mu * dynamics.curvature(x)
        x = x + dynamics.mu * dynamics.force(x, h) * step / (1 + np.maximum(-slope, 0) * step)
        variance = (variance + 2 * dynamics.mu * dynamics.kT * step) / np.maximum(1 - 2 * slope * step, 0.1)
        variance = np.minimum(variance, 1e6)
        xs.append(x)
        variances.append(variance)
    return Path(np.array(xs)[::_PATH_STEPS], np.sqrt(np.array(variances)[::_PATH_STEPS]))


def substeps(dynamics: Dynamics, h: Array, t: Array, noiseless: Path) -> NDArray[np.intp]:
    """Time steps within each interval of t, so that a density moves by half its width in each: (T, H)."""
    speed = dynamics.mu * np.abs(dynamics.force(noiseless.x, h))
    way = np.maximum(speed[1:], speed[:-1]) * np.diff(t)[:, None]
    return np.clip(np.ceil(way / (0.5 * noiseless.width[1:])), 1, _MOST_SUBSTEPS).astype(np.intp)


def reach(dynamics: Dynamics, h: Array, noiseless: Path) -> tuple[Array, Array]:
    """Per drive h >= 0 the interval (low, high) that the node leaves before t_final with probability below 1e-14.

    It cannot climb 34 kT; nor is it more than 8.5 widths ahead of the noiseless path, or behind that of the least h.
    """
    outermost = float(2 * dynamics.stationary_point(h.max()) + 2)
    lowest = dynamics.potential(dynamics.stationary_point(h), h)
    while np.any(dynamics.potential(outermost, h) < lowest + 2 * _TAIL_KT * dynamics.kT):
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
    low = np.maximum(ends[0], -_TAIL_WIDTHS * width[0])
    high = np.minimum(ends[1], noiseless.x[-1] + _TAIL_WIDTHS * np.maximum(width, width[0]))
    return low, high


def grid(dynamics: Dynamics, h: float, low: float, high: float, t_final: float, refine: int) -> Grid:
    """Even cells from low to high, `refine` times finer than the coarsest."""
    stiffness = max(float(dynamics.curvature(dynamics.stationary_point(h))), 1e-12)
    width = min(np.sqrt(dynamics.kT / stiffness), np.sqrt(2 * dynamics.mu * dynamics.kT * t_final))
    cells = int(np.clip(np.ceil((high - low) / width * _CELLS_PER_WIDTH), _LEAST_CELLS, _MOST_CELLS))
    dx = (high - low) / cells
    below, above = max(math.ceil(-low / dx), _MARGIN) * refine, math.ceil(high / dx) * refine
    return Grid(np.asarray((np.arange(below + above + 1) - below) * (dx / refine), np.float64), dx / refine, below)


def times(dynamics: Dynamics, h_max: float, t_final: float) -> Array:
    """Coarse time grid (T + 1,) from 0 to t_final: steps that double from time to time, from both ends to the middle.

    The first resolve the start of the fastest node, the last the memory of a node for what drove it before it was read.
    """
    x = float(dynamics.stationary_point(h_max))
    stiff = max(float(dynamics.curvature(x)), 2 * abs(dynamics.J2), 1e-12)
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
        # The last level may be short; stretching all by a few per cent ends exactly in the middle.
        halves.append(np.array(steps) * (t_final / 2 / t))
    return np.concatenate([[0.0], np.cumsum(np.concatenate([halves[0], halves[1][::-1]]))])


def halved(t: Array) -> Array:
    """The time grid with every step cut in two; or a function on it, straight in between."""
    found = np.empty(2 * len(t) - 1)
    found[::2], found[1::2] = t, (t[1:] + t[:-1]) / 2
    return found


def inner(t: Array) -> Array:
    """The integral over time of a product of two functions that are straight between the points of t: (T + 1, T + 1).

    f @ inner(t) @ g is that integral, exactly.
    """
    step = np.diff(t)
    diagonal = np.zeros_like(t)
    diagonal[1:] += step / 3
    diagonal[:-1] += step / 3
    return np.diag(diagonal) + np.diag(step / 6, 1) + np.diag(step / 6, -1)


@dataclass(frozen=True, eq=False)
class Modes:
    """Time functions, straight between the points of a grid, and the kernels built on them.

    phi: (1 + r, T + 1), phi[0] = 1 and the rest orthonormal on [0, t_final];
    fields: (K, 1 + r, 1 + r), symmetric: covariances G of a fluctuating field;
    reactions: (R, 1 + r, 1 + r): memory kernels r(t, s).
    """

    phi: Array
    fields: Array
    reactions: Array

    def halved(self) -> "Modes":
        """The same functions on the halved grid."""
        return Modes(np.apply_along_axis(halved, 1, self.phi), self.fields, self.reactions)

    def first_order(self, count: int) -> "Modes":
        """The first `count`, without kernels: what is of second order is not wanted."""
        none = np.zeros((0, count, count))
        return Modes(self.phi[:count], none, none)


class Law(NamedTuple):
    """What is kept of the solution at one drive. n_f = 1 + r modes, K fields, R reactions, p = 1..P.

    Without fields and reactions there is no covariance either: its rows and columns are none.
    """

    mean: Array
    """<x(t)>: (T + 1,)"""
    moments: Array
    """E[x^p] at t_final: (P,)"""
    response: Array
    """dE[x^p]/df_a: (P, n_f)"""
    second: Array
    """change of E[x^p] by the fields: (P, K)"""
    reaction: Array
    """change of E[x^p] by the reactions: (P, R)"""
    mean_response: Array
    """d<x(t)>/df_a: (T + 1, n_f)"""
    mean_second: Array
    """(T + 1, K)"""
    mean_reaction: Array
    """(T + 1, R)"""
    covariance: Array
    """int int phi_a phi_b Cov(x(s), x(s')): (n_f, n_f)"""
    quantiles: Array
    """x below which a standard normal's `NORMALS` have as much probability as the node at t_final: (Z,)"""


class _Walk:
    """The lattice walk of one drive: its operator L, L', and implicit steps with factors kept for each length."""

    def __init__(self, dynamics: Dynamics, h: float, cells: Grid) -> None:
        x, dx, _ = cells
        self.mu, self.dx = dynamics.mu, dx
        # Up - down has the exact drift at the face between two cells, up + down the exact diffusion.
        drift = dynamics.mu * dynamics.force((x[1:] + x[:-1]) / 2, h) / (2 * dx)
        hop = dynamics.mu * dynamics.kT / dx**2
        self.up, self.down = hop + drift, hop - drift
        self.out = np.zeros(len(x))
        self.out[:-1] += self.up
        self.out[1:] += self.down
        self.factors: dict[float, tuple[Array, ...]] = {}

    def implicit(self, step: float, right: Array, backward: bool = False) -> Array:
        """(1 - step L)^-1 of every row of `right` (n_functions, n), which is used up; or with L transposed."""
        if len(right) == 0:
            return right
        if step not in self.factors:
            self.factors[step] = dgttrf(-step * self.up, 1 + step * self.out, -step * self.down)[:5]
        trans = "T" if backward else "N"
        return np.asarray(dgttrs(*self.factors[step], right.T, trans=trans, overwrite_b=True)[0]).T

    def gradient(self, P: Array) -> Array:
        """L' P = -mu dP/dx of every row, the derivative of the walk's rates."""
        flux = (self.mu / (2 * self.dx)) * (P[:, 1:] + P[:, :-1])
        result = np.empty_like(P)
        np.subtract(flux[:, :-1], flux[:, 1:], out=result[:, 1:-1])
        result[:, 0], result[:, -1] = -flux[:, 0], flux[:, -1]
        return result


def _steps(t: Array) -> list[float]:
    """Lengths of the time steps; those that should be equal are, to the last bit, and share their factors."""
    return [float(f"{step:.12g}") for step in np.diff(t)]


def mean_and_memory(
    dynamics: Dynamics, h: float, cells: Grid, t: Array, parts: NDArray[np.intp]
) -> tuple[Array, Array]:
    """<x(t)> and the response d<x(t_final)>/df(t) to the drive at earlier times: (T + 1,) each.

    `parts` (T,) are the steps within each interval of t.

    With u(x, t) = E[x(t_final) | x(t) = x], which solves the backward equation, the response is the sum of u L' P.
    """
    walk, steps = _Walk(dynamics, h, cells), _steps(t)
    P = _start(cells)
    densities = [P]
    n = 0
    for step, count in zip(steps, parts, strict=True):
        for _ in range(count):
            if n < _SMOOTHING:
                P = walk.implicit(step / count / 2, walk.implicit(step / count / 2, P.copy()))
            else:
                P = walk.implicit(step / count / 2, 2 * P) - P
            n += 1
        densities.append(P)
    u, memory = cells.x[None], np.zeros(len(t))
    for k in range(len(steps), -1, -1):
        memory[k] = float((u * walk.gradient(densities[k])).sum())
        for _ in range(parts[k - 1] if k else 0):
            u = walk.implicit(steps[k - 1] / parts[k - 1] / 2, 2 * u, backward=True) - u
    return np.array([float(P[0] @ cells.x) for P in densities]), memory


def _start(cells: Grid) -> Array:
    """A node at x = 0: (1, n)."""
    P = np.zeros((1, len(cells.x)))
    P[0, cells.origin] = 1.0
    return P


def solve(dynamics: Dynamics, h: float, cells: Grid, t: Array, parts: NDArray[np.intp], modes: Modes, top: int) -> Law:
    """Solves the equations of this module for one drive on one grid; moments up to order `top`.

    `parts` (T,) are the steps within each interval of t; the modes are straight between the points of t.

    Cost: about 20 ns for every cell, time step and unknown function.
    """
    walk = _Walk(dynamics, h, cells)
    implicit, gradient = walk.implicit, walk.gradient
    x, n, n_f = cells.x, len(cells.x), len(modes.phi)
    n_Z = n_f if len(modes.fields) + len(modes.reactions) else 0
    linear = n_f + n_Z
    P, first, later = _start(cells), np.zeros((linear, n)), np.zeros((len(modes.fields) + len(modes.reactions), n))
    """P; P_a, then Z_a; Q_G, then O_r: a row each"""

    def first_sources(P: Array, phi: Array) -> Array:
        by_drive = phi[:, None] * gradient(P)
        if not n_Z:
            return by_drive
        return np.concatenate([by_drive, phi[:, None] * ((x - P[0] @ x) * P)])

    def later_sources(first: Array, phi: Array) -> Array:
        if not n_Z:
            return later
        by_field, by_reaction = (phi @ modes.fields) @ first[:n_f], (phi @ modes.reactions) @ first[n_f:]
        return gradient(np.concatenate([by_field, by_reaction]))

    means = np.zeros((len(t), 1 + linear + len(later)))
    f1, f2 = first_sources(P, modes.phi[:, 0]), later_sources(first, modes.phi[:, 0])
    smooth = _SMOOTHING
    for k, (interval, count) in enumerate(zip(_steps(t), parts, strict=True), start=1):
        step, rise = interval / count, (modes.phi[:, k] - modes.phi[:, k - 1]) / count
        for part in range(count):
            phi = modes.phi[:, k - 1] + (part + 1) * rise
            if smooth:
                smooth -= 1
                for phi_now in (phi - rise / 2, phi):
                    P = implicit(step / 2, P.copy())
                    f1 = first_sources(P, phi_now)
                    first = implicit(step / 2, first + step / 2 * f1)
                    f2 = later_sources(first, phi_now)
                    later = implicit(step / 2, later + step / 2 * f2)
            else:
                # (1 - step/2 L)(new + old) = 2 old + step/2 (sources now and then)
                P = implicit(step / 2, 2 * P) - P
                f0, f1 = f1, first_sources(P, phi)
                first = implicit(step / 2, 2 * first + step / 2 * (f0 + f1)) - first
                f0, f2 = f2, later_sources(first, phi)
                later = implicit(step / 2, 2 * later + step / 2 * (f0 + f2)) - later
        means[k] = np.concatenate([P, first, later]) @ x
    powers = x ** np.arange(1, top + 1)[:, None]
    K = len(modes.fields)
    by_field, by_reaction = powers @ later[:K].T, powers @ later[K:].T
    # int phi_b(t) Cov(x(t), int_0^t phi_a x) dt, then both orders of time. Z_a sums to zero over x, so <x> drops out.
    one_order = modes.phi[:n_Z] @ inner(t) @ means[:, 1 + n_f : 1 + linear]
    return Law(
        mean=means[:, 0],
        moments=powers @ P[0],
        response=powers @ first[:n_f].T,
        second=by_field,
        reaction=by_reaction,
        mean_response=means[:, 1 : 1 + n_f],
        mean_second=means[:, 1 + linear : 1 + linear + K],
        mean_reaction=means[:, 1 + linear + K :],
        covariance=one_order + one_order.T,
        quantiles=_quantiles(cells, P[0]),
    )


def _quantiles(cells: Grid, P: Array) -> Array:
    """x(z) with P(below x) = Phi(z) at z in `NORMALS`; tails are summed from their own side, so they keep precision.

    Upstream of a narrow density the centred scheme leaves a faint oscillation from cell to cell. It is averaged out,
    the tails are cut where the density comes near what is left of it, and continued as those of a Gaussian.
    """
    for _ in range(2):
        P = np.convolve(P, [0.25, 0.5, 0.25], mode="same")
    noise = 10 * max(float(-P.min()), 1e-15)
    P = np.maximum(P - noise * (noise > P), 0.0)
    below, above = np.cumsum(P)[:-1], np.cumsum(P[::-1])[::-1][1:]
    face = (cells.x[1:] + cells.x[:-1]) / 2
    z = np.where(below < 0.5, ndtri(np.minimum(below, 0.5)), -ndtri(np.minimum(above, 0.5)))
    # The outermost sums miss what was cut off; rounding could leave equal neighbours in an empty gap between wells.
    inside = np.flatnonzero((below > 30 * noise) & (above > 30 * noise) & (np.abs(z) < 1.2 * NORMALS[-1]))
    inside = inside[np.diff(np.maximum.accumulate(z[inside]), prepend=-np.inf) > 0]
    if len(inside) < 4:
        return np.array(NORMALS)  # too coarse for a shape; `tables` checks it by its skewness
    z, face = z[inside], face[inside]
    x = PchipInterpolator(z, face)(np.clip(NORMALS, z[0], z[-1]))
    ends = (face[1] - face[0]) / (z[1] - z[0]), (face[-1] - face[-2]) / (z[-1] - z[-2])
    return np.asarray(x + ends[0] * np.minimum(NORMALS - z[0], 0) + ends[1] * np.maximum(NORMALS - z[-1], 0))


def richardson(coarse: Array, fine: Array) -> Array:
    """(4 fine - coarse) / 3: the second-order error removed."""
    return np.asarray((4 * fine - coarse) / 3)
