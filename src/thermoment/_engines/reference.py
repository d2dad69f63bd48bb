"""The specification: the Euler-Maruyama recursion in NumPy float64, to be read beside the equations.

    x <- x + mu F(x) dt + sqrt(2 mu kT dt) xi,    F = -2 J2 x - 4 J4 x^3 + h + W x
    x <- min(clip, max(-clip, x)), and every x that this changes is counted

Cost: about 1e7 node-steps per second and core.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.tally import Tally
from thermoment._engines.task import Array, Move, Outcome, Report, Task, check_samples
from thermoment.noise import normals

# Replicas advanced together: bounds the memory, and fixes the order in which moments are summed.
_BLOCK = 1024


@dataclass(frozen=True)
class Reference:
    """NumPy float64, any N and M, one core."""

    name = "reference"
    tasks_at_once = 1

    def status(self) -> str:
        return f"NumPy {np.__version__} in float64"

    def check(self, task: Task) -> None:
        check_samples(task)

    def moments(self, task: Task, report: Report) -> Outcome:
        orders = task.protocol.orders
        raw = np.zeros((task.n_samples, len(orders), task.n_nodes))
        clip_count, tally = 0, Tally(task)
        for s in range(task.n_samples):
            for replicas in _blocks(task):
                x, clipped, totals = _run(task, s, replicas)
                tally.add(slice(s, s + 1), totals[:, None])
                raw[s] += [power.sum(axis=0) for power in _powers(x, orders)]
                clip_count += clipped
            raw[s] /= task.n_replicas
            report(s + 1)
        return Outcome(raw, clip_count, observed=tally.observed(task.n_replicas))

    def final_states(self, task: Task) -> Array:
        states = np.empty((task.n_samples, task.n_replicas, task.n_nodes))
        for s in range(task.n_samples):
            for replicas in _blocks(task):
                states[s, replicas], _, _ = _run(task, s, replicas)
        return states

    def sample_paths(self, task: Task, nodes: NDArray[np.intp], every: int) -> Array:
        records = 1 + task.protocol.n_steps // every
        paths = np.zeros((task.n_samples, task.n_replicas, records, len(nodes)))
        for s in range(task.n_samples):
            for replicas in _blocks(task):
                for n, (x, _) in enumerate(trajectory(task, s, replicas), start=1):
                    if n % every == 0:
                        paths[s, replicas, n // every] = x[:, nodes]
        return paths


def trajectory(task: Task, s: int, replicas: NDArray[np.int64]) -> Iterator[tuple[Array, int]]:
    """Sample `s`, step by step: the state (replicas, N) after each step, and how many updates were clipped so far."""
    protocol, step = task.protocol, task.step
    x = np.zeros((len(replicas), task.n_nodes))
    clipped = 0
    for n in range(protocol.n_steps):
        xi = normals(n, replicas, task.n_nodes, int(task.sample_ids[s]), protocol.seed, task.stream)
        x = x + step.mu_dt * (task.dynamics.force(x, task.drive[s]) + x @ task.W.T) + step.sigma * xi
        clipped += int(np.count_nonzero(np.abs(x) > protocol.clip))
        x = np.clip(x, -protocol.clip, protocol.clip)
        yield x, clipped


def _powers(x: Array, orders: tuple[int, ...]) -> list[Array]:
    """x^p for each order, by multiplication: exact for signs, and faster than a general power."""
    powers = list(accumulate([x] * max(orders), np.multiply))
    return [powers[p - 1] for p in orders]


def _run(task: Task, s: int, replicas: NDArray[np.int64]) -> tuple[Array, int, Array]:
    """Sample `s` to its end: the state (replicas, N), clipped updates, and sums of the observables (K, replicas)."""
    x = np.zeros((len(replicas), task.n_nodes))
    totals = np.zeros((len(task.observables), len(replicas)))
    clipped = 0
    for after, clipped in trajectory(task, s, replicas):  # noqa: B007, the last one is returned
        move = Move(x, after, task.drive[s], task.W, task.dynamics, task.protocol.dt)
        for total, observable in zip(totals, task.observables, strict=True):
            total += observable.increment(move)
        x = after
    return x, clipped, totals


def _blocks(task: Task) -> list[NDArray[np.int64]]:
    replicas = np.arange(task.n_replicas)
    return np.split(replicas, range(_BLOCK, task.n_replicas, _BLOCK))
