"""Repeats of an experiment, and studies: the points of one experiment side by side."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.scan import scanned
from thermoment.results.analysis import summarise, summarise_baselines
from thermoment.results.results import Results, StudyResults, Variant
from thermoment.runs.context import Context
from thermoment.runs.folder import assemble, claim
from thermoment.runs.reservoirs import is_accelerated, make
from thermoment.runs.stages import describe, one_pass, report_files
from thermoment.runs.tasks import read_later


def study(experiment: Experiment, dataset: Dataset, folder: Path, context: Context) -> StudyResults:
    """Every point as a run of its own below the folder, and their accuracies side by side."""
    claim(folder, experiment)
    spared = read_later(experiment, dataset.n_train, dataset.n_test, is_accelerated(context.accelerated))
    factors = tuple(scanned(experiment.scan))
    rows = []
    for name, changes in experiment.points.items():
        point = experiment.variant(name)
        of_point = {repeat: names for (of, repeat), names in spared.items() if of == name}
        every = repeated(point, dataset, folder / name, context, of_point, with_report=False)
        rows.append(
            Variant(
                name,
                point.description,
                summarise([found.accuracy for found in every]),
                {key: None if changes[key] == math.inf else changes[key] for key in factors} or None,
                summarise_baselines([found.baseline for found in every]),
                _cost(every),
            )
        )
    described = describe(experiment, dataset, every[0].engine)
    results = StudyResults(**vars(described), study=tuple(rows))
    assemble(folder, experiment, results, report_files(results, {}, context))
    return results


def _cost(every: list[Results]) -> float | None:
    """What an answer takes in units of kT, the mean over the seeds, to six digits."""
    known = [found.cost.answer for found in every if found.cost is not None and found.cost.answer is not None]
    return float(f"{sum(known) / len(known):.6g}") if len(known) == len(every) else None


def with_repeats(experiment: Experiment, dataset: Dataset, folder: Path, context: Context) -> Results:
    """An experiment that is no study: the run with the seeds as written, and its repeats below its folder."""
    return repeated(experiment, dataset, folder, context)[0]


def repeated(
    experiment: Experiment,
    dataset: Dataset,
    folder: Path,
    context: Context,
    spared: Mapping[int, set[str]] | None = None,
    *,
    with_report: bool = True,
) -> list[Results]:
    """The run with the seeds as written, and its repeats with other seeds below its folder: the results of each.

    The first has a summary of them all. spared: of a repeat the names of features that stay in the store
    """
    claim(folder, experiment)
    repeats = [experiment.repeat(number) for number in range(experiment.repeats)]
    with context.timed("reservoirs"):
        made = make(repeats, dataset, context)
    spared = spared or {}
    results, files = one_pass(repeats[0], made[0], dataset, context, spared.get(0, ()))
    all_results = [results]
    for number in range(1, experiment.repeats):
        found, other_files = one_pass(repeats[number], made[number], dataset, context, spared.get(number, ()))
        assemble(folder / f"repeat-{number}", repeats[number], found, other_files)
        all_results.append(found)
    if experiment.repeats > 1:
        results = replace(results, repeats=summarise([found.accuracy for found in all_results]))
    shown = report_files(results, files, context) if with_report else {}
    assemble(folder, experiment, results, {**files, **shown})
    return [results, *all_results[1:]]
