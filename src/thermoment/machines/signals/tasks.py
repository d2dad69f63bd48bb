"""Signals to judge a follower by, NARMA-10 and Mackey-Glass, and the error that is reported for them."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_integer, check_numbers, check_positive, invalid

Array = NDArray[np.float64]
_LONGEST = 10**8
"""Rows of a signal, at most."""


def nrmse(prediction: ArrayLike, target: ArrayLike) -> float:
    """Root mean square of the error, as a share of the target's standard deviation: 1 for the mean as a prediction."""
    wanted = check_numbers("target", target)
    y = check_array("target", wanted, wanted.shape)
    given = check_array("prediction", prediction, y.shape)
    spread = float(y.std())
    if spread == 0:
        raise invalid("target", "vary", f"{float(y.flat[0]) if y.size else 'empty'} throughout")
    return float(np.sqrt(np.mean((given - y) ** 2))) / spread


def narma10(length: int, *, seed: int) -> tuple[Array, Array]:
    """NARMA-10: an input u, uniform on [0, 0.5], and a nonlinear moving average of ten rows of it; each (length,).

        y(t) = 0.3 y(t-1) + 0.05 y(t-1) sum_(k=1..10) y(t-k) + 1.5 u(t-1) u(t-10) + 0.1

    y(t) depends on u up to row t - 1. The recursion runs away for a few inputs; then the seed is refused.
    """
    T = check_integer("length", length, 11, _LONGEST)
    u = np.random.default_rng(check_integer("seed", seed, 0, 2**128)).uniform(0, 0.5, T)
    y = np.zeros(T)
    for t in range(10, T):
        last = float(y[t - 1])
        y[t] = 0.3 * last + 0.05 * last * float(y[t - 10 : t].sum()) + 1.5 * float(u[t - 1] * u[t - 10]) + 0.1
        if not y[t] < 10:
            raise invalid("seed", "give a signal that stays finite", seed)
    return u, y


def mackey_glass(length: int, *, tau: float = 17.0, seed: int = 0, steps: int = 10, washout: int = 500) -> Array:
    """The Mackey-Glass equation at every unit of time, chaotic for tau = 17: (length,).

        dx/dt = 0.2 x(t - tau) / (1 + x(t - tau)^10) - 0.1 x(t)

    Args:
        length: rows.
        tau: the delay, a multiple of 1 / `steps`.
        seed: of the past until t = 0, a constant that is uniform on [1.1, 1.3].
        steps: of the integration in a unit of time. Each is the exact decay, with the delayed term at both ends.
        washout: units of time before the first row.
    """
    T, n = check_integer("length", length, 1, _LONGEST), check_integer("steps", steps, 1, 10**4)
    early = check_integer("washout", washout, 0, _LONGEST)
    delay = check_positive("tau", tau) * n
    if abs(delay - round(delay)) > 1e-9 or round(delay) < 2:
        raise invalid("tau", f"be a multiple of 1 / {n}, two of them at least", tau)
    back, rng = round(delay), np.random.default_rng(check_integer("seed", seed, 0, 2**128))
    x = [1.2 + float(rng.uniform(-0.1, 0.1))] * (back + 1)
    decay = math.exp(-0.1 / n)
    for k in range((T + early) * n):
        before, after = x[k], x[k + 1]
        push = before / (1 + before**10) + after / (1 + after**10)
        x.append(decay * x[-1] + (1 - decay) * push)  # 0.2 / 0.1 times the mean of both ends
    return np.array(x[back + early * n :: n][:T])
