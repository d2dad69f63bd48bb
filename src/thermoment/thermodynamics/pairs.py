"""What the fluctuations of two coupled nodes add to work and energy, to second order in W, without sampling.

With R_i(t, s) the response of <x_i(t)> to its drive at s, C_j(t, s) the covariance of x_j, and v = C(t, t), two nodes
that fluctuate independently but for W have

    Cov(x_i, x_j) = W_ij B(i, j) + W_ji B(j, i)        B(i, j) = int_s R_i(t, s) C_j(t, s)
    int A_ij <dx_j o d dx_i>, summed over i and j, = sum_ij A_ij W_ij G(i, j)
    G(i, j) = int_t ( mu v_j + int_s [dR_i/dt C_j - R_i dC_j/dt] )        while the drive is on

R and C are those of a Gaussian with the node's own mean m(t) and variance v(t), which relaxes at the mean stiffness
k = 2 J2 + 12 J4 (m^2 + v). This closure is exact for J4 = 0. Then B = mu I with dI/dt = v_j - mu (k_i + k_j) I, and
G = int_t mu v_j + mu^2 (k_j - k_i) I. In equilibrium G is 2 kT t / (k_i + k_j).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from thermoment.physics import Dynamics

Array = NDArray[np.float64]

_POINTS = 40
"""H, the drives in a table."""
_STEPS_PER_RELAXATION, _FEWEST, _MOST = 20, 200, 4000
"""Steps in the relaxation time of the stiffest node, and of all."""
_RANK_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Pairs:
    """Tables over the drives of two nodes. They are even in either drive."""

    scale: float
    u: Array
    """asinh(h / scale), evenly from 0: (H,)"""
    work: Array
    """G: (H, H)"""
    covariance: Array
    """B at t_final: (H, H)"""
    at_rest: float
    """B of two undriven nodes when the drive comes; 0 where all start at x = 0"""
    variance: Array
    """v at t_final: (H,)"""

    def summed(self, table: Array, weights: Array, drive: Array) -> Array:
        """sum_ij weights_ij table(h_i, h_j) for drives h (S, N) and weights (N, N): (S,). Cost: a few products."""
        left, s, right = np.linalg.svd(table)
        rank = max(1, int((s > _RANK_TOLERANCE * s[0]).sum()))
        u = np.arcsinh(np.abs(drive) / self.scale)
        of_i, of_j = (CubicSpline(self.u, part)(u) for part in (left[:, :rank] * s[:rank], right[:rank].T))
        return np.asarray(np.einsum("sir,ij,sjr->s", of_i, weights, of_j, optimize=True))

    def variances(self, drive: Array) -> Array:
        """v at t_final at drives (S, N): (S, N)."""
        return np.asarray(CubicSpline(self.u, self.variance)(np.arcsinh(np.abs(drive) / self.scale)))


def pairs(dynamics: Dynamics, t_final: float, t_rest: float, strongest: float) -> Pairs:
    """The tables for drives up to `strongest`, by steps in time for all pairs of drives at once; takes about 0.1 s."""
    scale = dynamics.kT / float(np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    u = np.linspace(0, np.arcsinh(max(strongest, scale) / scale), _POINTS)
    nothing = _Law(np.zeros(1), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1)))
    start = _advance(dynamics, np.zeros(1), nothing, t_rest) if t_rest else nothing
    end = _advance(dynamics, scale * np.sinh(u), start._replace(work=np.zeros((1, 1))), t_final)
    mu = dynamics.mu
    return Pairs(scale, u, end.work, mu * end.memory, mu * float(start.memory[0, 0]), end.v)


class _Law(NamedTuple):
    """Mean and variance of a node at each of H drives, and what pairs of them have gathered."""

    m: Array
    """(H,)"""
    v: Array
    """(H,)"""
    memory: Array
    """I: (H, H)"""
    work: Array
    """G until now: (H, H)"""


def _advance(dynamics: Dynamics, h: Array, law: _Law, time: float) -> _Law:
    """Through a time under drives h (H,), by steps that are exact for constant stiffness."""
    J2, J4, mu = dynamics.J2, dynamics.J4, dynamics.mu
    m, v, memory, work = (np.broadcast_to(part, (len(h),) * part.ndim) for part in law)
    stiffest = float(dynamics.curvature(dynamics.stationary_point(np.abs(h).max())))
    n = int(np.clip(_STEPS_PER_RELAXATION * mu * stiffest * time, _FEWEST, _MOST))
    dt = time / n
    k = 2 * J2 + 12 * J4 * (m * m + v)
    for _ in range(n):
        F = h - 2 * J2 * m - 4 * J4 * m * (m * m + 3 * v)
        m, before = m + mu * dt * F * _decay(mu * dt * k), (k, v)
        v = v * np.exp(-2 * mu * dt * k) + 2 * mu * dt * dynamics.kT * _decay(2 * mu * dt * k)
        k = 2 * J2 + 12 * J4 * (m * m + v)
        k_mid, v_mid = (k + before[0]) / 2, (v + before[1]) / 2
        both = mu * dt * (k_mid[:, None] + k_mid)
        old, memory = memory, memory * np.exp(-both) + dt * v_mid * _decay(both)
        work = work + mu * dt * (v_mid + mu * (k_mid - k_mid[:, None]) * (memory + old) / 2)
    return _Law(m, v, memory, work)


def _decay(z: Array) -> Array:
    """(1 - exp(-z)) / z, 1 at z = 0."""
    safe = np.where(np.abs(z) < 1e-9, 1.0, z)
    return np.where(np.abs(z) < 1e-9, 1.0, -np.expm1(-safe) / safe)
