"""A perceptron with one hidden layer, to compare machines with: ReLU units, Adam, a linear readout on top."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.batches import batches
from thermoment.learning.descent import LossReport, descend, shares
from thermoment.learning.distortion import Strengths, distort, strengths
from thermoment.learning.options import Distortion


class Perceptron(NamedTuple):
    """z = V max(0, U I + u) + v."""

    U: NDArray[np.float32]
    """(H, D)"""
    u: NDArray[np.float32]
    V: NDArray[np.float32]
    """(C, H)"""
    v: NDArray[np.float32]

    def predict(self, inputs: NDArray[Any]) -> NDArray[np.int64]:
        """Classes (S,) of inputs (S, D)."""
        hidden = np.maximum(0, inputs @ self.U.T + self.u)
        return np.asarray((hidden @ self.V.T + self.v).argmax(1))


def train(
    inputs: NDArray[Any],
    labels: NDArray[Any],
    n_hidden: int,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    distortion: Distortion | None = None,
    shape: tuple[int, ...] = (),
    report: LossReport = lambda *_: None,
) -> Perceptron:
    """A perceptron trained with Adam, whose rate falls as a cosine to zero.

    inputs: (S, D), labels: (S,)
    seed: of the start (He's), of the batches, of the distortion
    distortion: of images of `shape`, another in every epoch; none unless given
    """
    rng = np.random.default_rng(seed)
    n_classes, D = int(labels.max()) + 1, inputs.shape[1]
    drawn = (
        rng.normal(0, np.sqrt(2 / D), (n_hidden, D)),
        np.zeros(n_hidden),
        rng.normal(0, np.sqrt(2 / n_hidden), (n_classes, n_hidden)),
        np.zeros(n_classes),
    )
    parameters: Any = tuple(jnp.asarray(one, jnp.float32) for one in drawn)
    steps = epochs * -(-len(inputs) // batch_size)
    rates = jnp.asarray(learning_rate * (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2, jnp.float32)
    x, y = jnp.asarray(inputs, jnp.float32), jnp.asarray(labels, jnp.int32)
    how = None if distortion is None else (strengths(distortion), distortion.smoothness if distortion.elastic else None)
    moving = parameters, _adam(rates).init(parameters)
    keys = jax.random.split(jax.random.key(seed), epochs)
    picture = (int(shape[0]), int(shape[1])) if how else None
    for epoch, rows in enumerate(batches(len(x), batch_size, epochs, rng)):
        smooth = how[1] if how else None
        moving, loss = _epoch(picture, smooth, moving, rates, x, y, rows, keys[epoch], how[0] if how else None)
        report(epoch + 1, float(loss))
    return Perceptron(*(np.asarray(one) for one in moving[0]))


def _adam(rates: jax.Array) -> optax.GradientTransformation:
    return optax.adam(lambda count: rates[count])


@partial(jax.jit, static_argnums=(0, 1), compiler_options=REPRODUCIBLE)
def _epoch(
    shape: tuple[int, int] | None,
    smoothness: float | None,
    moving: Any,
    rates: jax.Array,
    x: jax.Array,
    y: jax.Array,
    rows: jax.Array,
    key: jax.Array,
    how: Strengths | None,
) -> Any:
    """One pass over all batches."""

    def loss(parameters: Any, rows: jax.Array) -> jax.Array:
        U, u, V, v = parameters
        images = x[rows]
        if shape is not None and how is not None:
            images = distort(jax.random.fold_in(key, rows[0]), images, shape, how, smoothness)
        hidden = jax.nn.relu(jnp.matmul(images, U.T, precision="highest") + u)
        logits = jnp.matmul(hidden, V.T, precision="highest") + v
        entropy = optax.losses.softmax_cross_entropy_with_integer_labels(logits, y[rows])
        return jnp.asarray(shares(rows) @ entropy)

    return descend(loss, _adam(rates), moving, rows)
