"""What stands below each figure, and what a screen reader says instead of it."""

from typing import NamedTuple

from thermoment.report.formatting import FIT_NAMES, MINUS, listing, percent
from thermoment.results.results import Results, StudyResults
from thermoment.results.table import Table


class Caption(NamedTuple):
    """Words for a figure."""

    text: str
    alt: str


def captions(results: Results | StudyResults) -> dict[str, Caption]:
    """A caption for every figure that may be there."""
    if isinstance(results, StudyResults):
        return {"study": _study(results)}
    return _node(results) | {
        "errors": _errors(results),
        "fusion": _fusion(results),
        "repeats": _repeats(results),
    }


def _node(results: Results) -> dict[str, Caption]:
    settings = results.settings["dynamics"]
    t_final = results.settings["protocol"]["t_final"]
    start = "rest" if "t_rest" in results.settings["protocol"] else "x = 0"
    well = f"J₂ = {settings['J2']:g}, J₄ = {settings['J4']:g}, kT = {settings['kT']:g}"
    return {
        "potential": Caption(
            f"The driven well U(x; h) = J₂ x² + J₄ x⁴ {MINUS} h x of one node ({well}). A drive h tilts it and moves "
            "its minimum (marked).",
            f"Line plot of the potential of one node against its state, for three drives; {well}.",
        ),
        "paths": Caption(
            f"Simulated paths of a single node from {start} under three drives: six replicas each (thin), the mean of "
            f"1024 (thick), and at the right where all 1024 are when they are read at t = {t_final:g}.",
            f"Random paths from {start.replace('x = 0', 'zero')} that relax to another level for each of three drives, "
            f"with histograms at time {t_final:g}.",
        ),
        "density": Caption(
            f"(a) Density of a single node when it is read at t = {t_final:g}, from 16384 simulated replicas for each "
            "drive, beside equilibrium (dotted). (b) What each moment weighs under the strongest drive: the area under "
            "xᵖ P(x) is E[xᵖ], given with its standard error.",
            "Histograms of the state of one node at the reading time for three drives, with the equilibrium curves; "
            "beside them one histogram times x, x squared and x to the fourth.",
        ),
    }


def _errors(results: Results) -> Caption:
    table = Table.of(results.accuracy)
    fit = table.main
    singles = [row for model in table.singles if (row := table.get(model, fit))]
    sizes = listing([f"{row.model.name} {row.total - row.correct}" for row in singles])
    bars = (
        "Test errors of every model in per cent, as bars with Wilson's 95 % intervals and the accuracy at the right; "
        "the same model with another readout is a mark on its bar. “All” stands for all reservoirs, “averaged” "
        "for the mean output of one readout per reservoir"
    )
    if len(singles) < 2:
        return Caption(f"{bars}.", f"Bar chart of test errors; wrong test samples: {sizes}.")
    sets = "every combination that occurs, with its count; of circles, areas and pairwise overlaps are to scale"
    if len(singles) > 3:
        sets = "dots say which reservoirs, bars how many samples exactly these get wrong"
    return Caption(
        f"(a) Test samples that each single reservoir gets wrong ({FIT_NAMES[fit]}): {sets}. (b) Jaccard "
        f"overlap of wrong sets: wrong in both over wrong in either. (c) {bars}.",
        "Diagram of error sets, matrix of overlaps and bar chart of test errors; the tables of this page hold every "
        f"number. Wrong test samples: {sizes}.",
    )


def _fusion(results: Results) -> Caption:
    return Caption(
        "Two ways to read several reservoirs. (a) One linear readout of all features joined. (b) One readout per "
        "reservoir, whose logits are averaged.",
        f"Schematic: the input drives {len(results.settings['reservoirs'])} reservoirs; their features are joined "
        "before one readout, or read one by one and averaged.",
    )


def _repeats(results: Results) -> Caption:
    table = Table.of(results.repeats) if results.repeats else None
    means = [row.mean for row in table.rows[table.joined].values()] if table else []
    return Caption(
        f"Test accuracy over {results.n_repeats} seeds: every run (dot), their mean (line), and the range in which "
        "one more run falls with probability 95 % (bar).",
        "Dot plot of test accuracy over seeds for every model"
        + (f"; all reservoirs joined: {percent(means[0])} on average." if means else "."),
    )


def _study(results: StudyResults) -> Caption:
    return Caption(
        f"Test accuracy of {len(results.study)} variants, one panel a model: every seed (dot), their mean (line), "
        "the range in which one more run falls with probability 95 % (bar), and the paper's number where there is one "
        "(dashed).",
        "Dot plots of test accuracy, one panel a model, one row a variant. The tables of this page hold every number.",
    )
