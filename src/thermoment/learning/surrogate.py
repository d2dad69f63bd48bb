"""Training of the input projection K through a static surrogate of the reservoir: no noise, no time, no coupling.

    2 J2 x* + 3 J3 x*^2 + 4 J4 x*^3 = h = K I + b           psi = [x*] or [x* | x*^2 | x*^4]
    loss = mean cross-entropy of a linear head on psi + l2/2 |K|^2

K and the head are trained, W and b stay as drawn, and the head is thrown away. What the paper leaves open is a field of
`Training`. NumPy draws the batches, so that they are the same on every device. A processor trains one reservoir at a
time, and where most inputs are zero, as in MNIST, by products that skip them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from thermoment._engines.sparse import Sparse, compressed, pays, product
from thermoment._support.checks import check_array, check_integer, check_labels, check_shape, invalid
from thermoment._support.compilation import ONE_CORE, REPRODUCIBLE
from thermoment.learning.batches import batches
from thermoment.learning.descent import LossReport, descend, shares
from thermoment.learning.options import HeadStart, Stage, Standardise, Surrogate, SurrogateOptimiser, Training
from thermoment.physics import Dynamics
from thermoment.reservoir import Reservoir
from thermoment.wells import curvature, stationary_point

MOMENTUM = 0.9
HEAD_DEVIATION = 0.01
"""Standard deviation of a head that starts "normal"; a "uniform" one lies within +- 1/sqrt(number of features)."""
_POWERS = {"mean": (1,), "polynomial": (1, 2, 4)}
_ROWS_AT_ONCE = 4096
_STEPS_AT_ONCE = 4
"""that an accelerator is given as one"""
_SMALLEST_VARIANCE = 1e-12


class TrainedProjection(NamedTuple):
    """The reservoir with its trained K, and the mean loss of every epoch, one stage after the other."""

    reservoir: Reservoir
    losses: NDArray[np.float64]


def train_side_by_side(
    reservoirs: Sequence[Reservoir],
    inputs: NDArray[Any],
    labels: NDArray[np.integer[Any]],
    stages: tuple[Stage, ...],
    training: Training | None = None,
    *,
    seeds: Sequence[int],
    weights: NDArray[Any] | None = None,
    report: LossReport = lambda *_: None,
    one_core: bool = False,
) -> list[TrainedProjection]:
    """Trains K of each reservoir by itself; on a GPU several take hardly longer than one.

    reservoirs: all of the same size and dynamics, with D inputs and N nodes each
    inputs: (S, D)
    labels: (S,), class numbers from 0
    stages: trained one after the other, each with a new head
    training: `Training()` unless given
    seeds: for every reservoir the seed of its heads and of the order of its batches
    weights: of the samples in the loss, (S,); all the same unless given. They do not change how surrogate features are
        standardised at the start of a stage.
    report: called after every epoch, with the mean loss over the reservoirs
    one_core: on a processor whether matrix products take one core alone, for trainings in threads of their own

    Cost: per epoch and reservoir about 4 S D N floating-point operations, or as many times less as there are zeros.
    """
    training = training or Training()
    first = reservoirs[0]
    inputs = _as_float32(check_shape("inputs", inputs, ("S", first.n_inputs)))
    labels = check_labels("labels", labels, len(inputs))
    n_classes = int(labels.max()) + 1
    if any((r.n_nodes, r.n_inputs, r.dynamics) != (first.n_nodes, first.n_inputs, first.dynamics) for r in reservoirs):
        raise invalid("reservoirs", "have the same size and dynamics", [r.K.shape for r in reservoirs])
    if first.dynamics.n_nodes is not None:
        raise invalid("dynamics", "be the same for all nodes to train through a surrogate", first.dynamics)
    # Bits of sparse training are the same on any number of cores. XLA's means over a batch are not.
    sparse = len(reservoirs) == 1 and training.standardise != "batch" and pays(inputs, first.n_nodes)
    accelerated = jax.default_backend() != "cpu"
    x, y = compressed(inputs) if sparse else jnp.asarray(inputs), jnp.asarray(labels, jnp.int32)
    if accelerated:
        y = jax.nn.one_hot(y, n_classes)
    share = None if weights is None else jnp.asarray(check_array("weights", weights, (len(inputs),)), jnp.float32)
    K = [jnp.asarray(reservoir.K, jnp.float32) for reservoir in reservoirs]
    b = [jnp.asarray(reservoir.b, jnp.float32) for reservoir in reservoirs]
    losses: list[list[float]] = []
    epoch = _epoch_on_one_core if one_core or sparse else _epoch
    for number, stage in enumerate(stages):
        program = _Program(stage.surrogate, training.optimiser, training.standardise, first.dynamics, accelerated)
        scalars = np.float32(stage.learning_rate), np.float32(training.l2)
        rngs = [np.random.default_rng([check_integer("seed", seed, 0, 2**63), number]) for seed in seeds]
        n_features = len(_POWERS[stage.surrogate]) * first.n_nodes
        parameters = [
            {"K": start.T if sparse else start, **_head(training.head, n_features, n_classes, rng)}
            for start, rng in zip(K, rngs, strict=True)
        ]
        state = [_optimiser(program, scalars[0]).init(start) for start in parameters]
        scaling = [_scaling(program, *start, inputs, n_features) for start in zip(K, b, strict=True)]
        moving, fixed = (_stack(parameters), _stack(state)), (_stack(b), _stack(scaling))
        orders = zip(*(batches(len(inputs), training.batch_size, stage.epochs, rng) for rng in rngs), strict=True)
        for rows in orders:
            moving, loss = epoch(program, scalars, moving, fixed, x, y, share, _stack(rows))
            losses.append(np.atleast_1d(loss).tolist())
            if not np.isfinite(losses[-1]).all():
                raise FloatingPointError(
                    f"Training of K diverged in epoch {len(losses)} at learning rate {stage.learning_rate:g}: "
                    "lower it, or standardise the surrogate features."
                )
            report(len(losses), float(np.mean(losses[-1])))
        K = list(moving[0]["K"]) if len(K) > 1 else [moving[0]["K"].T if sparse else moving[0]["K"]]
    histories = np.array(losses).reshape(-1, len(reservoirs)).T
    return [
        TrainedProjection(replace(reservoir, K=np.asarray(found, np.float64)) if stages else reservoir, history)
        for reservoir, found, history in zip(reservoirs, K, histories, strict=True)
    ]


def _as_float32(inputs: NDArray[Any]) -> NDArray[np.float32]:
    """The inputs in float32, without a copy in float64; refused where one is not finite."""
    with np.errstate(over="ignore"):
        found = inputs.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        check_array("inputs", inputs, inputs.shape)
    return found


class _Program(NamedTuple):
    """What an epoch is compiled for, beside the shapes of its arrays."""

    surrogate: Surrogate
    optimiser: SurrogateOptimiser
    standardise: Standardise
    dynamics: Dynamics
    accelerated: bool
    """whether all batches of an epoch are laid side by side beforehand, which saves a GPU a third of the time"""


def _head(start: HeadStart, n_features: int, n_classes: int, rng: np.random.Generator) -> dict[str, jax.Array]:
    weights = np.zeros((n_features, n_classes))
    if start == "normal":
        weights = rng.normal(0.0, HEAD_DEVIATION, weights.shape)
    if start == "uniform":
        bound = 1 / math.sqrt(n_features)
        weights = rng.uniform(-bound, bound, weights.shape)
    return {"head": jnp.asarray(weights, jnp.float32), "bias": jnp.zeros(n_classes, jnp.float32)}


def _optimiser(program: _Program, rate: Any) -> optax.GradientTransformation:
    match program.optimiser:
        case "sgd":
            return optax.sgd(rate)
        case "momentum":
            return optax.sgd(rate, momentum=MOMENTUM)
        case "adam":
            return optax.adam(rate)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _stationary(h: jax.Array, dynamics: Dynamics) -> jax.Array:
    """x* at drives h of any shape."""
    return jnp.asarray(stationary_point(h, dynamics, jnp))


@_stationary.defjvp
def _stationary_slope(dynamics: Dynamics, primals: Any, tangents: Any) -> Any:
    x = _stationary(*primals, dynamics)
    return x, tangents[0] / curvature(x, dynamics)


def _surrogate(program: _Program, drive: jax.Array) -> jax.Array:
    """psi at drives (B, N): (B, powers * N), all nodes' first power, then all nodes' second, and so on."""
    state = _stationary(drive, program.dynamics)
    return jnp.concatenate([state**p for p in _POWERS[program.surrogate]], axis=1)


def _drive(K: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """h for inputs x (B, D): (B, N)."""
    return jnp.matmul(x, K.T, precision="highest") + b


def _logits(psi: jax.Array, head: jax.Array) -> jax.Array:
    """The head's answers (B, C), without its bias."""
    return jnp.matmul(psi, head, precision="highest")


