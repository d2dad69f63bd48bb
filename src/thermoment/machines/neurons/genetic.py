"""Training of a layered machine by a genetic algorithm: mutate, measure, keep the best.

The algorithm is that of Whitelam and Casert, arXiv:2412.17183: of a population the best few are cloned, every clone is
mutated, and no parent is kept. A weight is changed by C^(-1/2) times a normal number, with C the bonds of its neuron.
What is different here is the cost. All machines of a generation see the same noise, so few replicas tell them apart,
and the error that sampling adds is subtracted.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_integer, check_positive
from thermoment._support.compilation import REPRODUCIBLE
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

_AT_ONCE = 20
"""Generations in one call of the compiled program."""
_JUDGED_BY = 32
"""How many times more replicas judge the last parents."""


@dataclass(frozen=True, eq=False)
class Evolved:
    """The best of the last parents, and the loss of the best one in every generation: (generations,)."""

    machine: Layered
    losses: NDArray[np.float64]


def evolve(
    machine: Layered,
    inputs: ArrayLike,
    targets: ArrayLike,
    protocol: Protocol | None = None,
    *,
    warm_up: int = 2000,
    generations: int = 1000,
    population: int = 50,
    parents: int = 5,
    spread: float = 0.1,
    n_replicas: int = 8,
    seed: int = 0,
    report: Report | None = None,
) -> Evolved:
    """Trains W, K, b and the readout to give the targets, without gradients.

    Args:
        machine: where all of the first generation come from.
        inputs: (S, D). All of them are seen in every generation.
        targets: (S, C), or (S,) where C = 1.
        protocol: as for `learn`.
        warm_up: generations without noise that come first.
        generations: generations with the noise of the machine's kT.
        population: machines in a generation.
        parents: how many of them, the best, have offspring.
        spread: standard deviation of a mutation, before it is divided by the square root of the bonds of the neuron.
        n_replicas: replicas of each machine and sample, even, 4 or more.
        seed: of mutations and noise.
        report: called with the number of generations done and the loss of the best machine.

    Returns:
        `machine`, and `losses` of the best in each generation.

    Cost: population * P * S * N * n_steps node-steps a generation; P is 1 in the warm-up.
    """
    x, y = check_examples(machine, inputs, targets)
    schedule = Schedule(protocol, warm_up, generations, n_replicas, seed, report, name="generations")
    population = check_integer("population", population, 2, 2**20)
    parents = check_integer("parents", parents, 1, population - 1)
    spread = check_positive("spread", spread)
    examples = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    spreads = jax.tree.map(lambda part: jnp.float32(spread) * part, _spreads(machine))
    best = jax.tree.map(lambda part: jnp.broadcast_to(part, (parents, *part.shape)), weights_of(machine))
    key, losses = jax.random.key(seed), list[float]()
    for clock, length in schedule.phases(machine, x):
        for start in range(0, length, _AT_ONCE):
            count = min(_AT_ONCE, length - start)
            now = jax.random.fold_in(key, len(losses))
            best, found = _generations(best, spreads, *examples, now, clock, population, count)
            losses += np.asarray(found, np.float64).tolist()
            if report is not None:
                report(len(losses), losses[-1])
    # The first of the parents was lucky with the noise of its generation: all of them are judged again, by much more.
    clock = schedule.clock(machine, n_replicas * _JUDGED_BY)
    found = _judged(best, *examples, jax.random.fold_in(key, len(losses)), clock)
    first = int(np.argmin(np.where(np.isfinite(found), found, np.inf)))
    return Evolved(machine_of(jax.tree.map(lambda part: part[first], best), machine), np.array(losses))


def _spreads(machine: Layered) -> Weights:
    """C^(-1/2) for every weight. A bond has the mean C of its two neurons; bias and readout have C = 1."""
    bonds = np.zeros(machine.reservoir.n_nodes)
    for k, layer in enumerate(machine.layers):
        before = machine.n_inputs if k == 0 else machine.widths[k - 1]
        after = machine.widths[k + 1] if k + 1 < len(machine.widths) else 0
        bonds[layer] = before + after
    between = tuple(
        ((bonds[rows][:, None] + bonds[columns]) / 2) ** -0.5
        for rows, columns in zip(machine.layers, machine.layers[1:], strict=False)
    )
    first = np.broadcast_to(bonds[machine.layers[0], None] ** -0.5, (machine.widths[0], machine.n_inputs))
    return Weights(between, first, np.ones(machine.reservoir.n_nodes), np.ones_like(machine.readout))


@partial(jax.jit, static_argnames=("clock", "population", "count"), compiler_options=REPRODUCIBLE)
def _generations(
    best: Weights,
    spreads: Weights,
    x: jax.Array,
    y: jax.Array,
    key: jax.Array,
    clock: Clock,
    population: int,
    count: int,
) -> tuple[Weights, jax.Array]:
    """The parents after `count` generations, the best first, and the loss of the best one in each: (count,)."""
    n_parents = len(best.b)

    def generation(best: Weights, key: jax.Array) -> tuple[Weights, jax.Array]:
        of_clones, of_noise = jax.random.split(key)
        leaves, form = jax.tree.flatten(best)
        moved: list[Any] = []
        for part, size, own in zip(
            leaves, jax.tree.leaves(spreads), jax.random.split(of_clones, len(leaves)), strict=True
        ):
            clones = part[jnp.arange(population) % n_parents]
            moved.append(clones + size * jax.random.normal(own, clones.shape))
        clones = jax.tree.unflatten(form, moved)
        found = _losses(clones, x, y, of_noise, clock)
        # A machine that has run away is the worst of all.
        lowest, chosen = jax.lax.top_k(-jnp.where(jnp.isfinite(found), found, jnp.inf), n_parents)
        return jax.tree.map(lambda part: part[chosen], clones), -lowest[0]

    return jax.lax.scan(generation, best, jax.random.split(key, count))


def _losses(machines: Weights, x: jax.Array, y: jax.Array, key: jax.Array, clock: Clock) -> jax.Array:
    """The loss of each machine, all under the same noise."""
    return jax.vmap(lambda one: squared_error(answers(one, x, key, clock), y, clock.read_replicas))(machines)


_judged = jax.jit(_losses, static_argnames="clock", compiler_options=REPRODUCIBLE)
