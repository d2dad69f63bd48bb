"""The specification: the Euler-Maruyama recursion in NumPy float64, to be read beside the equations.

    x <- x + mu F(x) dt + sqrt(2 mu kT dt) xi,    F = -2 J2 x - 3 J3 x^2 - 4 J4 x^3 + h + W x
    x <- min(clip, max(-clip, x)), and every x that this changes is counted

Cost: about 1e7 node-steps per second and core.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.tally import Tally
from thermoment._engines.task import Array, Move, Outcome, Report, Task, check_samples, outcome_of
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
        raw = np.zeros((task.n_reads, task.n_samples, len(orders), task.n_nodes))
        clip_counts, tallies = [0] * task.n_reads, [Tally(task) for _ in raw]
        states = np.empty((task.n_samples, task.n_replicas, task.n_nodes)) if task.keep_states else None
        i, j = np.array(task.pairs, np.intp).reshape(-1, 2).T
        products = np.zeros((task.n_reads, task.n_samples, 4, len(i)))
        for s in range(task.n_samples):
            for replicas in _blocks(task):
                for r, (x, clipped, totals) in enumerate(_readings(task, s, replicas)):
                    tallies[r].add(slice(s, s + 1), slice(replicas[0], replicas[-1] + 1), totals[:, None])
                    raw[r, s] += [power.sum(axis=0) for power in _powers(x, orders)]
                    products[r, s] += [term.sum(axis=0) for term in _products(x[:, i], x[:, j])]
                    clip_counts[r] += clipped
                if states is not None:
                    states[s, replicas] = x
            raw[:, s] /= task.n_replicas
            products[:, s] /= task.n_replicas
            report(s + 1)
        readings = zip(tallies, raw, clip_counts, products, strict=True)
        return outcome_of([tally.outcome(m, c, xy) for tally, m, c, xy in readings], states)

    def final_states(self, task: Task) -> Array:
        states = self.moments(replace(task, keep_states=True), lambda _: None).states
        assert states is not None
        return states

    def sample_paths(self, task: Task, nodes: NDArray[np.intp], every: int) -> Array:
        records = 1 + task.n_steps // every
        paths = np.zeros((task.n_samples, task.n_replicas, records, len(nodes)))
        for s in range(task.n_samples):
            for replicas in _blocks(task):
                paths[s, replicas, 0] = task.started(s, replicas)[:, nodes]
                for n, (move, _, _) in enumerate(trajectory(task, s, replicas), start=1):
                    if n % every == 0:
                        paths[s, replicas, n // every] = move.after[:, nodes]
        return paths


def trajectory(task: Task, s: int, replicas: NDArray[np.int64]) -> Iterator[tuple[Move, int, bool]]:
    """Sample `s`, step by step: x before and after, updates clipped so far, whether moments are read after it."""
    protocol, step = task.protocol, task.step
    x, n, clipped = task.started(s, replicas), task.first_step, 0
    for n_steps, drive, W, read in task.segments:
        h = drive[s]
        for left in reversed(range(n_steps)):
            xi = normals(n, replicas, task.n_nodes, int(task.sample_ids[s]), protocol.seed, task.stream)
            y = x + step.mu_dt * (task.dynamics.force(x, h) + x @ W.T) + step.sigma * xi
            clipped += int(np.count_nonzero(np.abs(y) > protocol.clip))
            y = np.clip(y, -protocol.clip, protocol.clip)
            yield Move(x, y, h, W, task.dynamics, protocol.dt), clipped, read and left == 0
            x, n = y, n + 1


def _readings(task: Task, s: int, replicas: NDArray[np.int64]) -> Iterator[tuple[Array, int, Array]]:
    """Sample `s` whenever it is read: the state (replicas, N), clipped updates, sums of observables (K, replicas)."""
    totals = np.zeros((len(task.observables), len(replicas)))
    for move, clipped, read in trajectory(task, s, replicas):
        for total, observable in zip(totals, task.observables, strict=True):
            total += observable.increment(move)
        if read:
            yield move.after, clipped, totals


def _powers(x: Array, orders: tuple[int, ...]) -> list[Array]:
    """x^p for each order, by multiplication: exact for signs, and faster than a general power."""
    powers = list(accumulate([x] * max(orders), np.multiply))
    return [powers[p - 1] for p in orders]


def _products(x: Array, y: Array) -> list[Array]:
    """x y, x^2 y, x y^2 and x^2 y^2."""
    xy = x * y
    return [xy, x * xy, xy * y, xy * xy]


def _blocks(task: Task) -> list[NDArray[np.int64]]:
    replicas = np.arange(task.n_replicas)
    return np.split(replicas, range(_BLOCK, task.n_replicas, _BLOCK))
