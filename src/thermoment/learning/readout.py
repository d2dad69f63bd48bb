"""The linear readout, standardised features and one linear layer, as it is used: logits, classes, files.

    z = weights (phi - mean) / scale + bias

`fit` has the fits. Nothing here imports JAX.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, invalid
from thermoment._support.files import read_tensors, write_tensors
from thermoment._support.threads import in_blocks

Array = NDArray[np.float64]
Features = NDArray[np.float32]

SMALLEST_DEVIATION = 1e-12
"""A feature that varies less than this over the training set is only centred."""
_ROWS_AT_ONCE, _COLUMNS_AT_ONCE = 4096, 256


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and standard deviation (S - 1 in the denominator) of every feature over a training set."""

    mean: Array
    """(F,)"""
    scale: Array
    """(F,)"""

    @classmethod
    def fit(cls, features: NDArray[Any], weights: Array | None = None) -> "Scaling":
        """The scaling of features (S, F), summed in float64. A deviation below `SMALLEST_DEVIATION` is stored as 1.

        With weights (S,) a row counts as often as it weighs; the denominator is then the sum of the weights.
        """
        if weights is not None:
            share = weights / weights.sum()
            mean = share @ features
            deviation = np.sqrt(share @ (features - mean) ** 2)
            return cls(mean, np.where(deviation >= SMALLEST_DEVIATION, deviation, 1.0))
        if features.ndim != 2 or len(features) < 2:
            raise ValueError(f"Argument `features` must have shape (S, F) with S > 1, but has shape {features.shape}.")
        # A column is summed row by row, whatever stands beside it, so blocks of columns have the bits of all of them;
        # but NumPy sums a single column in another order, so that blocks are about the same size.
        n_features = features.shape[1]
        size = -(-n_features // -(-n_features // _COLUMNS_AT_ONCE)) if n_features else 1
        found = in_blocks(lambda block: _mean_and_deviation(features[:, block]), n_features, size)
        mean, deviation = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return cls(mean, np.where(deviation >= SMALLEST_DEVIATION, deviation, 1.0))

    def apply(self, features: NDArray[Any]) -> Features:
        """(phi - mean) / scale for features phi (S, F): (S, F), float32."""
        result = np.empty(features.shape, np.float32)

        def scale(rows: slice) -> None:
            result[rows] = (features[rows] - self.mean) / self.scale

        in_blocks(scale, len(features))
        return result

    def of(self, columns: NDArray[Any]) -> "Scaling":
        """The scaling of some of the features: those with the indices `columns`."""
        return Scaling(self.mean[columns], self.scale[columns])


@dataclass(frozen=True, eq=False)
class Readout:
    """A linear readout of F features for C classes: logits z = weights (phi - mean) / scale + bias."""

    weights: Array
    """(C, F), for standardised features"""
    bias: Array
    """(C,)"""
    scaling: Scaling
    """mean and scale, (F,) each"""

    def logits(self, features: ArrayLike) -> Array:
        """z for features (S, F): (S, C), float64."""
        features = np.asarray(features)
        if features.ndim != 2 or features.shape[1] != self.weights.shape[1]:
            raise ValueError(
                f"Argument `features` must have shape (S, {self.weights.shape[1]}), but has shape {features.shape}."
            )
        weights = self.weights / self.scaling.scale
        offset = self.bias - weights @ self.scaling.mean
        return np.concatenate([part @ weights.T + offset for part in _parts(features)])

    def predict(self, features: ArrayLike) -> NDArray[np.int64]:
        """The class with the largest logit for features (S, F): (S,)."""
        return classes(self.logits(features))

    def save(self, path: str | PathLike[str], facts: dict[str, Any] | None = None) -> None:
        """Writes a safetensors file, whole or not at all. `facts`, plain values, go into its metadata."""
        tensors = {"weights": self.weights, "bias": self.bias, **asdict(self.scaling)}
        write_tensors(path, "readout", tensors, json.dumps(facts or {}))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Readout":
        """The readout in a file that `save` wrote."""
        tensors, _ = read_tensors(path, "readout", ("weights", "bias", "mean", "scale"))
        n_classes, n_features = tensors["weights"].shape
        arrays = [
            check_array(name, tensors[name], shape)
            for name, shape in (
                ("weights", (n_classes, n_features)),
                ("bias", (n_classes,)),
                ("mean", (n_features,)),
                ("scale", (n_features,)),
            )
        ]
        return cls(arrays[0], arrays[1], Scaling(arrays[2], arrays[3]))


def classes(logits: Array) -> NDArray[np.int64]:
    """The class with the largest of logits (S, C): (S,). Of equal ones the first is taken."""
    chosen: NDArray[np.int64] = logits.argmax(1)
    return chosen


def probabilities(logits: Array) -> Array:
    """The softmax of logits (S, C): (S, C)."""
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def average_logits(readouts: Sequence[Readout], blocks: Sequence[ArrayLike]) -> Array:
    """Late fusion: the mean over readouts of the logits of each on its own block of features (S, F): (S, C)."""
    if not readouts or len(readouts) != len(blocks):
        raise invalid("readouts", f"be as many as the {len(blocks)} blocks of features", len(readouts))
    mean: Array = np.mean([readout.logits(block) for readout, block in zip(readouts, blocks, strict=True)], axis=0)
    return mean


def _mean_and_deviation(features: NDArray[Any]) -> tuple[Array, Array]:
    mean = sum(part.sum(0, dtype=np.float64) for part in _parts(features)) / len(features)
    squares = sum(((part - mean) ** 2).sum(0) for part in _parts(features))
    return mean, np.sqrt(squares / (len(features) - 1))


def _parts(features: NDArray[Any]) -> list[NDArray[Any]]:
    return [features[start : start + _ROWS_AT_ONCE] for start in range(0, len(features), _ROWS_AT_ONCE)]
