"""What every stage of a run has at hand: where the store keeps things, whom to tell, and a clock."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from thermoment._support.identity import identity, plain
from thermoment._support.progress import Listener, Note
from thermoment.data.dataset import Dataset
from thermoment.runs.store import Stage, Store

Files = dict[str, Path]
"""Names in the run's folder, and where the store has them."""

# Raised when a stage computes something else from the same facts.
_VERSIONS = {
    "projection": 2,
    "static": 2,
    "finite-time": 2,
    "features": 3,
    "fit": 4,
    "readouts": 8,
    "report": 7,
    "equilibrium": 1,
}


@dataclass(frozen=True, eq=False)
class Context:
    """Where a run keeps its stages and whom it tells. Two are equal where they are the same object."""

    store: Store
    listener: Listener = lambda *_: None
    note: Note = lambda _: None
    seconds: dict[str, float] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    """of the machines that compute, by the name of the experiment; what is not in it is chosen on this one"""
    accelerated: bool | None = None
    """whether JAX has an accelerator on the machines that compute; None to ask it on this one"""

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Adds the time inside to that of `what`."""
        start = time.perf_counter()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def stage(self, kind: str, **facts: Any) -> Stage:
        """Where the store has what a `kind` of stage makes of `facts`."""
        return Stage.of(self.store, kind, _VERSIONS[kind], facts)


def digest(dataset: Dataset, *names: str) -> str:
    """SHA-256 of some of a data set's arrays."""
    return identity(*(_digest(dataset, name) for name in names))


@cache
def _digest(dataset: Dataset, name: str) -> Any:
    """What stands for one of these arrays there: computed once, since images are many bytes."""
    return plain(getattr(dataset, name))
