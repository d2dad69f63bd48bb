"""Simulation of a reservoir: `simulate` gives moments, `final_states` and `sample_paths` give single replicas."""

import math
import time
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine, Move, Observable, Segment, Task, TracingEngine
from thermoment._support.checks import (
    check_array,
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
from thermoment.moments import Info, Moments, Products, check_pairs
from thermoment.noise import MAX_STEPS
from thermoment.protocol import Protocol, check_rest
from thermoment.reservoir import Reservoir

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class State:
    """Where every replica is, and how many steps it took to get there: all that a run needs to go on.

    A run that is given a state as `x0` goes on with the noise of the steps that come next.
    """

    x: Array
    """(S, M, N)"""
    n_steps: int

    def __repr__(self) -> str:
        S, M, N = self.x.shape
        return f"State(S={S}, M={M}, N={N}, n_steps={self.n_steps})"


Start = ArrayLike | State | None
"""x(0): (N,) for all alike, (S, N), or (S, M, N); or where another run ended. None: as the protocol says."""


def simulate(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    engine: str | Engine = "auto",
    sample_ids: ArrayLike | None = None,
    progress: Progress = False,
    observables: Sequence[Observable] = (),
    x0: Start = None,
    pairs: Iterable[Sequence[int]] = (),
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
        x0: x(0), of shape (N,), (S, N) or (S, M, N), instead of the protocol's start; or a `State`, where another run
            ended.
        pairs: P pairs (i, j) of different nodes of which E[x_i x_j] is read too. The engines reference and xla sample
            it; meanfield gives it to first order in W, for infinitely many replicas.

    Returns:
        Moments, with `raw` (S, len(orders), N), in `observed` mean and standard error of each observable (S,), and of
        each pair `joint` and `covariance` (S, P).

    Cost: S * M * N * n_steps updates of a node, each about 2 N floating-point operations; those of a rest count too.
    """
    task = prepare(reservoir, inputs, protocol, sample_ids, x0)
    task = replace(
        task, observables=check_observables(observables, task), pairs=check_pairs("pairs", pairs, task.n_nodes)
    )
    moments = compute(task, engine, progress)
    warn_of_clips(moments, task)
    return moments


class ClipWarning(UserWarning):
    """Some updates went beyond the clip of the protocol: the moments are not those of the free dynamics."""


def warn_of_clips(moments: Moments, task: Task) -> None:
    """Tells who called the function that calls this one where updates were clipped."""
    if moments.info.clip_count:
        warnings.warn(clip_sentence(moments.info.clip_count, task), ClipWarning, stacklevel=3)


def compute(task: Task, engine: str | Engine = "auto", progress: Progress = False) -> Moments:
    """Moments at the end of a task that `prepare` made, by the engine asked for."""
    return readings(task, engine, progress)[0][-1]


def readings(
    task: Task, engine: str | Engine = "auto", progress: Progress = False
) -> tuple[list[Moments], State | None]:
    """Moments whenever the task reads them, and the state at the end where the task keeps it."""
    found, choice = choose(engine, task)
    found.check(task)
    check_fits("inputs", (task.n_reads, task.n_samples, len(task.protocol.orders), task.n_nodes))
    if task.pairs:
        check_fits("pairs", (task.n_reads, task.n_samples, 4, len(task.pairs)))
    if task.keep_states:
        check_fits("states", (task.n_samples, task.n_replicas, task.n_nodes))
    check_progress(progress, task.n_samples)
    with reporter(progress, task.n_samples) as report:
        start = time.perf_counter()
        outcome = found.moments(task, report)
        seconds = time.perf_counter() - start
    protocol, moments, n_steps = task.protocol, [], 0
    outcomes = iter((*outcome.earlier, outcome))
    for segment in task.segments:
        n_steps += segment.n_steps
        if segment.read:
            one = next(outcomes)
            info = Info(found.name, choice, one.clip_count, n_steps, seconds, one.error)
            products = Products(task.pairs, one.products) if task.pairs and one.products is not None else None
            what = one.raw, protocol.orders, protocol.n_replicas, task.sample_ids, info, one.observed, products
            moments.append(Moments(*what))
    state = None if outcome.states is None else State(outcome.states, task.first_step + n_steps)
    return moments, state


def check_progress(progress: Progress, n_samples: int) -> None:
    """Refuses what can neither be called with numbers of samples nor is True or False."""
    if callable(progress):
        check_function("progress", progress, 0, n_samples)
    elif not isinstance(progress, bool | np.bool_):
        raise invalid("progress", "be True, False or a function", quoted(progress))


def clip_sentence(count: int, task: Task) -> str:
    """How many updates were clipped, as a share of all, and what to do about it."""
    updates = task.n_samples * task.n_replicas * task.n_nodes * task.n_steps
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
    x0: Start = None,
) -> Array:
    """x(t_final) of every replica: the states whose moments `simulate` gives.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), one sample a row.
        protocol: step, time, replicas; `Protocol()` unless given.
        engine: one that shows single replicas: xla or reference.
        sample_ids: (S,), as for `simulate`.
        x0: x(0), as for `simulate`.

    Returns:
        (S, M, N), all of it in memory.
    """
    task = prepare(reservoir, inputs, protocol, sample_ids, x0)
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
    x0: Start = None,
) -> tuple[Array, Array]:
    """The path x(t) of a few nodes in every replica, from its start on. All nodes are simulated.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), one sample a row.
        protocol: step, time, replicas; `Protocol()` unless given.
        nodes: which nodes are recorded, from 0 to N - 1.
        every: steps from one record to the next; it must divide the number of steps.
        engine: one that shows single replicas: xla or reference.
        sample_ids: (S,), as for `simulate`.
        x0: x(0), as for `simulate`.

    Returns:
        Times (T,), with T = 1 + n_steps / every, and x at these times (S, M, T, len(nodes)), all of it in memory. The
        input comes at t = 0; a rest lies before, and its steps count among the n_steps.
    """
    task = prepare(reservoir, inputs, protocol, sample_ids, x0)
    last = task.n_nodes - 1
    chosen = np.array(check_integers("nodes", nodes, 0, last), np.intp)
    if not len(chosen):
        raise invalid("nodes", "name at least one node", "empty")
    every = check_integer("every", every, 1, task.n_steps)
    if task.n_steps % every:
        raise invalid("every", f"divide the {task.n_steps} steps", every)
    found = _tracing(engine, task)
    check_fits("inputs", (task.n_samples, task.n_replicas, 1 + task.n_steps // every, len(chosen)))
    paths = found.sample_paths(task, chosen, every)
    times = np.arange(paths.shape[2], dtype=np.float64) * (every * task.protocol.dt)
    rest = task.n_steps - task.segments[-1].n_steps
    return times - rest * task.protocol.dt, paths


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
    x0: Start = None,
) -> Task:
    """Every argument checked, the drives computed: one segment, after one of rest if the protocol asks for it."""
    protocol = check_system(reservoir, protocol)
    drive = stable_drive(reservoir, inputs, protocol)
    return task_of((Segment(protocol.n_steps, drive, reservoir.W),), reservoir, protocol, sample_ids, x0)


def check_system(reservoir: Reservoir, protocol: Protocol | None) -> Protocol:
    """The protocol, `Protocol()` unless given. Raises where it is none, or the reservoir is none."""
    protocol = Protocol() if protocol is None else protocol
    if not isinstance(reservoir, Reservoir):
        raise invalid("reservoir", "be a thermoment.Reservoir", quoted(reservoir))
    if not isinstance(protocol, Protocol):
        raise invalid("protocol", "be a thermoment.Protocol", quoted(protocol))
    return protocol


def stable_drive(reservoir: Reservoir, inputs: ArrayLike, protocol: Protocol) -> Array:
    """The drive of every node for inputs (S, D), under which the protocol's step is stable: (S, N)."""
    drive, strongest = reservoir.driven(inputs)
    check_stable(reservoir, strongest, protocol)
    return drive


