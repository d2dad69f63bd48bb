"""What an engine is, which there are, and which one runs.

An engine turns a `Task` into moments. To add one: write a class with the members of `Engine`, name it in `_MODULES`,
and add it to the list in tests/conformance.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple, runtime_checkable
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from thermoment.physics import Dynamics
from thermoment.reservoir import Protocol
from thermoment.validation import invalid

Array = NDArray[np.float64]
Report = Callable[[int], None]
"""Called with the number of samples finished so far."""


@dataclass(frozen=True, eq=False)
class Task:
    """A simulation whose every argument has been checked."""

    drive: Array
    """(S, N)"""
    W: Array
    """(N, N)"""
    dynamics: Dynamics
    protocol: Protocol
    sample_ids: NDArray[np.uint64]
    """(S,)"""
    stream: int

    @property
    def n_samples(self) -> int:
        return int(self.drive.shape[0])

    @property
    def n_nodes(self) -> int:
        return int(self.drive.shape[1])

    @property
    def n_replicas(self) -> int:
        return int(self.protocol.n_replicas)


class Outcome(NamedTuple):
    """What an engine computed."""

    raw: Array
    """(S, len(orders), N)"""
    clip_count: int
    error: dict[int, float] | None = None
    """per order the estimated error of an engine that approximates, rms over nodes and samples"""


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
        """x at t_final of every replica: (S, M, N)."""

    def sample_paths(self, task: Task, nodes: NDArray[np.intp], every: int) -> Array:
        """x of `nodes` at t = 0 and after every `every` steps: (S, M, 1 + n_steps // every, len(nodes))."""


def check_samples(task: Task) -> None:
    """Raises where a sampling engine is asked for the limit of infinitely many replicas."""
    if task.protocol.n_replicas == math.inf:
        raise invalid("n_replicas", "be finite for an engine that samples", task.protocol.n_replicas)


_MODULES = {
    "reference": "thermoment.engines.reference:Reference",
    "xla": "thermoment.engines.xla:Xla",
    "native": "thermoment.engines.native:Native",
    "cuda": "thermoment.engines.cuda:Cuda",
    "meanfield": "thermoment.engines.meanfield:MeanField",
}
_AUTO = ("cuda", "native", "xla")
"""What "auto" tries, fastest first."""


class Status(NamedTuple):
    """Whether an engine can run here; `note` says on what, or why not."""

    can_run: bool
    note: str


def engines() -> dict[str, Status]:
    """Every engine by name: whether it can run here, and on what or why not."""
    return {name: _status(name)[1] for name in _MODULES}


def choose(engine: "str | Engine", task: Task | None = None) -> tuple[Engine, str]:
    """The engine asked for, or for "auto" the first that can run here and do this task; and why it is this one."""
    if not isinstance(engine, str):
        if not isinstance(engine, Engine):
            raise invalid("engine", "be a name or an engine", repr(engine))
        engine.status()
        return engine, "asked for"
    if engine == "auto":
        passed: list[str] = []
        for name in _AUTO:
            found, status = _status(name)
            if found is None:
                passed.append(f"{name} cannot: {status.note}")
                continue
            try:
                if task is not None:
                    found.check(task)
            except ValueError as refusal:
                if name == _AUTO[-1]:
                    raise
                passed.append(f"{name} cannot: {refusal}")
                continue
            reasons = "".join(f"; {line}" for line in passed)
            return found, f"auto: the fastest that can run here, on {status.note}{reasons}"
        raise RuntimeError(f'No engine for "auto" can run here: {"; ".join(passed)}.')
    if engine not in _MODULES:
        listing = "\n".join(
            f"  {name}: {'' if status.can_run else 'cannot run here, '}{status.note}"
            for name, status in engines().items()
        )
        raise ValueError(f"Argument `engine` must be one of the following, but was {engine!r}.\n{listing}")
    found, status = _status(engine)
    if found is None:
        raise RuntimeError(f"Engine `{engine}` cannot run here: {status.note}.")
    return found, "asked for"


def _status(name: str) -> tuple[Engine | None, Status]:
    module, _, cls = _MODULES[name].partition(":")
    try:
        engine: Engine = getattr(import_module(module), cls)()
        return engine, Status(True, engine.status())
    except (ImportError, RuntimeError) as error:
        return None, Status(False, str(error))
