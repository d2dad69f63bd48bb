"""Simulation of a reservoir: `simulate` gives moments, `final_states` and `sample_paths` give single replicas."""

import math
import time
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine, Move, Observable, Task, TracingEngine
from thermoment._support.checks import (
    check_function,
    check_integer,
    check_integers,
    check_numbers,
    check_shape,
    invalid,
    quoted,
)
from thermoment._support.memory import check_fits
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
    observables: Sequence[Observable] = (),
) -> Moments:
    """Moments of every node at t_final.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), one sample a row.
        protocol: step, time, replicas, orders; `Protocol()` unless given.
        engine: a name from `thermoment.engines()`, "auto" for the fastest that samples here, or an engine object with
            options of its own, such as `thermoment.Xla("float64")`.
        sample_ids: (S,), integers from 0 to 2^64 - 1 that choose each sample's noise; 0 to S - 1 unless given. A sample
            with the same input and id has the same bits in any batch. Samples with the same id have the same noise.
        progress: True for a bar on stderr, or lines where it is no terminal; or a function of (samples done, samples in
            all).
        observables: what else to sum along the path of every replica, such as `thermoment.Heat()`. Each is an object
            with a `name` and a function `increment(move)` of what one step adds to each replica; the engines reference
            and xla take them.

    Returns:
        Moments, with `raw` (S, len(orders), N), and in `observed` mean and standard error of each observable (S,).

    Cost: S * M * N * n_steps updates of a node, each about 2 N floating-point operations.
    """
    task = prepare(reservoir, inputs, protocol, sample_ids)
    task = replace(task, observables=_check_observables(observables, task))
    moments = compute(task, engine, progress)
    if moments.info.clip_count:
        warnings.warn(clip_sentence(moments.info.clip_count, task), ClipWarning, stacklevel=2)
    return moments


class ClipWarning(UserWarning):
    """Some updates went beyond the clip of the protocol: the moments are not those of the free dynamics."""


def compute(task: Task, engine: str | Engine = "auto", progress: Progress = False) -> Moments:
    """Moments of a task that `prepare` made, by the engine asked for."""
    found, choice = choose(engine, task)
    found.check(task)
    check_fits("inputs", (task.n_samples, len(task.protocol.orders), task.n_nodes))
    if callable(progress):
        check_function("progress", progress, 0, task.n_samples)
    elif not isinstance(progress, bool | np.bool_):
        raise invalid("progress", "be True, False or a function", quoted(progress))
    with reporter(progress, task.n_samples) as report:
        start = time.perf_counter()
        outcome = found.moments(task, report)
        seconds = time.perf_counter() - start
    protocol = task.protocol
    info = Info(found.name, choice, outcome.clip_count, protocol.n_steps, seconds, outcome.error)
    return Moments(outcome.raw, protocol.orders, protocol.n_replicas, task.sample_ids, info, outcome.observed)


def clip_sentence(count: int, task: Task) -> str:
    """How many updates were clipped, as a share of all, and what to do about it."""
    updates = task.n_samples * task.n_replicas * task.n_nodes * task.protocol.n_steps
    return (
        f"{count / updates:.2%} of all updates ({count} of {updates:.3g}) went beyond clip = {task.protocol.clip:g} "
        "and were cut back: the moments are not those of the free dynamics. Raise clip, or leave it out."
    )


