"""From inputs to moments: checks everything, picks the engine, runs it."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine, Task, TracingEngine
from thermoment._support.checks import check_integer, invalid
from thermoment._support.progress import Progress, reporter
from thermoment.moments import Info, Moments
from thermoment.physics import coupling_norm
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir

Array = NDArray[np.float64]


def simulate(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    engine: str | Engine = "auto",
    sample_ids: ArrayLike | None = None,
    progress: Progress = False,
) -> Moments:
    """Moments of every node at t_final, for inputs (S, D).

    `engine` is a name from `thermoment.engines()`, "auto" for the fastest that samples here, or an engine object with
    options of its own. `progress` is True for lines on stderr, or a function of (samples done, samples in all).
    `sample_ids` (S,), 0 to S-1 unless given, choose each sample's noise: a sample with the same
    input and id has the same bits in any batch, and two samples with the same id have the same noise.
    Cost: S * M * N * n_steps node-steps, each about 2 N floating-point operations.
    """
    task = _prepare(reservoir, inputs, protocol, sample_ids)
    found, choice = choose(engine, task)
    found.check(task)
    with reporter(progress, task.n_samples) as report:
        start = time.perf_counter()
        raw, clip_count, error = found.moments(task, report)
        seconds = time.perf_counter() - start
    info = Info(found.name, choice, clip_count, task.protocol.n_steps, seconds, error)
    return Moments(raw, task.protocol.orders, task.protocol.n_replicas, task.sample_ids, info)


def final_states(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    engine: str | Engine = "xla",
    sample_ids: ArrayLike | None = None,
) -> Array:
    """x(t_final) of every replica: (S, M, N). The states whose moments `simulate` gives; all are held in memory."""
    task = _prepare(reservoir, inputs, protocol, sample_ids)
    return _tracing(engine, task).final_states(task)


def sample_paths(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    nodes: Sequence[int] = (0,),
    every: int = 1,
    engine: str | Engine = "xla",
    sample_ids: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Times (T,) and x of a few nodes at these times (S, M, T, len(nodes)), from x = 0 at t = 0.

    `every` thins the record to each `every`-th step; it must divide the number of steps. All nodes are simulated.
    """
    task = _prepare(reservoir, inputs, protocol, sample_ids)
    last = task.n_nodes - 1
    chosen = np.array([check_integer("nodes", node, 0, last) for node in nodes], np.intp)
    every = check_integer("every", every, 1, task.protocol.n_steps)
    if task.protocol.n_steps % every:
        raise invalid("every", f"divide the {task.protocol.n_steps} steps", every)
    paths = _tracing(engine, task).sample_paths(task, chosen, every)
    times = np.arange(paths.shape[2], dtype=np.float64) * (every * task.protocol.dt)
    return times, paths


def _tracing(engine: str | Engine, task: Task) -> TracingEngine:
    found, _ = choose(engine, task)
    if not isinstance(found, TracingEngine):
        raise invalid("engine", "be one that keeps single replicas, such as xla", found.name)
    found.check(task)
    return found


def _prepare(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    sample_ids: ArrayLike | None = None,
) -> Task:
    """Every argument checked, the drives computed."""
    protocol = Protocol() if protocol is None else protocol
    if not isinstance(reservoir, Reservoir):
        raise invalid("reservoir", "be a thermoment.Reservoir", repr(reservoir))
    if not isinstance(protocol, Protocol):
        raise invalid("protocol", "be a thermoment.Protocol", repr(protocol))
    drive, strongest = reservoir.driven(inputs)
    ids = _sample_ids(sample_ids, len(drive))
    stable = reservoir.dynamics.largest_stable_step(strongest, coupling_norm(reservoir.W))
    if protocol.dt > stable:
        raise invalid(
            "dt",
            f"be at most {stable:.3g}, the largest stable step for drives up to {strongest:.3g}",
            protocol.dt,
        )
    return Task(drive, reservoir.W, reservoir.dynamics, protocol, ids, reservoir.stream)


def _sample_ids(sample_ids: ArrayLike | None, n_samples: int) -> NDArray[np.uint64]:
    if sample_ids is None:
        return np.arange(n_samples, dtype=np.uint64)
    ids = np.asarray(sample_ids)
    if ids.dtype.kind not in "iu":
        raise invalid("sample_ids", "be integers from 0 to 2^64 - 1", f"of dtype {ids.dtype}")
    if ids.shape != (n_samples,):
        raise ValueError(f"Argument `sample_ids` must have shape ({n_samples},), but has shape {ids.shape}.")
    if ids.dtype.kind == "i" and ids.min() < 0:
        raise invalid("sample_ids", "be integers from 0 to 2^64 - 1", f"{ids.min()} at the least")
    return ids.astype(np.uint64)
