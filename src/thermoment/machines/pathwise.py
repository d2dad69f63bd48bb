"""Training by gradients through sampled trajectories: noise drawn first, then every step is a differentiable function.

    x(t + dt) = x + mu F(x) dt + sqrt(2 mu kT dt) xi
    loss = cross-entropy of the logits `sharpness` * x_out(t_final)

The class is read where the trajectory ends: the output node that is highest. Noise is new in every batch, so what is
descended is the mean over noise of the loss of one trajectory.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_fields, check_labels, invalid, quoted
from thermoment.physics import force, integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import check_system

Array = NDArray[np.float64]
Weights = dict[str, Any]


@dataclass(frozen=True)
class Pathwise:
    """How long and how fast to descend.

    Args:
        epochs: passes through the samples.
        batch: samples a step.
        rate: of Adam, for weights measured in units of their own rms; it falls to zero along a cosine.
        sharpness: logits are this times the positions of the output nodes.
        seed: of the order of samples and of the noise.
    """

    epochs: int = 4
    batch: int = 250
    rate: float = 0.005
    sharpness: float = 4.0
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {"epochs": (1, 10**6), "batch": (1, 2**31), "seed": (0, 2**32 - 1)}
        check_fields(self, positive=("rate", "sharpness"), integers=limits)


def learn_pathwise(
    reservoir: Reservoir,
    inputs: ArrayLike,
    labels: ArrayLike,
    protocol: Protocol | None = None,
    options: Pathwise | None = None,
) -> Reservoir:
    """The reservoir with W, K and b trained so that its last nodes show the class at t_final.

    Args:
        reservoir: N nodes; the last C of them are the outputs, one for each class. A symmetric W stays symmetric.
        inputs: (S, D), one sample a row, S at least `options.batch`.
        labels: (S,), class numbers from 0 to C - 1, where C is the largest of them plus one.
        protocol: dt and t_final, started at zero and not clipped; one trajectory is sampled for each sample and epoch.
        options: how long and how fast.

    Cost: about three times that of simulating the trajectories in float32.
    """
    protocol = check_system(reservoir, protocol)
    options = Pathwise() if options is None else options
    if not isinstance(options, Pathwise):
        raise invalid("options", "be a thermoment.Pathwise", quoted(options))
    if protocol.start != "zero" or protocol.clip != np.inf:
        raise invalid("protocol", "start at zero and not clip", protocol)
    X = check_array("inputs", inputs, ("S", reservoir.n_inputs))
    y = check_labels("labels", labels, len(X), reservoir.n_nodes)
    if options.batch > len(X):
        raise invalid("batch", f"be at most the {len(X)} samples", options.batch)
    parts: dict[str, Array] = {"W": reservoir.W, "K": reservoir.K, "b": reservoir.b}
    scale = {name: float(np.sqrt((part**2).mean())) or 1.0 for name, part in parts.items()}
    weights: Weights = {name: jnp.asarray(part / scale[name], jnp.float32) for name, part in parts.items()}
    for name, part in _descend(weights, scale, X.astype(np.float32), y, reservoir, protocol, options).items():
        parts[name] = np.asarray(part, np.float64) * scale[name]
    if integrability(reservoir.W).integrable:
        parts["W"] = (parts["W"] + parts["W"].T) / 2  # as it was but for rounding
    np.fill_diagonal(parts["W"], 0.0)
    return Reservoir(**parts, dynamics=reservoir.dynamics, stream=reservoir.stream)


def _descend(
    weights: Weights,
    scale: dict[str, float],
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    reservoir: Reservoir,
    protocol: Protocol,
    options: Pathwise,
) -> Weights:
    dynamics, C = reservoir.dynamics, int(y.max()) + 1
    step_of, shake = dynamics.mu * protocol.dt, np.sqrt(2 * dynamics.mu * dynamics.kT * protocol.dt)
    symmetric = integrability(reservoir.W).integrable
    off_diagonal = jnp.asarray(1 - np.eye(reservoir.n_nodes), jnp.float32)

    def outputs(weights: Weights, images: Any, key: Any) -> Any:
        W = scale["W"] * weights["W"] * off_diagonal
        h = scale["K"] * images @ weights["K"].T + scale["b"] * weights["b"]

        @jax.checkpoint  # the noise of a step is drawn again on the way back instead of being kept
        def step(x: Any, n: Any) -> tuple[Any, None]:
            xi = jax.random.normal(jax.random.fold_in(key, n), x.shape)
            return x + step_of * (force(x, h, dynamics) + x @ W.T) + shake * xi, None

        x, _ = jax.lax.scan(step, jnp.zeros_like(h), jnp.arange(protocol.n_steps))
        return x[:, -C:]

    def loss(weights: Weights, images: Any, labels: Any, key: Any) -> Any:
        logits = options.sharpness * outputs(weights, images, key)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    n_batches = len(X) // options.batch
    optimiser = optax.adam(optax.cosine_decay_schedule(options.rate, options.epochs * n_batches))

    @jax.jit
    def update(weights: Weights, state: Any, images: Any, labels: Any, key: Any) -> tuple[Weights, Any]:
        slope = jax.grad(loss)(weights, images, labels, key)
        if symmetric:
            slope["W"] = (slope["W"] + slope["W"].T) / 2
        change, state = optimiser.update(slope, state, weights)
        return optax.apply_updates(weights, change), state

    state, rng = optimiser.init(weights), np.random.default_rng(options.seed)
    key = jax.random.key(options.seed, impl="rbg")  # several times faster on a CPU than the default
    for epoch in range(options.epochs):
        for number, chosen in enumerate(np.split(rng.permutation(len(X))[: n_batches * options.batch], n_batches)):
            noise = jax.random.fold_in(key, epoch * n_batches + number)
            weights, state = update(weights, state, X[chosen], y[chosen], noise)
    return weights
