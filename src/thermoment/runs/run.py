"""An experiment from its settings to its folder. Its stages are done once each: reservoirs, features, readouts, report.

What a stage gives is kept in the store under the SHA-256 of what it depends on, so the same command resumes, a changed
experiment computes what changed, and two experiments share what they have in common. The run's own folder is put
together from the store at the end.
"""

from os import PathLike
from pathlib import Path

from thermoment import data
from thermoment._support.identity import identity
from thermoment._support.progress import Listener, Note
from thermoment.experiments.experiment import Experiment
from thermoment.results.results import Results, StudyResults
from thermoment.runs import plan
from thermoment.runs.check import check
from thermoment.runs.context import Context
from thermoment.runs.folder import check_new, is_finished, write_timings
from thermoment.runs.store import Store
from thermoment.runs.studies import study, with_repeats


def run(
    experiment: Experiment,
    folder: str | PathLike[str],
    *,
    store: str | PathLike[str] | None = None,
    data_dir: str | PathLike[str] | None = None,
    listener: Listener = lambda *_: None,
    note: Note = lambda _: None,
) -> Results | StudyResults:
    """Does what is not done yet of an experiment, puts its files into `folder`, and returns its results.

    `store` keeps what runs share: `.stages` beside `folder` unless given. Any number of runs may use it at a time. The
    results are those of results.json. A study has one run per variant below its folder; repeats lie below as repeat-1,
    repeat-2, ...
    """
    target = Path(folder)
    check_new(target)
    shared = Store.at(store if store is not None else target.resolve().parent / ".stages")
    context = Context(shared, listener, note)
    with context.timed("data"):
        whole = data.load(experiment.data.name, data_dir, listener=listener)
        dataset = whole.first(experiment.data.n_train, experiment.data.n_test)
    check(experiment, dataset)
    if not is_finished(target) and (sentence := plan.warning(experiment, dataset)):
        note(sentence)
    shared.clean()
    # Two runs that write to one folder take turns.
    with shared.claimed(f"run-{identity(str(target.resolve()))[:32]}", note):
        results: Results | StudyResults = (study if experiment.variants else with_repeats)(
            experiment, dataset, target, context
        )
        write_timings(target, context.seconds)
    return results
