"""Which functions of time and which kernels the tables of one node use: found from a few drives.

The functions of time (modes) are the singular vectors over the drive of the mean trajectories <x(t)>, the kernels of a
fluctuating field those of the two-time covariance, and the kernels of the reaction those of the linear response.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.grids import Grid, driven, inner_products
from thermoment._engines.meanfield.node import Expansion, Modes, ending, solve
from thermoment.physics import Dynamics

Array = NDArray[np.float64]
Problem = tuple[float, Grid, Array, NDArray[np.intp]]
"""A drive with its cells, time grid (T + 1,) and number of steps in each interval of the time grid (T,)."""

_ENRICHMENT = (2, 4, 6)
"""Time modes kept after each round of adding responses."""
N_MODES = _ENRICHMENT[-1]
"""r, the time modes on which the mean field is expanded."""
_MEMORY_MODES, _FIELDS, _REACTIONS = 3, 2, 2
TYPICAL_COUPLING = 0.5
"""s_W at which responses are weighed against means in the choice of modes."""
_SQUARE_MODES = 2
"""Leading modes whose second-order response is tabulated."""
SQUARES = [(a, b) for a in range(_SQUARE_MODES) for b in range(a, _SQUARE_MODES)]
"""Pairs of modes, counted from 0, whose product acts on a node at second order; Q of them."""
PAIRS = [(a, b) for a in range(1 + _SQUARE_MODES) for b in range(a, 1 + _SQUARE_MODES)]
"""The same with the constant function as mode 0 and the modes counted from 1."""


def find_modes(dynamics: Dynamics, few: list[Problem], t: Array, pool: ThreadPoolExecutor) -> Modes:
    """Time modes and kernels from a few drives on coarse cells: they only choose a basis and need no precision.

    Start with the trajectories <x(t)> at constant drives. In rounds, add the responses of <x(t)> to the modes found so
    far, because a node driven by other nodes is not at a constant drive. Then add modes that span the nodes' response
    to earlier drive. The second-order correction integrates the field covariance against these responses twice, so only
    its projection on their span matters. The constant mode is as constant as the drive: zero in a rest.
    """

    def expansions(phi: Array, kernels: int = 0) -> list[Expansion]:
        modes = Modes(phi, *(np.zeros((kernels, len(phi), len(phi))) for _ in range(2)))
        return list(pool.map(lambda one: solve(dynamics, one[0], one[1], one[2], one[3], modes, 1), few))

    endings = pool.map(lambda one: ending(dynamics, *one), few)
    means, memories, _ = (np.array(part) for part in zip(*endings, strict=True))
    products, constant = inner_products(t), driven(t)[None]
    phi = _orthonormal(means, products, 1)
    for count in _ENRICHMENT:
        sizes = TYPICAL_COUPLING * np.sqrt(((means @ products @ phi.T) ** 2).mean(axis=0))
        responses = np.array([one.mean_response.T * sizes[:, None] for one in expansions(phi)]).reshape(-1, len(t))
        phi = _orthonormal(np.concatenate([means, responses]), products, count)
    rest = memories - memories @ products @ phi.T @ phi
    phi = np.concatenate([constant, phi, _orthonormal(rest, products, _MEMORY_MODES)])
    found = expansions(phi, kernels=1)  # covariances are computed only where there is a kernel, even one that is zero
    covariances = np.array([one.covariance for one in found])
    responses = np.array([phi @ products @ one.mean_response for one in found])
    return Modes(
        phi,
        np.concatenate([_pair_kernels(len(phi)), _leading_kernels(covariances, _FIELDS)]),
        _leading_kernels(responses, _REACTIONS),
    )


def _orthonormal(rows: Array, products: Array, count: int) -> Array:
    """The `count` leading singular vectors of the rows, orthonormal under the inner product: (count, T + 1)."""
    root = np.linalg.cholesky(products)
    leading = np.linalg.svd(rows @ root, full_matrices=False)[2][:count]
    return np.asarray(np.linalg.solve(root.T, leading.T).T)


def _pair_kernels(n_f: int) -> Array:
    """phi_a phi_b + phi_b phi_a for each of `PAIRS`, without the second term where a = b: (len(PAIRS), n_f, n_f)."""
    kernels = np.zeros((len(PAIRS), n_f, n_f))
    for kernel, (a, b) in zip(kernels, PAIRS, strict=True):
        kernel[a, b] = kernel[b, a] = 1.0
    return kernels


def _leading_kernels(kernels: Array, count: int) -> Array:
    """The `count` leading singular kernels of (H, n_f, n_f) over H, without the constant mode: (count, n_f, n_f)."""
    n_f = kernels.shape[1]
    _, _, leading = np.linalg.svd(kernels[:, 1:, 1:].reshape(len(kernels), -1), full_matrices=False)
    found = np.zeros((count, n_f, n_f))
    found[:, 1:, 1:] = leading[:count].reshape(count, n_f - 1, n_f - 1)
    return found
