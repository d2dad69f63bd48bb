"""What an engine is: it turns a `Task` into moments, and sums what a step of every replica adds to an `Observable`."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, runtime_checkable
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment.moments import Observed
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol

Array = NDArray[np.float64]
Report = Callable[[int], None]
"""Called with the number of samples finished so far."""


class Step(NamedTuple):
    """The coefficients of one Euler step, each of shape (N,), a number for every node:

    x <- x + linear x + square x^2 + cubic x^3 + mu_dt (h + W x) + sigma xi
    """

    mu_dt: Array
    """mu dt"""
    linear: Array
    """-2 mu dt J2"""
    cubic: Array
    """-4 mu dt J4"""
    sigma: Array
    """sqrt(2 mu dt kT)"""
    square: Array
    """-3 mu dt J3"""

    def uniform(self) -> tuple[float, float, float, float]:
        """mu_dt, linear, cubic and sigma as single numbers, for an engine whose nodes are all alike, without J3."""
        if any(np.ptp(values) for values in self):
            raise invalid("dynamics", "be the same for all nodes for this engine", "different between nodes")
        mu_dt, linear, cubic, sigma, _ = (float(values[0]) for values in self)
        return mu_dt, linear, cubic, sigma


class Move(NamedTuple):
    """One Euler step of some replicas, as an `Observable` is shown it. All arrays are float64, of NumPy or of JAX."""

    before: Any
    """x before the step: (..., N)"""
    after: Any
    """x after the step and its clip: (..., N)"""
    drive: Any
    """h: broadcasts with x"""
    W: Any
    """(N, N); W x is `x @ W.T`"""
    dynamics: Dynamics
    dt: float

    @property
    def middle(self) -> Any:
        """The midpoint of the step, at which a Stratonovich sum takes its force: (..., N)."""
        return (self.before + self.after) / 2

    @property
    def change(self) -> Any:
        """dx: (..., N)."""
        return self.after - self.before


@runtime_checkable
class Observable(Interface):
    """A quantity that grows along the path of every replica. An engine sums it over the steps, inside its loop.

    It must be hashable and equal to its like (a frozen dataclass is), since a program is compiled for it.
    """

    @property
    def name(self) -> str: ...

    def increment(self, move: Move) -> Any:
        """What a step adds to each replica: (...), from x of shape (..., N).

        A pure function, written with operators and methods that arrays of NumPy and of JAX both have.
        """


@dataclass(frozen=True)
class PathWork:
    """Work of the coupling's antisymmetric part A = (W - W^T) / 2 along the path: sum_n x_n+1 . A x_n.

    It is the Stratonovich sum of (A x_mid) dx: since y . A y = 0 for every y, (A x_mid) dx = x_n+1 . A x_n exactly. The
    symmetric part of W has a potential and needs no sum. In the units of kT; zero where W is symmetric. The native
    engine sums it in its kernel.
    """

    name = "path_work"

    def increment(self, move: Move) -> Any:
        return (move.after * (move.before @ ((move.W - move.W.T) / 2).T)).sum(axis=-1)


class Segment(NamedTuple):
    """A run of steps in which drive and coupling do not change."""

    n_steps: int
    drive: Array
    """(S, N)"""
    W: Array
    """(N, N)"""
    read: bool = True
    """whether moments are read at its end"""


@dataclass(frozen=True, eq=False)
class Task:
    """A simulation whose every argument has been checked: segments, one after the other.

    The state is carried from a segment to the next, and the steps are counted on: step n of the noise contract is the
    same step however the run is cut into segments. The last segment is read.
    """

    segments: tuple[Segment, ...]
    dynamics: Dynamics
    protocol: Protocol
    sample_ids: NDArray[np.uint64]
    """(S,)"""
    stream: int
    observables: tuple[Observable, ...] = ()
    start: Array | None = None
    """x before the first step, (S or 1, M or 1, N); None for zero"""
    first_step: int = 0
    """number n of the first step in the noise contract"""
    keep_states: bool = False
    """whether the states at the end are wanted"""
    keep_totals: bool = False
    """whether what the observables add up to is wanted for every replica"""
    a_part: bool = False
    """whether this may be a part of a longer run: then its bits must not depend on where that run is cut"""
    pairs: tuple[tuple[int, int], ...] = ()
    """pairs of nodes whose products are read"""

    @property
    def drive(self) -> Array:
        """Of the last segment: (S, N)."""
        return self.segments[-1].drive

    @property
    def W(self) -> Array:  # noqa: N802, its name in the equations
        """Of the last segment: (N, N)."""
        return self.segments[-1].W

    @property
    def n_steps(self) -> int:
        """Of all segments."""
        return sum(one.n_steps for one in self.segments)

    @property
    def n_reads(self) -> int:
        """R, how often moments are read."""
        return sum(one.read for one in self.segments)

    @property
    def is_plain(self) -> bool:
        """Whether there is one segment, from x = 0 at step 0, and only its moments are wanted."""
        return len(self.segments) == 1 and self.start is None and self.first_step == 0 and not self.keep_states

    def started(self, samples: int | slice, replicas: Any) -> Array:
        """x before the first step of some samples and replicas: (samples, replicas, N)."""
        start = np.zeros((1, 1, self.n_nodes)) if self.start is None else self.start
        return np.array(np.broadcast_to(start, (self.n_samples, self.n_replicas, self.n_nodes))[samples, replicas])

    @property
    def n_samples(self) -> int:
        return int(self.drive.shape[0])

    @property
    def n_nodes(self) -> int:
        return int(self.drive.shape[1])

    @property
    def n_replicas(self) -> int:
        return int(self.protocol.n_replicas)

    @cached_property
    def step(self) -> Step:
        """What every engine multiplies by in a step; formed here and nowhere else."""
        dynamics = self.dynamics
        mu_dt = np.full(self.n_nodes, dynamics.mu * self.protocol.dt)
        linear, square, cubic = -2 * mu_dt * dynamics.J2, -3 * mu_dt * dynamics.J3, -4 * mu_dt * dynamics.J4
        return Step(mu_dt, linear, cubic, np.sqrt(2 * mu_dt * dynamics.kT), square)


class Outcome(NamedTuple):
    """What an engine computed: at the end of the last segment, and of the earlier ones that are read."""

    raw: Array
    """(S, len(orders), N)"""
    clip_count: int
    """from the first step on"""
    error: dict[int, float] | None = None
    """per order the estimated error of an engine that approximates, rms over nodes and samples"""
    observed: Mapping[str, Observed] = {}
    """for each observable of the task, by name, summed from the first step on"""
    earlier: tuple["Outcome", ...] = ()
    """the same at the end of each earlier segment that is read"""
    totals: Array | None = None
    """what each of K observables added up to in every replica, (K, S, M), where the task wants it"""
    states: Array | None = None
    """x at the end of the last segment, (S, M, N), where the task wants it"""
    products: Array | None = None
    """for each pair of the task, as `Products.raw` has them: (S, 4, P)"""


def outcome_of(readings: Sequence[Outcome], states: Array | None = None) -> Outcome:
    """All readings of a run as one outcome, that of the last."""
    return readings[-1]._replace(earlier=tuple(readings[:-1]), states=states)


@runtime_checkable
class Engine(Interface):
    """Computes moments. A sample's bits depend on its own drive and id, and on nothing else in the task."""

    @property
    def name(self) -> str: ...

    @property
    def tasks_at_once(self) -> int:
        """Tasks it is best given at a time, from threads: more than one where a device would wait for the host."""

    def status(self) -> str:
        """What it runs on here. Raises `RuntimeError` with the reason where it cannot run."""

    def check(self, task: Task) -> None:
        """Raises `ValueError` for a task this engine cannot do, before any work."""

    def moments(self, task: Task, report: Report) -> Outcome:
        """Raw moments of a task that passed `check`."""


