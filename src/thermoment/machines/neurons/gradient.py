"""Training of a layered machine by gradients through its sampled paths."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_integer, check_labels, check_positive
from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.batches import batches
from thermoment.machines.neurons.layers import Layered
from thermoment.machines.neurons.sampled import (
    Clock,
    Weights,
    answers,
    check_examples,
    machine_of,
    squared_error,
    weights_of,
)
from thermoment.machines.neurons.schedule import Report, Schedule
from thermoment.protocol import Protocol

Loss = Callable[[jax.Array, jax.Array, Clock], jax.Array]
"""Of answers (P, S, C) and what is wanted of them."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A machine after training, and the loss of every step: (steps,)."""

    machine: Layered
    losses: NDArray[np.float64]


def learn(
    machine: Layered,
    inputs: ArrayLike,
    targets: ArrayLike,
    protocol: Protocol | None = None,
    *,
    warm_up: int = 300,
    steps: int = 300,
    batch_size: int = 50,
    n_replicas: int = 8,
    learning_rate: float = 0.02,
    seed: int = 0,
    report: Report | None = None,
) -> Trained:
    """Trains W, K, b and the readout to give the targets, by Adam.

    Args:
        machine: where training starts, such as `Layered.draw` gives.
        inputs: (S, D).
        targets: (S, C), or (S,) where C = 1.
        protocol: time step and reading time, `Protocol(dt=0.02)` unless given; `n_replicas` says how many replicas the
            machine will be read with. The loss is the expected squared error of such a reading.
        warm_up: steps without noise that come first. One replica is enough for each of them.
        steps: steps with the noise of the machine's kT.
        batch_size: samples in each step.
        n_replicas: replicas of each sample in a step, even, 4 or more. Their number changes how noisy the loss is,
            not what is expected of it.
        learning_rate: of the first step; it falls to zero along a cosine, in the warm-up and again after it.
        seed: of the batches and the noise.
        report: called with the number of steps done and the loss.

    Returns:
        `machine`, and `losses` of all steps.
    """
    x, y = check_examples(machine, inputs, targets)
    schedule = Schedule(protocol, warm_up, steps, n_replicas, seed, report)
    return _descend(machine, x, y, _squares, schedule, batch_size, learning_rate)


def learn_classes(
    machine: Layered,
    inputs: ArrayLike,
    labels: ArrayLike,
    protocol: Protocol | None = None,
    *,
    warm_up: int = 0,
    steps: int = 1000,
    batch_size: int = 128,
    n_replicas: int = 2,
    learning_rate: float = 0.005,
    seed: int = 0,
    report: Report | None = None,
) -> Trained:
    """Trains W, K, b and the readout to give the right class the largest answer.

    Args:
        machine: where training starts; it has C outputs.
        inputs: (S, D).
        labels: class numbers from 0 to C - 1, (S,).
        protocol: as for `learn`.
        warm_up: as for `learn`.
        steps: as for `learn`.
        batch_size: as for `learn`.
        n_replicas: replicas of each sample in a step, even. The loss is the cross-entropy under the softmax of
            their mean answer.
        learning_rate: as for `learn`.
        seed: as for `learn`.
        report: as for `learn`.

    Returns:
        `machine`, and `losses` of all steps.
    """
    if not isinstance(machine, Layered):
        check_examples(machine, inputs, labels)
    x = check_array("inputs", inputs, ("S", machine.n_inputs))
    y = check_labels("labels", labels, len(x), machine.n_outputs)
    schedule = Schedule(protocol, warm_up, steps, n_replicas, seed, report, fewest=2)
    return _descend(machine, x, y, _cross_entropy, schedule, batch_size, learning_rate)


def _squares(y: jax.Array, targets: jax.Array, clock: Clock) -> jax.Array:
    return squared_error(y, targets, clock.read_replicas)


def _cross_entropy(y: jax.Array, labels: jax.Array, _: Clock) -> jax.Array:
    each: jax.Array = optax.softmax_cross_entropy_with_integer_labels(y.mean(axis=(0, 1)), labels)
    return each.mean()


def _descend(
    machine: Layered,
    x: NDArray[Any],
    y: NDArray[Any],
    loss: Loss,
    schedule: Schedule,
    batch_size: int,
    learning_rate: float,
) -> Trained:
    """Steps without noise, then steps with it."""
    size = min(check_integer("batch_size", batch_size, 1, 2**31), len(x))
    learning_rate = check_positive("learning_rate", learning_rate)
    weights, losses = weights_of(machine), list[float]()
    rng, key = np.random.default_rng(schedule.seed), jax.random.key(schedule.seed)
    for clock, count in schedule.phases(machine, x):
        optimiser = optax.adam(optax.cosine_decay_schedule(learning_rate, max(count, 1)))
        state = optimiser.init(weights)
        for _, rows in zip(range(count), _rows(len(x), size, rng), strict=False):
            now = jax.random.fold_in(key, len(losses))
            wanted = y[rows].astype(np.float32 if y.dtype.kind == "f" else np.int32)
            examples = x[rows].astype(np.float32), wanted, now
            weights, state, value = _step(weights, state, *examples, clock, loss, optimiser)
            losses.append(float(value))
            if not math.isfinite(losses[-1]):
                raise RuntimeError(
                    f"The loss is not finite after {len(losses)} steps: the weights have outgrown the time step of "
                    f"{clock.dt:g}. Take a shorter dt or a smaller learning_rate."
                )
            if schedule.report is not None:
                schedule.report(len(losses), losses[-1])
    return Trained(machine_of(weights, machine), np.array(losses))


@partial(jax.jit, static_argnames=("clock", "loss", "optimiser"), compiler_options=REPRODUCIBLE)
def _step(
    weights: Weights,
    state: Any,
    x: jax.Array,
    y: jax.Array,
    key: jax.Array,
    clock: Clock,
    loss: Loss,
    optimiser: optax.GradientTransformation,
) -> tuple[Weights, Any, jax.Array]:
    """Weights and optimiser after one batch, and the loss before."""
    value, gradient = jax.value_and_grad(lambda one: loss(answers(one, x, key, clock), y, clock))(weights)
    updates, state = optimiser.update(gradient, state)
    return optax.apply_updates(weights, updates), state, value


def _rows(n_samples: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
    """Batches of `size` rows without end; what is left over of an epoch is left out."""
    while True:
        for rows in next(batches(n_samples, size, 1, rng)):
            if rows[-1] >= 0:
                yield rows
