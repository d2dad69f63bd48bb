"""Mean and variance over replicas of what observables added up to, taken in block by block."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Outcome, Task
from thermoment.moments import Observed


class Tally:
    """Of K observables of a task. A sample's bits depend on its own blocks and their order alone."""

    def __init__(self, task: Task) -> None:
        self._names = [one.name for one in task.observables]
        self._n_replicas = task.n_replicas
        self._count = np.zeros(task.n_samples)
        self._mean, self._squares = np.zeros((2, len(self._names), task.n_samples))
        kept = (len(self._names), task.n_samples, task.n_replicas)
        self.totals = np.empty(kept) if task.keep_totals else None

    def add(self, samples: slice, replicas: slice, totals: ArrayLike) -> None:
        """Takes in the sums (K, samples, replicas) that these replicas of these samples reached.

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
        if self.totals is not None:
            self.totals[:, samples, replicas] = totals

    def outcome(
        self, raw: NDArray[np.float64], clip_count: int, products: NDArray[np.float64] | None = None
    ) -> Outcome:
        """What an engine found at a reading: moments, clipped updates and pairs, with what was taken in here."""
        with np.errstate(invalid="ignore"):  # one replica has no variance: 0 / 0
            variance = self._squares / np.float64(self._n_replicas - 1)
        observed = {name: Observed(self._mean[k], variance[k], self._n_replicas) for k, name in enumerate(self._names)}
        return Outcome(raw, clip_count, None, observed, totals=self.totals, products=products)