@runtime_checkable
class TracingEngine(Engine, Interface):
    """An engine that can also show single replicas."""

    def final_states(self, task: Task) -> Array:
        """x at the end of the last segment of every replica: (S, M, N)."""

    def sample_paths(self, task: Task, nodes: NDArray[np.intp], every: int) -> Array:
        """x of `nodes` at the start and after every `every` steps: (S, M, 1 + n_steps // every, len(nodes))."""


def check_samples(task: Task) -> None:
    """Raises where a sampling engine is asked for the limit of infinitely many replicas."""
    if task.protocol.n_replicas == math.inf:
        raise invalid("n_replicas", "be finite for an engine that samples", task.protocol.n_replicas)


def check_no_observables(task: Task, engine: str) -> None:
    """Raises where an engine that shows no single steps is asked for observables."""
    if task.observables:
        names = ", ".join(one.name for one in task.observables)
        raise invalid("observables", f"be empty for the {engine} engine (reference and xla take them)", names)


def check_no_pairs(task: Task, engine: str) -> None:
    """Raises where an engine that reads each node by itself is asked for products of two."""
    if task.pairs:
        raise invalid("pairs", f"be empty for the {engine} engine (reference and xla take them)", task.pairs)


def check_alike(task: Task, engine: str) -> None:
    """Raises where an engine whose nodes are all alike is given arrays in the dynamics."""
    if task.dynamics.n_nodes is not None:
        must = f"be the same for all nodes for the {engine} engine (reference and xla take arrays)"
        raise invalid("dynamics", must, task.dynamics)


def check_well(task: Task, engine: str) -> None:
    """Raises where an engine that only knows one well, even in x, is given a J3 or wells that differ."""
    check_alike(task, engine)
    if np.any(task.dynamics.J3):
        raise invalid("J3", f"be zero for the {engine} engine (reference, xla and meanfield take it)", task.dynamics.J3)