def check_stable(reservoir: Reservoir, strongest: float, protocol: Protocol) -> None:
    """Refuses a step that is too long for drives up to `strongest`."""
    norm = reservoir.coupling_norm
    if not math.isfinite(norm):
        raise invalid("W", "have a finite norm", f"up to {np.abs(reservoir.W).max():.3g}")
    stable = reservoir.dynamics.largest_stable_step(strongest, norm)
    if protocol.dt > stable:
        raise invalid(
            "dt",
            f"be at most {stable:.3g}, the largest stable step for drives up to {strongest:.3g}",
            protocol.dt,
        )


def task_of(
    segments: tuple[Segment, ...],
    reservoir: Reservoir,
    protocol: Protocol,
    sample_ids: ArrayLike | None,
    x0: Start,
    **options: Any,
) -> Task:
    """The segments as a task, from x0 or after the protocol's start. `options` are those of `Task`."""
    S = len(segments[0].drive)
    ids = _sample_ids(sample_ids, S)
    start, first_step = _start(x0, S, reservoir.n_nodes, protocol)
    if start is not None:
        options["a_part"] = True
    elif protocol.rest_steps:
        check_rest(protocol, reservoir.dynamics)
        rest = Segment(protocol.rest_steps, np.zeros_like(segments[0].drive), reservoir.W, read=False)
        segments = (rest, *segments)
    task = Task(segments, reservoir.dynamics, protocol, ids, reservoir.stream, (), start, first_step, **options)
    if first_step + task.n_steps > MAX_STEPS:
        raise invalid("x0", "leave room for this run in the 2^32 steps of the noise", f"after {first_step} steps")
    return task


def _start(x0: Start, S: int, N: int, protocol: Protocol) -> tuple[Array | None, int]:
    """x before the first step, (S or 1, M or 1, N), and how many steps were taken before it."""
    if x0 is None:
        return None, 0
    first_step = 0
    if isinstance(x0, State):
        first_step, x0 = check_integer("x0", x0.n_steps, 0, MAX_STEPS), x0.x
    given = check_numbers("x0", x0)
    any_M = given.ndim == 3 and protocol.n_replicas == math.inf
    M = given.shape[1] if any_M else protocol.n_replicas
    if all(given.shape != shape for shape in ((N,), (S, N), (S, M, N))):
        must = f"have shape ({N},), ({S}, {N}) or ({S}, {M}, {N})"
        raise ValueError(f"Argument `x0` must {must}, but has shape {given.shape}.")
    x = check_array("x0", given, given.shape)
    # What an engine cut in float32 may be above the clip by its rounding.
    if (largest := float(np.abs(x).max())) > protocol.clip * (1 + np.finfo(np.float32).eps):
        raise invalid("x0", f"be within the clip of {protocol.clip:g}", f"up to {largest:g}")
    return x.reshape({1: (1, 1, N), 2: (S, 1, N), 3: x.shape}[x.ndim]), first_step


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


def check_observables(observables: Sequence[Observable], task: Task) -> tuple[Observable, ...]:
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
