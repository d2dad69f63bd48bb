"""Answers of a layered machine by sampled paths in JAX: cheap with few replicas, batched, and differentiable.

A path is a smooth function of the weights once its noise is drawn, so the gradient of an answer is that of the Euler
steps behind it. It holds at any strength of the coupling, where the engine meanfield, of second order in W, does not.

The noise of a step is sqrt(2 mu kT dt) times 1 or -1, in place of a normal number: moments of x then err by the same
order in dt as those of Euler's steps do anyway, and random signs cost next to nothing.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from thermoment._support.checks import check_array, invalid, quoted
from thermoment.machines.neurons.layers import Array, Layered, check_targets, coupling
from thermoment.physics import Dynamics, force
from thermoment.reservoir import Reservoir


class Weights(NamedTuple):
    """What is trained, as arrays of JAX. With one more axis in front: those of several machines."""

    bonds: tuple[Any, ...]
    """W_ij of node i of each layer with node j of the next one: (widths[l], widths[l + 1]) each"""
    K: Any
    """input weights of the first layer: (widths[0], D)"""
    b: Any
    """(N,)"""
    readout: Any
    """(C, widths[-1])"""


class Clock(NamedTuple):
    """How paths are made: what a program is compiled for."""

    dynamics: Dynamics
    dt: float
    n_steps: int
    n_replicas: int
    """P, of the estimate"""
    read_replicas: float
    """M, with which the machine is to be read; math.inf for the mean of infinitely many"""


def weights_of(machine: Layered) -> Weights:
    """The weights of a machine, in float32."""
    one = machine.reservoir
    bonds = tuple(one.W[rows, columns] for rows, columns in pairwise(machine.layers))
    found = Weights(bonds, one.K[: machine.widths[0]], one.b, machine.readout)
    return Weights(*jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), found))


def machine_of(weights: Weights, like: Layered) -> Layered:
    """The machine with these weights, and all else as in `like`."""
    bonds, first, b, readout = jax.tree.map(lambda part: np.asarray(part, np.float64), weights)
    K = np.zeros_like(like.reservoir.K)
    K[: like.widths[0]] = first
    reservoir = Reservoir(coupling(bonds, len(b)), K, b, like.reservoir.dynamics, like.reservoir.stream)
    return Layered(reservoir, like.widths, readout)


def answers(weights: Weights, inputs: jax.Array, key: jax.Array, clock: Clock) -> jax.Array:
    """The answer of every replica at the end of its path: (2, P / 2, S, C) for inputs (S, D); (1, 1, S, C) at kT = 0.

    The replicas come in pairs, the second with the noise of the first turned round: what the noise does to the first
    order is then not in the mean of a pair. Cost: P * S * N * n_steps node-steps; a gradient keeps as many numbers.
    """
    dynamics, dt = clock.dynamics, clock.dt
    N, first = len(weights.b), len(weights.K)
    W = coupling(weights.bonds, N, jnp)
    drive = jnp.zeros((len(inputs), N)).at[:, :first].set(inputs @ weights.K.T) + weights.b
    shape = (clock.n_replicas // 2 or 1, len(inputs), N)
    sigma = math.sqrt(2 * dynamics.mu * dynamics.kT * dt)

    def step(x: jax.Array, up: jax.Array | None) -> tuple[jax.Array, None]:
        moved = x + dynamics.mu * dt * (force(x, drive, dynamics) + x @ W)
        if up is None:
            return moved, None
        kick = jnp.where(up, sigma, -sigma)
        return moved + jnp.stack([kick, -kick]), None

    signs = _signs(key, (clock.n_steps, *shape)) if sigma else None
    x, _ = jax.lax.scan(step, jnp.zeros((2 if sigma else 1, *shape)), signs, length=clock.n_steps)
    return jnp.asarray(x[..., -weights.readout.shape[1] :] @ weights.readout.T)


def _signs(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """True or False with equal probability, 32 of them from one random word."""
    size = math.prod(shape)
    words = jax.random.bits(key, (-(-size // 32), 1))
    return ((words >> jnp.arange(32, dtype=jnp.uint32)) & 1).astype(bool).reshape(-1)[:size].reshape(shape)


def squared_error(y: jax.Array, targets: jax.Array, read_replicas: float) -> jax.Array:
    """The expected (mean of M independent replicas - target)^2, estimated without bias from pairs y: (2, P / 2, S, C).

    It is e^2 + v / M, with e the error of the mean and v the variance of a replica. With w the variance of the means
    of pairs, the square of the mean of all is too large by w / (P / 2).
    """
    means = y.mean(axis=0) - targets
    pairs = len(means)
    squared = means.mean(axis=0) ** 2
    if pairs > 1:
        squared = squared - means.var(axis=0, ddof=1) / pairs
        variance = ((y - targets) ** 2).mean(axis=(0, 1)) - squared
        squared = squared + variance / read_replicas
    return squared.mean()


def check_examples(machine: Layered, inputs: ArrayLike, targets: ArrayLike) -> tuple[Array, Array]:
    """Inputs (S, D) and targets (S, C); targets (S,) are taken for (S, 1)."""
    if not isinstance(machine, Layered):
        raise invalid("machine", "be a thermoment.neurons.Layered", quoted(machine))
    return check_array("inputs", inputs, ("S", machine.n_inputs)), check_targets(machine, inputs, targets)
