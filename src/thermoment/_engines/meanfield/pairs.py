"""Covariance of two coupled nodes at t_final, to first order in W.

What node j does by itself reaches node i through W_ij, and what node i does reaches node j through W_ji:

    Cov(x_i, x_j) = W_ij G(h_i, h_j) + W_ji G(h_j, h_i)
    G(h, h')      = int R(s; h) C(s; h') ds

R(s; h) is the response of <x(t_final)> to the drive at time s, C(s; h') the covariance of x(s) and x(t_final), each of
a single node. What comes by way of a third node is of second order, and left out.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import scipy  # whose parts load when they are first used
from numpy.typing import NDArray

from thermoment._engines.meanfield.grids import NodeGrids, halved, inner_products
from thermoment._engines.meanfield.node import Ending, ending, richardson
from thermoment._engines.meanfield.tables import drives_of
from thermoment._support.threads import cores
from thermoment.physics import Dynamics

Array = NDArray[np.float64]


def covariances(
    pairs: tuple[tuple[int, int], ...],
    W: Array,
    drive: Array,
    dynamics: Dynamics,
    t_final: float,
    h_max: float,
    t_rest: float,
) -> Array:
    """Of each of P pairs, for nodes at the effective drives `drive` (S, N), which are up to `h_max`: (S, P)."""
    i, j = np.array(pairs).T
    scale, G = _passed_on(dynamics, t_final, h_max, t_rest)
    u = np.arcsinh((drive if dynamics.J3 else np.abs(drive)) / scale)  # without J3, R and C are even in the drive
    return np.asarray(W[i, j] * G.ev(u[:, i], u[:, j]) + W[j, i] * G.ev(u[:, j], u[:, i]))


@cache
def _passed_on(
    dynamics: Dynamics, t_final: float, h_max: float, t_rest: float
) -> "tuple[float, scipy.interpolate.RectBivariateSpline]":
    """G as a function of asinh(h / scale) and asinh(h' / scale), and the scale. Takes about a second."""
    scale, h = drives_of(dynamics, t_final, h_max)
    grids = NodeGrids.of(dynamics, h, t_final, t_rest)

    def on(refine: int, t: Array, n_substeps: NDArray[np.intp]) -> Array:
        """G on a grid: (H, H)."""

        def one(k: int) -> Ending:
            return ending(dynamics, float(h[k]), grids.cells(k, refine), t, n_substeps[:, k])

        with ThreadPoolExecutor(cores()) as pool:
            _, R, C = (np.array(part) for part in zip(*pool.map(one, range(len(h))), strict=True))
        return np.asarray(R @ inner_products(t) @ C.T)

    coarse, fine = on(1, grids.t, grids.n_substeps), on(2, halved(grids.t), np.repeat(grids.n_substeps, 2, axis=0))
    u = np.arcsinh(h / scale)
    return scale, scipy.interpolate.RectBivariateSpline(u, u, richardson(coarse, fine))
