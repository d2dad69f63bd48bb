"""The linear readout: standardised features and one softmax layer.

z = W_out (phi - mean) / scale + g_out
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

Array = NDArray[np.float64]
Features = NDArray[np.float32]

SMALLEST_DEVIATION = 1e-12
"""A feature that varies less than this over the training set is only centred."""
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and deviation (S - 1 in the denominator) of every feature over a training set: (F,) each."""

    mean: Array
    scale: Array

    @classmethod
    def fit(cls, features: NDArray[Any]) -> "Scaling":
        """Of features (S, F), summed in float64. A deviation below 1e-12 counts as 1."""
        if features.ndim != 2 or len(features) < 2:
            raise ValueError(f"Argument `features` must have shape (S, F) with S > 1, but has shape {features.shape}.")
        mean = sum(part.sum(0, dtype=np.float64) for part in _parts(features)) / len(features)
        squares = sum(((part - mean) ** 2).sum(0) for part in _parts(features))
        deviation = np.sqrt(squares / (len(features) - 1))
        return cls(mean, np.where(deviation >= SMALLEST_DEVIATION, deviation, 1.0))

    def apply(self, features: NDArray[Any]) -> Features:
        """(phi - mean) / scale, as float32."""
        result = np.empty(features.shape, np.float32)
        for start in range(0, len(features), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            result[part] = (features[part] - self.mean) / self.scale
        return result

    def of(self, columns: NDArray[Any]) -> "Scaling":
        """That of some of the features."""
        return Scaling(self.mean[columns], self.scale[columns])


@dataclass(frozen=True, eq=False)
class Readout:
    """z = weights (phi - mean) / scale + bias."""

    weights: Array
    """(C, F)"""
    bias: Array
    """(C,)"""
    scaling: Scaling

    def logits(self, features: ArrayLike) -> Array:
        """z for features (S, F): (S, C), in float64."""
        features = np.asarray(features)
        if features.ndim != 2 or features.shape[1] != self.weights.shape[1]:
            raise ValueError(
                f"Argument `features` must have shape (S, {self.weights.shape[1]}), but has shape {features.shape}."
            )
        weights = self.weights / self.scaling.scale
        offset = self.bias - weights @ self.scaling.mean
        return np.concatenate([part @ weights.T + offset for part in _parts(features)])

    def predict(self, features: ArrayLike) -> NDArray[np.int64]:
        """The class with the largest logit: (S,)."""
        return classes(self.logits(features))

    def save(self, path: str | PathLike[str], facts: dict[str, Any] | None = None) -> None:
        """Writes a safetensors file, whole or not at all, with `facts` beside the numbers."""
        tensors = {"weights": self.weights, "bias": self.bias, **asdict(self.scaling)}
        write_tensors(path, "readout", tensors, json.dumps(facts or {}))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Readout":
        """Reads what `save` wrote."""
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
    """The class with the largest logit, the first of them where two are equal: (S,)."""
    chosen: NDArray[np.int64] = logits.argmax(1)
    return chosen


def average_logits(readouts: Sequence[Readout], blocks: Sequence[ArrayLike]) -> Array:
    """Late fusion: the mean of every readout's logits on its own features, (S, C)."""
    if not readouts or len(readouts) != len(blocks):
        raise invalid("readouts", f"be as many as the {len(blocks)} blocks of features", len(readouts))
    mean: Array = np.mean([readout.logits(block) for readout, block in zip(readouts, blocks, strict=True)], axis=0)
    return mean


def _parts(features: NDArray[Any]) -> list[NDArray[Any]]:
    return [features[start : start + _ROWS_AT_ONCE] for start in range(0, len(features), _ROWS_AT_ONCE)]
