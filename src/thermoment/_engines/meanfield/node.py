"""One node under a drive that varies a little in time: its law to second order, for one constant drive h at a time.

The drive is h + f(t) with f(t) = sum_a f_a phi_a(t). With L the Fokker-Planck operator at drive h and L' = dL/dh,

    L P  = d/dx [ -mu F(x; h) P + mu kT dP/dx ]            L' P = -mu dP/dx
    dP/dt    = L P                                          P(x, 0) = delta(x)
    dP_a/dt  = L P_a + phi_a L' P                           first order in f_a
    dZ_a/dt  = L Z_a + phi_a (x - <x>) P                    E[delta(x - x(t)) int_0^t phi_a (x - <x>) ds]
    dQ_G/dt  = L Q_G + L' sum_ab G_ab phi_a P_b             second order: a Gaussian field of covariance G
    dO_r/dt  = L O_r + L' sum_ab r_ab phi_a Z_b             a force int r(t, s) (x(s) - <x(s)>) ds of the node on itself

P_a, Z_a, Q_G and O_r start at zero. Where the drive comes to a node that has rested, all of this starts with the rest,
at a negative time; until t = 0 the drive is f(t), without h. All are solved together, forward in time. Moments, linear
response, two-time covariance, second-order response and reaction are sums over x of the solutions. docs/theory.md
derives the equations.

In x the scheme is centred finite volumes: a walk between cells whose first two jump moments are exact, so the error in
moments is of order dx^2 even where the density is a few cells wide. In t it is Crank-Nicolson, after four half steps of
backward Euler that smooth the delta. Both errors fall by four where both grids are halved, and `richardson` removes
them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # whose parts load when they are first used
from numpy.typing import NDArray

from thermoment._engines.meanfield.grids import (
    Grid,
    cell_grid,
    halved,
    inner_products,
    mirrored,
    noiseless_path,
    reach,
    substeps,
)
from thermoment._engines.meanfield.quantiles import quantile_function
from thermoment.physics import Dynamics

Array = NDArray[np.float64]

_SMOOTHING = 2
"""Crank-Nicolson steps at the start that are replaced by two half steps of backward Euler each."""


@dataclass(frozen=True, eq=False)
class Modes:
    """Functions of time, linear between the points of a time grid, and the kernels built on them.

    phi: (1 + r, T + 1), phi[0] = 1 and the rest orthonormal on [0, t_final];
    fields: (K, 1 + r, 1 + r), symmetric: covariances G of a fluctuating field;
    reactions: (R, 1 + r, 1 + r): memory kernels r(t, s).
    """

    phi: Array
    fields: Array
    reactions: Array

    def halved(self) -> "Modes":
        """The same functions on the halved time grid."""
        return Modes(np.apply_along_axis(halved, 1, self.phi), self.fields, self.reactions)

    def first_order(self, count: int) -> "Modes":
        """The first `count` functions and no kernels: `solve` then leaves out everything of second order."""
        none = np.zeros((0, count, count))
        return Modes(self.phi[:count], none, none)


class Expansion(NamedTuple):
    """Moments and mean trajectory of a node at one drive, to second order in a small additional drive.

    n_f = 1 + r modes, K fields, R reactions, moments of order p = 1..P. Without fields and reactions the covariance is
    not computed: it has shape (0, 0).
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
    """change of <x(t)> by the fields: (T + 1, K)"""
    mean_reaction: Array
    """change of <x(t)> by the reactions: (T + 1, R)"""
    covariance: Array
    """int int phi_a phi_b Cov(x(s), x(s')) ds ds': (n_f, n_f)"""
    quantiles: Array
    """x at t_final as a function of a standard normal (quantiles.py): (Z,)"""


