"""What the three estimators share: drawing and training the reservoirs, their moments, the product with a readout."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from thermoment._support.checks import check_integer, invalid
from thermoment._support.threads import multiply_in_threads
from thermoment.learning.finite_time.program import Loss
from thermoment.learning.readout import Readout
from thermoment.machines.estimators.inputs import InputScaling
from thermoment.machines.estimators.learn import Learnt, dynamics_of, learn, protocol_of
from thermoment.machines.estimators.row_noise import row_ids
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

Array = NDArray[np.float64]

_ROWS_AT_ONCE = 4096
"""Rows whose features are in memory at a time when classes or numbers are predicted."""
_ROWS_IN_PRODUCT = 256
"""A BLAS may sum in another order for another shape, so all products with a readout have this many rows."""


class Langevin(BaseEstimator):  # type: ignore[misc]
    """An estimator that has reservoirs."""

    @property
    def reservoirs_(self) -> tuple[Reservoir, ...]:
        """The reservoirs after `fit`, as `thermoment.simulate` takes them. Their inputs are scaled rows."""
        check_is_fitted(self)
        arrays = enumerate(zip(self.W_, self.K_, self.b_, strict=True))
        return tuple(Reservoir(W, K, b, dynamics_of(self), stream) for stream, (W, K, b) in arrays)

    def _learn(self, rows: Array, targets: NDArray[Any], weights: Array, loss: Loss) -> Learnt:
        """Draws the reservoirs, trains them if asked, and keeps them."""
        rng = check_random_state(self.random_state)
        count = 2 + check_integer("n_reservoirs", self.n_reservoirs, 1, 2**16)
        seeds = [int(word) for word in rng.randint(2**31 - 1, size=count)]
        found = learn(self, rows, targets, weights, loss, seeds)
        self.W_, self.K_, self.b_ = (np.stack([getattr(one, name) for one in found.reservoirs]) for name in "WKb")
        self.centre_, self.width_, self.reach_ = found.scaling
        self.noise_seed_, self.losses_ = seeds[0], found.losses
        return found

    def _inputs(self, X: ArrayLike) -> Array:
        """Rows X (S, D), checked and scaled."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return InputScaling(self.centre_, self.width_, self.reach_).apply(rows)

    def _features(self, inputs: Array) -> Array:
        """Moments [m_p | m_q | ...] of one reservoir after the other for scaled inputs (S, D): (S, F)."""
        ids, protocol = row_ids(inputs), protocol_of(self, self.noise_seed_)
        found = [simulate(one, inputs, protocol, engine=self.engine, sample_ids=ids) for one in self.reservoirs_]
        return np.concatenate([moments.features() for moments in found], axis=1)


class Reading(Langevin):
    """An estimator that has a linear readout too: z = features coef_^T + intercept_."""

    def _keep(self, readout: Readout) -> None:
        """Keeps a readout as what it does to features that are not standardised."""
        self.coef_ = readout.weights / readout.scaling.scale
        self.intercept_ = readout.bias - self.coef_ @ readout.scaling.mean

    def _read(self, X: ArrayLike) -> Array:
        """z of rows X (S, D): (S, C). A row's bits depend on this row alone."""
        inputs = self._inputs(X)
        z = np.empty((len(inputs), len(self.coef_)))
        for start in range(0, len(inputs), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            z[part] = _product(self._features(inputs[part]), self.coef_) + self.intercept_
        return z


def weights_of(sample_weight: ArrayLike | None, rows: Array) -> Array:
    """The weight of every row, (S,): 1 unless given."""
    weights: Array = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise invalid("sample_weight", "be positive for some row", "zero for all")
    return weights


def class_numbers(y: NDArray[Any], weights: Array) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The class of each row as a number from 0, (S, 1), and the classes, sorted. A class of weight zero is none."""
    check_classification_targets(y)
    classes = np.unique(y[weights > 0])
    if len(classes) < 2:
        raise invalid("y", "have at least two classes", f"of {len(classes)} class in the rows that weigh something")
    return np.minimum(np.searchsorted(classes, y), len(classes) - 1)[:, None], classes


def columns(y: NDArray[Any]) -> Array:
    """Numbers y (S,) or (S, C) as targets (S, C)."""
    return np.asarray(y, np.float64).reshape(len(y), -1)


def _product(features: Array, coef: Array) -> Array:
    """features (S, F) times coef (C, F): (S, C), in products of one shape."""
    count = len(features)
    rows = np.pad(features, ((0, -count % _ROWS_IN_PRODUCT), (0, 0)))
    found = np.empty((len(rows), len(coef)))

    def block(start: int) -> float:
        part = slice(start, start + _ROWS_IN_PRODUCT)
        found[part] = rows[part] @ coef.T
        return 0.0

    multiply_in_threads(block, range(0, len(rows), _ROWS_IN_PRODUCT))
    return found[:count]