@jax.custom_vjp
def _logits_apart(psi: jax.Array, head: jax.Array) -> jax.Array:
    """`_logits` whose derivative by the head is a product of its own, several times as fast on a processor.

    Otherwise XLA makes that product a part of the head's update, in a plain loop. The rounding differs.
    """
    return _logits(psi, head)


def _logits_apart_backward(kept: tuple[jax.Array, jax.Array], error: jax.Array) -> tuple[jax.Array, jax.Array]:
    psi, head = kept
    by_head = jax.lax.optimization_barrier(_logits(error.T, psi))  # type: ignore[no-untyped-call]
    return _logits(error, head.T), by_head.T


_logits_apart.defvjp(lambda psi, head: (_logits(psi, head), (psi, head)), _logits_apart_backward)


def _scaling(program: _Program, K: jax.Array, b: jax.Array, inputs: NDArray[np.float32], n_features: int) -> Any:
    """Mean and inverse deviation of psi over the training set at the start of a stage; 0 and 1 unless "once"."""
    if program.standardise != "once":
        return jnp.zeros(n_features), jnp.ones(n_features)
    psi = jax.jit(lambda K, b, x: _surrogate(program, _drive(K, b, x)), compiler_options=REPRODUCIBLE)
    total, squares = np.zeros(n_features), np.zeros(n_features)
    for start in range(0, len(inputs), _ROWS_AT_ONCE):
        part = np.asarray(psi(K, b, inputs[start : start + _ROWS_AT_ONCE]), np.float64)
        total += part.sum(0)
        squares += (part**2).sum(0)
    mean = total / len(inputs)
    variance = np.maximum(squares / len(inputs) - mean**2, _SMALLEST_VARIANCE)
    return jnp.asarray(mean, jnp.float32), jnp.asarray(1 / np.sqrt(variance), jnp.float32)


