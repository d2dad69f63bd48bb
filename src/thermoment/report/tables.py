"""The report's tables, row by row, from results.json: ours, and the paper's where they are comparable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thermoment.report.findings import Results, Row, Table, compare, place
from thermoment.report.formatting import FIT_NAMES, probability
from thermoment.results import paper
from thermoment.results.analysis import model_of
from thermoment.results.naming import FITS, Fit, ModelKey, all_orders, label


@dataclass(frozen=True)
class Cell:
    """One model's accuracy with one readout."""

    row: Row | None
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

    rows: Sequence[Row]
    name: str = ""
    a: str = ""
    b: str = ""
    paper: int | None = None


def run_tables(results: Results) -> dict[str, Any]:
    """All tables of a run, by the name the template calls them."""
    table, beside = Table.of(results["accuracy"]), bool(compare(results))
    sizes = {reservoir["name"]: reservoir["n_nodes"] for reservoir in results["settings"]["reservoirs"]}
    lines = {model: _line(table, model, sizes, beside, table.refitted) for model in table.rows}
    wanted: list[Fit] = [fit for fit in table.fits if fit not in table.refitted]
    regions = [fit for fit in table.fits if any(row["readout"] == fit for row in results["regions"])]
    return {
        "as_trained": [_line(table, model, sizes, beside, wanted) for model in table.as_trained],
        "as_trained_fits": wanted,
        "reservoirs": _bold_best([lines[model] for model in table.ablation]),
        "fusion": _fusion(table, lines, beside),
        "orders": [lines[model] for model in table.orders],
        "overlaps": _overlaps(results, beside),
        "tests": _tests(results, beside),
        "regions": _regions(results, regions),
        "regions_fits": regions,
        "seeds": _seeds(results.get("repeats") or (), beside),
    }


def study_tables(results: Results) -> list[dict[str, Any]]:
    """For each readout the means of every variant and model, and how near each variant is to the paper."""
    found = list(dict.fromkeys(model_of(row) for variant in results["study"] for row in variant["accuracy"]))
    full = all_orders(found)
    parts = []
    for fit in (fit for fit in FITS if any(model.readout == fit for model in found)):
        models = [model for model in found if model.readout == fit]
        published = [paper.correct(model) if paper.applies_to(results["dataset"]) else None for model in models]
        rows = [_variant(variant, models, published) for variant in results["study"]]
        known = published if any(count is not None for count in published) else None
        names = [label(model, full) for model in models]
        parts.append({"fit": fit, "models": names, "published": known, "rows": rows})
    return parts


def settings_tables(results: Results) -> dict[str, Any]:
    """Everything that was chosen: groups of names and values, and a table of the reservoirs."""
    settings = results["settings"]
    groups = {"Data set": results["dataset"]} | {
        key.capitalize(): group for key, group in settings.items() if isinstance(group, Mapping)
    }
    reservoirs = settings["reservoirs"]
    keys = list(dict.fromkeys(key for reservoir in reservoirs for key in reservoir))
    return {
        "groups": [
            (title, [(key, written(key, value)) for key, value in group.items()]) for title, group in groups.items()
        ],
        "columns": keys,
        "rows": [[written(key, reservoir.get(key)) for key in keys] for reservoir in reservoirs],
    }


def written(key: str, value: Any) -> str:
    """A setting's value in words: stages as what is done, lists with commas, null as what it stands for."""
    match key, value:
        case "n_replicas", None:
            return "infinitely many"
        case _, None:
            return "none"
        case "stages", [*stages] if all(isinstance(stage, dict) for stage in stages):
            return "; then ".join(_stage(stage) for stage in stages) or "none"
        case _, bool():
            return "yes" if value else "no"
        case _, float():
            return f"{value:.12g}"
        case _, list() | tuple():
            return ", ".join(written("", item) for item in value)
        case _, dict():
            return ", ".join(f"{name} {written(name, item)}" for name, item in value.items())
        case _:
            return str(value)


