"""Repeats and variants of an experiment."""

from dataclasses import replace
from pathlib import Path

from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.results.analysis import summarise
from thermoment.results.results import Results, StudyResults, Variant
from thermoment.runs.context import Context
from thermoment.runs.folder import assemble, claim
from thermoment.runs.reservoirs import make
from thermoment.runs.stages import describe, one_pass, report_files


def study(experiment: Experiment, dataset: Dataset, folder: Path, context: Context) -> StudyResults:
    """Every variant as a run of its own below the folder, and their accuracies side by side."""
    claim(folder, experiment)
    rows = []
    for name in experiment.variants:
        variant = experiment.variant(name)
        found = with_repeats(variant, dataset, folder / name, context, with_report=False)
        rows.append(Variant(name, variant.description, found.repeats or summarise([found.accuracy])))
    results = StudyResults(**vars(describe(experiment, dataset, found.engine)), study=tuple(rows))
    assemble(folder, experiment, results, report_files(results, {}, context))
    return results


def with_repeats(
    experiment: Experiment, dataset: Dataset, folder: Path, context: Context, *, with_report: bool = True
) -> Results:
    """The run with the seeds as written, and its repeats with other seeds below its folder."""
    claim(folder, experiment)
    repeats = [experiment.repeat(number) for number in range(experiment.repeats)]
    with context.timed("reservoirs"):
        made = make(repeats, dataset, context)
    results, files = one_pass(repeats[0], made[0], dataset, context)
    all_results = [results]
    for number in range(1, experiment.repeats):
        found, other_files = one_pass(repeats[number], made[number], dataset, context)
        assemble(folder / f"repeat-{number}", repeats[number], found, other_files)
        all_results.append(found)
    if experiment.repeats > 1:
        results = replace(results, repeats=summarise([found.accuracy for found in all_results]))
    shown = report_files(results, files, context) if with_report else {}
    assemble(folder, experiment, results, {**files, **shown})
    return results
