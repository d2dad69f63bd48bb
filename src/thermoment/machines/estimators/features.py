"""The moments of reservoirs, for any estimator that comes after."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from thermoment._support.checks import check_choice
from thermoment.learning.finite_time.program import Loss
from thermoment.machines.estimators.base import Array, Langevin, class_numbers, columns, weights_of
from thermoment.machines.estimators.inputs import Scale
from thermoment.machines.estimators.learn import HowTrained


class LangevinFeatures(TransformerMixin, Langevin):  # type: ignore[misc]
    """A transformer: the moments of reservoirs that are driven by the rows of a data set.

    The features of a row are [m1 | m2 | m4] of all nodes of the first reservoir, then of the second, and so on:
    F = R * len(orders) * N numbers, which depend on the row alone.

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
        training: None: the reservoirs stay as they are drawn, and y is not looked at. "finite-time" trains K and b
            through the moments at t_final, "static" trains K through the nodes' stationary points; both need y.
        loss: what the training makes small: the "cross-entropy" of classes y, or the "squared" error of numbers y,
            which only "finite-time" has.
        epochs: passes of the training over the rows; None: 40, or as many as make 200 steps, if that is more.
        batch_size: rows in a step of the training.
        learning_rate: the largest one of the training.
        training_replicas: the finite-time training sees moments with the shot noise of this many replicas, which keeps
            it from learning rows by heart; at least 1, `math.inf` for no noise.
        random_state: draws reservoirs, order of training and noise: an integer for the same machine every time, None
            for another one, or a `numpy.random.RandomState`.

    After `fit`:
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
        training: HowTrained | None = None,
        loss: Loss = "cross-entropy",
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float = 2e-2,
        training_replicas: float = 2,
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
        self.loss = loss
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training_replicas = training_replicas
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Training needs y."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.training is not None
        return tags

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> "LangevinFeatures":
        """Draws the reservoirs for rows X, and trains them if `training` says so.

        Args:
            X: (S, D).
            y: classes (S,), or numbers (S,) or (S, C) for the squared error; not looked at without training.
            sample_weight: (S,), how much a row counts in the scaling of inputs and in the training; 1 unless given.
        """
        if self.training is None:
            rows = validate_data(self, X, dtype=np.float64)
            self._learn(rows, np.zeros((len(rows), 0)), weights_of(sample_weight, rows), "cross-entropy")
            return self
        squared = check_choice("loss", self.loss, get_args(Loss)) == "squared"
        rows, known = validate_data(self, X, y, dtype=np.float64, multi_output=squared, y_numeric=squared)
        weights = weights_of(sample_weight, rows)
        targets = columns(known) if squared else class_numbers(known, weights)[0]
        self._learn(rows, targets, weights, self.loss)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Moments (S, F) of rows X (S, D). The bits of a row depend on this row alone."""
        return self._features(self._inputs(X))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names (F,): r1_m1_n1 is the mean of node 1 in reservoir 1, r2_m4_n3 the fourth moment of node 3 in 2."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        R, N = self.b_.shape
        names = [f"r{k + 1}_m{p}_n{i + 1}" for k in range(R) for p in self.orders for i in range(N)]
        return np.array(names, dtype=object)
