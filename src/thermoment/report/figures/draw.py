"""Every figure of a run, as SVG and PNG: matplotlib is used in this package only, without global state."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thermoment.report.figures.error_sets import errors
from thermoment.report.figures.node import Node, density, paths, potential
from thermoment.report.figures.schematic import fusion
from thermoment.report.figures.seeds import repeats, study
from thermoment.report.figures.style import look, write


def draw(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """Writes each figure that `results` (results.json) calls for, and says which files were written.

    potential, paths  one node of the experiment's well under three drives
    density           the density it is read from, and its moments; not at zero temperature
    errors            error sets, their overlaps, errors of every model
    fusion            the two ways to join reservoirs, where there are several
    repeats           accuracy over seeds, where there are repeats
    study             accuracy over seeds and variants: the only figure of a study

    The same results give the same bytes. Cost: a few seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with look():
        for name, figure in _figures(results).items():
            written += write(figure(), folder / name)
    return written


def _figures(results: Mapping[str, Any]) -> dict[str, Any]:
    if "study" in results:
        return {"study": lambda: study(results)}
    node = Node.of(results["settings"])
    figures = {"potential": lambda: potential(node), "paths": lambda: paths(node)}
    if node.dynamics.kT > 0:
        figures["density"] = lambda: density(node)
    figures["errors"] = lambda: errors(results)
    if len(results["settings"]["reservoirs"]) > 1:
        figures["fusion"] = lambda: fusion(results)
    if any(len(row["correct"]) > 1 for row in results.get("repeats") or ()):
        figures["repeats"] = lambda: repeats(results)
    return figures
