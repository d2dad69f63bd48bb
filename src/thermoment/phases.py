"""The course of a run: moments at several times in one pass, of a constant input, a signal, or phases in a row."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine, Observable, Segment
from thermoment._support.checks import check_array, check_numbers, check_positive, check_shape, invalid, quoted
from thermoment._support.memory import check_fits
from thermoment._support.progress import Progress
from thermoment.moments import Moments, check_pairs
from thermoment.noise import MAX_STEPS
from thermoment.protocol import Protocol, whole_steps
from thermoment.reservoir import Reservoir
from thermoment.simulation import (
    Start,
    State,
    check_observables,
    check_stable,
    check_system,
    readings,
    stable_drive,
    task_of,
    warn_of_clips,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Phase:
    """A time during which one input is held, under one coupling.

    Args:
        duration: how long; the protocol's dt must divide it.
        inputs: (S, D), one sample a row; None for no drive at all, neither K I nor b.
        W: coupling during this phase, (N, N), zero on the diagonal; the reservoir's unless given.
    """

    duration: float
    inputs: ArrayLike | None = None
    W: ArrayLike | None = None

    def __repr__(self) -> str:
        inputs, W = ("None" if one is None else f"of shape {np.shape(one)}" for one in (self.inputs, self.W))
        return f"Phase(duration={self.duration}, inputs={inputs}, W={W})"


@dataclass(frozen=True, eq=False)
class Course:
    """Moments at several times of one run.

    Args:
        times: when moments were read, increasing; the input comes at t = 0.
        moments: at each of these times.
        end: where the run ended, if it was asked for: `x0` of the run that goes on from there.
    """

    times: tuple[float, ...]
    moments: tuple[Moments, ...]
    end: State | None = None

    def __repr__(self) -> str:
        first, last = self.times[0], self.times[-1]
        return f"Course({len(self.times)} times from {first:g} to {last:g}, {self.moments[-1]})"

    def at(self, t: float) -> Moments:
        """The moments at one of `times`."""
        t = check_positive("t", t)
        for time, moments in zip(self.times, self.moments, strict=True):
            if math.isclose(time, t, rel_tol=1e-9):
                return moments
        known = ", ".join(f"{time:g}" for time in self.times)
        raise invalid("t", f"be one of the times {known} at which moments were read", t)

    @property
    def raw(self) -> Array:
        """The raw moments at all times: (len(times), S, len(orders), N)."""
        return np.stack([one.raw for one in self.moments])


def course(
    reservoir: Reservoir,
    inputs: ArrayLike | Sequence[Phase],
    protocol: Protocol | None = None,
    *,
    times: Sequence[float] | None = None,
    hold: float | None = None,
    x0: Start = None,
    keep_end: bool = False,
    engine: str | Engine = "auto",
    sample_ids: ArrayLike | None = None,
    progress: Progress = False,
    observables: Sequence[Observable] = (),
    pairs: Iterable[Sequence[int]] = (),
) -> Course:
    """Moments of every node at several times of one run, without a reset in between.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), held until the last of `times`; or (S, T, D), signals of T rows, each held for the time `hold`;
            or a list of `Phase`, one after the other.
        protocol: step, start, replicas, orders; `Protocol()` unless given. Its t_final is the default of `times` and of
            `hold`.
        times: when to read, increasing, multiples of dt, counted from when the input comes. Unless given: t_final; for
            signals and phases the end of each row or phase.
        hold: how long each row of a signal is held; t_final unless given.
        x0: x(0), of shape (N,), (S, N) or (S, M, N), instead of the protocol's start; or the `end` of another course,
            from where this one goes on with the noise of the steps that come next.
        keep_end: whether `end` is wanted: (S, M, N) numbers.
        engine: as for `simulate`.
        sample_ids: as for `simulate`.
        progress: as for `simulate`.
        observables: as for `simulate`; each adds up from the start on.
        pairs: as for `simulate`.

    Returns:
        Course, with `at(t)` and `raw` (len(times), S, len(orders), N).

    Moments at a time have the bits of a run that ends there. A signal cut in two, with the `end` of the first course as
    `x0` of the second, has the bits of the whole. Cost: that of one run to the last time.
    """
    protocol = check_system(reservoir, protocol)
    if not isinstance(keep_end, bool | np.bool_):
        raise invalid("keep_end", "be True or False", quoted(keep_end))
    reads = None if times is None else _times(times, protocol.dt)
    spans, is_constant = _spans(
        reservoir, inputs, protocol, hold, max(reads) if reads else protocol.n_steps, sample_ids
    )
    ends = list(accumulate(one.n_steps for one in spans))
    if reads is None:
        reads = {n: float(f"{n * protocol.dt:.12g}") for n in ends}
    if max(reads) > ends[-1]:
        lasts = f"{ends[-1] * protocol.dt:.6g}"
        raise invalid("times", f"end with the inputs, which last for {lasts}", reads[max(reads)])
    segments = tuple(_cut(spans, sorted(reads), ends[-1] if keep_end else max(reads)))
    parts = {"keep_states": bool(keep_end), "a_part": bool(keep_end) or not is_constant}
    task = task_of(segments, reservoir, protocol, sample_ids, x0, **parts)
    task = replace(
        task, observables=check_observables(observables, task), pairs=check_pairs("pairs", pairs, task.n_nodes)
    )
    moments, end = readings(task, engine, progress)
    warn_of_clips(moments[-1], task)
    return Course(tuple(reads.values()), tuple(moments[: len(reads)]), end)


def _times(times: Sequence[float], dt: float) -> dict[int, float]:
    """The times by their numbers of steps."""
    try:
        given = [check_positive("times", t) for t in times]
    except TypeError:
        raise invalid("times", "be a sequence of times", quoted(times)) from None
    if not given:
        raise invalid("times", "name at least one time", "empty")
    for earlier, later in pairwise(given):
        if earlier >= later:
            raise invalid("times", "increase", f"{later} after {earlier}")
    return {_steps("times", t, dt): t for t in given}


def _steps(argument: str, time: float, dt: float) -> int:
    steps = whole_steps(time, dt) if time / dt <= MAX_STEPS else None
    if steps is None:
        raise invalid(argument, f"be a multiple of dt = {dt:g}, at most 2^32 of them", time)
    return steps


def _spans(
    reservoir: Reservoir,
    inputs: ArrayLike | Sequence[Phase],
    protocol: Protocol,
    hold: float | None,
    n_steps: int,
    sample_ids: ArrayLike | None,
) -> tuple[list[Segment], bool]:
    """The inputs as segments, and whether they are one constant input, which is held for n_steps."""
    phases: Any = [inputs] if isinstance(inputs, Phase) else inputs
    if isinstance(phases, Sequence) and any(isinstance(one, Phase) for one in phases):
        if hold is not None:
            raise invalid("hold", "be left out where inputs are phases, each with its duration", hold)
        return _phases(reservoir, phases, protocol, sample_ids), False
    given = check_numbers("inputs", inputs)  # type: ignore[arg-type]
    if given.ndim != 3:
        if hold is not None:
            raise invalid("hold", "be left out unless inputs are signals of shape (S, T, D)", hold)
        return [Segment(n_steps, stable_drive(reservoir, given, protocol), reservoir.W)], True
    S, T, _ = check_shape("inputs", given, ("S", "T", reservoir.n_inputs)).shape
    each = protocol.n_steps if hold is None else _steps("hold", check_positive("hold", hold), protocol.dt)
    check_fits("inputs", (S * T, max(reservoir.n_inputs, reservoir.n_nodes)))
    rows = stable_drive(reservoir, np.swapaxes(given, 0, 1).reshape(T * S, -1), protocol)
    return [Segment(each, row, reservoir.W) for row in rows.reshape(T, S, -1)], False


def _phases(
    reservoir: Reservoir, phases: Sequence[Phase], protocol: Protocol, sample_ids: ArrayLike | None
) -> list[Segment]:
    for one in phases:
        if not isinstance(one, Phase):
            raise invalid("inputs", "be phases throughout", quoted(one))
    with_inputs = [np.shape(check_numbers("inputs", one.inputs)) for one in phases if one.inputs is not None]
    S = with_inputs[0][0] if with_inputs and with_inputs[0] else np.size(1 if sample_ids is None else sample_ids)
    couplings: dict[int, Reservoir] = {id(None): reservoir}
    spans = []
    for one in phases:
        n_steps = _steps("duration", check_positive("duration", one.duration), protocol.dt)
        if one.W is not None and id(one.W) not in couplings:
            couplings[id(one.W)] = replace(reservoir, W=check_array("W", one.W, reservoir.W.shape))
        network = couplings[id(one.W)]
        if one.inputs is None:
            check_fits("inputs", (S, reservoir.n_nodes))
            check_stable(network, 0.0, protocol)
            drive = np.zeros((S, reservoir.n_nodes))
        else:
            drive = stable_drive(network, check_shape("inputs", one.inputs, (S, reservoir.n_inputs)), protocol)
        spans.append(Segment(n_steps, drive, network.W))
    return spans


def _cut(spans: Sequence[Segment], reads: Sequence[int], last: int) -> Iterator[Segment]:
    """The spans until step `last`, cut wherever moments are read: after each number of steps in `reads`, and there."""
    waiting, n = deque(reads), 0
    for span in spans:
        end = min(n + span.n_steps, last)
        while n < end:
            stop = min(end, waiting[0]) if waiting else end
            read = bool(waiting) and stop == waiting[0]
            if read:
                waiting.popleft()
            yield span._replace(n_steps=stop - n, read=read or stop == last)
            n = stop
