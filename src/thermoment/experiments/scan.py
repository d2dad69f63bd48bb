"""The points of a study: its variants, each with every combination of the values that `[scan]` lists.

    [scan]
    "dynamics.kT" = [0.01, 0.1, 1.0]              factors are crossed: here 3 x 4 points,
    "protocol.t_final" = [0.1, 0.3, 1.0, 3.0]

    [scan.paired]                                 and values in the same place of paired factors go together:
    "protocol.n_replicas" = [128, 384]            2 more points of each, not 4
    "reservoirs.*.n_nodes" = [768, 256]

    [variants.late.scan]                          a variant may have a scan of its own, which other variants do not have
    "protocol.t_final" = [3.0, 10.0]

Keys are those of `--set`.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from thermoment._support.checks import invalid
from thermoment.experiments.dotted import flat

MOST_RUNS = 1_000_000
PAIRED = "paired"
_SCAN, _REPEATS = "scan", "repeats"
_FIXED = ("name", "data", "scan", "variants")
"""Settings that all points of a study have in common."""
_LONGEST = 36
"""Characters of a point's name, which is a folder's; a longer one is a number instead."""

Changes = dict[str, Any]
"""Dotted keys, and what each is set to."""


@dataclass(frozen=True)
class Point:
    """One point of a study."""

    variant: str
    """which variant it is of; "" in a study without variants"""
    changes: Changes
    """of the variant and of the scans"""
    scanned: tuple[str, ...]
    """the dotted keys that are set by a scan"""
    own: tuple[str, ...] = ()
    """those of them that are set by the variant's own scan"""


def factors(scan: Mapping[str, Any], where: str = "scan") -> list[list[Changes]]:
    """For every factor, or group of paired ones, the changes that each of its values makes."""
    crossed = [{key: values} for key, values in flat({key: value for key, value in scan.items() if key != PAIRED})]
    together = scan.get(PAIRED, {})
    if not isinstance(together, Mapping):
        raise invalid(f"{where}.paired", "be a table of settings with lists of values", repr(together))
    groups = [*crossed, *([dict(flat(together))] if together else [])]
    for group in groups:
        for key, values in group.items():
            if not isinstance(values, list | tuple) or not values:
                raise invalid(f"{where}.{key}", "be a list of at least one value", repr(values))
            _check_free(key, where)
        sizes = {key: len(values) for key, values in group.items()}
        if len(set(sizes.values())) > 1:
            raise invalid(f"{where}.paired", "have lists of one length", sizes)
    _check_once([key for group in groups for key in group], where)
    return [[dict(zip(group, values, strict=True)) for values in zip(*group.values(), strict=True)] for group in groups]


def count_runs(variants: Mapping[str, Any], scan: Mapping[str, Any] | None, repeats: int) -> int:
    """How many runs there are, repeats counted, without making the points; 0 for an experiment that is no study."""
    if not variants and not scan:
        return 0
    common = factors(scan or {})
    return sum(
        _runs([*common, *_own(name, changes)], changes.get(_REPEATS, repeats))
        for name, changes in (variants or {"": {}}).items()
    )


def _runs(groups: list[list[Changes]], repeats: Any) -> int:
    """The runs of all points of one variant. A number of repeats that is none is refused when the point is made."""
    points = math.prod(len(group) for group in groups if _REPEATS not in group[0])
    scanned = [[change[_REPEATS] for change in group] for group in groups if _REPEATS in group[0]]
    every = scanned[0] if scanned else [repeats]
    return points * sum(one if type(one) is int else 1 for one in every)


def points(variants: Mapping[str, Mapping[str, Any]], scan: Mapping[str, Any] | None) -> dict[str, Point]:
    """Every point by its name, which tells its values: "kT-0p1_t_final-1p0"."""
    found: dict[str, Point] = {}
    common = factors(scan or {})
    for variant, table in (variants or {"": {}}).items():
        changes = dict(flat({key: value for key, value in table.items() if key != _SCAN}))
        for key in changes:
            _check_free(key, f"variants.{variant}")
        own = _own(variant, table)
        _check_once([key for group in (*common, *own) for key in group[0]], f"variants.{variant}.{_SCAN}")
        for values in product(*(list(enumerate(group)) for group in (*common, *own))):
            words = [variant] if variant else []
            label = "_".join([*words, *(_word(change, place) for place, change in values)])
            if (values and len(label) > _LONGEST) or label in found:
                label = f"point-{len(found)}"
            set_here = [change for _, change in values]
            found[label] = Point(
                variant,
                {**changes, **{key: value for change in set_here for key, value in change.items()}},
                tuple(chain(*set_here)),
                tuple(chain(*set_here[len(common) :])),
            )
    return found if variants or scan else {}


def _own(variant: str, table: Mapping[str, Any]) -> list[list[Changes]]:
    """The factors of a variant's own scan."""
    scan = table.get(_SCAN, {})
    if not isinstance(scan, Mapping):
        raise invalid(f"variants.{variant}.{_SCAN}", "be a table of settings with lists of values", repr(scan))
    return factors(scan, f"variants.{variant}.{_SCAN}")


def describe(changes: Changes) -> str:
    """The changes in words: "kT = 0.1, orders = 1 2 4"."""
    return ", ".join(f"{_short(key)} = {_said(value)}" for key, value in changes.items() if key != "description")


def _check_once(keys: list[str], where: str) -> None:
    if len(set(keys)) < len(keys):
        raise invalid(where, "name a setting once", ", ".join(sorted({key for key in keys if keys.count(key) > 1})))


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
