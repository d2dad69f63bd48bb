"""The energy account by sampling: from where every replica starts and ends, and the work along its path."""

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine, Outcome, PathWork, Report, Segment, Task
from thermoment._support.memory import check_fits
from thermoment._support.progress import Progress, reporter
from thermoment.physics import integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import ClipWarning, Start, check_progress, clip_sentence, prepare
from thermoment.thermodynamics.account import Account, Array, Found, account_of, energy_of, symmetric_part

# Numbers x that are held at once for the start of the replicas, and as many for their end: 128 MiB each.
_AT_ONCE = 2**24


def sampled(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol,
    engine: str | Engine,
    sample_ids: ArrayLike | None,
    x0: Start,
    per_replica: bool,
    progress: Progress,
) -> Found:
    """The account of inputs (S, D), by an engine that samples. Cost: that of `simulate`, and one step more."""
    task = prepare(reservoir, inputs, protocol, sample_ids, x0)
    directed = not integrability(task.W).integrable
    driven = replace(
        task,
        segments=task.segments[-1:],
        observables=(PathWork(),) if directed else (),
        keep_totals=True,
        keep_states=True,
        a_part=True,
    )
    found, _ = choose(engine, driven)
    found.check(driven)
    check_progress(progress, task.n_samples)
    S, M, N = task.n_samples, task.n_replicas, task.n_nodes
    at_once = max(1, _AT_ONCE // (M * N))
    check_fits("n_replicas", (2, min(S, at_once), M, N), (len(Account._fields), S, M if per_replica else 1))
    terms = []
    with reporter(progress, S) as report:
        clip_count = 0
        for samples in _chunks(S, at_once):
            start, end = _run(found, _part(task, samples), _part(driven, samples), _shifted(report, samples))
            clip_count += end.clip_count
            one = _account(start, end, _part(driven, samples))
            terms.append(one if per_replica else _mean_and_error(one))
    if clip_count:
        warnings.warn(clip_sentence(clip_count, driven), ClipWarning, stacklevel=4)
    if not per_replica:
        mean, error = (Account(*map(np.concatenate, zip(*part, strict=True))) for part in zip(*terms, strict=True))
        return Found(mean, error, None, found.name)
    replicas = Account(*map(np.concatenate, zip(*terms, strict=True)))
    return Found(*_mean_and_error(replicas), replicas, found.name)


def _run(engine: Engine, task: Task, driven: Task, report: Report) -> tuple[Array, Outcome]:
    """Where every replica is when the drive comes, (S, M, N), and what is found when it is read."""
    if len(task.segments) == 1:
        start = task.started(slice(None), slice(None))
        return start, engine.moments(driven, report)
    rest = Segment(*task.segments[0][:-1], read=True)
    rested = engine.moments(replace(task, segments=(rest,), keep_states=True, a_part=True), lambda _: None)
    assert rested.states is not None
    return rested.states, engine.moments(replace(driven, start=rested.states, first_step=rest.n_steps), report)


def _account(start: Array, end: Outcome, task: Task) -> Account:
    """Of every replica: (S, M)."""
    assert end.states is not None
    h, S = task.drive[:, None], symmetric_part(task.W)
    path = end.totals[0] if task.observables and end.totals is not None else np.zeros(start.shape[:2])
    energy = energy_of(end.states, h, S, task.dynamics) - energy_of(start, h, S, task.dynamics)
    return account_of(-(start * h).sum(axis=-1), (end.states * h).sum(axis=-1), path, energy, task.dynamics.kT)


def _mean_and_error(replicas: Account) -> tuple[Account, Account]:
    """Means over the replicas and their standard errors, (S,) each; one replica has no standard error: NaN."""
    M = replicas.cycle.shape[1]
    means = Account(*(term.mean(axis=1) for term in replicas))
    if M == 1:
        return means, Account(*(np.full(len(term), np.nan) for term in replicas))
    return means, Account(*(term.std(axis=1, ddof=1) / np.sqrt(M) for term in replicas))


def _chunks(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _part(task: Task, samples: slice) -> Task:
    """The task with some of its samples."""
    segments = tuple(one._replace(drive=one.drive[samples]) for one in task.segments)
    start = task.start if task.start is None or len(task.start) == 1 else task.start[samples]
    return replace(task, segments=segments, sample_ids=task.sample_ids[samples], start=start)


def _shifted(report: Report, samples: slice) -> Report:
    """Counts on from the samples before these."""
    return lambda done: report(samples.start + done)
