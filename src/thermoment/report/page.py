"""A run's report: one HTML file that needs nothing else, made from results.json and the figures beside it."""

import base64
import json
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from thermoment import __version__
from thermoment._support.checks import invalid
from thermoment._support.files import write_whole
from thermoment.report import findings, formatting
from thermoment.report.captions import captions
from thermoment.report.tables import run_tables, settings_tables, study_tables
from thermoment.results import paper

Results = dict[str, Any]


def write(folder: Path) -> Path:
    """Writes folder/report.html from folder/results.json and folder/figures/*.svg, and says where.

    Figures are inlined, and the page forbids itself to load anything. Those that are not there are left out.
    """
    source = folder / "results.json"
    try:
        results = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise invalid("folder", "hold a results.json", f"{folder}, which has none") from None
    except ValueError as error:
        raise ValueError(f"{source} is not valid JSON: {error}.") from None
    images = {path.stem: _inline(path) for path in sorted((folder / "figures").glob("*.svg"))}
    target = folder / "report.html"
    write_whole(target, page(results, images).encode())
    return target


def page(results: Results, images: dict[str, str]) -> str:
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
        formatting.points,
        formatting.points_interval,
        formatting.signed,
    ):
        environment.filters[function.__name__] = function
    kind, content = ("study", _study(results)) if "study" in results else ("run", _run(results))
    return environment.get_template(f"{kind}.html.j2").render(
        results=results,
        images=images,
        captions=captions(results),
        fit_names=formatting.FIT_NAMES,
        next_figure=count(1).__next__,
        next_table=count(1).__next__,
        paper=paper,
        settings=settings_tables(results),
        version=__version__,
        **content,
    )


def _run(results: Results) -> dict[str, Any]:
    table = findings.Table.of(results["accuracy"])
    compared, tables = findings.compare(results), run_tables(results)
    sections = {
        "summary": "In short",
        "accuracy": "Accuracy",
        "together": "Errors in common" if results["mcnemar"] or results["jaccard"] else None,
        "paper": "Beside the paper" if compared else None,
        "seeds": "Over seeds" if tables["seeds"] else None,
        "machine": "The machine",
        "settings": "Settings",
        "again": "Run, check, cite",
    }
    return {
        "sections": [(anchor, title) for anchor, title in sections.items() if title],
        "summary": findings.summary(results),
        "differences": findings.differences(results),
        "reasons": findings.reasons(results),
        "compared": compared,
        "table": table,
        "tables": tables,
        "tiles": _tiles(table),
        "n_repeats": findings.n_repeats(results),
    }


def _tiles(table: findings.Table) -> list[dict[str, Any]]:
    """The three numbers to see first."""
    fit = table.main
    best = table.best_single(fit)
    whole = [("All joined", table.joined), ("Averaged logits", table.averaged)]
    if len(table.joined.reservoirs) < 2:
        whole = [(table.joined.name, table.joined)]
    tiles = [{"name": name, "row": table.rows[m][fit]} for name, m in whole if m is not None and fit in table.rows[m]]
    if best is not None and len(table.joined.reservoirs) > 1:
        tiles.insert(1, {"name": f"Best single, {best['model']}", "row": best})
    if "trained" in table.rows[table.joined]:
        tiles[0] = {"name": "As trained", "row": table.rows[table.joined]["trained"]}
    return tiles


def _study(results: Results) -> dict[str, Any]:
    parts = study_tables(results)
    sections = {"summary": "In short", "variants": "Variants", "accuracy": "Accuracy"}
    return {
        "sections": [*sections.items(), ("settings", "Settings"), ("again", "Run, check, cite")],
        "summary": findings.study_summary(results, parts),
        "parts": parts,
    }


def _inline(path: Path) -> str:
    """The file as a data URL. As an image it can neither run scripts nor load anything."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
