"""Every figure of a run, as SVG and PNG: matplotlib is used in this package only, without global state."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from thermoment.physics import Dynamics
from thermoment.plot.style import look, write
from thermoment.report.figures.error_sets import errors
from thermoment.report.figures.learning import confusion, misread, training, weights
from thermoment.report.figures.node import density, paths, potential
from thermoment.report.figures.scan import scan
from thermoment.report.figures.schematic import fusion
from thermoment.report.figures.seeds import repeats, study
from thermoment.results.pictures import Pictures
from thermoment.results.results import Results, StudyResults
from thermoment.results.study import factors

_LONGER = {"errors": 2.0, "density": 2.0, "fusion": 1.5}
"""Figures that take longer than the others, and how many times as long."""


def draw(
    results: Results | StudyResults, folder: Path, pictures: Pictures | None = None, share: int = 0, shares: int = 1
) -> list[Path]:
    """Writes each figure that `results` call for, and says which files were written.

    Where several processes draw, each draws another one of `shares` shares, which take about the same time.

    potential, paths  one node of the experiment's well under three drives, where `pictures` have one
    density           the density it is read from, and its moments; not at zero temperature
    errors            error sets, their overlaps, errors of every model
    confusion         which class was taken for which
    misread           images that were taken for the wrong class, where `pictures` have any
    training          loss over the epochs, where `pictures` have the course of a training
    weights           K as images, where inputs are images
    fusion            the two ways to join reservoirs, where there are several
    repeats           accuracy over seeds, where there are repeats
    study             accuracy over seeds and variants: the only figure of a study

    The same results give the same bytes. Cost: a second or two.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    figures = _figures(results, pictures or Pictures())
    mine = _shared_out(list(figures), shares)[share]
    with look():
        for name, figure in figures.items():
            if name in mine:
                written += write(figure(), folder / name)
    return written


def _shared_out(names: Sequence[str], shares: int) -> list[list[str]]:
    """The names in `shares` lists: those that take longest first, each to who has least to do."""
    lists: list[list[str]] = [[] for _ in range(shares)]
    seconds = [0.0] * shares
    for name in sorted(names, key=lambda name: -_LONGER.get(name, 1.0)):
        free = seconds.index(min(seconds))
        lists[free].append(name)
        seconds[free] += _LONGER.get(name, 1.0)
    return lists


def _figures(results: Results | StudyResults, pictures: Pictures) -> dict[str, Callable[[], Figure]]:
    if isinstance(results, StudyResults):
        return {"study": lambda: scan(results) if factors(results) else study(results)}
    figures: dict[str, Callable[[], Figure]] = {}
    if (node := pictures.node) is not None:
        dynamics = Dynamics(**results.settings["dynamics"])
        figures |= {"potential": lambda: potential(node, dynamics), "paths": lambda: paths(node)}
        if dynamics.kT > 0:
            figures["density"] = lambda: density(node, dynamics)
    figures["errors"] = lambda: errors(results)
    if (counted := results.confusion) is not None:
        figures["confusion"] = lambda: confusion(counted)
    if (mistakes := pictures.misread) is not None:
        figures["misread"] = lambda: misread(mistakes)
    if pictures.curves:
        figures["training"] = lambda: training(pictures.curves)
    if pictures.weights:
        figures["weights"] = lambda: weights(pictures.weights)
    if len(results.settings["reservoirs"]) > 1:
        figures["fusion"] = lambda: fusion(results)
    if results.n_repeats > 1:
        figures["repeats"] = lambda: repeats(results)
    return figures
