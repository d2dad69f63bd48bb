"""An experiment from its settings to its folder. Its stages are done once each: reservoirs, features, readouts, report.

What a stage gives is kept in the store under the SHA-256 of what it depends on, so the same command resumes, a changed
experiment computes what changed, and two experiments share what they have in common. The run's own folder is put
together from the store at the end. Other processes and machines may have filled the store before: runs/executors.py.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import Any

from thermoment import data
from thermoment._support.compilation import keep_compiled
from thermoment._support.identity import identity
from thermoment._support.progress import Listener, Note, on_stderr
from thermoment.data import table
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment, read, read_any
from thermoment.experiments.machine import MachineExperiment
from thermoment.results.machine import MachineResults
from thermoment.results.results import Results, StudyResults
from thermoment.runs import plan
from thermoment.runs.check import check
from thermoment.runs.claims import take
from thermoment.runs.context import Context
from thermoment.runs.executors import Client, Part, do_on_cluster, do_part
from thermoment.runs.folder import check_new, is_finished, write_timings
from thermoment.runs.store import Store
from thermoment.runs.studies import study, with_repeats
from thermoment.runs.tasks import Job, prepare

AnyResults = Results | StudyResults | MachineResults


def run(
    experiment: Experiment | MachineExperiment | str | PathLike[str],
    folder: str | PathLike[str] | None = None,
    *,
    store: str | PathLike[str] | None = None,
    data_dir: str | PathLike[str] | None = None,
    client: Client | None = None,
    progress: bool = False,
    listener: Listener | None = None,
    note: Note = lambda _: None,
) -> AnyResults:
    """Does what is not done yet of an experiment, puts its files into `folder`, and returns its results.

    Args:
        experiment: a name that ships with the package, a TOML file, or an `Experiment`; or a `MachineExperiment`,
            which takes a minute, is done anew by every call and needs no store, no data_dir and no client.
        folder: runs/NAME unless given.
        store: what runs share, a folder or a URL that fsspec knows, such as s3://bucket/path; `.stages` beside
            `folder` unless given. Any number of runs, processes and machines may use it at a time.
        data_dir: a folder with the data set's files.
        client: of a Dask cluster, whose workers then do all that takes long; its store must be one that they all see.
        listener: is told of progress: what is done, how much of it, how much there is.
        note: is told of what a person should know, in sentences.
        progress: whether it is shown on stderr.

    The results are those of results.json; `thermoment.load(folder)` gives the classifier. A study has one run per
    variant below its folder; repeats lie below as repeat-1, repeat-2, ...
    """
    with on_stderr() if progress and listener is None else nullcontext(listener) as heard:
        given = read_any(experiment) if isinstance(experiment, str | PathLike) else experiment
        if isinstance(given, MachineExperiment):
            given.refuse(store=store, data_dir=data_dir, client=client)
            from thermoment.runs.machine import run_machine  # with matplotlib, for which other runs do not wait

            return run_machine(given, folder, heard)
        with _jax_started() if client is None else nullcontext():
            context, dataset, chosen, target = _begun(given, folder, store, data_dir, heard, note)
            if client is None:
                check(chosen, dataset)
                if not is_finished(target) and (sentence := plan.warning(chosen, dataset)):
                    note(sentence)
        with context.store.watched() as look:
            if client is not None:

                def listen(*what: Any) -> None:
                    look()  # workers would go on in a new folder of the same name
                    context.listener(*what)

                place = None if context.store.remote else context.store.folder
                job = _job(chosen, dataset, context, data_dir)
                with context.timed("cluster"):
                    sizes = (dataset.n_train, dataset.n_test)
                    job = do_on_cluster(client, job, *sizes, place, listen, note)
                context = replace(context, engines=job.engines, accelerated=job.accelerated)
            return _put_together(chosen, dataset, target, context)


def run_part(
    experiment: Experiment | str | PathLike[str],
    part: Part,
    folder: str | PathLike[str] | None = None,
    *,
    store: str | PathLike[str] | None = None,
    data_dir: str | PathLike[str] | None = None,
    listener: Listener | None = None,
    note: Note = lambda _: None,
) -> Results | StudyResults | None:
    """Does a share of an experiment, as one of many processes on one store; the arguments are those of `run`.

    Of the processes that find nothing left to do one puts the run together and returns its results; others return None.
    """
    with _jax_started():
        context, dataset, chosen, target = _begun(experiment, folder, store, data_dir, listener, note)
    job = prepare(_job(chosen, dataset, context, data_dir), dataset)
    context = replace(context, engines=job.engines, accelerated=job.accelerated)
    with context.store.watched():
        if not do_part(job, part, dataset.n_train, dataset.n_test, context):
            return None
        last = take(context.store.board, f"last-{identity(str(target.resolve()))[:32]}")
        if last is None:  # another process puts it together
            return None
        try:
            return _put_together(chosen, dataset, target, context)
        finally:
            last.release()


@contextmanager
def _jax_started() -> Iterator[None]:
    """JAX is started meanwhile: on a GPU that takes a second or two. What fails inside does not wait for it."""
    starting = Thread(target=keep_compiled, name="start of JAX")
    starting.start()
    yield
    starting.join()


def _begun(
    experiment: Experiment | str | PathLike[str],
    folder: str | PathLike[str] | None,
    store: str | PathLike[str] | None,
    data_dir: str | PathLike[str] | None,
    listener: Listener | None,
    note: Note,
) -> tuple[Context, Dataset, Experiment, Path]:
    """What every run begins with: its store, its data, its settings and its folder, as far as they are asked for."""
    chosen = experiment if isinstance(experiment, Experiment) else read(experiment)
    target = Path(folder) if folder is not None else Path("runs") / chosen.name
    check_new(target)
    shared = Store.at(store if store is not None else target.resolve().parent / ".stages")
    if shared.remote:
        shared.remote.check()
    context = Context(shared, listener or (lambda *_: None), note)
    with context.timed("data"):
        whole = data.load(chosen.data.name, data_dir, split=chosen.data.split, listener=context.listener)
        dataset = whole.first(chosen.data.n_train, chosen.data.n_test)
    if split := chosen.data.split:
        note(table.describe(dataset, split))
    return context, dataset, chosen, target


def _job(experiment: Experiment, dataset: Dataset, context: Context, data_dir: str | PathLike[str] | None) -> Job:
    """The experiment for other processes, which have other current folders."""
    name, remote = experiment.data.name, context.store.remote
    return Job(
        experiment,
        remote.url if remote else str(context.store.folder.resolve()),
        name if name in data.NAMES else os.path.abspath(os.path.expanduser(name)),
        None if data_dir is None else os.path.abspath(data_dir),
        dataset.sha256,
    )


def _put_together(experiment: Experiment, dataset: Dataset, target: Path, context: Context) -> Results | StudyResults:
    """Goes through all stages, does what is not in the store, and puts the run's folder together."""
    context.store.clean()
    # Two runs that write to one folder take turns.
    with context.store.claimed(f"run-{identity(str(target.resolve()))[:32]}", context.note):
        results: Results | StudyResults = (study if experiment.points else with_repeats)(
            experiment, dataset, target, context
        )
        write_timings(target, context.seconds)
    return results