def final_states(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    engine: str | Engine = "xla",
    sample_ids: ArrayLike | None = None,
) -> Array:
    """x(t_final) of every replica: the states whose moments `simulate` gives.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), one sample a row.
        protocol: step, time, replicas; `Protocol()` unless given.
        engine: one that shows single replicas: xla or reference.
        sample_ids: (S,), as for `simulate`.

    Returns:
        (S, M, N), all of it in memory.
    """
    task = prepare(reservoir, inputs, protocol, sample_ids)
    found = _tracing(engine, task)
    check_fits("inputs", (task.n_samples, task.n_replicas, task.n_nodes))
    return found.final_states(task)


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
    """The path x(t) of a few nodes in every replica, from x = 0 at t = 0. All nodes are simulated.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), one sample a row.
        protocol: step, time, replicas; `Protocol()` unless given.
        nodes: which nodes are recorded, from 0 to N - 1.
        every: steps from one record to the next; it must divide the number of steps.
        engine: one that shows single replicas: xla or reference.
        sample_ids: (S,), as for `simulate`.

    Returns:
        Times (T,), with T = 1 + n_steps / every, and x at these times (S, M, T, len(nodes)), all of it in memory.
    """
    task = prepare(reservoir, inputs, protocol, sample_ids)
    last = task.n_nodes - 1
    chosen = np.array(check_integers("nodes", nodes, 0, last), np.intp)
    if not len(chosen):
        raise invalid("nodes", "name at least one node", "empty")
    every = check_integer("every", every, 1, task.protocol.n_steps)
    if task.protocol.n_steps % every:
        raise invalid("every", f"divide the {task.protocol.n_steps} steps", every)
    found = _tracing(engine, task)
    check_fits("inputs", (task.n_samples, task.n_replicas, 1 + task.protocol.n_steps // every, len(chosen)))
    paths = found.sample_paths(task, chosen, every)
    times = np.arange(paths.shape[2], dtype=np.float64) * (every * task.protocol.dt)
    return times, paths


def _tracing(engine: str | Engine, task: Task) -> TracingEngine:
    found, _ = choose(engine, task)
    if not isinstance(found, TracingEngine):
        raise invalid("engine", "be one that keeps single replicas, such as xla", found.name)
    found.check(task)
    return found


def prepare(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    sample_ids: ArrayLike | None = None,
) -> Task:
    """Every argument checked, the drives computed."""
    protocol = Protocol() if protocol is None else protocol
    if not isinstance(reservoir, Reservoir):
        raise invalid("reservoir", "be a thermoment.Reservoir", quoted(reservoir))
    if not isinstance(protocol, Protocol):
        raise invalid("protocol", "be a thermoment.Protocol", quoted(protocol))
    drive, strongest = reservoir.driven(inputs)
    ids = _sample_ids(sample_ids, len(drive))
    norm = coupling_norm(reservoir.W)
    if not math.isfinite(norm):
        raise invalid("W", "have a finite norm", f"up to {np.abs(reservoir.W).max():.3g}")
    stable = reservoir.dynamics.largest_stable_step(strongest, norm)
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
    ids = _integers(sample_ids)
    if ids.dtype.kind not in "iu":
        raise invalid("sample_ids", "be integers from 0 to 2^64 - 1", f"of dtype {ids.dtype}")
    check_shape("sample_ids", ids, (n_samples,))
    if ids.dtype.kind == "i" and ids.min() < 0:
        raise invalid("sample_ids", "be integers from 0 to 2^64 - 1", f"{ids.min()} at the least")
    return ids.astype(np.uint64)


def _integers(sample_ids: ArrayLike) -> NDArray[Any]:
    """`sample_ids` as an array; Python's integers from 2^63 on make one of objects."""
    if isinstance(sample_ids, np.ma.MaskedArray):
        return check_numbers("sample_ids", sample_ids)
    try:
        return np.asarray(sample_ids)
    except ValueError:  # rows of different lengths
        must = "be integers from 0 to 2^64 - 1"
        raise invalid("sample_ids", must, f"a {type(sample_ids).__name__} that is no array") from None


def _check_observables(observables: Sequence[Observable], task: Task) -> tuple[Observable, ...]:
    """Each is asked once what a step of two replicas that do not move adds, before any work."""
    try:
        all_ = iter(observables)
    except TypeError:
        raise invalid("observables", "be a sequence", quoted(observables)) from None
    rest, checked = np.zeros((2, task.n_nodes)), []
    for one in all_:
        if isinstance(one, type) or not isinstance(one, Observable):
            raise invalid("observables", "be objects with a name and an increment", quoted(one))
        if not isinstance(one, Hashable):
            raise invalid("observables", "be hashable, as a frozen dataclass is", one.name)
        with np.errstate(all="ignore"):
            shape = np.shape(one.increment(Move(rest, rest, task.drive[0], task.W, task.dynamics, task.protocol.dt)))
        if shape != (2,):
            raise invalid("observables", "add one number to each replica", f"{one.name}, which adds shape {shape} to 2")
        checked.append(one)
    for name, count in Counter(one.name for one in checked).items():
        if count > 1:
            raise invalid("observables", "have different names", f"{name}, {count} times")
    return tuple(checked)
