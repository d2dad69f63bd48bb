"""Gradient descent over the batches of one epoch, as a loop that JAX compiles."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

LossReport = Callable[[int, float], None]
"""Called with the number of epochs done and the mean loss of the last one."""


def descend(
    loss: Callable[[Any, Any], jax.Array],
    optimiser: optax.GradientTransformation,
    moving: tuple[Any, Any],
    batches: Any,
    unroll: int = 1,
) -> tuple[tuple[Any, Any], jax.Array]:
    """One step for every batch.

    loss: of parameters and a batch
    moving: the parameters and the optimiser's state
    batches: an array or several, with batches along their first axis; a batch is what they have at one place of it
    unroll: how many steps are compiled as one, which saves a GPU time between them

    Gives both after the last batch, and the mean loss.
    """

    def step(moving: tuple[Any, Any], batch: Any) -> Any:
        parameters, state = moving
        value, gradient = jax.value_and_grad(loss)(parameters, batch)
        updates, state = optimiser.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, updates), state), value

    moving, losses = jax.lax.scan(step, moving, batches, unroll=unroll)
    return moving, losses.mean()


def shares(rows: jax.Array, weights: jax.Array | None = None) -> jax.Array:
    """The weight of every row in a mean over its batch: (batch_size,), zero for a row of -1, which is no sample.

    weights: of the samples (S,), float32, if they do not all weigh the same. A batch in which none weighs anything has
        a mean of zero.
    """
    real = (rows >= 0).astype(jnp.float32)
    if weights is None:
        return real / real.sum()
    real = real * weights[rows]
    return real / jnp.maximum(real.sum(), np.finfo(np.float32).tiny)
