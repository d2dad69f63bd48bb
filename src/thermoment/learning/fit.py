"""The linear readout fitted to features: to classes by the paper's SGD or to convergence, to numbers by ridge.

    z = weights (phi - mean) / scale + bias
    loss = mean cross-entropy of softmax(z) + l2/2 |weights|^2            the bias is not penalised

Both fits minimise this loss: SGD stops after a fixed number of epochs, `fit_converged` at the minimum. What the two
differ by in accuracy is due to the optimiser, the rest to the features. `fit_ridge` solves for the minimum with half
the mean squared error of z in the place of the cross-entropy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import check_labels, check_positive, invalid
from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.batches import batches
from thermoment.learning.descent import LossReport, shares
from thermoment.learning.entropy import Entropy, entropy_at_once, entropy_in_turn, stored
from thermoment.learning.groups import descend_in_groups
from thermoment.learning.minimum import minimise
from thermoment.learning.options import Sgd
from thermoment.learning.readout import Array, Features, Readout, Scaling

Parameters = tuple[jax.Array, jax.Array]

LARGEST_GRADIENT = 2e-5
"""`fit_converged` stops when every component of the gradient g is below this. In the preconditioned variables the
Hessian is close to 1, so the loss is then about |g|^2 / 2 above its minimum."""
_LOWEST_DIFFERENCE = 1e-5
"""A line search in float32 sees no smaller difference of the loss: a fit that stopped this near has converged."""
_MOST_EVALUATIONS = 2000
_STEPS_TOGETHER = 4
"""Steps of SGD that are compiled as one for an accelerator."""
_CURVED_ROWS = 8192
"""Samples from which the Hessian is estimated."""
_LEAST_CURVATURE = 1e-4
"""Of a sample, as far as the estimate goes: one that is certain at the start may become less so."""


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features of mean 0 and deviation 1, on the device that JAX computes on."""

    x: jax.Array
    """(S, F), float32"""
    scaling: Scaling

    @classmethod
    def of(cls, features: NDArray[Any], weights: Array | None = None) -> "Standardised":
        """Of features (S, F); weights as for `Scaling.fit`."""
        features = np.ascontiguousarray(features)  # in another order of memory NumPy has other sums, in the last digit
        scaling = Scaling.fit(features, weights)
        return cls(jnp.asarray(scaling.apply(features)), scaling)

    def __len__(self) -> int:
        return len(self.x)

    def some(self, columns: NDArray[np.intp]) -> "Standardised":
        """The features with the indices `columns`; no copy if these are all of them."""
        if np.array_equal(columns, np.arange(self.x.shape[1])):
            return self
        if jax.default_backend() == "cpu":  # where NumPy takes a quarter of the time of JAX
            return Standardised(jnp.asarray(np.take(np.asarray(self.x), columns, 1)), self.scaling.of(columns))
        return Standardised(self.x[:, columns], self.scaling.of(columns))


def fit_sgd(
    features: Features | Standardised,
    labels: NDArray[Any],
    columns: Sequence[NDArray[np.intp]],
    settings: Sgd | None = None,
    *,
    report: LossReport = lambda *_: None,
) -> list[Readout]:
    """Readouts of several sets of features, all fitted side by side on the same batches.

    features: (S, F)
    labels: (S,), class numbers from 0
    columns: for every readout which of the F features it reads, as an array of indices
    settings: `Sgd()` unless given
    report: called after every epoch

    On a processor they are two groups, each in a thread of its own. Cost: 4 S C floating-point operations per epoch and
    column that a readout reads.
    """
    settings = settings or Sgd()
    labels = check_labels("labels", labels, len(features))
    if not isinstance(features, Standardised):
        features = Standardised.of(features)
    reads = np.zeros((len(columns), features.x.shape[1]), bool)
    for number, chosen in enumerate(columns):
        reads[number, chosen] = True
    descend = descend_in_groups if jax.default_backend() == "cpu" else _descend_on_accelerator
    weights, bias = descend(features.x, labels, reads, settings, report)
    if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
        raise FloatingPointError(f"The readout diverged at learning rate {settings.learning_rate:g}: lower it.")
    return [
        Readout(np.take(found, chosen, 1).astype(np.float64), offset.astype(np.float64), features.scaling.of(chosen))
        for found, offset, chosen in zip(weights, bias, columns, strict=True)
    ]


