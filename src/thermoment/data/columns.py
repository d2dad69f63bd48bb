"""The columns of a table: which are inputs, how each is scaled, and which words are classes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scaling = Literal["range", "standard", "none"]
"""What becomes 0 and 1: smallest and largest value; three standard deviations around the mean; 0 and 1 themselves."""


@dataclass(frozen=True)
class Columns:
    """How a row of a table becomes an input: D columns by name, and what is 0 and what is 1 in each."""

    label: str
    classes: tuple[str, ...]
    """the words in the column `label`; a class is the place of its word here"""
    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    scaling: Scaling
    """how `low` and `high` were found; unless "none", values beyond them are set to 0 or 1"""

    def inputs(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """Values (S, D) as inputs (S, D), each in [0, 1]. A column that has one value only is 0."""
        low, high = np.array(self.low), np.array(self.high)
        x = (values - low) / np.where(high > low, high - low, 1.0)
        if self.scaling != "none":
            x = np.clip(x, 0, 1)
        elif x.min() < 0 or x.max() > 1:
            row, column = np.argwhere((x < 0) | (x > 1))[0]
            name = self.names[column]
            raise ValueError(
                f"Without scaling, column {name!r} must lie in [0, 1], but is {x[row, column]:g} in row {row + 1}."
            )
        return np.asarray(x, np.float32)

    def labels(self, words: NDArray[np.str_]) -> NDArray[np.int64]:
        """Classes (S,) of words (S,); a word that is no class is refused."""
        known = {word: number for number, word in enumerate(self.classes)}
        for row, word in enumerate(words):
            if word not in known:
                must = f"be one of {', '.join(self.classes)}"
                raise ValueError(f"Column {self.label!r} must {must}, but is {str(word)!r} in row {row + 1}.")
        return np.array([known[word] for word in words], np.int64)
