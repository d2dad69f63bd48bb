"""What a process that draws figures of a run does: it simulates the node that they show, and draws a share of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thermoment.report.figures import draw
from thermoment.results.results import Results, load
from thermoment.runs import example_node
from thermoment.runs.pictures import pictures

# Imports no JAX: processes that draw would wait for it.


def node(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a NodeSample as lists."""
    return {name: array.tolist() for name, array in vars(example_node.simulate_node(settings)).items()}


def figures(folder: str, files: Mapping[str, str], *share: int) -> list[str]:
    """Draws figures of folder/results.json into folder/figures: all of them, or a share of so many. Names the files.

    files: those that `pictures` reads, by their names in a run
    """
    results = load(Path(folder))
    shown = None
    if isinstance(results, Results):
        shown = pictures({name: Path(path) for name, path in files.items()}, results)
    return [path.name for path in draw.draw(results, Path(folder) / "figures", shown, *share)]
