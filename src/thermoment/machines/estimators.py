"""Langevin machines as estimators of scikit-learn: a transformer, a classifier and a regressor.

    rows (S, D) -> scaled and cut (inputs.py) -> reservoirs, trained or as drawn (learn.py)
                -> moments [m1 | m2 | m4] of one reservoir after the other, (S, F) -> a linear readout

A row has the noise that its own numbers choose (row_noise.py). Fitted state is arrays and plain numbers alone.
"""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, check_is_fitted, validate_data

from thermoment._engines.task import Engine
from thermoment._support.checks import check_choice, check_integer, check_positive, invalid
from thermoment._support.threads import multiply_in_threads
from thermoment.learning.finite_time.program import Loss
from thermoment.learning.fit import fit_converged, fit_ridge
from thermoment.learning.readout import Readout, Scaling
from thermoment.machines.inputs import InputScaling, Scale
from thermoment.machines.learn import HowTrained, Learnt, learn, protocol_of
from thermoment.machines.row_noise import row_ids
from thermoment.physics import Dynamics
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

Array = NDArray[np.float64]

_ROWS_AT_ONCE = 4096
"""Rows whose features are in memory at a time when classes or numbers are predicted."""
_ROWS_IN_PRODUCT = 256
"""A BLAS may sum in another order for another shape, so all products with a readout have this many rows."""


class _Langevin(BaseEstimator):  # type: ignore[misc]
    """What the three estimators share: drawing, training, features."""

    @property
    def reservoirs_(self) -> tuple[Reservoir, ...]:
        """The reservoirs after `fit`, as `thermoment.simulate` and all else takes them. They see scaled inputs."""
        arrays = enumerate(zip(self.W_, self.K_, self.b_, strict=True))
        return tuple(Reservoir(W, K, b, self.dynamics or Dynamics(), stream) for stream, (W, K, b) in arrays)

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


