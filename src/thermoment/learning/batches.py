"""The order in which samples are learnt from, and the check of their labels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid


def batches(n_samples: int, batch_size: int, epochs: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
    """For every epoch, all rows in a new order: (n_batches, batch_size), the last batch filled up with -1."""
    n_batches = -(-n_samples // batch_size)
    for _ in range(epochs):
        rows = np.full(n_batches * batch_size, -1, np.int32)
        rows[:n_samples] = rng.permutation(n_samples)
        yield rows.reshape(n_batches, batch_size)


def check_labels(labels: NDArray[Any], n_samples: int) -> NDArray[np.int64]:
    """`labels` as (S,) integers from 0."""
    labels = np.asarray(labels)
    if labels.shape != (n_samples,):
        raise ValueError(f"Argument `labels` must have shape ({n_samples},), but has shape {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise invalid("labels", "be integers", f"of dtype {labels.dtype}")
    if labels.min() < 0:
        raise invalid("labels", "be zero or positive", labels.min())
    return labels.astype(np.int64)
