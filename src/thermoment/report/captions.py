"""What stands below each figure, and what a screen reader says instead of it."""

from typing import NamedTuple

from thermoment.report.findings import mistakes
from thermoment.report.formatting import FIT_NAMES, MINUS, all_of, listing, percent
from thermoment.results.pictures import MOST_MISREAD, MOST_NODES, MOST_RESERVOIRS
from thermoment.results.results import Results, StudyResults
from thermoment.results.study import factors
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
        "confusion": _confusion(results),
        "misread": _misread(results),
        "training": _training(results),
        "weights": _weights(results),
        "fusion": _fusion(results),
        "repeats": _repeats(results),
    }


def _node(results: Results) -> dict[str, Caption]:
    settings = results.settings["dynamics"]
    t_final = results.settings["protocol"]["t_final"]
    start = "rest" if "t_rest" in results.settings["protocol"] else "x = 0"
    third = f"J₃ = {settings['J3']:g}, " if "J3" in settings else ""
    formula = "J₂ x² + J₃ x³ + J₄ x⁴" if third else "J₂ x² + J₄ x⁴"
    well = f"J₂ = {settings['J2']:g}, {third}J₄ = {settings['J4']:g}, kT = {settings['kT']:g}"
    return {
        "potential": Caption(
            f"The driven well U(x; h) = {formula} {MINUS} h x of one node ({well}). A drive h tilts it and moves "
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


def _confusion(results: Results) -> Caption:
    table = Table.of(results.accuracy)
    who = f"{all_of(table.headline.model.reservoirs)} ({FIT_NAMES[table.headline.model.readout]})"
    return Caption(
        f"How often each class was taken for each by {who[0].lower()}{who[1:]}: a row for every true class, a column "
        "for what its test samples were taken for. Right answers are blue, mistakes the darker the more there are.",
        f"Confusion matrix of {results.dataset.n_classes} classes; {mistakes(results)}",
    )


def _misread(results: Results) -> Caption:
    row = Table.of(results.accuracy).headline
    wrong = row.total - row.correct
    which = f"All {wrong}" if wrong <= MOST_MISREAD else f"The {MOST_MISREAD} most confident of {wrong}"
    chosen = "" if wrong <= MOST_MISREAD else ", those in which the wrong class got the highest probability"
    return Caption(
        f"{which} misread test images{chosen}: what each is → what it was taken for, and the probability that the "
        "readout gave to that answer.",
        f"Pictures of up to {MOST_MISREAD} misread test images, each with its true class, the class it was taken for "
        "and the probability of that answer.",
    )


def _training(results: Results) -> Caption:
    stages = max((len(one.get("stages", ())) for one in results.settings["reservoirs"]), default=0)
    steps = " A curve with a step has several stages, each with a new head." if stages > 1 else ""
    validated = results.settings.get("finite_time", {}).get("validation")
    held_out = "; and how many of the images that were held out were right" if validated else ""
    return Caption(
        f"The loss of every training after each epoch, a mean over its batches{held_out}.{steps} The losses of "
        "different trainings are of different features and not to be compared with each other.",
        "Line plots of the training loss over epochs, a curve for each training.",
    )


def _weights(results: Results) -> Caption:
    model = Table.of(results.accuracy).headline.model
    several = len(model.reservoirs)
    which = "each reservoir" if several <= MOST_RESERVOIRS else f"the first {MOST_RESERVOIRS} reservoirs"
    trained = model.readout == "trained" or any(one.get("stages") for one in results.settings["reservoirs"])
    return Caption(
        f"The input weights K {'after training' if trained else 'as drawn'}, as images: the first {MOST_NODES} nodes "
        f"of {which}. A bright pixel pushes the node up where it is vermilion, down where it is blue.",
        f"Grids of small images, one for each of the first {MOST_NODES} nodes of every reservoir.",
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
    if varied := factors(results):
        marks = "every seed (dot), the mean over seeds and its 95 % interval (bar)"
        raw = ", and the raw inputs without a reservoir (dotted)" if results.study[0].baseline else ""
        return Caption(
            f"Test accuracy over {listing(varied)}, of all reservoirs of each point: {marks}{raw}.",
            f"Plot of test accuracy over {listing(varied)}. The tables of this page hold every number.",
        )
    return Caption(
        f"Test accuracy of {len(results.study)} variants, one panel a model that several of them have: every seed "
        "(dot), their mean (line), the range in which one more run falls with probability 95 % (bar), and the paper's "
        "number where there is one (dashed).",
        "Dot plots of test accuracy, one panel a model, one row a variant. The tables of this page hold every number.",
    )
