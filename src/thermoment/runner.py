"""The stages of an experiment, each done once: data, projections, features, readouts, analysis, report.

What a stage gives is kept in the store under the SHA-256 of what it depends on, so the same command resumes, a changed
experiment computes what changed, and two experiments share what they have in common. The run's own folder is put
together from the store at the end.
"""

import json
import math
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment import __version__, classifiers, data, figures, projections, report, simulation
from thermoment.analysis import analyse, summarise
from thermoment.context import Context, Files, Listener, Note, digest
from thermoment.data import Dataset
from thermoment.engines import Engine, Task, choose
from thermoment.experiment import Experiment
from thermoment.files import write_whole
from thermoment.moments import Moments
from thermoment.projections import Made
from thermoment.readout import Readout
from thermoment.reservoir import Reservoir
from thermoment.run_folder import RESULTS, assemble, check_new, results_text, write_timings
from thermoment.settings import as_table
from thermoment.store import SUMS, FeatureStore, damaged, exclusive, identity, keep

_LONG_SECONDS = 3600.0
"""Sampling that takes longer than this is worth a note."""


def run(
    experiment: Experiment,
    folder: str | PathLike[str],
    *,
    store: str | PathLike[str] | None = None,
    data_dir: str | PathLike[str] | None = None,
    listener: Listener = lambda *_: None,
    note: Note = lambda _: None,
) -> dict[str, Any]:
    """Does what is not done yet of an experiment, puts its files into `folder`, and returns its results.

    `store` keeps what runs share: `.stages` beside `folder` unless given. The results are those of DESIGN's
    results.json; a study has one run per variant below its folder, repeats lie below as repeat-1, repeat-2, ...
    """
    target = Path(folder)
    check_new(target)
    context = Context(Path(store) if store is not None else target.resolve().parent / ".stages", listener, note)
    with exclusive(context.store):
        with context.timed("data"):
            dataset = data.load(experiment.data.name, data_dir).first(experiment.data.n_train, experiment.data.n_test)
        results = (_study if experiment.variants else _repeats)(experiment, dataset, target, context)
    write_timings(target, context.seconds)
    return results


def _study(experiment: Experiment, dataset: Dataset, folder: Path, context: Context) -> dict[str, Any]:
    """Every variant as a run of its own below the folder, and their accuracies side by side."""
    rows = []
    for name in experiment.variants:
        variant = experiment.variant(name)
        found = _repeats(variant, dataset, folder / name, context, with_report=False)
        accuracy = found.get("repeats") or summarise([found])
        rows.append({"variant": name, "description": variant.description, "accuracy": accuracy})
    results = {**_settings(experiment, dataset, found["engine"]), "study": rows}
    assemble(folder, experiment, results, _report(results, context))
    return results


def _repeats(
    experiment: Experiment, dataset: Dataset, folder: Path, context: Context, *, with_report: bool = True
) -> dict[str, Any]:
    """The run with the seeds as written, and its repeats with other seeds below its folder."""
    repeats = [experiment.repeat(number) for number in range(experiment.repeats)]
    with context.timed("projections"):
        made = projections.make(repeats, dataset, context)
    results, files = _once(repeats[0], made[0], dataset, context)
    all_results = [results]
    for number in range(1, experiment.repeats):
        found, other_files = _once(repeats[number], made[number], dataset, context)
        assemble(folder / f"repeat-{number}", repeats[number], found, other_files)
        all_results.append(found)
    if experiment.repeats > 1:
        results = {**results, "repeats": summarise(all_results)}
    assemble(folder, experiment, results, {**files, **(_report(results, context) if with_report else {})})
    return results