def _stage(stage: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {written(key, value)}" for key, value in stage.items())


def _line(table: Table, model: ModelKey, sizes: Mapping[str, int], beside: bool, fits: Sequence[Fit]) -> Line:
    each = [len(model.orders) * sizes[name] for name in model.reservoirs if name in sizes]
    features = " + ".join(map(str, each)) if model.fusion == "logit" else str(sum(each))
    published = paper.correct(model) if beside else None
    return Line(table.label(model), features, published, [Cell(table.rows[model].get(fit)) for fit in fits])


def _bold_best(lines: Sequence[Line]) -> list[Line]:
    best = [max((cell.row["correct"] for cell in column if cell.row), default=0) for column in _columns(lines)]
    return [
        Line(
            line.name,
            line.features,
            line.paper,
            [Cell(c.row, bool(c.row and c.row["correct"] == top)) for c, top in zip(line.cells, best, strict=True)],
        )
        for line in lines
    ]


def _columns(lines: Sequence[Line]) -> list[tuple[Cell, ...]]:
    return list(zip(*(line.cells for line in lines), strict=True))


def _fusion(table: Table, lines: Mapping[ModelKey, Line], beside: bool) -> list[Line]:
    """The best single reservoir, which may be another for each readout; averaged logits; all joined."""
    if len(table.joined.reservoirs) < 2:
        return []
    best = [table.best_single(fit) for fit in table.refitted]
    found = []
    if any(best):
        cells = [Cell(row, note=row["model"] if row else "") for row in best]
        known = max(n for m, n in paper.TABLE_II.items() if len(m.reservoirs) == 1) if beside else None
        features = sorted({lines[model].features for model in table.ablation if len(model.reservoirs) == 1})
        found.append(Line("Best single reservoir", " or ".join(features), known, cells))
    whole = [model for model in (table.averaged, table.joined) if model is not None]
    return found + [lines[model] for model in whole]


def _overlaps(results: Results, beside: bool) -> list[Group]:
    groups = []
    for (a, b), rows in _by_pair(results["jaccard"]).items():
        known = paper.TABLE_III.get((a, b)) if beside else None
        published = [{"source": "The paper", **known._asdict()}] if known else []
        groups.append(Group([*published, *rows], a=a, b=b))
    return groups


def _tests(results: Results, beside: bool) -> list[Group]:
    gains = {(row["a"], row["b"], row["readout"]): row for row in results["differences"]}
    groups = []
    for (a, b), rows in _by_pair(results["mcnemar"]).items():
        known = paper.MCNEMAR.get((a, b)) if beside else None
        unknown = {"difference": None, "ci95": None}
        published: list[Row] = (
            [{"source": "The paper", **known._asdict(), **unknown, "p": f"{known.p:g}"}] if known else []
        )
        ours = [
            unknown | dict(gains.get((a, b, row["readout"]), {})) | dict(row) | {"p": probability(row["p"])}
            for row in rows
        ]
        groups.append(Group([*published, *ours], a=a, b=b))
    return groups


def _by_pair(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault((row["a"], row["b"]), []).append({"source": FIT_NAMES[row["readout"]], **row})
    return pairs


def _regions(results: Results, fits: Sequence[Fit]) -> list[dict[str, Any]]:
    sets = sorted({tuple(row["wrong"]) for row in results["regions"]}, key=lambda names: (len(names), names))
    counts = {(tuple(row["wrong"]), row["readout"]): row["count"] for row in results["regions"]}
    return [{"names": names, "counts": [counts.get((names, fit), 0) for fit in fits]} for names in sets]


def _seeds(repeats: Sequence[Row], beside: bool) -> list[Group]:
    if not any(len(row["correct"]) > 1 for row in repeats):
        return []
    table = Table.of(repeats)
    return [
        Group(list(rows.values()), name=table.label(model), paper=paper.correct(model) if beside else None)
        for model, rows in table.rows.items()
    ]


def _variant(variant: Row, models: Sequence[ModelKey], published: Sequence[int | None]) -> dict[str, Any]:
    by_model = {model_of(row): row for row in variant["accuracy"]}
    cells = [by_model.get(model) for model in models]
    both = [(row, n / paper.N_TEST) for row, n in zip(cells, published, strict=True) if row and n is not None]
    ranges = [(row["range95"], share) for row, share in both if row["range95"] is not None]
    return {
        "variant": variant["variant"],
        "cells": cells,
        "distance": (sum((row["mean"] - share) ** 2 for row, share in both) / len(both)) ** 0.5 if both else None,
        "inside": sum(place(share, interval) == "inside" for interval, share in ranges) if ranges else None,
        "of": len(ranges),
    }
