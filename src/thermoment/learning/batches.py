"""The order in which training reads its samples."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def batches(n_samples: int, batch_size: int, epochs: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
    """For every epoch the rows 0 to n_samples - 1 in a new order: (n_batches, batch_size), filled up with -1."""
    n_batches = -(-n_samples // batch_size)
    for _ in range(epochs):
        rows = np.full(n_batches * batch_size, -1, np.int32)
        rows[:n_samples] = rng.permutation(n_samples)
        yield rows.reshape(n_batches, batch_size)
