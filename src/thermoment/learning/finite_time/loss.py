"""The loss of reservoirs under a linear head, and an epoch of its descent as one compiled program.

    z    = head (phi - mean) / deviation + offset,   phi: moments with the noise of M replicas
    loss = mean cross-entropy of softmax(z), or mean squared error of z
         + drive_penalty * mean over nodes of max(0, |h| - drive_limit)^2

Every step draws new shot noise for every image, and distorts every image anew. mean and deviation are running averages
of phi over the batches; no derivative is taken through them.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from thermoment._support.compilation import REPRODUCIBLE
from thermoment.learning.descent import shares
from thermoment.learning.distortion import distort
from thermoment.learning.finite_time.lookup import TrainingCurves, noisy_moments
from thermoment.learning.finite_time.program import Program, Scalars, optimiser

FORGOTTEN = 0.01
"""Part of the running averages that every batch replaces."""
_SMALLEST_VARIANCE = 1e-12


class RunningMeans(NamedTuple):
    """Running averages of phi and of phi^2: (P, N) each."""

    mean: jax.Array
    square: jax.Array

    def deviation(self) -> jax.Array:
        """Standard deviation of phi: (P, N)."""
        return jnp.sqrt(jnp.maximum(self.square - self.mean**2, _SMALLEST_VARIANCE))


class State(NamedTuple):
    """What training changes. `trained` has K (N, D), head (P, N, C), offset (C,); b (N,) and W where they are trained.

    N counts the nodes of one reservoir after the other. W is a list with the coupling within each.
    """

    trained: dict[str, Any]
    optimiser: Any
    means: RunningMeans


class Features(NamedTuple):
    """Moments of all nodes, and what their drives cost."""

    moments: list[jax.Array]
    """for every order (S, N)"""
    penalty: jax.Array
    """of every image, for drives beyond the limit: (S,)"""
    strongest: jax.Array
    """largest effective drive, a scalar"""


def features(
    symmetric: bool,
    scalars: Scalars,
    parameters: dict[str, Any],
    node: TrainingCurves,
    x: jax.Array,
    noise: jax.Array | None,
) -> Features:
    """Moments of all nodes for images x (S, D), with their shot noise, and the penalty for drives beyond the limit.

    noise: standard normals (P, S, N); None for no shot noise.
    """
    h = jnp.dot(x, parameters["K"].T, precision=lax.Precision.HIGHEST) + parameters["b"]
    W = [coupling(one, symmetric) for one in parameters["W"]]
    found = noisy_moments(h, W, node, noise, scalars.scatter)
    excess = jnp.maximum(jnp.abs(h) - scalars.drive_limit, 0)
    penalty = scalars.drive_penalty * (1 / h.shape[1]) * (excess**2).sum(axis=1)
    return Features(found.moments, penalty, found.strongest)


def coupling(W: jax.Array, symmetric: bool) -> jax.Array:
    """The coupling that parameters W (N, N) stand for: without a diagonal, and symmetric if asked."""
    W = (W + W.T) / 2 if symmetric else W
    return W * (1 - jnp.eye(len(W), dtype=W.dtype))


def shot_noise(node: TrainingCurves, parameters: dict[str, Any], count: int, key: jax.Array) -> jax.Array:
    """Standard normals for `count` images: (P, S, N)."""
    return jax.random.normal(key, (node.n_orders, count, len(parameters["K"])))


def logits(moments: list[jax.Array], parameters: dict[str, Any], means: RunningMeans) -> jax.Array:
    """The head on standardised moments: (S, C)."""
    total, deviation = parameters["offset"], means.deviation()
    for k, phi in enumerate(moments):
        standardised = (phi - means.mean[k]) / deviation[k]
        total = total + jnp.dot(standardised, parameters["head"][k], precision=lax.Precision.HIGHEST)
    return jnp.asarray(total)


def averaged(means: RunningMeans, moments: list[jax.Array], share: jax.Array, part: float | jax.Array) -> RunningMeans:
    """The running averages after a batch replaced a `part` of them; `share` (S,) weighs the images of the batch."""

    def mixed(before: jax.Array, power: int) -> jax.Array:
        now = jnp.stack([share @ lax.stop_gradient(phi) ** power for phi in moments])
        return (1 - part) * before + part * now

    return RunningMeans(mixed(means.mean, 1), mixed(means.square, 2))


@partial(jax.jit, static_argnums=0, donate_argnums=2, compiler_options=REPRODUCIBLE)
def epoch(
    program: Program,
    scalars: Scalars,
    state: State,
    fixed: dict[str, Any],
    node: TrainingCurves,
    x: jax.Array,
    y: jax.Array,
    rows: jax.Array,
    key: jax.Array,
    weights: jax.Array | None = None,
) -> tuple[State, jax.Array, jax.Array]:
    """One pass over the batches `rows` (n_batches, batch_size) of images x (S, D); a row of -1 is no image.

    y: labels (S,), or targets (S, C) for the squared error
    fixed: those of K, b and W that are not trained
    weights: of the images in the loss, (S,); all the same unless given

    Gives the new state, the mean loss and the largest drive.
    """
    descent = optimiser(program, scalars)

    def draw(rows: jax.Array, key: jax.Array) -> Any:
        """The images of a batch, distorted, and their noise."""
        for_images, for_noise = jax.random.split(key)
        images = x[rows]
        if program.image_shape is not None:
            images = distort(for_images, images, program.image_shape, scalars.distortion, program.smoothness)
        return images, shot_noise(node, state.trained, len(rows), for_noise) if program.noisy else None

    def loss(trained: dict[str, Any], means: RunningMeans, rows: jax.Array, images: jax.Array, noise: Any) -> Any:
        parameters = {**fixed, **trained}
        found = features(program.symmetric, scalars, parameters, node, images, noise)
        z = logits(found.moments, parameters, means)
        if program.loss == "squared":
            error = ((z - y[rows]) ** 2).mean(axis=1)
        else:
            target = scalars.right_label * jax.nn.one_hot(y[rows], z.shape[1], dtype=z.dtype) + scalars.any_label
            error = optax.softmax_cross_entropy(z, target)
        share = shares(rows, weights)
        value = share @ (error + found.penalty)
        return value, (averaged(means, found.moments, share, FORGOTTEN), found.strongest)

    def step(carry: Any, following: Any) -> Any:
        state, batch = carry
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, (means, strongest)), slope = gradient(state.trained, state.means, *batch)
        updates, memory = descent.update(slope, state.optimiser, state.trained)
        if "W" in updates:
            updates = updates | {"W": [scalars.W_rate * update for update in updates["W"]]}
        state = State(optax.apply_updates(state.trained, updates), memory, means)
        return (state, (following[0], *draw(*following))), (value, strongest)

    # A batch is drawn one step ahead and carried along: XLA on the CPU would otherwise draw its noise again for every
    # use of it.
    keys = jax.random.split(key, len(rows))
    following = jnp.roll(rows, -1, axis=0), jnp.roll(keys, -1)
    (state, _), (losses, strongest) = lax.scan(step, (state, (rows[0], *draw(rows[0], keys[0]))), following)
    return state, losses.mean(), strongest.max()


@partial(jax.jit, static_argnums=(0, 1), compiler_options=REPRODUCIBLE)
def count_correct(
    symmetric: bool,
    noisy: bool,
    scalars: Scalars,
    parameters: dict[str, Any],
    means: RunningMeans,
    node: TrainingCurves,
    x: jax.Array,
    y: jax.Array,
    key: jax.Array,
) -> jax.Array:
    """How many of the images x (S, D) with labels y (S,) are classified right; label -1 is no image."""
    noise = shot_noise(node, parameters, len(x), key) if noisy else None
    found = features(symmetric, scalars, parameters, node, x, noise)
    chosen = logits(found.moments, parameters, means).argmax(1)
    return ((chosen == y) & (y >= 0)).sum()