class LangevinFeatures(TransformerMixin, _Langevin):  # type: ignore[misc]
    """The moments of reservoirs that are driven by the rows of a data set, for any estimator that comes after.

    Args:
        training: None, reservoirs as they are drawn; or as for `LangevinClassifier`, which needs y.
        loss: what training makes small: the "cross-entropy" of classes y, or the "squared" error of numbers y.

    All others are those of `LangevinClassifier`. After `fit` there are `reservoirs_`, and `losses_`, the mean loss of
    every epoch.
    """

    def __init__(
        self,
        *,
        n_reservoirs: int = 1,
        n_nodes: int = 192,
        s_W: float = 0.1,
        s_K: float = 1.2,
        s_b: float = 0.02,
        dynamics: Dynamics | None = None,
        t_final: float = 1.0,
        dt: float = 1e-3,
        orders: tuple[int, ...] = (1, 2, 4),
        n_replicas: float = math.inf,
        engine: str | Engine = "meanfield",
        scale: Scale | None = "range",
        training: HowTrained | None = None,
        loss: Loss = "cross-entropy",
        epochs: int | None = None,
        batch_size: int = 64,
        learning_rate: float = 5e-3,
        training_replicas: float = 16,
        drive_limit: float = 20.0,
        random_state: Any = None,
    ) -> None:
        self.n_reservoirs = n_reservoirs
        self.n_nodes = n_nodes
        self.s_W = s_W
        self.s_K = s_K
        self.s_b = s_b
        self.dynamics = dynamics
        self.t_final = t_final
        self.dt = dt
        self.orders = orders
        self.n_replicas = n_replicas
        self.engine = engine
        self.scale = scale
        self.training = training
        self.loss = loss
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training_replicas = training_replicas
        self.drive_limit = drive_limit
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Training needs y."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.training is not None
        return tags

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> "LangevinFeatures":
        """Draws the reservoirs for rows X (S, D), and trains them if `training` says so.

        Args:
            X: (S, D).
            y: classes (S,), or numbers (S,) or (S, C) for the squared error; not looked at without training.
            sample_weight: (S,), how much a row counts in the scaling of inputs and in the training.
        """
        if self.training is None:
            rows = validate_data(self, X, dtype=np.float64)
            self._learn(rows, np.zeros((len(rows), 0)), _weights(sample_weight, rows), "cross-entropy")
            return self
        squared = check_choice("loss", self.loss, get_args(Loss)) == "squared"
        rows, y = validate_data(self, X, y, dtype=np.float64, multi_output=squared, y_numeric=squared)
        weights = _weights(sample_weight, rows)
        targets = _columns(y) if squared else _class_numbers(y, weights)[0]
        self._learn(rows, targets, weights, self.loss)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Moments (S, F) of rows X (S, D), F = n_reservoirs * len(orders) * n_nodes. A row's bits depend on it alone."""
        return self._features(self._inputs(X))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """K1_m1_0, K1_m1_1, ..., K1_m2_0, ...: reservoir, order of the moment, node."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        R, N = self.b_.shape
        names = [f"K{k + 1}_m{p}_{i}" for k in range(R) for p in self.orders for i in range(N)]
        return np.array(names, dtype=object)


class _Reading(_Langevin):
    """A machine with a linear readout: z = features coef_^T + intercept_."""

    def __init__(
        self,
        *,
        n_reservoirs: int = 1,
        n_nodes: int = 192,
        s_W: float = 0.1,
        s_K: float = 1.2,
        s_b: float = 0.02,
        dynamics: Dynamics | None = None,
        t_final: float = 1.0,
        dt: float = 1e-3,
        orders: tuple[int, ...] = (1, 2, 4),
        n_replicas: float = math.inf,
        engine: str | Engine = "meanfield",
        scale: Scale | None = "range",
        training: HowTrained | None = "finite-time",
        epochs: int | None = None,
        batch_size: int = 64,
        learning_rate: float = 5e-3,
        training_replicas: float = 16,
        drive_limit: float = 20.0,
        alpha: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_reservoirs = n_reservoirs
        self.n_nodes = n_nodes
        self.s_W = s_W
        self.s_K = s_K
        self.s_b = s_b
        self.dynamics = dynamics
        self.t_final = t_final
        self.dt = dt
        self.orders = orders
        self.n_replicas = n_replicas
        self.engine = engine
        self.scale = scale
        self.training = training
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training_replicas = training_replicas
        self.drive_limit = drive_limit
        self.alpha = alpha
        self.random_state = random_state

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


class LangevinClassifier(ClassifierMixin, _Reading):  # type: ignore[misc]
    """A classifier: reservoirs driven by a row, and a linear readout of their moments.

    Args:
        n_reservoirs: number of reservoirs, each driven by the same row; the readout sees the moments of all.
        n_nodes: N, nodes of each reservoir.
        s_W: scale of the coupling, W_ij ~ N(0, s_W^2 / N).
        s_K: scale of the input projection, K_ik ~ N(0, s_K^2 / D): for scaled inputs drives are of this size at any D.
        s_b: scale of the bias, b_i ~ N(0, s_b^2).
        dynamics: the well and the temperature of a node; `thermoment.Dynamics()` unless given.
        t_final: the time at which the nodes are read, in the units of `dynamics`.
        dt: Euler step of an engine that samples; `meanfield` does not use it.
        orders: p of the moments E[x^p] that the readout sees; training goes up to 4.
        n_replicas: copies of the machine over which moments are averaged; `math.inf`, the limit, for `meanfield`.
        engine: what computes the moments: "meanfield" without sampling, "auto" or another of `thermoment.engines()`.
        scale: "range" takes the smallest and the largest value of a column in the training set to -1 and 1, "standard"
            its mean to 0 and its deviation to 1; larger values are cut to 1, or to 3 deviations. None: X as it is.
        training: "finite-time" trains K and b through the moments at t_final, "static" K through the nodes' stationary
            points, None leaves the reservoirs as drawn.
        epochs: passes of the training over the rows; unless given 40, and more of a small set, for 1000 steps in all.
        batch_size: rows in a step.
        learning_rate: the largest of the training.
        training_replicas: the training sees moments with the shot noise of this many replicas, which keeps it from
            learning rows by heart; `math.inf` for no noise.
        drive_limit: |h| beyond which training is penalised, at most 100.
        alpha: TODO
        random_state: None, an integer or a `numpy.random.RandomState`: draws reservoirs, training and noise.

    After `fit`: `classes_` (C,), `coef_` (C, F) and `intercept_` (C,), `reservoirs_`, `losses_`, the mean loss of every
    epoch, `n_features_in_` and, for a data frame, `feature_names_in_`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LangevinClassifier":
        """Draws, trains and reads reservoirs for rows X (S, D) of classes y (S,), numbers or strings.

        Args:
            X: (S, D).
            y: (S,).
            sample_weight: (S,), how much a row counts, everywhere: in the scaling of inputs, the training and the
                readout. A weight of 2 is the same as the row twice, a weight of 0 as no such row.
        """
        rows, y = validate_data(self, X, y, dtype=np.float64)
        weights = _weights(sample_weight, rows)
        numbers, self.classes_ = _class_numbers(y, weights)
        found = self._learn(rows, numbers, weights, "cross-entropy")
        self._keep(self._readout(found))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Logits (S, C) of rows X (S, D); for two classes what the second has more than the first, (S,)."""
        z = self._read(X)
        return z[:, 1] - z[:, 0] if len(self.classes_) == 2 else z

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (S, C) of the classes, in the order of `classes_`: the softmax of the logits."""
        return np.asarray(softmax(self._read(X), axis=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class (S,) with the largest logit, for rows X (S, D)."""
        return np.asarray(self.classes_[self._read(X).argmax(axis=1)])


class LangevinRegressor(RegressorMixin, _Reading):  # type: ignore[misc]
    """A regressor: reservoirs trained by the squared error, and a ridge readout of their moments.

    Args:
        training: "finite-time" or None; there is no static training for numbers.
        alpha: TODO

    All others are those of `LangevinClassifier`. y may have several columns, which share the reservoirs.
    """

    def __sklearn_tags__(self) -> Any:
        """y may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LangevinRegressor":
        """Draws, trains and reads reservoirs for rows X (S, D) and numbers y, (S,) or (S, C).

        Args:
            X: (S, D).
            y: (S,) or (S, C).
            sample_weight: (S,), as for `LangevinClassifier`.
        """
        rows, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        found = self._learn(rows, _columns(y), _weights(sample_weight, rows), "squared")
        features, total = self._features(found.inputs), float(found.weights.sum())
        readout = fit_ridge(features, found.targets, TODO / total, found.weights)
        mean, scale = found.target_scaling.mean, found.target_scaling.scale
        self._keep(replace(readout, weights=readout.weights * scale[:, None], bias=readout.bias * scale + mean))
        self.one_column_ = y.ndim == 1
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Numbers for rows X (S, D), in the shape that y had: (S,) or (S, C)."""
        z = self._read(X)
        return z[:, 0] if self.one_column_ else z


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


def _weights(sample_weight: ArrayLike | None, rows: Array) -> Array:
    """The weight of every row, (S,): 1 unless given."""
    weights: Array = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise invalid("sample_weight", "be positive for some row", "zero for all")
    return weights


def _class_numbers(y: NDArray[Any], weights: Array) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The class of each row as a number from 0, (S, 1), and the classes, sorted. A class of weight zero is none."""
    check_classification_targets(y)
    classes = np.unique(y[weights > 0])
    if len(classes) < 2:
        raise invalid("y", "have at least two classes", f"of {len(classes)} class in the rows that weigh something")
    return np.minimum(np.searchsorted(classes, y), len(classes) - 1)[:, None], classes


def _columns(y: NDArray[Any]) -> Array:
    """Numbers y (S,) or (S, C) as targets (S, C)."""
    return np.asarray(y, np.float64).reshape(len(y), -1)
