"""A run's report: one HTML file that needs nothing else, made from results.json and the figures beside it."""

import base64
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from thermoment import __version__
from thermoment._support.files import write_whole
from thermoment.report import beside, findings, formatting
from thermoment.report.captions import captions
from thermoment.report.tables import run_tables, settings_tables, study_tables
from thermoment.results import paper
from thermoment.results.naming import Fit
from thermoment.results.results import Accuracy, Baseline, Results, StudyResults, load
from thermoment.results.study import headlines
from thermoment.results.table import Table


def write(folder: Path) -> Path:
    """Writes folder/report.html from folder/results.json and folder/figures/*.svg, and says where.

    Figures are inlined, and the page forbids itself to load anything. Those that are not there are left out.
    """
    results = load(folder)
    images = {path.stem: _inline(path) for path in sorted((folder / "figures").glob("*.svg"))}
    target = folder / "report.html"
    write_whole(target, page(results, images).encode())
    return target


def page(results: Results | StudyResults, images: dict[str, str]) -> str:
    """The report as HTML, with figures given as data URLs by name."""
    environment = Environment(
        loader=PackageLoader("thermoment.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        formatting.percent,
        formatting.percents,
        formatting.energy,
        formatting.points,
        formatting.points_interval,
        formatting.signed,
    ):
        environment.filters[function.__name__] = function
    kind, content = ("study", _study(results)) if isinstance(results, StudyResults) else ("run", _run(results, images))
    return environment.get_template(f"{kind}.html.j2").render(
        results=results,
        images=images,
        captions=captions(results),
        fit_names=formatting.FIT_NAMES,
        machine=_machine(results),
        next_figure=count(1).__next__,
        next_table=count(1).__next__,
        paper=paper,
        settings=settings_tables(results),
        version=__version__,
        **content,
    )


def _run(results: Results, images: Mapping[str, str]) -> dict[str, Any]:
    table = Table.of(results.accuracy)
    compared, tables = beside.compare(results), run_tables(results)
    sections = {
        "summary": "In short",
        "accuracy": "Accuracy",
        "mistakes": "Mistakes" if images.keys() & {"confusion", "misread"} else None,
        "together": "Errors in common" if results.mcnemar or results.jaccard else None,
        "paper": "Beside the paper" if compared else None,
        "seeds": "Over seeds" if tables["seeds"] else None,
        "training": "Training" if images.keys() & {"training", "weights"} else None,
        "machine": "The machine",
        "settings": "Settings",
        "again": "Run, check, cite",
    }
    return {
        "sections": [(anchor, title) for anchor, title in sections.items() if title],
        "summary": [*findings.summary(results), beside.sentence(results), findings.machine(results), *_cost(results)],
        "mistakes": findings.mistakes(results),
        "differences": beside.differences(results),
        "reasons": beside.reasons(results),
        "compared": compared,
        "table": table,
        "tables": tables,
        "tiles": _tiles(results, table),
        "readouts": [(formatting.FIT_NAMES[fit], formatting.FIT_MEANINGS[fit]) for fit in table.fits],
        "n_repeats": results.n_repeats,
    }


def _cost(results: Results) -> list[str]:
    return list(filter(None, [findings.cost(results)]))


def _tiles(results: Results, table: Table[Accuracy]) -> list[dict[str, Any]]:
    """The numbers to see first, each with the readout it is of."""
    fit, joined, first = table.main, table.joined, table.headline
    everything, several = formatting.all_of(joined.reservoirs), len(joined.reservoirs) > 1
    tiles: list[tuple[str, Fit, Accuracy | Baseline]] = [(everything, first.model.readout, first)]
    if first.model.readout != fit:
        tiles.append((everything, fit, table.rows[joined][fit]))
    if several and (best := table.best_single(fit)):
        tiles.append((f"Best single, {best.model.name}", fit, best))
    if several and (averaged := table.get(table.averaged, fit)):
        tiles.append(("Averaged outputs", fit, averaged))
    tiles += [(raw.model.capitalize(), raw.readout, raw) for raw in results.baseline[:1]]
    return [{"name": name, "readout": formatting.FIT_NAMES[of], "row": row} for name, of, row in tiles]


def _study(results: StudyResults) -> dict[str, Any]:
    parts = study_tables(results)
    sections = {"summary": "In short", "variants": "Variants", "accuracy": "Accuracy"}
    said = [sentence for part in parts for sentence in (findings.highest(part), *beside.nearest(part))]
    return {
        "headlines": headlines(results),
        "sections": [*sections.items(), ("settings", "Settings"), ("again", "Run, check, cite")],
        "summary": [findings.study(results), *said],
        "parts": parts,
    }


def _machine(results: Results | StudyResults) -> str:
    """What was done to which data, for the head of the page."""
    sizes = [reservoir["n_nodes"] for reservoir in results.settings["reservoirs"]]
    each = f"{sizes[0]} nodes" if len(set(sizes)) == 1 else f"{formatting.listing([str(n) for n in sizes])} nodes"
    count = f"{len(sizes)} Langevin reservoirs" if len(sizes) > 1 else "One Langevin reservoir"
    data = results.dataset
    return (
        f"{count} of {each} classify {data.name}: {data.n_train} training and {data.n_test} test samples of "
        f"{data.n_inputs} inputs, {data.n_classes} classes; simulated by {results.engine}."
    )


def _inline(path: Path) -> str:
    """The file as a data URL. As an image it can neither run scripts nor load anything."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
