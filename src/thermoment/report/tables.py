"""The report's tables, row by row: ours, and the paper's where they are comparable."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thermoment.report.beside import place
from thermoment.report.formatting import FIT_NAMES, probability
from thermoment.results import paper
from thermoment.results.naming import Fit, ModelKey
from thermoment.results.results import Accuracy, Baseline, Overlap, PairedTest, Results, StudyResults, Summary, Variant
from thermoment.results.table import Table


@dataclass(frozen=True)
class Cell:
    """One model's accuracy with one readout."""

    row: Accuracy | Baseline | None
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class Line:
    """One model's accuracies with every readout."""

    name: str
    features: str
    paper: int | None
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Group:
    """Rows that compare the same two models, or show the same one."""

    rows: Sequence[Any]
    name: str = ""
    a: str = ""
    b: str = ""
    paper: int | None = None


def run_tables(results: Results) -> dict[str, Any]:
    """All tables of a run, by the name the template calls them."""
    table, published = Table.of(results.accuracy), paper.beside(results)
    sizes = {reservoir["name"]: reservoir["n_nodes"] for reservoir in results.settings["reservoirs"]}

    def line(model: ModelKey, fits: Sequence[Fit]) -> Line:
        each = [len(model.orders) * sizes[name] for name in model.reservoirs if name in sizes]
        features = " + ".join(map(str, each)) if model.fusion != "feature" else str(sum(each))
        cells = [Cell(table.get(model, fit)) for fit in fits]
        return Line(table.label(model), features, published.correct(model), cells)

    lines = {model: line(model, table.refitted) for model in table.rows}
    as_trained: list[Fit] = [fit for fit in table.fits if fit not in table.refitted]
    regions = [fit for fit in table.fits if any(region.readout == fit for region in results.regions)]
    return {
        "as_trained": [line(model, as_trained) for model in table.models("trained")],
        "as_trained_fits": as_trained,
        "reservoirs": [*_bold_best([lines[model] for model in table.ablation]), *_without_reservoirs(results, table)],
        "fusion": _fusion(table, lines, published),
        "orders": [lines[model] for model in table.orders],
        "overlaps": _overlaps(results, published),
        "tests": _tests(results, published),
        "regions": _regions(results, regions),
        "regions_fits": regions,
        "seeds": _seeds(results, published),
    }


def study_tables(results: StudyResults) -> list[dict[str, Any]]:
    """For each readout the means of every variant and model, and how near each variant is to the paper."""
    published = paper.beside(results)
    table = Table.of(row for variant in results.study for row in variant.accuracy)  # its rows are those of one variant
    parts = []
    for fit in table.fits:
        models = [replace(model, readout=fit) for model in table.models(fit)]
        counts = [published.correct(model) for model in models]
        parts.append(
            {
                "fit": fit,
                "models": [table.label(model) for model in models],
                "published": counts if any(count is not None for count in counts) else None,
                "rows": [_variant(variant, models, published) for variant in results.study],
            }
        )
    return parts


def settings_tables(results: Results | StudyResults) -> dict[str, Any]:
    """Everything that was chosen: groups of names and values, and a table of the reservoirs."""
    groups = {"Data set": vars(results.dataset)} | {
        key.capitalize(): group for key, group in results.settings.items() if isinstance(group, Mapping)
    }
    reservoirs = results.settings["reservoirs"]
    keys = list(dict.fromkeys(key for reservoir in reservoirs for key in reservoir))
    return {
        "groups": [
            (title, [(key, written(key, value)) for key, value in group.items()]) for title, group in groups.items()
        ],
        "columns": keys,
        "rows": [[written(key, reservoir.get(key)) for key in keys] for reservoir in reservoirs],
    }


