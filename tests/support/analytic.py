"""Problems with known solutions, shared by the tests: what the sampled moments must converge to."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import eigh_tridiagonal, expm

import thermoment as tm

Array = NDArray[np.float64]


def uncoupled(drives: Sequence[float], dynamics: tm.Dynamics, stream: int = 0) -> tm.Reservoir:
    """One node per drive, no coupling. Present it with the input [[1.0]]."""
    n = len(drives)
    return tm.Reservoir(np.zeros((n, n)), np.array(drives)[:, None], np.zeros(n), dynamics, stream)


def coupled(W: Sequence[Sequence[float]], drives: Sequence[float], dynamics: tm.Dynamics) -> tm.Reservoir:
    """Nodes with the given drives under the input [[1.0]], coupled by W."""
    return tm.Reservoir(np.array(W), np.array(drives)[:, None], np.zeros(len(drives)), dynamics)


def ornstein_uhlenbeck(reservoir: tm.Reservoir, t: float) -> tuple[Array, Array]:
    """Mean (N,) and covariance (N, N) of x(t) from x(0) = 0 for J4 = 0: dx = mu (A x + h) dt + sqrt(2 mu kT) dB.

    Both from one matrix exponential (Van Loan): the blocks of exp(t [[-A, Q], [0, A^T]]) hold exp(t A^T) and the
    integral of exp(s A) Q exp(s A^T).
    """
    A, h, Q = _linear(reservoir)
    n = len(h)
    block = expm(t * np.block([[-A, Q], [np.zeros((n, n)), A.T]]))
    covariance = block[n:, n:].T @ block[:n, n:]
    mean = expm(t * np.block([[A, h[:, None]], [np.zeros((1, n + 1))]]))[:n, n]
    return mean, covariance


def euler_ornstein_uhlenbeck(reservoir: tm.Reservoir, dt: float, n_steps: int) -> tuple[Array, Array]:
    """Mean (N,) and covariance (N, N) of the Euler recursion itself, exact at any dt."""
    A, h, Q = _linear(reservoir)
    B = np.eye(len(h)) + dt * A
    mean, covariance = np.zeros_like(h), np.zeros_like(A)
    for _ in range(n_steps):
        mean = B @ mean + dt * h
        covariance = B @ covariance @ B.T + dt * Q
    return mean, covariance


def _linear(reservoir: tm.Reservoir) -> tuple[Array, Array, Array]:
    dynamics = reservoir.dynamics
    assert dynamics.J4 == 0, "linear dynamics only"
    eye = np.eye(reservoir.n_nodes)
    A = dynamics.mu * (reservoir.W - 2 * dynamics.J2 * eye)
    return A, dynamics.mu * reservoir.K[:, 0], 2 * dynamics.mu * dynamics.kT * eye


def gaussian_moments(mean: Array, variance: Array, orders: Sequence[int]) -> Array:
    """E[x^p] of a Gaussian: (len(orders), N)."""
    return np.array(
        [
            sum(
                math.comb(p, k) * mean ** (p - k) * variance ** (k // 2) * math.prod(range(k - 1, 0, -2))
                for k in range(0, p + 1, 2)
            )
            for p in orders
        ]
    )


def noiseless(reservoir: tm.Reservoir, t: float) -> Array:
    """x(t) at kT = 0 by an adaptive Runge-Kutta method to 1e-11: (N,)."""
    dynamics, h = reservoir.dynamics, reservoir.K[:, 0]

    def velocity(_: float, x: Array) -> Array:
        return dynamics.mu * (dynamics.force(x, h) + reservoir.W @ x)

    solution = solve_ivp(velocity, (0, t), np.zeros(len(h)), method="DOP853", rtol=1e-12, atol=1e-12)
    return np.asarray(solution.y[:, -1])


def two_node_boltzmann(reservoir: tm.Reservoir, orders: Sequence[int]) -> Array:
    """E[x_i^p] in equilibrium of two nodes with symmetric W, by quadrature in the plane: (len(orders), 2)."""
    dynamics = reservoir.dynamics
    axis = np.linspace(-3, 3, 601)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    energy = dynamics.global_potential(x, reservoir.K[:, 0], reservoir.W)
    weight = np.exp(-(energy - energy.min()) / dynamics.kT)
    edge = np.concatenate([weight[0], weight[-1], weight[:, 0], weight[:, -1]])
    assert edge.max() < 1e-12, "the grid cuts the density off"
    return np.array([np.einsum("ijk,ij->k", x**p, weight) / weight.sum() for p in orders])


@cache
def fokker_planck(dynamics: tm.Dynamics, h: float, t: float, orders: tuple[int, ...], t_rest: float = 0.0) -> Array:
    """E[x(t)^p] of one node by the 1-D Fokker-Planck equation: (len(orders),), to about 1e-6.

    The drive h comes at t = 0; a time t_rest before, without any drive, the node was at x = 0.

    Hopping rates between neighbouring grid points that obey detailed balance make the operator symmetric after
    scaling by sqrt(equilibrium), so its exponential comes from real eigenvectors: exact in time, second order in the
    grid, of which the leading error is removed by extrapolation.
    """
    coarse, fine = (_fokker_planck_on_grid(dynamics, h, t, orders, t_rest, n) for n in (400, 800))
    found = fine + (fine - coarse) / 3
    found.flags.writeable = False  # every test that asks gets the same array
    return found


def _fokker_planck_on_grid(
    dynamics: tm.Dynamics, h: float, t: float, orders: Sequence[int], t_rest: float, half: int
) -> Array:
    reach = 2.0
    x = np.linspace(-reach, reach, 2 * half + 1)
    density = np.zeros_like(x)
    density[half] = 1.0
    for drive, time in ((0.0, t_rest), (h, t)) if t_rest else ((h, t),):
        density = _diffused(dynamics, drive, time, x, density)
    assert abs(density.sum() - 1) < 1e-9, "probability is lost"
    assert density[[0, -1]].max() < 1e-12, "the grid cuts the density off"
    return np.array([(x**p * density).sum() for p in orders])


def _diffused(dynamics: tm.Dynamics, h: float, t: float, x: Array, density: Array) -> Array:
    """The density on an even grid x a time t later."""
    potential = dynamics.potential(x, h) / dynamics.kT
    rate = dynamics.mu * dynamics.kT / (x[1] - x[0]) ** 2
    up = rate * np.exp(-np.diff(potential) / 2)
    down = rate * np.exp(np.diff(potential) / 2)
    diagonal = np.zeros_like(x)
    diagonal[:-1] -= up
    diagonal[1:] -= down
    values, vectors = eigh_tridiagonal(diagonal, np.sqrt(up * down))
    scale = np.exp(-(potential - potential[len(x) // 2]) / 2)
    # What is left in the tails is rounding, which the scale would blow up.
    scaled = np.where(density < 1e-16, 0.0, density) / scale
    return np.asarray(scale * (vectors @ (np.exp(values * t) * (vectors.T @ scaled))))
