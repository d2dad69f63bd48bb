"""What a person sees of a run on a terminal: tables of its results, of its settings, of what it would cost."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table as Printed
from rich.text import Text

from thermoment.report.formatting import duration
from thermoment.results.naming import ModelKey
from thermoment.results.results import Results, StudyResults
from thermoment.results.table import Table


def result_tables(results: Results | StudyResults) -> Iterator[Printed]:
    """The accuracies of a run, one row a model with its readouts side by side; of a study, one row a variant."""
    dataset = results.dataset
    title = f"{results.experiment}: {dataset.name} {dataset.n_train}/{dataset.n_test}, {results.engine}"
    if isinstance(results, StudyResults):
        yield _study(title, results)
        return
    found = Table.of(results.accuracy)
    head = ["model", "joined by", "moments", "features"]
    body: list[list[str]] = []
    for model, rows in found.rows.items():
        n_features = next(iter(rows.values())).n_features
        cells = [model.name, model.fusion, ", ".join(f"m{p}" for p in model.orders), str(n_features)]
        for fit in found.fits:
            if (row := rows.get(fit)) is None:
                cells += ["", "", ""]
                continue
            low, high = row.ci95
            cells += [f"{row.correct}/{row.total}", f"{row.accuracy:.2%}", f"{low:.2%} to {high:.2%}"]
        body.append(cells)
    yield table(title, [*head, *(name for fit in found.fits for name in (fit, "", "95 %"))], body)


def _study(title: str, results: StudyResults) -> Printed:
    """Mean and deviation over seeds of the correct answers: variants down, models across."""

    def label(model: ModelKey) -> str:
        parts = [model.name, "logit" if model.fusion == "logit" else "", ",".join(f"m{p}" for p in model.orders)]
        return " ".join(filter(None, [*parts, "" if model.readout == "sgd" else model.readout]))

    models = list(dict.fromkeys(row.model for variant in results.study for row in variant.accuracy))
    body = []
    for variant in results.study:
        rows = [variant.row(model) for model in models]
        body.append([variant.variant, *(f"{row.mean:.2%} ± {row.sd or 0:.2%}" if row else "" for row in rows)])
    return table(title, ["variant", *map(label, models)], body)


def table(title: str, head: Iterable[str], body: Iterable[Iterable[str]]) -> Printed:
    """A table with numbers to the right and words to the left. Brackets in a cell are no markup."""
    rows = [list(row) for row in body]
    made = Printed(title=Text(title), title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(head):
        numbers = all(not row[number] or row[number][0] in "0123456789+-" for row in rows)
        made.add_column(Text(name), justify="right" if numbers else "left", no_wrap=True)
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def times(plan: Mapping[str, Any]) -> dict[str, str]:
    """The time on every engine as it is shown, or why it cannot; `plan` has the fields of runs.plan.Plan."""
    return {name: value if isinstance(value, str) else duration(value) for name, value in plan["seconds"].items()}


def rows(plan: Mapping[str, Any]) -> dict[str, str]:
    """What an experiment would compute as it is shown: what, and how much."""
    sampled = "" if math.isinf(plan["node_steps"]) else f"{plan['node_steps']:.2e}"
    return {
        "images through a reservoir": f"{plan['n_images']:,}",
        "node-steps, if sampled": sampled or "infinitely many replicas: only meanfield",
        "epochs of training, times reservoirs": f"{plan['epochs']:,}",
        "readouts": f"{plan['n_readouts']:,}",
        "chunks of features": f"{plan['chunks']:,}",
        "disk for features": f"{plan['disk_bytes'] / 1e6:,.0f} MB",
    }


def setting_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Setting, its value in a, its value in b."""
    return [[key, *map(str, values)] for key, values in found["settings"].items()]


def accuracy_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Model, correct in a, correct in b, their difference, p."""
    return [
        [
            row["model"],
            str(row["a"]),
            str(row["b"]),
            f"{row['b'] - row['a']:+d}",
            "" if row["p"] is None else f"{row['p']:.3g}",
        ]
        for row in found["accuracy"]
    ]


def speed_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Engine, what it runs on, node-steps and images per second, time for the paper; then those that cannot run."""
    ran = [
        [
            row["engine"],
            row["runs_on"],
            f"{row['node_steps_per_second']:.2g}" if row["node_steps_per_second"] else "none taken",
            f"{row['images_per_second']:.3g}",
            duration(row["paper_seconds"]),
        ]
        for row in found["speeds"]
    ]
    return ran + [[engine, f"cannot run: {why}", "", "", ""] for engine, why in found["absent"].items()]
