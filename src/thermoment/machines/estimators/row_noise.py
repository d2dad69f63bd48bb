"""What a row of a data set contains decides its noise, and its place in a training: neither order nor company does.

The sample id of a row, which chooses its noise (noise.py), is a 64-bit hash of its numbers. So a row has the same
features in any batch, rows of a training and a test set have different noise, and rows with equal numbers have equal
noise.
"""

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def row_ids(inputs: Array) -> NDArray[np.uint64]:
    """A sample id for each of the inputs (S, D), from its float64 bytes: (S,). Cost: about a microsecond a row."""
    words = [blake2b(row, digest_size=8).digest() for row in np.ascontiguousarray(inputs, "<f8")]
    return np.frombuffer(b"".join(words), "<u8").astype(np.uint64)


class Distinct(NamedTuple):
    """The different rows of a weighted data set, in an order that follows from what they contain."""

    rows: Array
    """(S', D)"""
    targets: NDArray[Any]
    """(S', C)"""
    weights: Array
    """(S',), positive: of rows that were equal the sum"""


def distinct(rows: Array, targets: NDArray[Any], weights: Array) -> Distinct:
    """Rows (S, D) with targets (S, C) and weights (S,): equal ones joined, those of weight zero left out, sorted.

    So a training set gives the same machine in any order, and a row of weight 2 is the same as two equal rows.
    """
    used = weights > 0
    rows, targets, weights = rows[used] + 0.0, targets[used], weights[used]
    pairs = zip(np.ascontiguousarray(rows), np.ascontiguousarray(targets), strict=True)
    names = [blake2b(row.tobytes() + target.tobytes(), digest_size=16).digest() for row, target in pairs]
    _, first, place = np.unique(np.array(names, "V16").view("u8,u8").ravel(), return_index=True, return_inverse=True)
    up = np.argsort(weights)  # a sum of floating-point numbers depends on their order: the lightest come first
    return Distinct(rows[first], targets[first], np.bincount(place[up], weights[up]).astype(np.float64))
