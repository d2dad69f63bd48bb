"""The CPU engine: C++, vectorised and threaded, built with the package. kernels/cpu/README.md explains how it works."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.tally import Tally
from thermoment._engines.task import (
    Array,
    Outcome,
    PathWork,
    Report,
    Task,
    check_no_pairs,
    check_samples,
    check_well,
    outcome_of,
)
from thermoment._support.checks import check_integer, invalid, quoted
from thermoment._support.threads import cores
from thermoment.physics import Dynamics, coupling_norm

try:
    from thermoment._engines._native import kernels, rest_period
    from thermoment._engines._native import moments as run

    _missing = ""
except ModuleNotFoundError:
    _missing = "was not built: no working C++ compiler was found when thermoment was installed"
except ImportError as error:
    _missing = f"was built but cannot be loaded: {error}"

# bfloat16 is used where the estimated error of x is below this. The estimate is an upper one: the error of most moments
# is a tenth of it.
_TOLERANCE = 2e-5


@dataclass(frozen=True)
class Native:
    """C++ on all cores this process may use, any N and M, in float32, with W x in bfloat16 where that is enough.

    `isa` asks for a kernel by the instruction set it is made for (`avx512bf16`, `avx512`, `avx2`, `plain`); the
    fastest that this processor has is used unless given. `threads` is the number of threads; neither it nor the batch
    changes the bits of a result. Of all observables it takes `thermoment.PathWork`, with W x in float32.
    """

    isa: str | None = None
    threads: int | None = None
    name = "native"
    tasks_at_once = 1

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_integer("threads", self.threads, 1, 4096)
        if self.isa is not None and not _missing:
            built = {name: runs_here for name, _, runs_here, _ in kernels()}
            if not isinstance(self.isa, str) or self.isa not in built:
                raise invalid("isa", f"be one of {', '.join(built)}", quoted(self.isa))
            if not built[self.isa]:
                can = ", ".join(name for name, runs_here in built.items() if runs_here)
                raise invalid("isa", f"be one that this processor can run ({can})", repr(self.isa))

    def status(self) -> str:
        if _missing:
            raise RuntimeError(_missing)
        threads = self._threads()
        return f"{self._kernel()[1]}, {threads} thread{'s' if threads > 1 else ''}"

    def check(self, task: Task) -> None:
        check_samples(task)
        others = [one.name for one in task.observables if not isinstance(one, PathWork)]
        if others:
            must = f"be PathWork alone for the {self.name} engine (reference and xla take any)"
            raise invalid("observables", must, ", ".join(others))
        check_no_pairs(task, self.name)
        check_well(task, self.name)

    def moments(self, task: Task, report: Report) -> Outcome:
        good = np.zeros((task.n_samples, task.n_reads), bool)
        if self._kernel()[2] and not task.observables:
            good = _bfloat16_suffices(task)
        work = np.empty((task.n_reads, task.n_samples, task.n_replicas)) if task.observables else None
        raw, clip_counts, states = self._run(task, np.asarray(good.all(axis=1)), report, work)
        if work is not None:
            readings = []
            for *found, of_all in zip(raw, clip_counts, work, strict=True):
                tally = Tally(task)
                tally.add(slice(None), slice(None), of_all[None])
                readings.append(tally.outcome(*found))
            return outcome_of(readings, states)
        # A reading has the bits of a run that ends there: where bfloat16 suffices up to it, but not to the end, the
        # sample is run again up to it.
        ends = [k for k, segment in enumerate(task.segments, start=1) if segment.read]
        count = good.sum(axis=1)
        for r in sorted({int(n) for n in count} - {0, task.n_reads}):
            samples = np.flatnonzero(count == r)
            part = _samples_of(replace(task, segments=task.segments[: ends[r - 1]]), samples)
            raw[:r, samples], _, _ = self._run(part, np.ones(len(samples), bool), lambda _: None)
        return outcome_of([Outcome(*one) for one in zip(raw, clip_counts, strict=True)], states)

    def _run(
        self, task: Task, bfloat16: NDArray[np.bool_], report: Report, work: Array | None = None
    ) -> tuple[Array, list[int], Array | None]:
        """Moments (R, S, len(orders), N) and clipped updates at each reading, and the states if the task wants them.

        `work` (R, S, M), where given, is filled with the work of the coupling.
        """
        protocol, segments = task.protocol, task.segments
        mu_dt, linear, cubic, sigma = task.step.uniform()
        raw = np.empty((task.n_reads, task.n_samples, len(protocol.orders), task.n_nodes))
        states = np.empty((task.n_samples, task.n_replicas, task.n_nodes)) if task.keep_states else None
        clip_counts = run(
            isa=self._kernel()[0],
            W=[np.ascontiguousarray(one.W) for one in segments],
            drive=[np.ascontiguousarray(one.drive) for one in segments],
            n_steps=[one.n_steps for one in segments],
            read=[one.read for one in segments],
            first_step=task.first_step,
            start=None if task.start is None else np.ascontiguousarray(task.start),
            sample_ids=np.ascontiguousarray(task.sample_ids),
            bfloat16=bfloat16,
            orders=protocol.orders,
            n_replicas=task.n_replicas,
            seed=protocol.seed,
            stream=task.stream,
            mu_dt=mu_dt,
            linear=linear,
            cubic=cubic,
            sigma=sigma,
            clip=protocol.clip,
            n_threads=self._threads(),
            raw=raw,
            states=states,
            work=work,
            report=report,
        )
        return raw, clip_counts, states

    def _kernel(self) -> tuple[str, str, bool]:
        """Name and description of the kernel to run, and whether it has bfloat16 products."""
        return next(
            (name, description, has_bfloat16)
            for name, description, runs_here, has_bfloat16 in kernels()
            if runs_here and self.isa in (None, name)
        )

    def _threads(self) -> int:
        return self.threads or cores()


def _samples_of(task: Task, samples: NDArray[np.intp]) -> Task:
    """The task with some of its samples."""
    segments = tuple(one._replace(drive=one.drive[samples]) for one in task.segments)
    return replace(task, segments=segments, sample_ids=task.sample_ids[samples])


def _bfloat16_suffices(task: Task) -> NDArray[np.bool_]:
    """(S, R): whether, up to each reading, W x from bfloat16 factors is as good as from float32, to `_TOLERANCE`.

    Rounding to bfloat16 changes a factor by at most 2^-9 of itself. The rounding of W is made up for every
    `rest_period` steps: what is left is the error of these steps, times what an unstable network amplifies it by until
    the reading (`growth`). The rounding of x averages out where thermal motion is wider than the spacing of bfloat16
    numbers (`blurred`). Where updates may be clipped float32 is used, to count them as the reference does
    (`never_clipped`). How far nodes go is estimated from the sample's strongest drive so far, so the choice depends on
    the sample alone, as its bits must. A part of a longer run does not know the drives of the other parts: all parts
    are done in float32.
    """
    dynamics, protocol = task.dynamics, task.protocol
    norm = coupling_norm(task.W)
    unconfined = dynamics.J4 == 0 and norm >= 2 * dynamics.J2
    if unconfined or dynamics.kT == 0 or task.a_part:
        return np.zeros((task.n_samples, task.n_reads), bool)
    h, t = _so_far(task)
    blurred = dynamics.kT * dynamics.stationary_slope(h) >= (2.0**-8 * dynamics.stationary_point(h)) ** 2

    softened = Dynamics(dynamics.J2 - norm / 2, dynamics.J4, dynamics.mu, dynamics.kT)
    x, width = softened.stationary_point(h), np.sqrt(_largest_variance(softened))
    never_clipped = x + 6 * width < protocol.clip

    rounding = 2.0**-9 * np.linalg.norm(task.W, axis=1).max() * np.hypot(x, width)
    # At an exponent of 100 the answer is no in any case; beyond, exp would overflow.
    growth = np.exp(np.clip((norm - 2 * dynamics.J2) * dynamics.mu * t, 0, 100))
    off = rest_period * task.step.mu_dt.max() * rounding * growth
    return np.asarray(blurred & never_clipped & (off <= _TOLERANCE))


def _so_far(task: Task) -> tuple[Array, Array]:
    """At each reading the strongest drive of every sample so far (S, R), and the time since the first step (R,)."""
    strongest: dict[int, Array] = {}  # segments of one drive share its array
    so_far, steps = np.zeros(task.n_samples), 0
    h, t = [], []
    for segment in task.segments:
        if id(segment.drive) not in strongest:
            strongest[id(segment.drive)] = np.abs(segment.drive).max(axis=1)
        so_far, steps = np.maximum(so_far, strongest[id(segment.drive)]), steps + segment.n_steps
        if segment.read:
            h.append(so_far)
            t.append(steps * task.protocol.dt)
    return np.stack(h, axis=1), np.array(t)


def _largest_variance(dynamics: Dynamics) -> float:
    """The most that E[x^2] can be in equilibrium without drive, from E[x U'(x)] = kT and E[x^4] >= E[x^2]^2."""
    J2, J4, kT = dynamics.J2, dynamics.J4, dynamics.kT
    return (math.sqrt(J2**2 + 4 * J4 * kT) - J2) / (4 * J4) if J4 else kT / (2 * J2)
