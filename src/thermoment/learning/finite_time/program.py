"""The options of training as a compiled program sees them: choices that it is compiled for, and numbers it is given.

A program is compiled once for a `Program` and the shapes of its arrays. All `Scalars` are arguments, so a scan over
learning rates, penalties, strengths of distortion or numbers of replicas compiles once.
"""

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from thermoment.learning.distortion import Strengths, strengths
from thermoment.learning.options import FiniteTime, FiniteTimeOptimiser, Schedule

Loss = Literal["cross-entropy", "squared"]
MOMENTUM = 0.9
_DECAYED = ("K", "W", "head")
_WARM_UP = 0.3
"""Part of the steps over which one-cycle rises."""
_RISE, _FALL = 25.0, 25e4
"""Largest rate of one-cycle in units of its first, and of its last."""


class Program(NamedTuple):
    """What a program is compiled for, beside the shapes of its arrays and which of b and W are trained."""

    optimiser: FiniteTimeOptimiser
    schedule: Schedule
    symmetric: bool
    """whether W is symmetric"""
    noisy: bool
    """whether features have shot noise: the number of replicas is finite"""
    image_shape: tuple[int, int] | None
    """of images that are distorted; None where none are"""
    smoothness: float | None
    """of the elastic field; None where there is none"""
    loss: Loss = "cross-entropy"


class Scalars(NamedTuple):
    """The numbers that a program is given: float32, counts of steps int32."""

    rates: tuple[Any, Any, Any]
    """learning rate at the start, the largest, and at the end; other schedules than one-cycle use the largest alone"""
    warm_up: Any
    """steps over which the schedule rises"""
    steps: Any
    """of the whole training"""
    per_step: tuple[Any, Any]
    """1 / number of steps over which the schedule rises and falls"""
    weight_decay: Any
    W_rate: Any
    right_label: Any
    """1 - label_smoothing"""
    any_label: Any
    """label_smoothing / number of classes"""
    drive_limit: Any
    drive_penalty: Any
    scatter: Any
    """1 / sqrt(n_replicas)"""
    distortion: Strengths


def program(
    options: FiniteTime, n_replicas: float, image_shape: tuple[int, ...], loss: Loss = "cross-entropy"
) -> Program:
    """The program for features of `n_replicas` replicas and inputs that are images of `image_shape`."""
    distortion = options.distortion
    return Program(
        options.optimiser,
        options.schedule,
        options.symmetric,
        math.isfinite(n_replicas),
        (image_shape[0], image_shape[1]) if distortion.strength else None,
        distortion.smoothness if distortion.elastic else None,
        loss,
    )


def scalars(options: FiniteTime, n_replicas: float, steps: int, n_classes: int) -> Scalars:
    """The numbers for a training of `steps` steps on `n_classes` classes or targets."""
    one, steps = np.float32(1), max(steps, 2)
    start, largest, warm_up = np.float32(options.learning_rate / _RISE), np.float32(options.learning_rate), 0
    if options.schedule == "one-cycle":
        # Rounded as optax.cosine_onecycle_schedule does.
        largest, warm_up = start * np.float32(_RISE), int(_WARM_UP * steps)
    return Scalars(
        rates=(start, largest, largest * np.float32(1 / _FALL)),
        warm_up=np.int32(warm_up),
        steps=np.int32(steps),
        # Reciprocals are taken here: XLA divides by a constant by multiplying, but by an argument by dividing, and the
        # two round differently.
        per_step=(one / np.float32(max(warm_up, 1)), one / np.float32(steps - warm_up)),
        weight_decay=np.float32(options.weight_decay),
        W_rate=np.float32(options.W_rate),
        right_label=np.float32(1 - options.label_smoothing),
        any_label=np.float32(options.label_smoothing / n_classes),
        drive_limit=np.float32(options.drive_limit),
        drive_penalty=np.float32(options.drive_penalty),
        scatter=one / np.sqrt(np.float32(n_replicas)),
        distortion=strengths(options.distortion),
    )


def optimiser(program: Program, scalars: Scalars) -> optax.GradientTransformation:
    """The optimiser with its schedule and weight decay."""

    def rate(count: jax.Array) -> jax.Array:
        return learning_rate(program.schedule, scalars, count)

    if program.optimiser == "adamw":
        return optax.adamw(rate, weight_decay=scalars.weight_decay, mask=_decayed)
    return optax.chain(
        optax.add_decayed_weights(scalars.weight_decay, mask=_decayed), optax.sgd(rate, momentum=MOMENTUM)
    )


def learning_rate(schedule: Schedule, scalars: Scalars, count: Any) -> jax.Array:
    """The rate after `count` steps."""
    start, largest, end = scalars.rates
    rising = count < scalars.warm_up
    done = jnp.where(rising, count, jnp.minimum(count, scalars.steps) - scalars.warm_up)
    match schedule:
        case "one-cycle":
            before, after = jnp.where(rising, start, largest), jnp.where(rising, largest, end)
            part = done * jnp.where(rising, *scalars.per_step)
            return jnp.asarray(after + (before - after) / 2 * (jnp.cos(jnp.pi * part) + 1))
        case "cosine":
            return jnp.asarray(largest * (0.5 * (1 + jnp.cos(done * (jnp.pi * scalars.per_step[1])))))
        case "constant":
            return jnp.asarray(largest)


def _decayed(trained: dict[str, Any]) -> dict[str, Any]:
    """For every array that is trained, whether weight decay shrinks it."""
    return {name: jax.tree.map(lambda _, name=name: name in _DECAYED, value) for name, value in trained.items()}
