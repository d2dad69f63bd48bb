"""Results as one tidy table: a row for every point of a study, repeat, model and readout. study.json and study.csv."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thermoment.results.codec import plain
from thermoment.results.results import BaselineSummary, Described, Results, StudyResults, Summary, Variant
from thermoment.results.statistics import Paired, paired, wilson
from thermoment.results.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

STUDY_JSON, STUDY_CSV = "study.json", "study.csv"
Row = dict[str, Any]
_MORE = ("group", "engine", "distance")
"""What is said of a point only where it is known."""


def factors(results: Described) -> list[str]:
    """The dotted keys that the points of a study differ by."""
    rows = results.study if isinstance(results, StudyResults) else ()
    return list(dict.fromkeys(key for row in rows for key in row.changes or {}))


def value(changes: Mapping[str, Any], key: str) -> Any:
    """What a point sets `key` to; infinity, which JSON does not have, is null there."""
    found = changes.get(key)
    return math.inf if found is None and key in changes else found


@dataclass(frozen=True)
class Headline:
    """The row that a point of a study is judged by, beside that of the first point."""

    point: Variant
    row: Summary
    beside: Paired | None
    """this point less the first one, seed by seed; None of the first, and where the seeds are not as many"""


def headlines(results: StudyResults) -> list[Headline]:
    """The row that each point is judged by: all its reservoirs, with the readout of their training or the first."""
    rows = [Table.of(point.accuracy).headline for point in results.study]
    first = _accuracies(rows[0])
    return [
        Headline(
            point,
            row,
            paired(first, _accuracies(row)) if k and len(row.correct) == len(first) else None,
        )
        for k, (point, row) in enumerate(zip(results.study, rows, strict=True))
    ]


def _accuracies(row: Summary) -> list[float]:
    return [correct / row.total for correct in row.correct]


def to_json(results: StudyResults) -> str:
    """The text of study.json: what was studied, and a row for every point, model and readout, one in a line."""
    head = {
        "experiment": results.experiment,
        "description": results.description,
        "dataset": plain(results.dataset),
        "engine": results.engine,
        "n_nodes": [one["n_nodes"] for one in results.settings["reservoirs"]],
        "factors": factors(results),
    }
    lines = [
        json.dumps(
            {"variant": point.variant, "settings": point.changes or {}, "cost": point.cost}
            | {key: found for key in _MORE if (found := getattr(point, key)) is not None}
            | plain(row),
            allow_nan=False,
        )
        for point in results.study
        for row in _of_point(point)
    ]
    return json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def to_csv(results: StudyResults) -> str:
    """The text of study.csv: the rows of `rows`, a list as its items with spaces between."""
    found = rows(results)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(found[0]), lineterminator="\n")
    writer.writeheader()
    for row in found:
        cells = {key: " ".join(map(str, cell)) if isinstance(cell, tuple) else cell for key, cell in row.items()}
        writer.writerow(cells)
    return buffer.getvalue()


def frame(results: Described) -> "DataFrame":
    """The rows of `rows` as a pandas table."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise RuntimeError("A table needs pandas: pip install pandas.") from None
    return pd.DataFrame(rows(results))


def rows(results: Described) -> list[Row]:
    """A row for every point, repeat, model and readout: what is set, what was right, Wilson's 95 % interval."""
    if isinstance(results, StudyResults):
        keys = factors(results)
        more = [key for key in _MORE if any(getattr(point, key) is not None for point in results.study)]
        return [
            {"variant": point.variant, **{key: _cell(_set(point, key)) for key in keys}, **row}
            | {"cost": point.cost}
            | {key: getattr(point, key) for key in more}
            for point in results.study
            for row in _by_repeat(_of_point(point))
        ]
    assert isinstance(results, Results)
    every: list[Summary | BaselineSummary] = [
        *(results.repeats or (Summary(r.model, r.total, (r.correct,), r.accuracy, None, None, None)
                              for r in results.accuracy)),
        *(BaselineSummary(r.model, r.readout, r.total, (r.correct,), r.accuracy, None, None) for r in results.baseline),
    ]  # fmt: skip
    return _by_repeat(every)


def _of_point(point: Variant) -> Sequence[Summary | BaselineSummary]:
    return (*point.accuracy, *point.baseline)


def _by_repeat(summaries: Sequence[Summary | BaselineSummary]) -> list[Row]:
    found = []
    for row in summaries:
        for repeat, correct in enumerate(row.correct):
            low, high = wilson(correct, row.total)
            counts = {"repeat": repeat, "correct": correct, "total": row.total, "accuracy": correct / row.total}
            found.append({**_columns(row), **counts, "low": low, "high": high})
    return found


def _columns(row: Summary | BaselineSummary) -> Row:
    if isinstance(row, BaselineSummary):
        return {"model": row.model, "fusion": "", "orders": (), "readout": row.readout}
    return {**row.model.columns, "orders": row.model.orders}


def _set(point: Variant, key: str) -> Any:
    """What a point sets `key` to; None where its variant has another scan."""
    return value(point.changes, key) if point.changes and key in point.changes else None


def _cell(found: Any) -> Any:
    """A value that a table can group by."""
    return tuple(map(_cell, found)) if isinstance(found, list | tuple) else found
