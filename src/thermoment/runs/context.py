"""What every stage of a run has at hand: where the store keeps things, whom to tell, and a clock."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from thermoment._support.identity import identity
from thermoment._support.progress import Listener, Note
from thermoment.data.dataset import Dataset

Files = dict[str, Path]
"""Names in the run's folder, and where the store has them."""

# Raised when a stage computes something else from the same settings.
_VERSIONS = {"projection": 1, "finite-time": 1, "features": 1, "readouts": 2, "report": 3}


@dataclass(frozen=True)
class Context:
    """Where a run keeps its stages and whom it tells."""

    store: Path
    listener: Listener
    note: Note
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Adds the time inside to that of `stage`."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def folder(self, stage: str, *facts: Any) -> Path:
        """Where the store has what `stage` makes of `facts`."""
        return self.store / f"{stage}-{identity(_VERSIONS[stage], *facts)[:32]}"


@cache
def digest(dataset: Dataset, *names: str) -> str:
    """SHA-256 of some of a data set's arrays."""
    return identity(*(getattr(dataset, name) for name in names))