def _stack(trees: Sequence[Any]) -> Any:
    """Trees of arrays as one tree with a new first axis; a single tree as it is, without that axis.

    One reservoir is trained without a batch axis: the batched matrix products of XLA on the CPU round differently.
    """
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) if len(trees) > 1 else trees[0]


def _every_epoch(
    program: _Program,
    scalars: Any,
    moving: Any,
    fixed: Any,
    x: jax.Array | Sparse,
    y: jax.Array,
    weights: jax.Array | None,
    rows: jax.Array,
) -> tuple[Any, jax.Array]:
    """One pass over all batches, for one reservoir or for several side by side; with the mean loss of each.

    scalars: learning rate and l2
    moving: parameters and the optimiser's state
    fixed: b (N,), and mean and inverse deviation of psi
    y: class numbers (S,); on an accelerator (S, C), one in the place of the class
    weights: of the samples, (S,), or None
    rows: (n_batches, batch_size) for one reservoir, (R, n_batches, batch_size) for several

    With several, all arrays in `moving` and `fixed` have a first axis of length R too. K is (N, D), or (D, N) where x
    is sparse; then there is one reservoir.
    """
    one = partial(_one_epoch, program, scalars, x, y, weights)
    return one(moving, fixed, rows) if rows.ndim == 2 else jax.vmap(one)(moving, fixed, rows)


_compiled = partial(jax.jit, _every_epoch, static_argnums=0, donate_argnums=2)
_epoch = _compiled(compiler_options=REPRODUCIBLE)
_epoch_on_one_core = _compiled(compiler_options=REPRODUCIBLE | ONE_CORE)


def _one_epoch(
    program: _Program,
    scalars: Any,
    x: jax.Array | Sparse,
    y: jax.Array,
    weights: jax.Array | None,
    moving: Any,
    fixed: Any,
    rows: jax.Array,
) -> tuple[Any, jax.Array]:
    rate, l2 = scalars
    b, (mean, inverse) = fixed

    def batch(rows: jax.Array) -> tuple[jax.Array, ...]:
        return (rows, y[rows]) if isinstance(x, Sparse) else (rows, y[rows], x[rows])

    def loss(parameters: Any, batch: tuple[jax.Array, ...]) -> jax.Array:
        rows, answers, *inputs = batch
        share = shares(rows, weights)
        K, head = parameters["K"], parameters["head"]
        psi = _surrogate(program, product(x, rows, K) + b if isinstance(x, Sparse) else _drive(K, b, *inputs))
        if program.standardise == "batch":
            centred = psi - share @ psi
            psi = centred * jax.lax.rsqrt(share @ centred**2 + _SMALLEST_VARIANCE)
        else:
            psi = (psi - mean) * inverse
        logits = (_logits_apart if isinstance(x, Sparse) else _logits)(psi, head) + parameters["bias"]
        entropy = _entropy(logits, answers)
        return jnp.asarray(share @ entropy + l2 / 2 * jnp.sum(K**2))

    optimiser = _optimiser(program, rate)
    if program.accelerated:
        return descend(loss, optimiser, moving, batch(rows), unroll=_STEPS_AT_ONCE)
    return descend(lambda parameters, rows: loss(parameters, batch(rows)), optimiser, moving, rows)


def _entropy(logits: jax.Array, answers: jax.Array) -> jax.Array:
    """Cross-entropy (B,) of logits (B, C); answers are class numbers (B,), or one in the place of the class (B, C)."""
    of = optax.losses
    entropy = of.softmax_cross_entropy if answers.ndim == 2 else of.softmax_cross_entropy_with_integer_labels
    return jnp.asarray(entropy(logits, answers))
