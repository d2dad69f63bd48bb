"""Rows of any scale as the inputs of a machine: numbers of order one, cut to the range of the training set."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

Scale = Literal["range", "standard"]
REACH = {"range": 1.0, "standard": 3.0}
"""Scaled inputs are cut to [-reach, reach], as a device would: no drive gets larger than those it was trained for."""


class InputScaling(NamedTuple):
    """I = (x - centre) / width of every column, cut to [-reach, reach]."""

    centre: Array
    """(D,)"""
    width: Array
    """(D,), positive"""
    reach: float

    def apply(self, rows: Array) -> Array:
        """I for rows (S, D): (S, D). The bits of a row depend on this row alone."""
        with np.errstate(over="ignore"):
            scaled = (rows - self.centre) / self.width
        return np.clip(scaled, -self.reach, self.reach) + 0.0  # -0.0 and 0.0 are the same input: no -0.0 is left


def fit_scaling(scale: Scale | None, rows: Array, weights: Array) -> InputScaling:
    """The scaling of training rows (S, D) with positive weights (S,).

    "range" takes the smallest and the largest value of a column to -1 and 1; "standard" takes its mean to 0 and its
    standard deviation to 1; None leaves inputs as they are. A column that is constant becomes zero.
    """
    n_inputs = rows.shape[1]
    match scale:
        case "range":
            low, high = rows.min(axis=0), rows.max(axis=0)
            centre, width = low / 2 + high / 2, high / 2 - low / 2
        case "standard":
            share = weights / weights.sum()
            centre = share @ rows
            width = np.sqrt(share @ (rows - centre) ** 2)
            # The mean of equal numbers is off by rounding, and so is their deviation from it.
            width = np.where(width > 1e-12 * np.abs(centre), width, 0.0)
        case None:
            return InputScaling(np.zeros(n_inputs), np.ones(n_inputs), math.inf)
    return InputScaling(centre, np.where(width > 0, width, 1.0), REACH[scale])


class Padded(NamedTuple):
    """A training set with rows and columns of zeros added, so that many training sets have one shape.

    A training is compiled for the shapes of its arrays, which takes longer than to train on a small set.
    """

    inputs: Array
    """(S', D')"""
    targets: NDArray[Any]
    """(S', ...)"""
    weights: Array
    """(S',), zero for a row that was added"""


def padded(inputs: Array, targets: NDArray[Any], weights: Array, batch_size: int) -> Padded:
    """Inputs (S, D) with S filled up to 1, 2, 3, 4, 6, 8, 12, 16, ... whole batches, and D to a multiple of 32."""
    S, D = inputs.shape
    rows = batch_size * _rounded(-(-S // batch_size)) - S
    columns = -D % 32
    return Padded(
        np.pad(inputs, ((0, rows), (0, columns))),
        np.pad(targets, ((0, rows), *((0, 0) for _ in targets.shape[1:]))),
        np.pad(weights, (0, rows)),
    )


def _rounded(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: a half is added at most."""
    power = 1 << (count.bit_length() - 1)
    return next(one for one in (power, power * 3 // 2, 2 * power) if one >= count)