def _once(experiment: Experiment, made: Made, dataset: Dataset, context: Context) -> tuple[dict[str, Any], Files]:
    """One pass through the stages from the features to the analysis."""
    reservoirs = made.reservoirs
    engine = _engine(next(iter(reservoirs.values())), experiment, dataset)
    stores = {name: _store(reservoir, engine, experiment, dataset, context) for name, reservoir in reservoirs.items()}
    ids = {name: store.folder.name for name, store in stores.items()}
    heads = {"+".join(names): _fingerprint(head) for names, head in made.heads.items()}
    labels = digest(dataset, "y_train", "y_test")
    readouts = context.folder("readouts", ids, labels, experiment.readout, *([heads] if heads else []))
    if experiment.features.keep or damaged(readouts):
        with context.timed("features"):
            for name, store in stores.items():
                _features(name, store, reservoirs[name], engine, experiment, dataset, context)
    with context.timed("readouts"):
        keep(readouts, partial(_readouts, stores, made, experiment, dataset, context))
    with context.timed("analysis"):
        facts = json.loads((readouts / "facts.json").read_text("utf-8"))
        n_nodes = {name: reservoir.n_nodes for name, reservoir in reservoirs.items()}
        analysis = analyse(*classifiers.load_predictions(readouts), n_nodes)
        results = {**_settings(experiment, dataset, engine.name), **facts, **analysis}

    files = {**made.files, classifiers.PREDICTIONS: readouts / classifiers.PREDICTIONS}
    files |= {f"readouts/{path.name}": path for path in readouts.glob("*.safetensors")}
    for name, store in stores.items():
        if experiment.features.keep:
            files |= {f"features.zarr/{name}/{path.relative_to(store.folder)}": path for path in store.files()}
        else:
            shutil.rmtree(store.folder, ignore_errors=True)
    return results, files


def _fingerprint(head: Readout) -> str:
    return identity(head.weights, head.bias, head.scaling.mean, head.scaling.scale)


def _engine(reservoir: Reservoir, experiment: Experiment, dataset: Dataset) -> Engine:
    """The engine for the features, after it has agreed to do them."""
    drive = reservoir.drive(dataset.x_train[:1])
    task = Task(drive, reservoir.W, reservoir.dynamics, experiment.protocol, np.zeros(1, np.uint64), 0)
    engine, _ = choose(experiment.engine, task)
    engine.check(task)
    return engine


def _store(
    reservoir: Reservoir, engine: Engine, experiment: Experiment, dataset: Dataset, context: Context
) -> FeatureStore:
    protocol, chunk = experiment.protocol, experiment.features.chunk
    arrays = (reservoir.W, reservoir.K, reservoir.b)
    facts = (reservoir.dynamics, reservoir.stream, protocol, engine.name, chunk, digest(dataset, "x_train", "x_test"))
    n_samples = dataset.n_train + dataset.n_test
    return FeatureStore(
        context.folder("features", *arrays, *facts), n_samples, protocol.orders, reservoir.n_nodes, chunk
    )


