"""Statistics of classifiers on one test set: intervals, paired tests, overlap of errors, spread over seeds."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import scipy  # whose parts load when they are first used
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_integer, invalid

_TAIL = 0.025
"""Probability left out at each end of a 95 % interval."""
_MOST = 2**31


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


def wilson(correct: int, total: int) -> Interval:
    """95 % interval of a proportion of which `correct` of `total` were seen: Wilson's, never outside [0, 1]."""
    n = check_integer("total", total, 1, _MOST)
    share = check_integer("correct", correct, 0, n) / n
    z = NormalDist().inv_cdf(1 - _TAIL)
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the formula gives 0 and 1 up to rounding.
    low = 0.0 if correct == 0 else (centre - half) / scale
    high = 1.0 if correct == n else (centre + half) / scale
    return Interval(low, high)


def mcnemar(a_only_wrong: int, b_only_wrong: int) -> float:
    """Exact two-sided p of the McNemar test: were a and b equally often right where just one of them was?

    Under that hypothesis the smaller count is binomial with probability 1/2. The sum is done in integers and rounded
    once, so that every machine gives the same bits.
    """
    a = check_integer("a_only_wrong", a_only_wrong, 0, _MOST)
    b = check_integer("b_only_wrong", b_only_wrong, 0, _MOST)
    n, tail, term = a + b, 0, 1
    for k in range(min(a, b) + 1):
        tail += term
        term = term * (n - k) // (k + 1)
    return min(1.0, 2 * tail / (1 << n))


class Pair(NamedTuple):
    """How two classifiers fared on the same samples: all that a paired statistic depends on."""

    both_right: int
    a_only_wrong: int
    b_only_wrong: int
    both_wrong: int

    @classmethod
    def of(cls, wrong_a: ArrayLike, wrong_b: ArrayLike) -> "Pair":
        """The counts of two masks (S,) that are true where a classifier was wrong."""
        a, b = _mask("wrong_a", wrong_a), _mask("wrong_b", wrong_b)
        if a.shape != b.shape:
            raise ValueError(f"Argument `wrong_b` must have shape {a.shape}, but has shape {b.shape}.")
        cells = np.bincount(2 * a.astype(np.intp) + b, minlength=4).tolist()
        return cls(cells[0], cells[2], cells[1], cells[3])

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def wrong_a(self) -> int:
        return self.a_only_wrong + self.both_wrong

    @property
    def wrong_b(self) -> int:
        return self.b_only_wrong + self.both_wrong

    @property
    def union(self) -> int:
        """Samples that at least one of them got wrong."""
        return self.a_only_wrong + self.b_only_wrong + self.both_wrong

    @property
    def jaccard(self) -> float | None:
        """Samples both got wrong over samples either got wrong; None where neither was ever wrong."""
        return self.both_wrong / self.union if self.union else None

    @property
    def p(self) -> float:
        """Exact two-sided p of the McNemar test."""
        return mcnemar(self.a_only_wrong, self.b_only_wrong)

    @property
    def difference(self) -> float:
        """Accuracy of b less accuracy of a."""
        return (self.a_only_wrong - self.b_only_wrong) / self.total

    def bootstrap(self) -> Interval:
        """95 % percentile interval of `difference` over paired resamples of the test set, infinitely many of them.

        A resample moves the difference by +1, 0 or -1 sample at each of S draws. The law of the sum is the S-fold
        convolution of that step, here by Fourier transform: exact to rounding, without a seed.
        """
        S = self.total
        if S == 0:
            raise invalid("total", "be at least 1", 0)
        step = np.zeros(2 * S + 1)
        step[[0, 1, -1]] = (self.both_right + self.both_wrong) / S, self.a_only_wrong / S, self.b_only_wrong / S
        law = np.fft.fftshift(np.fft.ifft(np.fft.fft(step) ** S).real)  # of the sums -S to S
        low = int(np.argmax(np.cumsum(law) >= _TAIL)) - S
        high = S - int(np.argmax(np.cumsum(law[::-1]) >= _TAIL))
        return Interval(low / S, high / S)


class Spread(NamedTuple):
    """Values that differ by their seeds alone; no deviation and no intervals from a single one."""

    mean: float
    sd: float | None
    """standard deviation, with n - 1"""
    ci95: Interval | None
    """of the mean: t distribution"""
    range95: Interval | None
    """in which one more value falls with probability 95 %, if they are normal"""


def spread(values: Sequence[float]) -> Spread:
    """Mean and scatter of `values`."""
    x = check_array("values", np.asarray(values, np.float64), ("n",))
    n, mean = len(x), float(x.mean())
    if n == 1:
        return Spread(mean, None, None, None)
    sd = float(x.std(ddof=1))
    t = float(scipy.special.stdtrit(n - 1, 1 - _TAIL))
    of_mean, of_next = t * sd / math.sqrt(n), t * sd * math.sqrt(1 + 1 / n)
    return Spread(mean, sd, Interval(mean - of_mean, mean + of_mean), Interval(mean - of_next, mean + of_next))


class Paired(NamedTuple):
    """Values b less values a, seed by seed; no interval and no p from fewer than two seeds."""

    mean: float
    n: int
    ci95: Interval | None
    """of the mean: t distribution"""
    p: float | None
    """two-sided, of the t test that the mean is zero"""


def paired(a: Sequence[float], b: Sequence[float]) -> Paired:
    """What b has more than a, where a[k] and b[k] belong to the same seeds."""
    x, y = (check_array(name, np.asarray(values, np.float64), ("n",)) for name, values in (("a", a), ("b", b)))
    if len(x) != len(y):
        raise invalid("b", f"have a value for each of the {len(x)} seeds of a", len(y))
    found, n = spread((y - x).tolist()), len(x)
    if found.sd is None:
        return Paired(found.mean, n, None, None)
    if found.sd == 0:
        return Paired(found.mean, n, found.ci95, 1.0 if found.mean == 0 else 0.0)
    t = abs(found.mean) / (found.sd / math.sqrt(n))
    return Paired(found.mean, n, found.ci95, float(2 * scipy.special.stdtr(n - 1, -t)))


def holm(p: Sequence[float]) -> list[float]:
    """The p of several tests as they count together: Holm's, so that 5 % of such families hold a false finding."""
    order = sorted(range(len(p)), key=lambda k: p[k])
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, k in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[k]))
        adjusted[k] = largest
    return adjusted


def _mask(argument: str, wrong: ArrayLike) -> NDArray[np.bool_]:
    mask = np.asarray(wrong)
    if mask.dtype != np.bool_ or mask.ndim != 1 or not mask.size:
        raise invalid(argument, "be a boolean array (S,)", f"of dtype {mask.dtype} and shape {mask.shape}")
    return mask
