"""The points of a study: its variants, each with every combination of the values that `[scan]` lists.

    [scan]
    "dynamics.kT" = [0.01, 0.1, 1.0]              factors are crossed: here 3 x 4 points,
    "protocol.t_final" = [0.1, 0.3, 1.0, 3.0]

    [scan.paired]                                 and values in the same place of paired factors go together:
    "protocol.n_replicas" = [128, 384]            2 more points of each, not 4
    "reservoirs.*.n_nodes" = [768, 256]

Keys are those of `--set`.
"""

import math
import re
from collections.abc import Mapping
from itertools import product
from typing import Any

from thermoment._support.checks import invalid
from thermoment.experiments.dotted import flat

MOST_RUNS = 1_000_000
PAIRED = "paired"
_FIXED = ("name", "data", "scan", "variants")
"""Settings that all points of a study have in common."""
_LONGEST = 36
"""Characters of a point's name, which is a folder's; a longer one is a number instead."""

Changes = dict[str, Any]
"""Dotted keys, and what each is set to."""


def factors(scan: Mapping[str, Any]) -> list[list[Changes]]:
    """For every factor, or group of paired ones, the changes that each of its values makes."""
    crossed = [{key: values} for key, values in flat({key: value for key, value in scan.items() if key != PAIRED})]
    together = scan.get(PAIRED, {})
    if not isinstance(together, Mapping):
        raise invalid("scan.paired", "be a table of settings with lists of values", repr(together))
    groups = [*crossed, *([dict(flat(together))] if together else [])]
    for group in groups:
        for key, values in group.items():
            if not isinstance(values, list | tuple) or not values:
                raise invalid(f"scan.{key}", "be a list of at least one value", repr(values))
            _check_free(key, "scan")
        sizes = {key: len(values) for key, values in group.items()}
        if len(set(sizes.values())) > 1:
            raise invalid("scan.paired", "have lists of one length", sizes)
    keys = [key for group in groups for key in group]
    if len(set(keys)) < len(keys):
        raise invalid("scan", "name a setting once", ", ".join(sorted({key for key in keys if keys.count(key) > 1})))
    return [[dict(zip(group, values, strict=True)) for values in zip(*group.values(), strict=True)] for group in groups]


def count(variants: Mapping[str, Any], scan: Mapping[str, Any] | None) -> int:
    """How many points there are, without making them; 0 for an experiment that is no study."""
    if not variants and not scan:
        return 0
    return max(1, len(variants)) * math.prod(len(values) for values in factors(scan or {}))


def points(variants: Mapping[str, Mapping[str, Any]], scan: Mapping[str, Any] | None) -> dict[str, Changes]:
    """The changes that every point makes, by its name, which tells its values: "kT-0p1_t_final-1p0"."""
    found: dict[str, Changes] = {}
    named = [(name, dict(flat(changes))) for name, changes in variants.items()] or [("", {})]
    every = [list(enumerate(group)) for group in factors(scan or {})]
    for number, ((name, changes), *values) in enumerate(product(named, *every)):
        words = [name] if name else []
        label = "_".join([*words, *(_word(change, place) for place, change in values)])
        if (values and len(label) > _LONGEST) or label in found:
            label = f"point-{number}"
        found[label] = {**changes, **{key: value for _, change in values for key, value in change.items()}}
    for name, changes in found.items():
        for key in changes:
            _check_free(key, f"variants.{name}")
    return found if variants or scan else {}


def describe(changes: Changes) -> str:
    """The changes in words: "kT = 0.1, orders = 1 2 4"."""
    return ", ".join(f"{_short(key)} = {_said(value)}" for key, value in changes.items() if key != "description")


def scanned(scan: Mapping[str, Any] | None) -> dict[str, tuple[Any, ...]]:
    """The dotted keys that a scan varies, and their values."""
    every = factors(scan or {})
    return {key: tuple(change[key] for change in group) for group in every for key in group[0]}


def _check_free(key: str, where: str) -> None:
    if key.partition(".")[0] in _FIXED:
        raise invalid(where, f"change none of {', '.join(_FIXED)}, which all its runs have in common", repr(key))


def _said(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _short(key: str) -> str:
    """The last step of a dotted key, with the reservoir that it is of."""
    steps = key.split(".")
    return "-".join(steps[1:]) if steps[0] == "reservoirs" and steps[1] != "*" else steps[-1]


def _word(change: Changes, place: int) -> str:
    """The values of one factor in the letters of a folder's name; the place of a value that has no short one."""
    return "_".join(f"{_short(key)}-{_text(value, place)}" for key, value in change.items())


def _text(value: Any, place: int) -> str:
    items = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, str | int | float) for item in items):
        return str(place)
    text = "-".join(re.sub("[^A-Za-z0-9-]", "", str(item).replace(".", "p")) for item in items)
    return text if text and len(text) <= 24 else str(place)
