"""Answers of a classifier, with what sampling noise does to them: the same inputs read again with other noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_integer
from thermoment.machines.classifier import Classifier

_FIRST_ID = 2**40
"""Sample ids from here on are of no run: their noise was used for no training or test sample."""


@dataclass(frozen=True)
class Answers:
    """What a machine says of S inputs, C classes each, in R readings with independent noise."""

    readings: NDArray[np.float64]
    """probabilities of the classes, (R, S, C)"""

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Of the first reading, (S, C)."""
        return np.asarray(self.readings[0])

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of the largest probability in the first reading, (S,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of each probability over the readings, (S, C); zero from one reading."""
        return np.asarray(self.readings.std(axis=0, ddof=1) if len(self.readings) > 1 else 0 * self.probabilities)

    @property
    def agreement(self) -> NDArray[np.int64]:
        """How many of the R readings give the same class as the first, (S,)."""
        return np.asarray((self.readings.argmax(axis=2) == self.labels).sum(axis=0))

    def plain(self, names: Sequence[str], labels: NDArray[np.int64] | None = None) -> dict[str, Any]:
        """The answers as JSON knows them, classes by name; with `labels` (S,), what each input is."""
        rows = []
        for row, (label, chances) in enumerate(zip(self.labels, self.probabilities, strict=True)):
            rows.append(
                {
                    "class": names[label],
                    "probability": float(chances[label]),
                    "spread": float(self.spread[row, label]),
                    "agreement": int(self.agreement[row]),
                    "probabilities": {name: float(chance) for name, chance in zip(names, chances, strict=True)},
                    **({} if labels is None else {"is": names[labels[row]]}),
                }
            )
        return {"readings": len(self.readings), "answers": rows}


def answer(classifier: Classifier, inputs: ArrayLike, readings: int = 8, **simulated: Any) -> Answers:
    """The answers of `classifier` to inputs (S, D), in as many readings; `engine` as in `Classifier.features`."""
    check_integer("readings", readings, 1, 10**6)
    ids = _FIRST_ID + np.arange(readings * len(np.asarray(inputs)), dtype=np.uint64).reshape(readings, -1)
    return Answers(np.stack([classifier.predict_proba(inputs, sample_ids=row, **simulated) for row in ids]))