class _Walk:
    """The walk between cells at one drive: the operators L and L', and implicit steps.

    The matrix of an implicit step is factored once for each length of step.
    """

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
        """(1 - step L)^-1 of every row of `right` (n_functions, n), which is overwritten; or with L transposed."""
        if len(right) == 0:
            return right
        if step not in self.factors:
            self.factors[step] = scipy.linalg.lapack.dgttrf(-step * self.up, 1 + step * self.out, -step * self.down)[:5]
        trans = "T" if backward else "N"
        return np.asarray(scipy.linalg.lapack.dgttrs(*self.factors[step], right.T, trans=trans, overwrite_b=True)[0]).T

    def gradient(self, P: Array) -> Array:
        """L' P = -mu dP/dx of every row: the derivative of the walk's rates by h."""
        flux = (self.mu / (2 * self.dx)) * (P[:, 1:] + P[:, :-1])
        result = np.empty_like(P)
        np.subtract(flux[:, :-1], flux[:, 1:], out=result[:, 1:-1])
        result[:, 0], result[:, -1] = -flux[:, 0], flux[:, -1]
        return result


def _walks(dynamics: Dynamics, h: float, cells: Grid, t: Array) -> list[_Walk]:
    """The walk in each interval of t: without the drive before t = 0."""
    driven = _Walk(dynamics, h, cells)
    resting = _Walk(dynamics, 0.0, cells) if t[0] < 0 else driven
    return [driven if end > 0 else resting for end in t[1:]]


def _steps(t: Array) -> list[float]:
    """Lengths of the time steps, rounded: steps that are equal but for rounding share one factored matrix."""
    return [float(f"{step:.12g}") for step in np.diff(t)]


class Ending(NamedTuple):
    """What x(t_final) has to do with earlier times t: (T + 1,) each."""

    mean: Array
    """<x(t)>"""
    memory: Array
    """d<x(t_final)>/df(t), the response to the drive at time t"""
    covariance: Array
    """Cov(x(t), x(t_final))"""


def ending(dynamics: Dynamics, h: float, cells: Grid, t: Array, n_substeps: NDArray[np.intp]) -> Ending:
    """Solves forward for the density and backward for u(x, t) = E[x(t_final) | x(t) = x].

    `n_substeps` (T,) says how many steps to take in each interval of t. The memory is the sum of u L' P over the cells,
    the covariance that of u (x - <x>) P.
    """
    walks, steps = _walks(dynamics, h, cells, t), _steps(t)
    P = _start(cells)
    densities = [P]
    n = 0
    for walk, step, count in zip(walks, steps, n_substeps, strict=True):
        for _ in range(count):
            if n < _SMOOTHING:
                P = walk.implicit(step / count / 2, walk.implicit(step / count / 2, P.copy()))
            else:
                P = walk.implicit(step / count / 2, 2 * P) - P
            n += 1
        densities.append(P)
    means = np.array([float(P[0] @ cells.x) for P in densities])
    u, memory, covariance = cells.x[None], np.zeros(len(t)), np.zeros(len(t))
    for k in range(len(steps), -1, -1):
        memory[k] = float((u * walks[0].gradient(densities[k])).sum())
        covariance[k] = float((u * (cells.x - means[k]) * densities[k]).sum())
        for _ in range(n_substeps[k - 1] if k else 0):
            u = walks[k - 1].implicit(steps[k - 1] / n_substeps[k - 1] / 2, 2 * u, backward=True) - u
    return Ending(means, memory, covariance)


def _start(cells: Grid) -> Array:
    """The density of a node at x = 0: (1, n)."""
    P = np.zeros((1, len(cells.x)))
    P[0, cells.origin] = 1.0
    return P