def _features(
    name: str,
    store: FeatureStore,
    reservoir: Reservoir,
    engine: Engine,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> None:
    """Simulates the chunks that are not there. Sample ids number the training images first, then the test images."""
    store.prepare()
    missing = store.missing()
    total = sum(store.size(number) for number in missing)
    done, telling = dict.fromkeys(missing, 0), Lock()

    def simulated(number: int) -> Moments:
        def progress(count: int, _: int) -> None:
            with telling:
                done[number] = count
                context.listener(f"{engine.name} {name}, images", sum(done.values()), total)

        rows = store.rows(number)
        ids = np.arange(rows.start, rows.stop, dtype=np.uint64)
        inputs = _inputs(dataset, rows)
        return simulation.simulate(
            reservoir, inputs, experiment.protocol, engine=engine, sample_ids=ids, progress=progress
        )

    # While the engine is busy with a chunk, the last one goes to disk.
    with ThreadPoolExecutor(1) as writer:
        written: list[Future[None]] = []
        for number, moments in zip(missing, _in_turn(simulated, missing, engine.tasks_at_once), strict=True):
            while written:
                written.pop().result()
            written.append(writer.submit(store.write, number, moments.raw, moments.info.clip_count, moments.info.error))
            left = moments.info.seconds / store.size(number) * (total - store.size(number))
            if number == missing[0] and left > _LONG_SECONDS and engine.name != "meanfield":
                context.note(
                    f"The features of {name} will take {left / 3600:.1f} hours with {engine.name}. "
                    "The engine meanfield gives them in minutes, by an approximation that states its error."
                )
        for writing in written:
            writing.result()


def _in_turn(work: Callable[[int], Moments], numbers: Sequence[int], at_once: int) -> Iterator[Moments]:
    """What `work` gives, in order, so many under way at a time; one at a time in the thread that asks."""
    if at_once == 1:
        yield from map(work, numbers)
        return
    with ThreadPoolExecutor(at_once) as pool:
        begun: deque[Future[Moments]] = deque()
        for number in numbers:
            begun.append(pool.submit(work, number))
            if len(begun) > at_once:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _inputs(dataset: Dataset, rows: slice) -> NDArray[np.float32]:
    """Images `rows` of the training images followed by the test images."""
    start, stop = (max(row - dataset.n_train, 0) for row in (rows.start, rows.stop))
    return np.concatenate([dataset.x_train[rows], dataset.x_test[start:stop]])


def _readouts(
    stores: dict[str, FeatureStore],
    made: Made,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    folder: Path,
) -> None:
    """Readouts, predictions, and what the features know of themselves."""
    plan = experiment.readout
    fitted = classifiers.fit(stores, dataset, plan.sgd, converged=plan.converged, listener=context.listener)
    heads = classifiers.heads(made.heads, experiment.protocol.orders)
    for model, readout in (fitted | heads).items():
        readout.save(folder / classifiers.readout_file(model), {"model": model.key})
    predictions = classifiers.predict(fitted, stores, dataset)
    if heads:
        predictions |= classifiers.predict_trained(heads, classifiers.blocks(stores, dataset), "trained")
        limit = _without_sampling(made.reservoirs, experiment, dataset, context)
        predictions |= classifiers.predict_trained(heads, limit, "predicted")
    classifiers.save_predictions(folder, dataset.y_test, predictions)
    squares = [[error**2 for error in store.error().values()] for store in stores.values()]
    error = dict(zip(map(str, experiment.protocol.orders), np.sqrt(np.mean(squares, axis=0)).tolist(), strict=True))
    clip_count = sum(store.clip_count() for store in stores.values())
    facts: dict[str, Any] = {"clip_count": clip_count, "error": error if any(error.values()) else None}
    if made.histories:
        last = {"+".join(names): history[-1] for names, history in made.histories.items()}
        facts["trained"] = [{"model": model, **epoch} for model, epoch in last.items()]
    write_whole(folder / "facts.json", json.dumps(facts).encode())


def _without_sampling(
    reservoirs: Mapping[str, Reservoir], experiment: Experiment, dataset: Dataset, context: Context
) -> dict[str, NDArray[Any]]:
    """Features of the test images by the mean field, in the limit of infinitely many replicas."""
    protocol = replace(experiment.protocol, n_replicas=math.inf)
    found = {}
    for name, reservoir in reservoirs.items():
        listener = partial(context.listener, f"meanfield {name}, images")
        moments = simulation.simulate(reservoir, dataset.x_test, protocol, engine="meanfield", progress=listener)
        found[name] = moments.features()
    return found


def _report(results: dict[str, Any], context: Context) -> Files:
    """Figures and report.html, made from the results alone."""
    text = results_text(results)
    folder = context.folder("report", text, __version__)

    def build(folder: Path) -> None:
        context.listener("figures and report", 0, 1)
        write_whole(folder / RESULTS, text.encode())
        (folder / "figures").mkdir()
        figures.draw(results, folder / "figures")
        report.write(folder)
        context.listener("figures and report", 1, 1)

    with context.timed("report"):
        keep(folder, build)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path for path in paths if path.name not in (SUMS, RESULTS)}


def _settings(experiment: Experiment, dataset: Dataset, engine: str) -> dict[str, Any]:
    """What results.json says of the experiment itself."""
    settings = as_table(experiment)
    if experiment.protocol.n_replicas == math.inf:
        settings["protocol"]["n_replicas"] = None
    names = ("name", "n_train", "n_test", "n_inputs", "n_classes", "sha256")
    if experiment.finite_time is not None and experiment.finite_time.n_replicas == math.inf:
        settings["finite_time"]["n_replicas"] = None
    parts = ("dynamics", "protocol", "training", "finite_time", "reservoirs", "readout")
    return {
        "experiment": experiment.name,
        "description": experiment.description,
        "dataset": {name: getattr(dataset, name) for name in names},
        "engine": engine,
        "settings": {name: settings[name] for name in parts if name in settings},
    }
