"""The linear readout fitted to features: to classes by the paper's SGD or to convergence, to numbers by ridge.

    z = weights (phi - mean) / scale + bias
    loss = mean cross-entropy of softmax(z) + l2/2 |weights|^2            the bias is not penalised

Both fits minimise this loss: SGD stops after a fixed number of epochs, `fit_converged` at the minimum. What the two
differ by in accuracy is due to the optimiser, the rest to the features. `fit_ridge` solves for the minimum with half
the mean squared error of z in the place of the cross-entropy.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray
from scipy.optimize import minimize

from thermoment._support.checks import check_labels, check_positive, invalid
from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.batches import batches
from thermoment.learning.descent import LossReport, descend, shares
from thermoment.learning.options import Sgd
from thermoment.learning.readout import Array, Features, Readout, Scaling

Parameters = tuple[jax.Array, jax.Array]

LARGEST_GRADIENT = 2e-5
"""`fit_converged` stops when every component of the gradient g is below this. In the preconditioned variables the
Hessian is close to 1, so the loss is then about |g|^2 / 2 above its minimum."""
_LOWEST_DIFFERENCE = 1e-5
"""A line search in float32 sees no smaller difference of the loss: a fit that stopped this near has converged."""
_ROWS_IN_BLOCK = 1024  # fits into the caches of a processor
_MOST_ITERATIONS = 1000
# p (1 - p) of a typical image: the curvature of the loss along a feature of variance 1. A value three times larger or
# smaller makes no noticeable difference.
_CURVATURE = 0.03


def fit_sgd(
    features: Features,
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

    All readouts share one weight array (F, R, C), in which a weight outside a readout's columns stays zero, so that one
    matrix product serves all of them. Cost: 4 S F C floating-point operations per epoch and readout.
    """
    settings = settings or Sgd()
    labels = check_labels("labels", labels, len(features))
    n_classes = int(labels.max()) + 1
    scaling = Scaling.fit(features)
    mask = np.zeros((features.shape[1], len(columns), n_classes), np.float32)
    for number, chosen in enumerate(columns):
        mask[chosen, number] = 1.0
    x, y = jnp.asarray(scaling.apply(features)), jnp.asarray(labels, jnp.int32)
    parameters = jnp.zeros(mask.shape, jnp.float32), jnp.zeros(mask.shape[1:], jnp.float32)
    rate, l2 = np.float32(settings.learning_rate), np.float32(settings.l2)
    rng = np.random.default_rng(settings.seed)
    for epoch, rows in enumerate(batches(len(x), settings.batch_size, settings.epochs, rng)):
        parameters, loss = _epoch(rate, l2, parameters, mask, x, y, rows)
        report(epoch + 1, float(loss))
    found, offset = (np.asarray(part, np.float64) for part in parameters)
    if not (np.isfinite(found).all() and np.isfinite(offset).all()):
        raise FloatingPointError(f"The readout diverged at learning rate {settings.learning_rate:g}: lower it.")
    return [
        Readout(found[chosen, number].T.copy(), offset[number].copy(), scaling.of(chosen))
        for number, chosen in enumerate(columns)
    ]


def fit_converged(
    features: Features,
    labels: NDArray[Any],
    l2: float = 1e-3,
    *,
    start: Readout | None = None,
    weights: Array | None = None,
) -> Readout:
    """The readout at the minimum of the loss, found by L-BFGS.

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
    scaling = Scaling.fit(features, weights)
    shape = (features.shape[1] + 1, int(labels.max()) + 1)
    begin = np.zeros(shape) if start is None else np.vstack([start.weights.T, start.bias])
    if begin.shape != shape:
        raise invalid("start", f"be a readout of {shape[0] - 1} features and {shape[1]} classes", start)
    one_hot = np.eye(shape[1], dtype=np.float32)[labels]
    if weights is not None:
        one_hot *= (weights / weights.mean()).astype(np.float32)[:, None]
    blocks = [jnp.asarray(_in_blocks(array)) for array in (scaling.apply(features), one_hot)]
    root = _curvature_root(blocks[0], len(features), l2)
    back = np.linalg.inv(root).T
    stretch = jnp.asarray(back, jnp.float32)

    def loss(flat: Array) -> tuple[float, Array]:
        value, gradient = _loss_and_gradient(flat.reshape(shape).astype(np.float32), stretch, *blocks, l2)
        return float(value), np.asarray(gradient, np.float64).ravel()

    options = {"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "gtol": LARGEST_GRADIENT, "ftol": 0.0}
    found = minimize(loss, (root.T @ begin).ravel(), jac=True, method="L-BFGS-B", options={**options, "maxcor": 20})
    above = float(found.jac @ found.jac) / 2
    if not above < _LOWEST_DIFFERENCE:
        raise RuntimeError(
            f"The readout did not converge in {found.nit} iterations: its loss is still about {above:.1e} above the "
            "minimum. A larger l2 helps."
        )
    parameters = back @ found.x.reshape(shape)
    return Readout(parameters[:-1].T.copy(), parameters[-1].copy(), scaling)


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


def _curvature_root(blocks: jax.Array, n_samples: int, l2: float) -> Array:
    """Lower triangular R (F + 1, F + 1) for standardised features (blocks, rows, F); its last row is that of the bias.

    R R^T is about the Hessian of the loss for every class, so in the variables R^T weights the Hessian is close to 1.
    Powers of one x are strongly correlated, so descent in the weights themselves takes several times as long.
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


@partial(jax.jit, donate_argnums=2, compiler_options=REPRODUCIBLE)
def _epoch(
    rate: Any, l2: Any, parameters: Parameters, mask: jax.Array, x: jax.Array, y: jax.Array, rows: jax.Array
) -> tuple[Parameters, jax.Array]:
    """One pass over all batches for all readouts: weights (F, R, C), bias (R, C); with the mean loss of a readout."""

    def loss(parameters: Parameters, rows: jax.Array) -> jax.Array:
        weights, bias = mask * parameters[0], parameters[1]
        logits = jnp.tensordot(x[rows], weights, 1, precision="highest") + bias
        entropy = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y[rows, None])
        return jnp.asarray(jnp.sum(shares(rows) @ entropy) + l2 / 2 * jnp.sum(weights**2))

    descent = optax.sgd(rate)
    (parameters, _), value = descend(loss, descent, (parameters, descent.init(parameters)), rows)
    return parameters, value / mask.shape[1]


@partial(jax.jit, compiler_options=REPRODUCIBLE)
def _loss_and_gradient(
    stretched: jax.Array, stretch: jax.Array, x: jax.Array, target: jax.Array, l2: float
) -> tuple[jax.Array, jax.Array]:
    """Loss and its gradient in `stretched` (F + 1, C), where stretch @ stretched are the weights and, last, the bias.

    target: (blocks, rows, C), one-hot; a row of zeros is no image. The gradient is written by hand and each block of x
    is read once for both, which takes a quarter of the time of JAX's derivative.
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
