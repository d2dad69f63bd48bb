"""The loss of the machine under a linear head, and an epoch of its descent as one compiled program.

    loss = mean cross-entropy of head (phi - mean) / deviation + offset,   phi as the machine of M replicas shows it
         + drive_penalty * mean over nodes of max(0, |h| - drive_limit)^2

phi has shot noise that is drawn anew for every image and step, and the images are distorted anew. mean and deviation
follow phi as running averages over the batches; the loss takes them as given.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.distortion import distort
from thermoment.learning.finite_time.lookup import Machine, features
from thermoment.learning.options import FiniteTime

MOMENTUM = 0.9
FORGOTTEN = 0.01
"""Part of the running averages that every batch replaces."""
_WARM_UP = 0.3
_SMALLEST_VARIANCE = 1e-12
_DECAYED = ("K", "W", "head")


class Reading(NamedTuple):
    """How the machine is driven and read."""

    n_replicas: float
    symmetric: bool
    drive_limit: float
    drive_penalty: float


class Plan(NamedTuple):
    """What an epoch is compiled for."""

    options: FiniteTime
    reading: Reading
    image_shape: tuple[int, ...]
    steps: int
    """of the whole training"""


class Statistics(NamedTuple):
    """Running averages of phi and of its square: (P, N)."""

    mean: jax.Array
    square: jax.Array

    def deviation(self) -> jax.Array:
        """(P, N)"""
        return jnp.sqrt(jnp.maximum(self.square - self.mean**2, _SMALLEST_VARIANCE))


class State(NamedTuple):
    """What training moves. `trained` has K (N, D), head (P, N, C), offset (C,); b (N,) and W where they are trained.

    N counts the nodes of one reservoir after the other. W is a list of the couplings within each.
    """

    trained: dict[str, Any]
    optimiser: Any
    statistics: Statistics


class Outcome(NamedTuple):
    """Of an epoch: mean loss, and the largest effective drive."""

    loss: jax.Array
    strongest: jax.Array


def optimiser(plan: Plan) -> optax.GradientTransformation:
    """The optimiser with its schedule and weight decay."""
    options, rate = plan.options, learning_rate(plan)
    if options.optimiser == "adamw":
        return optax.adamw(rate, weight_decay=options.weight_decay, mask=_decayed)
    return optax.chain(
        optax.add_decayed_weights(options.weight_decay, mask=_decayed), optax.sgd(rate, momentum=MOMENTUM)
    )


def learning_rate(plan: Plan) -> optax.Schedule:
    """The rate as a function of the steps done."""
    rate = plan.options.learning_rate
    match plan.options.schedule:
        case "one-cycle":
            return optax.cosine_onecycle_schedule(max(plan.steps, 2), rate, _WARM_UP)
        case "cosine":
            return optax.cosine_decay_schedule(rate, plan.steps)
        case "constant":
            return optax.constant_schedule(rate)


def coupling(W: jax.Array, symmetric: bool) -> jax.Array:
    """W as the machine has it: without a diagonal, and symmetric if asked."""
    W = (W + W.T) / 2 if symmetric else W
    return W * (1 - jnp.eye(len(W), dtype=W.dtype))


def shot_noise(
    reading: Reading, machine: Machine, parameters: dict[str, Any], count: int, key: jax.Array
) -> jax.Array | None:
    """Standard normals (P, S, N); None where there are infinitely many replicas."""
    if not math.isfinite(reading.n_replicas):
        return None
    return jax.random.normal(key, (machine.n_orders, count, len(parameters["K"])))


class Show(NamedTuple):
    """Features of every order (S, N); the penalty of every image (S,); the largest drive."""

    features: list[jax.Array]
    penalty: jax.Array
    strongest: jax.Array


def show(reading: Reading, parameters: dict[str, Any], machine: Machine, x: jax.Array, noise: jax.Array | None) -> Show:
    """What all reservoirs show of images x (S, D) with this noise."""
    h = jnp.dot(x, parameters["K"].T, precision=lax.Precision.HIGHEST) + parameters["b"]
    W = [coupling(one, reading.symmetric) for one in parameters["W"]]
    seen = features(h, W, machine, noise, reading.n_replicas)
    excess = jnp.maximum(jnp.abs(h) - reading.drive_limit, 0)
    return Show(seen.features, reading.drive_penalty * (excess**2).mean(axis=1), seen.strongest)


def logits(features: list[jax.Array], parameters: dict[str, Any], statistics: Statistics) -> jax.Array:
    """The head on standardised features: (S, C)."""
    total, deviation = parameters["offset"], statistics.deviation()
    for k, phi in enumerate(features):
        standardised = (phi - statistics.mean[k]) / deviation[k]
        total = total + jnp.dot(standardised, parameters["head"][k], precision=lax.Precision.HIGHEST)
    return jnp.asarray(total)


@partial(jax.jit, static_argnums=0, donate_argnums=1, compiler_options=REPRODUCIBLE)
def epoch(
    plan: Plan,
    state: State,
    fixed: dict[str, Any],
    machine: Machine,
    x: jax.Array,
    y: jax.Array,
    rows: jax.Array,
    key: jax.Array,
) -> tuple[State, Outcome]:
    """One pass over the batches `rows` (n_batches, batch_size) of images x (S, D) and labels y; -1 is no image."""
    descent = optimiser(plan)

    def draw(rows: jax.Array, key: jax.Array) -> Any:
        for_images, for_noise = jax.random.split(key)
        images = x[rows]
        if plan.options.distortion.strength:
            height, width = plan.image_shape
            images = distort(for_images, images, (height, width), plan.options.distortion)
        return images, shot_noise(plan.reading, machine, state.trained, len(rows), for_noise)

    def loss(trained: dict[str, Any], statistics: Statistics, rows: jax.Array, images: jax.Array, noise: Any) -> Any:
        parameters = {**fixed, **trained}
        shown = show(plan.reading, parameters, machine, images, noise)
        z = logits(shown.features, parameters, statistics)
        target = optax.smooth_labels(jax.nn.one_hot(y[rows], z.shape[1], dtype=z.dtype), plan.options.label_smoothing)
        share = (rows >= 0).astype(x.dtype) / (rows >= 0).sum()
        value = share @ (optax.softmax_cross_entropy(z, target) + shown.penalty)
        return value, (averaged(statistics, shown.features, share, FORGOTTEN), shown.strongest)

    def step(carry: Any, following: Any) -> Any:
        state, batch = carry
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, (statistics, strongest)), slope = gradient(state.trained, state.statistics, *batch)
        updates, memory = descent.update(slope, state.optimiser, state.trained)
        if "W" in updates:
            updates = updates | {"W": [plan.options.W_rate * update for update in updates["W"]]}
        state = State(optax.apply_updates(state.trained, updates), memory, statistics)
        return (state, (following[0], *draw(*following))), Outcome(value, strongest)

    # A batch is drawn a step ahead and carried along: XLA on the CPU would draw its noise anew in every use of it.
    keys = jax.random.split(key, len(rows))
    following = jnp.roll(rows, -1, axis=0), jnp.roll(keys, -1)
    (state, _), outcomes = lax.scan(step, (state, (rows[0], *draw(rows[0], keys[0]))), following)
    return state, Outcome(outcomes.loss.mean(), outcomes.strongest.max())


def averaged(
    statistics: Statistics, features: list[jax.Array], share: jax.Array, part: float | jax.Array
) -> Statistics:
    """The running averages with a `part` of them from this batch, its images weighed by `share`."""

    def mixed(before: jax.Array, power: int) -> jax.Array:
        now = jnp.stack([share @ lax.stop_gradient(phi) ** power for phi in features])
        return (1 - part) * before + part * now

    return Statistics(mixed(statistics.mean, 1), mixed(statistics.square, 2))


@partial(jax.jit, static_argnums=0, compiler_options=REPRODUCIBLE)
def judge(
    reading: Reading,
    parameters: dict[str, Any],
    statistics: Statistics,
    machine: Machine,
    x: jax.Array,
    y: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """How many images x (S, D) the machine of M replicas gets right, and the largest drive; label -1 is no image."""
    noise = shot_noise(reading, machine, parameters, len(x), key)
    shown = show(reading, parameters, machine, x, noise)
    found = logits(shown.features, parameters, statistics).argmax(1)
    return ((found == y) & (y >= 0)).sum(), shown.strongest


def _decayed(trained: dict[str, Any]) -> dict[str, Any]:
    return {name: jax.tree.map(lambda _, name=name: name in _DECAYED, value) for name, value in trained.items()}
