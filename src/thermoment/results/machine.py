"""results.json of a run with one of the other machines, as frozen dataclasses: numbers with their uncertainty."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thermoment.results.codec import plain, typed
from thermoment.results.results import RESULTS, null_for_infinity, parsed
from thermoment.results.statistics import Interval


@dataclass(frozen=True)
class Number:
    """A number that a run found."""

    what: str
    value: float
    standard_error: float | None = None
    ci95: Interval | None = None
    """of a share: Wilson's interval"""


@dataclass(frozen=True)
class MachineResults:
    """What a run found, and all that it depends on."""

    experiment: str
    description: str
    machine: str
    engine: str
    """that sampled; several where one could not do every task"""
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    """seeds too; None for infinity once read from JSON"""
    numbers: tuple[Number, ...]
    curves: Mapping[str, Any]
    """lists by name: what the figure shows, and single counts"""

    def __getitem__(self, what: str) -> Number:
        return next(number for number in self.numbers if number.what == what)

    def plain(self) -> dict[str, Any]:
        """The results as JSON knows them: dicts, lists, no infinity."""
        return {**plain(self), "settings": null_for_infinity(plain(self.settings))}

    def to_json(self) -> str:
        """The text of results.json: the same bytes for the same results."""
        return json.dumps(self.plain(), indent=1, allow_nan=False) + "\n"


def from_json(given: str | Mapping[str, Any], source: str = RESULTS) -> MachineResults:
    """The results in a text or in its parsed value; `source` names the file in messages."""
    try:
        found: MachineResults = typed(MachineResults, parsed(given, source))
    except ValueError as error:
        raise ValueError(f"{source} is not the results of a run: {error}.") from None
    return found


def holds_machine(folder: Path) -> bool:
    """Whether results.json of a run's folder is that of one of these machines."""
    try:
        return "machine" in parsed((folder / RESULTS).read_text("utf-8"), RESULTS)
    except (OSError, ValueError):
        return False
