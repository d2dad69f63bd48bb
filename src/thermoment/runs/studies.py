"""Repeats of an experiment, and studies: the points of one experiment side by side."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.toml import as_table
from thermoment.results.analysis import summarise, summarise_baselines
from thermoment.results.results import Results, StudyResults, Variant
from thermoment.runs.context import Context, Files
from thermoment.runs.drawing import Drawing
from thermoment.runs.equilibrium import distances
from thermoment.runs.folder import assemble, claim
from thermoment.runs.reservoirs import is_accelerated, make
from thermoment.runs.stages import describe, one_pass, report_files
from thermoment.runs.tasks import read_later


def study(experiment: Experiment, dataset: Dataset, folder: Path, context: Context) -> StudyResults:
    """Every point as a run of its own below the folder, and their accuracies side by side."""
    claim(folder, experiment)
    spared = read_later(experiment, dataset.n_train, dataset.n_test, is_accelerated(context.accelerated))
    rows, engines = [], []
    for name, made_of in experiment.points.items():
        point = experiment.variant(name)
        of_point = {repeat: names for (of, repeat), names in spared.items() if of == name}
        every = repeated(point, dataset, folder / name, context, of_point, with_report=False)
        rows.append(
            Variant(
                name,
                point.description,
                summarise([found.accuracy for found in every]),
                {key: _finite(made_of.changes[key]) for key in made_of.scanned} or None,
                summarise_baselines([found.baseline for found in every]),
                _cost(every),
                made_of.variant if any(one.own for one in experiment.points.values()) else None,
                distance=_mean(every[0].distance.values()) if every[0].distance else None,
            )
        )
        engines.append(every[0].engine)
    if len(set(engines)) > 1:
        rows = [replace(row, engine=engine) for row, engine in zip(rows, engines, strict=True)]
    described = describe(experiment, dataset, engines[0])
    results = StudyResults(**vars(described), study=tuple(rows))
    with Drawing() as drawing:
        assemble(folder, experiment, results, report_files(results, {}, context, drawing))
    return results


def _cost(every: list[Results]) -> float | None:
    """What an answer takes in units of kT, the mean over the seeds, to six digits."""
    known = [found.cost.answer for found in every if found.cost is not None and found.cost.answer is not None]
    return _mean(known) if len(known) == len(every) else None


def _mean(values: Iterable[float]) -> float:
    """To six digits."""
    found = list(values)
    return float(f"{sum(found) / len(found):.6g}")


def _finite(value: Any) -> Any:
    """A value for JSON, which has no infinity."""
    return None if value == math.inf else value


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
    with Drawing() as drawing:

        def one(number: int) -> tuple[Results, Files]:
            last = with_report and number == experiment.repeats - 1
            begun = partial(drawing.begin, as_table(repeats[0])) if last else (lambda: None)
            return one_pass(repeats[number], made[number], dataset, context, spared.get(number, ()), begun)

        results, files = one(0)
        if experiment.equilibrium:
            found = distances(repeats[0], made[0].reservoirs, results.engine, dataset, context)
            results = replace(results, distance=found)
        all_results = [results]
        for number in range(1, experiment.repeats):
            other, other_files = one(number)
            assemble(folder / f"repeat-{number}", repeats[number], other, other_files)
            all_results.append(other)
        if experiment.repeats > 1:
            results = replace(results, repeats=summarise([found.accuracy for found in all_results]))
        shown = report_files(results, files, context, drawing) if with_report else {}
    assemble(folder, experiment, results, {**files, **shown})
    return [results, *all_results[1:]]
