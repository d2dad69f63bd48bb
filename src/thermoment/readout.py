"""The linear readout: standardised features, one softmax layer, fitted by the paper's SGD or to convergence.

    z = W_out (phi - mean) / scale + g_out
    loss = mean cross-entropy + l2/2 |W_out|^2            g_out is not penalised

Both fits minimise the same loss: SGD stops after a fixed number of epochs, `fit_converged` at the minimum. Their
difference is the optimiser's, the rest the representation's.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from thermoment.compilation import REPRODUCIBLE
from thermoment.files import read_tensors, write_tensors
from thermoment.projection import batches, check_labels
from thermoment.validation import check_array, check_integer, check_not_negative, check_positive, invalid

Array = NDArray[np.float64]
Features = NDArray[np.float32]

SMALLEST_DEVIATION = 1e-12
"""A feature that varies less than this over the training set is only centred."""
_ROWS_AT_ONCE = 4096
LARGEST_GRADIENT = 2e-5
"""Where `fit_converged` stops: no component of the gradient g is larger, in variables in which the loss is round, so
that it is about |g|^2 / 2 above its minimum."""
_LOWEST_DIFFERENCE = 1e-5
_ROWS_IN_BLOCK = 1024  # which the caches of a processor hold
_MOST_ITERATIONS = 1000
# p (1 - p) of a typical image: the curvature of the loss along a feature of variance 1. Three times more or less make
# no difference to speak of.
_CURVATURE = 0.03


@dataclass(frozen=True)
class Sgd:
    """Plain stochastic gradient descent from zero, as in the paper."""

    epochs: int = 150
    batch_size: int = 128
    learning_rate: float = 0.05
    l2: float = 1e-3
    seed: int = 20260621

    def __post_init__(self) -> None:
        check_integer("epochs", self.epochs, 1, 10**6)
        check_integer("batch_size", self.batch_size, 1, 10**6)
        object.__setattr__(self, "learning_rate", check_positive("learning_rate", self.learning_rate))
        object.__setattr__(self, "l2", check_not_negative("l2", self.l2))
        check_integer("seed", self.seed, 0, 2**63)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and deviation (S - 1 in the denominator) of every feature over a training set: (F,) each."""

    mean: Array
    scale: Array

    @classmethod
    def fit(cls, features: NDArray[Any]) -> "Scaling":
        """Of features (S, F), summed in float64. A deviation below 1e-12 counts as 1."""
        if features.ndim != 2 or len(features) < 2:
            raise ValueError(f"Argument `features` must have shape (S, F) with S > 1, but has shape {features.shape}.")
        mean = sum(part.sum(0, dtype=np.float64) for part in _parts(features)) / len(features)
        squares = sum(((part - mean) ** 2).sum(0) for part in _parts(features))
        deviation = np.sqrt(squares / (len(features) - 1))
        return cls(mean, np.where(deviation >= SMALLEST_DEVIATION, deviation, 1.0))

    def apply(self, features: NDArray[Any]) -> Features:
        """(phi - mean) / scale, as float32."""
        result = np.empty(features.shape, np.float32)
        for start in range(0, len(features), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            result[part] = (features[part] - self.mean) / self.scale
        return result

    def of(self, columns: NDArray[Any]) -> "Scaling":
        """That of some of the features."""
        return Scaling(self.mean[columns], self.scale[columns])


@dataclass(frozen=True, eq=False)
class Readout:
    """z = weights (phi - mean) / scale + bias."""

    weights: Array
    """(C, F)"""
    bias: Array
    """(C,)"""
    scaling: Scaling

    def logits(self, features: ArrayLike) -> Array:
        """z for features (S, F): (S, C), in float64."""
        features = np.asarray(features)
        if features.ndim != 2 or features.shape[1] != self.weights.shape[1]:
            raise ValueError(
                f"Argument `features` must have shape (S, {self.weights.shape[1]}), but has shape {features.shape}."
            )
        weights = self.weights / self.scaling.scale
        offset = self.bias - weights @ self.scaling.mean
        return np.concatenate([part @ weights.T + offset for part in _parts(features)])

    def predict(self, features: ArrayLike) -> NDArray[np.int64]:
        """The class with the largest logit: (S,)."""
        return classes(self.logits(features))

    def save(self, path: str | PathLike[str], facts: dict[str, Any] | None = None) -> None:
        """Writes a safetensors file, whole or not at all, with `facts` beside the numbers."""
        tensors = {"weights": self.weights, "bias": self.bias, **asdict(self.scaling)}
        write_tensors(path, "readout", tensors, json.dumps(facts or {}))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Readout":
        """Reads what `save` wrote."""
        tensors, _ = read_tensors(path, "readout", ("weights", "bias", "mean", "scale"))
        n_classes, n_features = tensors["weights"].shape
        arrays = [
            check_array(name, tensors[name], shape)
            for name, shape in (
                ("weights", (n_classes, n_features)),
                ("bias", (n_classes,)),
                ("mean", (n_features,)),
                ("scale", (n_features,)),
            )
        ]
        return cls(arrays[0], arrays[1], Scaling(arrays[2], arrays[3]))


def classes(logits: Array) -> NDArray[np.int64]:
    """The class with the largest logit, the first of them where two are equal: (S,)."""
    chosen: NDArray[np.int64] = logits.argmax(1)
    return chosen


def average_logits(readouts: Sequence[Readout], blocks: Sequence[ArrayLike]) -> Array:
    """Late fusion: the mean of every readout's logits on its own features, (S, C)."""
    if not readouts or len(readouts) != len(blocks):
        raise invalid("readouts", f"be as many as the {len(blocks)} blocks of features", len(readouts))
    mean: Array = np.mean([readout.logits(block) for readout, block in zip(readouts, blocks, strict=True)], axis=0)
    return mean


def fit_sgd(
    features: Features,
    labels: NDArray[Any],
    columns: Sequence[NDArray[np.intp]],
    settings: Sgd | None = None,
    *,
    report: Callable[[int, float], None] = lambda *_: None,
) -> list[Readout]:
    """A readout for every set of `columns` of features (S, F), all fitted side by side on the same batches.

    A weight outside a readout's columns stays zero, so one matrix product serves all of them.
    Cost: per epoch 4 S F C floating-point operations for every readout. `report` gets epochs done and mean loss.
    """
    settings = settings or Sgd()
    labels = check_labels(labels, len(features))
    n_classes = int(labels.max()) + 1
    scaling = Scaling.fit(features)
    mask = np.zeros((features.shape[1], len(columns), n_classes), np.float32)
    for number, chosen in enumerate(columns):
        mask[chosen, number] = 1.0
    x, y = jnp.asarray(scaling.apply(features)), jnp.asarray(labels, jnp.int32)
    weights, bias = jnp.zeros(mask.shape, jnp.float32), jnp.zeros(mask.shape[1:], jnp.float32)
    rng = np.random.default_rng(settings.seed)
    for epoch, rows in enumerate(batches(len(x), settings.batch_size, settings.epochs, rng)):
        weights, bias, loss = _epoch(settings, weights, bias, mask, x, y, rows)
        report(epoch + 1, float(loss))
    found, offset = np.asarray(weights, np.float64), np.asarray(bias, np.float64)
    if not (np.isfinite(found).all() and np.isfinite(offset).all()):
        raise FloatingPointError(f"The readout diverged at learning rate {settings.learning_rate:g}: lower it.")
    return [
        Readout(found[chosen, number].T.copy(), offset[number].copy(), scaling.of(chosen))
        for number, chosen in enumerate(columns)
    ]


def fit_converged(
    features: Features, labels: NDArray[Any], l2: float = 1e-3, *, start: Readout | None = None
) -> Readout:
    """The minimum of the same loss on features (S, F), by L-BFGS from zero or from a readout of these features.

    It is scikit-learn's LogisticRegression(C=1 / (l2 * S)), on whatever device JAX computes. The loss is convex: the
    start decides how long it takes, not where it ends.
    """
    l2 = check_positive("l2", l2)
    labels = check_labels(labels, len(features))
    scaling = Scaling.fit(features)
    shape = (features.shape[1] + 1, int(labels.max()) + 1)
    begin = np.zeros(shape) if start is None else np.vstack([start.weights.T, start.bias])
    if begin.shape != shape:
        raise invalid("start", f"be a readout of {shape[0] - 1} features and {shape[1]} classes", start)
    one_hot = np.eye(shape[1], dtype=np.float32)[labels]
    blocks = [jnp.asarray(_in_blocks(array)) for array in (scaling.apply(features), one_hot)]
    root = _curvature_root(blocks[0], len(features), l2)
    back = np.linalg.inv(root).T
    stretch = jnp.asarray(back, jnp.float32)

    def loss(flat: Array) -> tuple[float, Array]:
        value, gradient = _loss_and_gradient(flat.reshape(shape).astype(np.float32), stretch, *blocks, l2)
        return float(value), np.asarray(gradient, np.float64).ravel()

    options = {"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "gtol": LARGEST_GRADIENT, "ftol": 0.0}
    found = minimize(loss, (root.T @ begin).ravel(), jac=True, method="L-BFGS-B", options={**options, "maxcor": 20})
    # A single-precision line search sees no difference below this, and stops: that is as low as it gets.
    above = float(found.jac @ found.jac) / 2
    if not above < _LOWEST_DIFFERENCE:
        raise RuntimeError(
            f"The readout did not converge in {found.nit} iterations: its loss is still about {above:.1e} above the "
            "minimum. A larger l2 helps."
        )
    parameters = back @ found.x.reshape(shape)
    return Readout(parameters[:-1].T.copy(), parameters[-1].copy(), scaling)


def _curvature_root(blocks: jax.Array, n_samples: int, l2: float) -> Array:
    """Lower triangular R (F + 1, F + 1) for standardised features (blocks, rows, F), the bias last.

    R R^T is about the curvature of the loss for every class, so the loss is nearly round in R^T weights. Powers of one
    x are so much alike that descent in the weights themselves takes several times as long.
    """
    x = blocks.reshape(-1, blocks.shape[-1])
    square = np.asarray(_square(x), np.float64) / n_samples
    curvature = np.diag(np.append(np.full(x.shape[1], l2), _CURVATURE))
    curvature[:-1, :-1] += _CURVATURE * square
    return np.linalg.cholesky(curvature)


@partial(jax.jit, compiler_options=REPRODUCIBLE)
def _square(x: jax.Array) -> jax.Array:
    return jnp.matmul(x.T, x, precision="highest")


def _in_blocks(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """(S, n) as (blocks, rows, n), filled up with zeros."""
    missing = -len(rows) % _ROWS_IN_BLOCK
    return np.pad(rows, ((0, missing), (0, 0))).reshape(-1, _ROWS_IN_BLOCK, rows.shape[1])


def _parts(features: NDArray[Any]) -> list[NDArray[Any]]:
    return [features[start : start + _ROWS_AT_ONCE] for start in range(0, len(features), _ROWS_AT_ONCE)]


@partial(jax.jit, static_argnums=0, donate_argnums=(1, 2), compiler_options=REPRODUCIBLE)
def _epoch(
    settings: Sgd, weights: jax.Array, bias: jax.Array, mask: jax.Array, x: jax.Array, y: jax.Array, rows: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One pass over all batches for all readouts, weights (F, R, C)."""

    def loss(parameters: Any, rows: jax.Array) -> jax.Array:
        weights, bias = parameters
        real = (rows >= 0).astype(jnp.float32)
        logits = jnp.tensordot(x[rows], weights, 1, precision="highest") + bias
        entropy = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y[rows, None])
        return jnp.sum(real / real.sum() @ entropy) + settings.l2 / 2 * jnp.sum(weights**2)

    def step(carry: Any, rows: jax.Array) -> Any:
        value, (slope, offset) = jax.value_and_grad(loss)(carry, rows)
        weights, bias = carry
        return (weights - settings.learning_rate * mask * slope, bias - settings.learning_rate * offset), value

    (weights, bias), losses = jax.lax.scan(step, (weights, bias), rows)
    return weights, bias, losses.mean() / mask.shape[1]


@partial(jax.jit, compiler_options=REPRODUCIBLE)
def _loss_and_gradient(
    stretched: jax.Array, stretch: jax.Array, x: jax.Array, target: jax.Array, l2: float
) -> tuple[jax.Array, jax.Array]:
    """Loss and its gradient in `stretched` (F + 1, C), where stretch @ stretched are the weights and, last, the bias.

    By hand and in blocks, each read once for both: a quarter of a derivative's time. A target of zeros is no image.
    """
    parameters = jnp.matmul(stretch, stretched, precision="highest")
    weights, bias = parameters[:-1], parameters[-1]

    def add(sums: Any, block: Any) -> Any:
        x, target = block
        log_p = jax.nn.log_softmax(jnp.matmul(x, weights, precision="highest") + bias)
        error = jnp.exp(log_p) * target.sum(1, keepdims=True) - target
        slope = jnp.matmul(error.T, x, precision="highest")
        return jax.tree.map(jnp.add, sums, ((log_p * target).sum(), slope, error.sum(0))), None

    nothing = jnp.zeros(()), jnp.zeros(weights.T.shape), jnp.zeros(bias.shape)
    (log_p, slope, offset), _ = jax.lax.scan(add, nothing, (x, target))
    count = target.sum()
    gradient = jnp.concatenate([slope.T / count + l2 * weights, offset[None] / count])
    loss = l2 / 2 * jnp.sum(weights**2) - log_p / count
    return loss, jnp.matmul(stretch.T, gradient, precision="highest")