def fit_converged(
    features: Features | Standardised,
    labels: NDArray[Any],
    l2: float = 1e-3,
    *,
    start: Readout | None = None,
    weights: Array | None = None,
) -> Readout:
    """The readout at the minimum of the loss, found by L-BFGS on the device that JAX computes on.

    features: (S, F)
    labels: (S,), class numbers from 0
    l2: weight of the penalty, positive
    start: a readout of the same features to start from; zero unless given. The loss is convex, so the start decides how
        long the fit takes, not where it ends.
    weights: of the samples in the mean and in the scaling, (S,); all the same unless given

    The result is that of scikit-learn's LogisticRegression(C=1 / (l2 * S)), on whatever device JAX computes.
    """
    l2 = check_positive("l2", l2)
    labels = check_labels("labels", labels, len(features))
    if not isinstance(features, Standardised):
        features = Standardised.of(features, weights)
    shape = (features.x.shape[1] + 1, int(labels.max()) + 1)
    begin = np.zeros(shape) if start is None else np.vstack([start.weights.T, start.bias])
    if begin.shape != shape:
        raise invalid("start", f"be a readout of {shape[0] - 1} features and {shape[1]} classes", start)
    target = np.eye(shape[1], dtype=np.float32)[labels]
    if weights is not None:
        target *= (weights / weights.mean()).astype(np.float32)[:, None]
    at_once = jax.default_backend() != "cpu"
    with jax.enable_x64(True):
        found = _converge(begin, features.x, target, l2, _MOST_EVALUATIONS, at_once)
    parameters, above, count = map(np.asarray, found)
    if not above < _LOWEST_DIFFERENCE:
        raise RuntimeError(
            f"The readout did not converge in {count} evaluations: its loss is still about {above:.1e} above the "
            "minimum. A larger l2 helps."
        )
    return Readout(parameters[:-1].T.copy(), parameters[-1].copy(), features.scaling)


def fit_ridge(features: NDArray[Any], targets: Array, l2: float, weights: Array) -> Readout:
    """The readout z with the smallest mean of |z - targets|^2 / 2 + l2/2 |weights|^2; the bias is not penalised.

    features: (S, F)
    targets: (S, C)
    l2: weight of the penalty, positive; for targets and features of deviation 1
    weights: of the samples in the mean and in the scaling, (S,)

    Cost: a linear system of F equations.
    """
    l2 = check_positive("l2", l2)
    scaling, share = Scaling.fit(features, weights), weights / weights.sum()
    x = (features - scaling.mean) / scaling.scale
    bias = share @ targets
    square = x.T @ (share[:, None] * x) + l2 * np.eye(x.shape[1])
    found = np.linalg.solve(square, x.T @ (share[:, None] * (targets - bias)))
    return Readout(found.T.copy(), bias, scaling)


RIDGES = tuple(10.0**power for power in range(-8, 2))
"""Penalties among which `best_ridge` chooses."""


def best_ridge(features: NDArray[Any], targets: Array, weights: Array) -> float:
    """The l2 of `RIDGES` with the smallest mean square error of `fit_ridge` for samples left out, one at a time.

    Arguments are those of `fit_ridge`. The error of a sample that is left out follows from the fit to all of them: it
    is its residual over 1 - H_ii, where H takes targets to what is fitted. Standardisation is not done again.
    Cost: the eigenvectors of one matrix (F, F).
    """
    scaling, share = Scaling.fit(features, weights), weights / weights.sum()
    x = (features - scaling.mean) / scaling.scale * np.sqrt(share)[:, None]
    y = (targets - share @ targets) * np.sqrt(share)[:, None]
    values, vectors = np.linalg.eigh(x.T @ x)
    along = x @ vectors

    def error(l2: float) -> float:
        part = along / (np.maximum(values, 0) + l2)
        kept = 1 - share - (part * along).sum(1)
        left_out = (y - part @ (along.T @ y)) / np.maximum(kept, np.finfo(np.float64).eps)[:, None]
        return float((left_out**2).sum())

    return min(reversed(RIDGES), key=error)


