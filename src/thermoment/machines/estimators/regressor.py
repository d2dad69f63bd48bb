"""A regressor of rows: reservoirs and a ridge readout of their moments."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from thermoment._support.checks import check_positive
from thermoment.learning.fit import best_ridge, fit_ridge
from thermoment.machines.estimators.base import Array, Reading, columns, weights_of
from thermoment.machines.estimators.inputs import Scale


class LangevinRegressor(RegressorMixin, Reading):  # type: ignore[misc]
    """A regressor: reservoirs trained by the squared error, and a ridge readout of their moments.

    Args:
        n_nodes: N, nodes of each reservoir.
        n_reservoirs: R, number of reservoirs. Each is driven by the same row; the readout sees the moments of all.
        s_W: scale of the coupling, W_ij ~ N(0, s_W^2 / N).
        s_K: scale of the input projection, K_ik ~ N(0, s_K^2 / D): drives of scaled inputs have this size at any D.
        s_b: scale of the bias, b_i ~ N(0, s_b^2).
        J2, J4: the quadratic and the quartic coefficient of a node's well.
        mu, kT: mobility and temperature of a node.
        t_final: the time at which the nodes are read.
        dt: Euler step of an engine that samples; "meanfield" has none.
        orders: the p of the moments E[x^p] that are read, increasing; up to 4 with finite-time training.
        n_replicas: copies of the machine over which a moment is averaged. `math.inf`: the limit, without sampling
            noise, which only "meanfield" computes.
        engine: the name of the engine that computes the moments: "meanfield" does not sample; "auto", "native", "xla",
            "cuda" and "reference" sample and need a finite n_replicas. Both may be changed after `fit`.
        scale: "range" takes the smallest and the largest value of a column in the training set to -1 and 1, "standard"
            its mean to 0 and its deviation to 1. Larger values are cut, to 1 or to 3 deviations. None: X as it is.
        training: "finite-time" trains K and b through the moments at t_final, None leaves the reservoirs as they are
            drawn. There is no static training for numbers.
        epochs: passes of the training over the rows; None: 40, or as many as make 200 steps, if that is more.
        batch_size: rows in a step of the training.
        learning_rate: the largest one of the training.
        training_replicas: the finite-time training sees moments with the shot noise of this many replicas, which keeps
            it from learning rows by heart; at least 1, `math.inf` for no noise.
        alpha: the readout makes the mean of |z - y|^2 / 2 + alpha / 2 |weights|^2 small, for standardised moments and
            standardised y; positive. None: of 1e-8, 1e-7, ..., 10 the one whose errors for rows that are left out,
            one at a time, have the smallest mean square.
        random_state: draws reservoirs, order of training and noise: an integer for the same machine every time, None
            for another one, or a `numpy.random.RandomState`.

    After `fit`:
        coef_, intercept_: the readout of the moments, (C, F) and (C,), with F = R * len(orders) * N; C = 1 for y (S,).
        alpha_: the penalty of the readout.
        W_, K_, b_: the reservoirs, (R, N, N), (R, N, D) and (R, N); `reservoirs_` has them as `thermoment.Reservoir`.
        centre_, width_, reach_: the scaling of a row x: (x - centre_) / width_, (D,) each, cut to [-reach_, reach_].
        losses_: mean loss of every epoch of the training, (epochs,).
        noise_seed_: seed of the noise.
        n_features_in_: D.
        feature_names_in_: (D,), names of the columns, where X was a data frame with names.
    """

    def __init__(
        self,
        *,
        n_nodes: int = 256,
        n_reservoirs: int = 1,
        s_W: float = 0.1,
        s_K: float = 2.4,
        s_b: float = 0.5,
        J2: float = 1.0,
        J4: float = 1.0,
        mu: float = 1.0,
        kT: float = 0.1,
        t_final: float = 1.0,
        dt: float = 1e-3,
        orders: Sequence[int] = (1, 2, 4),
        n_replicas: float = math.inf,
        engine: str = "meanfield",
        scale: Scale | None = "range",
        training: Literal["finite-time"] | None = "finite-time",
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float = 2e-2,
        training_replicas: float = 2,
        alpha: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_nodes = n_nodes
        self.n_reservoirs = n_reservoirs
        self.s_W = s_W
        self.s_K = s_K
        self.s_b = s_b
        self.J2 = J2
        self.J4 = J4
        self.mu = mu
        self.kT = kT
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
        self.alpha = alpha
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """y may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LangevinRegressor":
        """Draws and trains the reservoirs for rows X and numbers y, and fits their readout.

        Args:
            X: (S, D).
            y: (S,) or (S, C); columns share the reservoirs.
            sample_weight: (S,), how much a row counts in the scaling of inputs, the training and the readout; 1 unless
                given. A weight of 2 is the same as the row twice, a weight of 0 is the same as no such row.
        """
        rows, numbers = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        if self.alpha is not None:
            check_positive("alpha", self.alpha)
        found = self._learn(rows, columns(numbers), weights_of(sample_weight, rows), "squared")
        features = self._features(found.inputs)
        self.alpha_ = best_ridge(features, found.targets, found.weights) if self.alpha is None else float(self.alpha)
        readout = fit_ridge(features, found.targets, self.alpha_, found.weights)
        mean, deviation = found.target_scaling.mean, found.target_scaling.scale
        self._keep(replace(readout, weights=readout.weights * deviation[:, None], bias=readout.bias * deviation + mean))
        self.one_column_ = numbers.ndim == 1
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Numbers for rows X (S, D), in the shape that y had: (S,) or (S, C)."""
        z = self._read(X)
        return z[:, 0] if self.one_column_ else z
