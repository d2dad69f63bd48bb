"""Mean and variance over replicas of what observables added up to, taken in block by block."""

import numpy as np
from numpy.typing import ArrayLike

from thermoment._engines.task import Task
from thermoment.moments import Observed


class Tally:
    """Of K observables of a task. A sample's bits depend on its own blocks and their order alone."""

    def __init__(self, task: Task) -> None:
        self._names = [one.name for one in task.observables]
        self._count = np.zeros(task.n_samples)
        self._mean, self._squares = np.zeros((2, len(self._names), task.n_samples))

    def add(self, samples: slice, totals: ArrayLike) -> None:
        """Takes in the sums (K, samples, replicas) that some replicas of these samples reached.

        Two sets of replicas are joined by their means and squared deviations (Chan, Golub and LeVeque), which does not
        cancel where the spread is small beside the mean.
        """
        totals = np.asarray(totals)
        n, new = self._count[samples], totals.shape[2]
        mean = totals.mean(axis=2)
        apart = mean - self._mean[:, samples]
        self._squares[:, samples] += ((totals - mean[..., None]) ** 2).sum(axis=2) + apart**2 * n * new / (n + new)
        self._mean[:, samples] += apart * new / (n + new)
        self._count[samples] += new

    def observed(self, n_replicas: int) -> dict[str, Observed]:
        """Per observable its mean and variance over replicas."""
        with np.errstate(invalid="ignore"):  # one replica has no variance: 0 / 0
            variance = self._squares / np.float64(n_replicas - 1)
        return {name: Observed(self._mean[k], variance[k], n_replicas) for k, name in enumerate(self._names)}