def _descend_on_accelerator(
    x: jax.Array, labels: NDArray[np.int64], reads: NDArray[np.bool_], settings: Sgd, report: LossReport
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`descend_in_groups` on a GPU, where one product serves all readouts.

    They share one weight array (F, R, C), in which a weight outside a readout's columns stays zero.
    """
    n_classes = int(labels.max()) + 1
    mask = np.repeat(reads.T[..., None], n_classes, 2).astype(np.float32)
    y = jnp.asarray(labels, jnp.int32)
    parameters = jnp.zeros(mask.shape, jnp.float32), jnp.zeros(mask.shape[1:], jnp.float32)
    rate, l2 = np.float32(settings.learning_rate), np.float32(settings.l2)
    rng = np.random.default_rng(settings.seed)
    losses = []
    for epoch, rows in enumerate(batches(len(x), settings.batch_size, settings.epochs, rng)):
        parameters, loss = _accelerated_epoch(rate, l2, parameters, mask, x, y, rows)
        losses.append(loss)
        if epoch:  # the loss of the epoch before, so that the device has the next one to do meanwhile
            report(epoch, float(losses[epoch - 1]))
    if losses:
        report(len(losses), float(losses[-1]))
    weights, bias = map(np.asarray, parameters)
    return weights.transpose(1, 2, 0), bias


@partial(jax.jit, donate_argnums=2, compiler_options=REPRODUCIBLE)
def _accelerated_epoch(
    rate: Any, l2: Any, parameters: Parameters, mask: jax.Array, x: jax.Array, y: jax.Array, rows: jax.Array
) -> tuple[Parameters, jax.Array]:
    """One pass over all batches for all readouts: weights (F, R, C), bias (R, C); with the mean loss of a readout.

    mask: (F, R, C), one for the weights that are fitted. The others are zero and stay so.

    A GPU takes as long to start a small kernel as to run it, so there are as few of them as possible: the gradient is
    written by hand, without looking labels up, and all batches are laid side by side beforehand.
    """
    shape = mask.shape
    flat = (shape[0], shape[1] * shape[2])
    hot = y[rows][..., None] == jnp.arange(shape[2])

    def step(parameters: Parameters, batch: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Parameters, jax.Array]:
        weights, bias = parameters
        x, share, hot = batch[0], batch[1][:, None, None], batch[2][:, None]
        product = jnp.matmul(x, weights.reshape(flat), precision="highest")
        log_p = jax.nn.log_softmax(product.reshape(len(x), *shape[1:]) + bias)
        error = share * (jnp.exp(log_p) - hot)
        slope = jnp.matmul(x.T, error.reshape(len(x), -1), precision="highest").reshape(shape)
        value = -(share * jnp.where(hot, log_p, 0)).sum()
        return (weights - rate * (mask * slope + l2 * weights), bias - rate * error.sum(0)), value

    every = x[rows], jax.vmap(shares)(rows), hot
    return _with_loss(*jax.lax.scan(step, parameters, every, unroll=_STEPS_TOGETHER), l2)


def _with_loss(parameters: Parameters, entropies: jax.Array, l2: Any) -> tuple[Parameters, jax.Array]:
    """Of a readout: the mean entropy over batches, with the penalty as it is after the last one."""
    penalty = l2 / 2 * jnp.sum(parameters[0] ** 2)
    return parameters, (entropies.mean() + penalty) / parameters[1].shape[0]


@partial(jax.jit, static_argnames="at_once", compiler_options=REPRODUCIBLE)
def _converge(
    begin: jax.Array, x: jax.Array, target: jax.Array, l2: float, most: int, at_once: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weights and, last, bias (F + 1, C) at the minimum; how far the loss is above it; the number of evaluations.

    begin: (F + 1, C), float64, to start from
    x: (S, F), standardised, float32
    target: (S, C), one-hot, times the weight of the sample
    at_once: whether all blocks of rows are computed at the same time, as on an accelerator; else one after the other

    The search is in the variables R^T parameters, in which the Hessian of the loss is close to 1. Powers of one x are
    strongly correlated, so descent in the weights themselves takes several times as long.
    """
    root = _curvature_root(begin.astype(jnp.float32), x, target, l2, at_once)
    inverse = jax.scipy.linalg.solve_triangular(root, jnp.eye(len(root), dtype=root.dtype), lower=True)
    stretch = stored(inverse.T.astype(jnp.float32), at_once)
    back = None if at_once else stored(inverse.astype(jnp.float32), at_once)
    entropy = entropy_at_once(x, target) if at_once else entropy_in_turn(x, target)

    def loss(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
        stretched = flat.reshape(begin.shape).astype(jnp.float32)
        value, gradient = _loss_and_gradient(stretched, stretch, back, entropy, target.sum(), l2)
        return value.astype(flat.dtype), gradient.astype(flat.dtype).ravel()

    found = minimise(loss, (stored(root.T, at_once) @ begin).ravel(), LARGEST_GRADIENT, most)
    parameters = stretch.astype(begin.dtype) @ found.point.reshape(begin.shape)
    return parameters, found.gradient @ found.gradient / 2, found.evaluations


def _curvature_root(parameters: jax.Array, x: jax.Array, target: jax.Array, l2: float, at_once: bool) -> jax.Array:
    """Lower triangular R (F + 1, F + 1), where R R^T is about the Hessian of the loss for every class.

    The curvature that a sample adds is p (1 - p) for a class of probability p. It is taken at the start, as the mean
    over classes. Of a set that is learnt well few samples have much of it: those that have most are enough.
    """
    p = jax.nn.softmax(jnp.matmul(x, parameters[:-1], precision="highest") + parameters[-1])
    curvature = jnp.maximum((p * (1 - p)).mean(1), _LEAST_CURVATURE) * target.sum(1)
    # Where all have the same, as at a start from zero, those that are taken lie evenly among the others.
    spread = 1 + 1e-3 * jnp.mod(jnp.arange(len(x)) * 0.6180339887, 1.0)
    _, rows = jax.lax.top_k(curvature * spread.astype(jnp.float32), min(len(x), _CURVED_ROWS))
    share = curvature[rows] / curvature[rows].sum() * (curvature.sum() / target.sum())
    chosen = jnp.concatenate([x[rows], jnp.ones((len(rows), 1), x.dtype)], axis=1)
    square = jnp.matmul(stored((chosen * share[:, None]).T, at_once), chosen, precision="highest")
    # A feature that hardly varies over those, such as a pixel at the edge, has its curvature from all samples.
    part = curvature / target.sum()
    squares = part @ x**2 if at_once else (part[:, None] * x**2).sum(0)  # on a processor x**2 would be a copy of x
    diagonal = jnp.append(squares, 0.0)
    square += jnp.diag(jnp.maximum(diagonal - jnp.diagonal(square), 0.0))
    penalty = jnp.full(len(square), l2).at[-1].set(0.0)
    root: jax.Array = jnp.linalg.cholesky(square.astype(penalty.dtype) + jnp.diag(penalty))
    return root


def _loss_and_gradient(
    stretched: jax.Array,
    stretch: jax.Array,
    back: jax.Array | None,
    entropy: Entropy,
    count: jax.Array,
    l2: float,
) -> tuple[jax.Array, jax.Array]:
    """Loss and its gradient in `stretched` (F + 1, C), where stretch @ stretched are the weights and, last, the bias.

    back: the transpose of `stretch`, stored as such; None leaves transposing it to XLA
    count: of the samples, each as often as it weighs
    """
    parameters = jnp.matmul(stretch, stretched, precision="highest")
    weights, bias = parameters[:-1], parameters[-1]
    log_p, slope, offset = entropy(weights, bias)
    gradient = jnp.concatenate([slope.T / count + l2 * weights, offset[None] / count])
    loss = l2 / 2 * jnp.sum(weights**2) - log_p / count
    turned = stretch.T if back is None else back
    return loss, jnp.matmul(turned, gradient, precision="highest")