def written(key: str, value: Any) -> str:
    """A setting's value in words: stages as what is done, lists with commas, infinity as what it stands for."""
    if value is None or value == math.inf:
        return "infinitely many" if key == "n_replicas" else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {written(name, item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        stages = key == "stages" and all(isinstance(stage, Mapping) for stage in value)
        joined = ("; then " if stages else ", ").join(written("", item) for item in value)
        return joined or ("none" if stages else "")
    return str(value)


def _bold_best(lines: Sequence[Line]) -> list[Line]:
    """The same lines; of every readout the cells with the highest count are marked."""
    columns = zip(*(line.cells for line in lines), strict=True)
    best = [max((cell.row.correct for cell in column if cell.row), default=0) for column in columns]
    return [
        replace(
            line,
            cells=[Cell(c.row, bool(c.row and c.row.correct == top)) for c, top in zip(line.cells, best, strict=True)],
        )
        for line in lines
    ]


def _without_reservoirs(results: Results, table: Table[Accuracy]) -> list[Line]:
    """The same readouts of the raw inputs."""
    lines = []
    for name in dict.fromkeys(raw.model for raw in results.baseline):
        found = {raw.readout: raw for raw in results.baseline if raw.model == name}
        cells = [Cell(found.get(fit)) for fit in table.refitted]
        if cells and "trained" in found:  # a perceptron, which has a training of its own
            cells[0] = Cell(found["trained"])
        raw = name.startswith("raw")
        lines.append(Line(f"{name}, no reservoir", str(results.dataset.n_inputs) if raw else "", None, cells))
    return lines


def _fusion(table: Table[Accuracy], lines: Mapping[ModelKey, Line], published: paper.Beside) -> list[Line]:
    """The best single reservoir, which may be another for each readout; averaged logits; all joined."""
    if len(table.joined.reservoirs) < 2:
        return []
    best = [table.best_single(fit) for fit in table.refitted]
    found = []
    if any(best):
        cells = [Cell(row, note=row.model.name if row else "") for row in best]
        features = sorted({lines[model].features for model in table.singles})
        found.append(Line("Best single reservoir", " or ".join(features), published.best_single, cells))
    whole = [model for model in (table.averaged, table.joined) if model is not None]
    return found + [lines[model] for model in whole]


def _overlaps(results: Results, published: paper.Beside) -> list[Group]:
    groups = []
    for (a, b), rows in _by_pair(results.jaccard, published).items():
        known = published.overlap(a, b)
        theirs = [{"source": "The paper", **known._asdict()}] if known else []
        groups.append(Group([*theirs, *rows], a=a, b=b))
    return groups


def _tests(results: Results, published: paper.Beside) -> list[Group]:
    gains = {(row.a, row.b, row.readout): row for row in results.differences}
    groups = []
    for (a, b), rows in _by_pair(results.mcnemar, published).items():
        for row in rows:
            gain = gains.get((a, b, row["readout"]))
            row |= {"p": probability(row["p"]), "difference": None, "ci95": None} | (vars(gain) if gain else {})
        known = published.test(a, b)
        theirs = {"source": "The paper", "difference": None, "ci95": None}
        published_rows = [{**theirs, **known._asdict(), "p": f"{known.p:g}"}] if known else []
        groups.append(Group([*published_rows, *rows], a=a, b=b))
    return groups


def _by_pair(
    rows: Sequence[Overlap] | Sequence[PairedTest], published: paper.Beside
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows of the same two models, with the readout's name as their source."""
    ours = "ours, " if published else ""
    pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((row.a, row.b), []).append({"source": ours + FIT_NAMES[row.readout], **vars(row)})
    return pairs


def _regions(results: Results, fits: Sequence[Fit]) -> list[dict[str, Any]]:
    sets = sorted({region.wrong for region in results.regions}, key=lambda names: (len(names), names))
    counts = {(region.wrong, region.readout): region.count for region in results.regions}
    return [{"names": names, "counts": [counts.get((names, fit), 0) for fit in fits]} for names in sets]


def _seeds(results: Results, published: paper.Beside) -> list[Group]:
    if results.n_repeats < 2:
        return []
    table = Table.of(results.repeats)
    return [
        Group(list(rows.values()), name=table.label(model), paper=published.correct(model))
        for model, rows in table.rows.items()
    ]


def _variant(variant: Variant, models: Sequence[ModelKey], published: paper.Beside) -> dict[str, Any]:
    cells = [variant.row(model) for model in models]
    counts = [published.correct(model) for model in models]
    both: list[tuple[Summary, float]] = [
        (row, count / paper.N_TEST) for row, count in zip(cells, counts, strict=True) if row and count is not None
    ]
    places = [place(share, row.range95) for row, share in both if row.range95 is not None]
    return {
        "variant": variant.variant,
        "cells": cells,
        "distance": (sum((row.mean - share) ** 2 for row, share in both) / len(both)) ** 0.5 if both else None,
        "inside": places.count("inside") if places else None,
        "of": len(places),
    }