def solve(
    dynamics: Dynamics, h: float, cells: Grid, t: Array, n_substeps: NDArray[np.intp], modes: Modes, top: int
) -> Expansion:
    """Solves the equations of this module for one drive on one grid; moments up to order `top`.

    `n_substeps` (T,) says how many steps to take in each interval of t (T + 1,), the time grid of the modes.

    Cost: about 20 ns for every cell, time step and unknown function.
    """
    walks = _walks(dynamics, h, cells, t)
    gradient = walks[0].gradient  # the same in all
    x, n, n_f = cells.x, len(cells.x), len(modes.phi)
    n_Z = n_f if len(modes.fields) + len(modes.reactions) else 0
    linear = n_f + n_Z
    # The unknown functions, a row each: P; then P_a and Z_a; then Q_G and O_r.
    P, first, later = _start(cells), np.zeros((linear, n)), np.zeros((len(modes.fields) + len(modes.reactions), n))

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
    for k, (interval, count) in enumerate(zip(_steps(t), n_substeps, strict=True), start=1):
        implicit, step, rise = walks[k - 1].implicit, interval / count, (modes.phi[:, k] - modes.phi[:, k - 1]) / count
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
                # (1 - step/2 L)(new + old) = 2 old + step/2 (new sources + old sources)
                P = implicit(step / 2, 2 * P) - P
                f0, f1 = f1, first_sources(P, phi)
                first = implicit(step / 2, 2 * first + step / 2 * (f0 + f1)) - first
                f0, f2 = f2, later_sources(first, phi)
                later = implicit(step / 2, 2 * later + step / 2 * (f0 + f2)) - later
        means[k] = np.concatenate([P, first, later]) @ x
    powers = x ** np.arange(1, top + 1)[:, None]
    K = len(modes.fields)
    by_field, by_reaction = powers @ later[:K].T, powers @ later[K:].T
    # int phi_b(t) Cov(x(t), int_0^t phi_a x ds) dt, then with a and b exchanged. Z_a sums to zero over x, so its sum
    # with x is the covariance.
    one_order = modes.phi[:n_Z] @ inner_products(t) @ means[:, 1 + n_f : 1 + linear]
    return Expansion(
        mean=means[:, 0],
        moments=powers @ P[0],
        response=powers @ first[:n_f].T,
        second=by_field,
        reaction=by_reaction,
        mean_response=means[:, 1 : 1 + n_f],
        mean_second=means[:, 1 + linear : 1 + linear + K],
        mean_reaction=means[:, 1 + linear + K :],
        covariance=one_order + one_order.T,
        quantiles=quantile_function(cells, P[0]),
    )


def densities(dynamics: Dynamics, drive: Array, t: Array, at: Array) -> Array:
    """The density of a node, started at x = 0, under a drive that varies in time: (T, X).

    drive, t: h at the times t (T,), linear between them, with t[0] = 0; at: the places (X,). The density at t = 0, a
    delta, is given as zero. Cost: about 20 ms for 50 times.
    """
    if drive.mean() < 0:  # the grids are made for drives above zero
        return densities(mirrored(dynamics), -drive, t, -at[::-1])[:, ::-1]
    strongest = float(np.abs(drive).max())
    h = np.array([0.0, strongest])
    path = noiseless_path(dynamics, h, t)
    low, high = reach(dynamics, h, path, since=float(t[-1]))
    farthest = float(high.max())
    cells = cell_grid(
        dynamics, strongest, -farthest if drive.min() < 0 else float(low.min()), farthest, float(t[-1]), refine=2
    )
    counts = np.maximum(substeps(dynamics, h, t, path).max(axis=1), 2)
    P, found, n = _start(cells), np.zeros((len(t), len(at))), 0
    for k, (interval, count) in enumerate(zip(_steps(t), counts, strict=True), start=1):
        step = interval / count
        for part in range(count):
            share = (part + 0.5) / count
            walk = _Walk(dynamics, float((1 - share) * drive[k - 1] + share * drive[k]), cells)
            if n < _SMOOTHING:
                P = walk.implicit(step / 2, walk.implicit(step / 2, P.copy()))
            else:
                P = walk.implicit(step / 2, 2 * P) - P
            n += 1
        found[k] = np.interp(at, cells.x, np.maximum(P[0], 0.0) / cells.dx, left=0.0, right=0.0)
    return found


def richardson(coarse: Array, fine: Array) -> Array:
    """(4 fine - coarse) / 3: the second-order error removed."""
    return np.asarray((4 * fine - coarse) / 3)
