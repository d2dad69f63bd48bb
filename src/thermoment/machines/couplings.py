"""The symmetric coupling that fits a field best: one linear equation, to which both kinds of path training come.

A field g_i is wanted on node i while the nodes are at x. The coupling W, symmetric and zero on the diagonal, that has
the least sum of (g_i - sum_j W_ij x_j)^2 over all samples and nodes solves

    W C + C W = E + E^T  off the diagonal        C = sum x x^T,  E = sum x g^T
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, cg

from thermoment._support.checks import check_array, check_shape
from thermoment._support.memory import check_fits

Array = NDArray[np.float64]

# An eigenvalue of C below this share of the largest is a direction that no sample has: W is not asked for there.
_NOTHING = 1e-12


def symmetric_fit(
    C: Array, E: Array, tolerance: float = 1e-8, most: int = 500, bonds: NDArray[np.bool_] | None = None
) -> Array:
    """W = W^T with a zero diagonal and W C + C W = E + E^T off the diagonal, by conjugate gradients: (N, N).

    Args:
        C: sum of x x^T, symmetric and not negative: (N, N).
        E: sum of x g^T, row j for x_j and column i for the field on node i: (N, N).
        tolerance: residual at which the iteration ends, as a share of |E + E^T|.
        most: iterations after which it is an error.
        bonds: which pairs may be coupled, symmetric (N, N); all unless given. The others have W_ij = 0, and the
            equation holds for the pairs that may.

    Each iteration is preconditioned by the solution that could have a diagonal, which the eigenvectors of C give. Cost:
    one eigendecomposition, and six products of N x N matrices for each of the iterations, a few dozen of them.
    """
    N = len(C)
    may = 1 - np.eye(N) if bonds is None else bonds * (1 - np.eye(N))
    spread, Q = eigh((C + C.T) / 2)
    spread = np.maximum(spread, _NOTHING * max(float(spread[-1]), np.finfo(np.float64).tiny))
    inverse = 1 / (spread[:, None] + spread)

    def left(flat: Array) -> Array:
        product = flat.reshape(N, N) @ C
        return np.asarray((product + product.T) * may).ravel()

    def guess(flat: Array) -> Array:
        return np.asarray(Q @ (inverse * (Q.T @ flat.reshape(N, N) @ Q)) @ Q.T * may).ravel()

    right = ((E + E.T) * may).ravel()
    shape = (N * N, N * N)
    operator, nearly = LinearOperator(shape, left, dtype=np.float64), LinearOperator(shape, guess, dtype=np.float64)
    flat, unfinished = cg(operator, right, rtol=tolerance, maxiter=most, M=nearly)
    if unfinished:
        raise RuntimeError(f"The coupling was not found in {most} iterations: add a ridge, or raise the tolerance.")
    W = flat.reshape(N, N)
    return np.asarray((W + W.T) / 2)


def held(argument: str, value: ArrayLike, shape: tuple[int | str, ...]) -> Array:
    """`value` as a finite float64 array of `shape` that fits into memory."""
    found = check_shape(argument, value, shape)
    check_fits(argument, found.shape)
    return check_array(argument, found, shape)
