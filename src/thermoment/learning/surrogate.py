"""Training of the input projection K through a static stand-in for the machine: no noise, no time, no coupling.

    2 J2 x* + 4 J4 x*^3 = h = K I + b           psi = [x*] or [x* | x*^2 | x*^4]
    loss = mean cross-entropy of a linear head on psi + l2/2 |K|^2

K and the head are trained, W and b stay as drawn; the head is thrown away. What the paper leaves open is a field of
`Training`. Batches are drawn by NumPy, so that every device sees the same ones.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from thermoment._support.checks import check_array, check_integer, invalid
from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.batches import batches, check_labels
from thermoment.learning.options import HeadStart, Stage, Training
from thermoment.physics import Dynamics, stationary_point
from thermoment.reservoir import Reservoir

MOMENTUM = 0.9
HEAD_DEVIATION = 0.01
"""Standard deviation of a head that starts "normal"; "uniform" is +- 1/sqrt(number of features)."""
_POWERS = {"mean": (1,), "polynomial": (1, 2, 4)}
_ROWS_AT_ONCE = 4096
_SMALLEST_VARIANCE = 1e-12


class Trained(NamedTuple):
    """The reservoir with its new K, and the mean loss of every epoch, one stage after the other."""

    reservoir: Reservoir
    losses: NDArray[np.float64]


Report = Callable[[int, float], None]
"""Called with the epochs done and the loss of the last one."""


def train(
    reservoir: Reservoir,
    inputs: NDArray[Any],
    labels: NDArray[np.integer[Any]],
    stages: tuple[Stage, ...],
    training: Training | None = None,
    *,
    seed: int,
    report: Report = lambda *_: None,
) -> Trained:
    """Trains K on inputs (S, D) and labels (S,). `seed` draws the heads and the order of the batches.

    Cost: per epoch about 4 S D N floating-point operations.
    """
    return train_side_by_side([reservoir], inputs, labels, stages, training, seeds=[seed], report=report)[0]


def train_side_by_side(
    reservoirs: Sequence[Reservoir],
    inputs: NDArray[Any],
    labels: NDArray[np.integer[Any]],
    stages: tuple[Stage, ...],
    training: Training | None = None,
    *,
    seeds: Sequence[int],
    report: Report = lambda *_: None,
) -> list[Trained]:
    """`train` for several reservoirs of one size at once: on a GPU hardly slower than for one of them."""
    training = training or Training()
    first = reservoirs[0]
    inputs = check_array("inputs", inputs, ("S", first.n_inputs)).astype(np.float32)
    labels = check_labels(labels, len(inputs))
    n_classes = int(labels.max()) + 1
    if any((r.n_nodes, r.n_inputs, r.dynamics) != (first.n_nodes, first.n_inputs, first.dynamics) for r in reservoirs):
        raise invalid("reservoirs", "have the same size and dynamics", [r.K.shape for r in reservoirs])
    x, y = jnp.asarray(inputs), jnp.asarray(labels, jnp.int32)
    K = [jnp.asarray(reservoir.K, jnp.float32) for reservoir in reservoirs]
    b = [jnp.asarray(reservoir.b, jnp.float32) for reservoir in reservoirs]
    losses: list[list[float]] = []
    for number, stage in enumerate(stages):
        run = _Run(stage, training, first.dynamics)
        rngs = [np.random.default_rng([check_integer("seed", seed, 0, 2**63), number]) for seed in seeds]
        n_features = len(_POWERS[stage.surrogate]) * first.n_nodes
        parameters = [
            {"K": start, **_head(training.head, n_features, n_classes, rng)} for start, rng in zip(K, rngs, strict=True)
        ]
        scaling = [_scaling(run, *start, inputs, n_features) for start in zip(K, b, strict=True)]
        state = [_optimiser(run).init(start) for start in parameters]
        carried = _stack([parameters, state]), _stack([b, scaling])
        orders = zip(*(batches(len(inputs), training.batch_size, stage.epochs, rng) for rng in rngs), strict=True)
        for rows in orders:
            moving, loss = _epoch(run, *carried, x, y, _stack([list(rows)])[0])
            carried = moving, carried[1]
            losses.append(np.atleast_1d(loss).tolist())
            if not np.isfinite(losses[-1]).all():
                raise FloatingPointError(
                    f"Training of K diverged in epoch {len(losses)} at learning rate {stage.learning_rate:g}: "
                    "lower it, or standardise the surrogate features."
                )
            report(len(losses), float(np.mean(losses[-1])))
        K = list(carried[0][0]["K"]) if len(K) > 1 else [carried[0][0]["K"]]
    histories = np.array(losses).reshape(-1, len(reservoirs)).T
    return [
        Trained(replace(reservoir, K=np.asarray(found, np.float64)) if stages else reservoir, history)
        for reservoir, found, history in zip(reservoirs, K, histories, strict=True)
    ]


class _Run(NamedTuple):
    """What an epoch is compiled for."""

    stage: Stage
    training: Training
    dynamics: Dynamics


def _head(start: HeadStart, n_features: int, n_classes: int, rng: np.random.Generator) -> dict[str, jax.Array]:
    weights = np.zeros((n_features, n_classes))
    if start == "normal":
        weights = rng.normal(0.0, HEAD_DEVIATION, weights.shape)
    if start == "uniform":
        bound = 1 / math.sqrt(n_features)
        weights = rng.uniform(-bound, bound, weights.shape)
    return {"head": jnp.asarray(weights, jnp.float32), "bias": jnp.zeros(n_classes, jnp.float32)}


def _optimiser(run: _Run) -> optax.GradientTransformation:
    rate = run.stage.learning_rate
    match run.training.optimiser:
        case "sgd":
            return optax.sgd(rate)
        case "momentum":
            return optax.sgd(rate, momentum=MOMENTUM)
        case "adam":
            return optax.adam(rate)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _stationary(h: jax.Array, dynamics: Dynamics) -> jax.Array:
    return jnp.asarray(stationary_point(h, dynamics, jnp))


@_stationary.defjvp
def _stationary_slope(dynamics: Dynamics, primals: Any, tangents: Any) -> Any:
    x = _stationary(*primals, dynamics)
    return x, tangents[0] / (2 * dynamics.J2 + 12 * dynamics.J4 * x * x)


def _surrogate(run: _Run, K: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """psi: (B, powers * N), order-major."""
    drive = jnp.matmul(x, K.T, precision="highest") + b
    state = _stationary(drive, run.dynamics)
    return jnp.concatenate([state**p for p in _POWERS[run.stage.surrogate]], axis=1)


def _scaling(run: _Run, K: jax.Array, b: jax.Array, inputs: NDArray[np.float32], n_features: int) -> Any:
    """Mean and inverse deviation of psi over the training set at the start of a stage; 0 and 1 unless "once"."""
    if run.training.standardise != "once":
        return jnp.zeros(n_features), jnp.ones(n_features)
    psi = jax.jit(partial(_surrogate, run), compiler_options=REPRODUCIBLE)
    total, squares = np.zeros(n_features), np.zeros(n_features)
    for start in range(0, len(inputs), _ROWS_AT_ONCE):
        part = np.asarray(psi(K, b, inputs[start : start + _ROWS_AT_ONCE]), np.float64)
        total += part.sum(0)
        squares += (part**2).sum(0)
    mean = total / len(inputs)
    variance = np.maximum(squares / len(inputs) - mean**2, _SMALLEST_VARIANCE)
    return jnp.asarray(mean, jnp.float32), jnp.asarray(1 / np.sqrt(variance), jnp.float32)


def _stack(parts: Sequence[list[Any]]) -> tuple[Any, ...]:
    """Each list of trees as one tree with a new first axis; a list of one as the tree itself."""
    return tuple(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) if len(trees) > 1 else trees[0] for trees in parts
    )


@partial(jax.jit, static_argnums=0, donate_argnums=1, compiler_options=REPRODUCIBLE)
def _epoch(run: _Run, moving: Any, fixed: Any, x: jax.Array, y: jax.Array, rows: jax.Array) -> tuple[Any, jax.Array]:
    """One pass over all batches as one compiled program, for one reservoir or side by side; with the mean loss."""
    one = partial(_one_epoch, run)
    return (
        one(moving, fixed, x, y, rows)
        if rows.ndim == 2
        else jax.vmap(one, (0, 0, None, None, 0))(moving, fixed, x, y, rows)
    )


def _one_epoch(
    run: _Run, moving: Any, fixed: Any, x: jax.Array, y: jax.Array, rows: jax.Array
) -> tuple[Any, jax.Array]:
    optimiser = _optimiser(run)
    b, (mean, inverse) = fixed

    def loss(parameters: Any, rows: jax.Array) -> jax.Array:
        real = (rows >= 0).astype(jnp.float32)
        share = real / real.sum()
        psi = _surrogate(run, parameters["K"], b, x[rows])
        if run.training.standardise == "batch":
            centred = psi - share @ psi
            psi = centred * jax.lax.rsqrt(share @ centred**2 + _SMALLEST_VARIANCE)
        else:
            psi = (psi - mean) * inverse
        logits = jnp.matmul(psi, parameters["head"], precision="highest") + parameters["bias"]
        entropy = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y[rows])
        return jnp.asarray(share @ entropy + run.training.l2 / 2 * jnp.sum(parameters["K"] ** 2))

    def step(carry: Any, rows: jax.Array) -> Any:
        parameters, state = carry
        value, gradient = jax.value_and_grad(loss)(parameters, rows)
        updates, state = optimiser.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, updates), state), value

    moving, losses = jax.lax.scan(step, moving, rows)
    return moving, losses.mean()
