"""Models of two runs side by side: what each got right, and an exact test where both saw the same test images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment.results.naming import ModelKey
from thermoment.results.statistics import Pair

Classes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Predictions:
    """Labels (S,) of a test set, and the classes (S,) that every model of one run predicts."""

    labels: Classes
    classes: Mapping[ModelKey, Classes]

    def correct(self, model: ModelKey) -> int | None:
        """How many samples a model got right; None where this run does not have it."""
        return int(np.count_nonzero(self.classes[model] == self.labels)) if model in self.classes else None


@dataclass(frozen=True)
class Row:
    """How many a model of one run got right, and a model of another."""

    a: int | None
    """None where the run does not have the model"""
    b: int | None
    p: float | None
    """of the exact McNemar test; None where one of the models is missing or the test sets differ"""


def beside(a: Predictions, b: Predictions, one: ModelKey, other: ModelKey, *, same_images: bool) -> Row:
    """The model `one` of run a beside the model `other` of run b."""
    counts = a.correct(one), b.correct(other)
    if not same_images or None in counts:
        return Row(*counts, None)
    return Row(*counts, Pair.of(a.classes[one] != a.labels, b.classes[other] != b.labels).p)
