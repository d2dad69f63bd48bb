"""The stages of an experiment, each done once: data, projections, features, readouts, analysis, report.

What a stage gives is kept in the store under the SHA-256 of what it depends on, so the same command resumes, a changed
experiment computes what changed, and two experiments share what they have in common. The run's own folder is put
together from the store at the end.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from thermoment import __version__, classifiers, data, figures, report, simulation
from thermoment.analysis import analyse, summarise
from thermoment.data import Dataset
from thermoment.engines import Engine, Task, choose
from thermoment.experiment import Experiment, ReservoirPlan
from thermoment.files import write_whole
from thermoment.projection import train_side_by_side
from thermoment.reservoir import Reservoir
from thermoment.run_folder import RESULTS, assemble, check_new, results_text, write_timings
from thermoment.settings import as_table
from thermoment.store import SUMS, FeatureStore, damaged, exclusive, identity, keep

Listener = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""
Note = Callable[[str], None]
"""Called with a sentence a person may want to act on."""
Files = dict[str, Path]
"""Names in the run's folder, and where the store has them."""

_LONG_SECONDS = 3600.0
"""Sampling that takes longer than this is worth a note."""
# Raised when a stage computes something else from the same settings.
_VERSIONS = {"projection": 1, "features": 1, "readouts": 1, "report": 1}


@dataclass(frozen=True)
class _Context:
    """Where a run keeps its stages and whom it tells."""

    store: Path
    listener: Listener
    note: Note
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def folder(self, stage: str, *facts: Any) -> Path:
        """Where the store has what `stage` makes of `facts`."""
        return self.store / f"{stage}-{identity(_VERSIONS[stage], *facts)[:32]}"


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
    context = _Context(Path(store) if store is not None else target.resolve().parent / ".stages", listener, note)
    with exclusive(context.store):
        with context.timed("data"):
            dataset = data.load(experiment.data.name, data_dir).first(experiment.data.n_train, experiment.data.n_test)
        results = (_study if experiment.variants else _repeats)(experiment, dataset, target, context)
    write_timings(target, context.seconds)
    return results


def _study(experiment: Experiment, dataset: Dataset, folder: Path, context: _Context) -> dict[str, Any]:
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
    experiment: Experiment, dataset: Dataset, folder: Path, context: _Context, *, with_report: bool = True
) -> dict[str, Any]:
    """The run with the seeds as written, and its repeats with other seeds below its folder."""
    repeats = [experiment.repeat(number) for number in range(experiment.repeats)]
    with context.timed("projections"):
        projections = _projections(repeats, dataset, context)
    results, files = _once(repeats[0], projections[0], dataset, context)
    all_results = [results]
    for number in range(1, experiment.repeats):
        found, other_files = _once(repeats[number], projections[number], dataset, context)
        assemble(folder / f"repeat-{number}", repeats[number], found, other_files)
        all_results.append(found)
    if experiment.repeats > 1:
        results = {**results, "repeats": summarise(all_results)}
    assemble(folder, experiment, results, {**files, **(_report(results, context) if with_report else {})})
    return results


def _projections(repeats: list[Experiment], dataset: Dataset, context: _Context) -> list[dict[str, Path]]:
    """For every repeat where its reservoirs are, drawn and trained."""
    # A GPU trains the repeats of a reservoir side by side. They are named by all of them: rounding is theirs together.
    together = len(repeats) > 1 and jax.default_backend() != "cpu"
    found: list[dict[str, Path]] = [{} for _ in repeats]
    for number, plan in enumerate(repeats[0].reservoirs):
        plans = [repeat.reservoirs[number] for repeat in repeats]
        for group in [range(len(repeats))] if together else [[k] for k in range(len(repeats))]:
            folders = _train([plans[k] for k in group], [repeats[k] for k in group], dataset, context)
            for k, folder in zip(group, folders, strict=True):
                found[k][plan.name] = folder
    return found


def _train(
    plans: list[ReservoirPlan], experiments: list[Experiment], dataset: Dataset, context: _Context
) -> list[Path]:
    """The same reservoir of some repeats, drawn and trained side by side."""
    draws = [_draw(plan, experiment) for plan, experiment in zip(plans, experiments, strict=True)]
    name, stages = plans[0].name, plans[0].stages
    training, dynamics = experiments[0].training, experiments[0].dynamics
    seeds = [plan.seed for plan in plans]
    facts = (
        draws,
        [as_table(stage) for stage in stages],
        seeds,
        training,
        dynamics,
        _digest(dataset, "x_train", "y_train"),
    )
    folders = [context.folder("projection", number, *facts) for number in range(len(plans))]
    if not any(damaged(folder) for folder in folders):
        return folders
    total = sum(stage.epochs for stage in stages)
    trained = train_side_by_side(
        [Reservoir.draw(n_inputs=dataset.n_inputs, dynamics=dynamics, **draw) for draw in draws],
        dataset.x_train,
        dataset.y_train,
        stages,
        training,
        seeds=seeds,
        report=lambda done, _: context.listener(f"training {name}, epochs", done, total),
    )
    for folder, (reservoir, losses) in zip(folders, trained, strict=True):
        keep(folder, partial(_save_trained, reservoir, losses))
    return folders


def _draw(plan: ReservoirPlan, experiment: Experiment) -> dict[str, Any]:
    """The arguments of `Reservoir.draw`: a reservoir's own, or those of the one it starts from."""
    source = next(other for other in experiment.reservoirs if other.name == (plan.start or plan.name))
    return {name: getattr(source, name) for name in ("n_nodes", "s_W", "s_K", "s_b", "seed")}


def _save_trained(reservoir: Reservoir, losses: NDArray[np.float64], folder: Path) -> None:
    reservoir.save(folder / "reservoir.safetensors")
    write_whole(folder / "losses.json", json.dumps(losses.tolist()).encode())


def _once(
    experiment: Experiment, projections: dict[str, Path], dataset: Dataset, context: _Context
) -> tuple[dict[str, Any], Files]:
    """One pass through the stages from the features to the analysis."""
    reservoirs = {
        name: replace(Reservoir.load(folder / "reservoir.safetensors"), stream=stream)
        for stream, (name, folder) in enumerate(projections.items())
    }
    engine = _engine(next(iter(reservoirs.values())), experiment, dataset)
    stores = {name: _store(reservoir, engine, experiment, dataset, context) for name, reservoir in reservoirs.items()}
    ids = {name: store.folder.name for name, store in stores.items()}
    readouts = context.folder("readouts", ids, _digest(dataset, "y_train", "y_test"), experiment.readout)
    if experiment.features.keep or damaged(readouts):
        with context.timed("features"):
            for name, store in stores.items():
                _features(name, store, reservoirs[name], engine, experiment, dataset, context)
    with context.timed("readouts"):
        keep(readouts, partial(_readouts, stores, experiment, dataset, context))
    with context.timed("analysis"):
        facts = json.loads((readouts / "facts.json").read_text("utf-8"))
        n_nodes = {name: reservoir.n_nodes for name, reservoir in reservoirs.items()}
        analysis = analyse(*classifiers.load_predictions(readouts), n_nodes)
        results = {**_settings(experiment, dataset, engine.name), **facts, **analysis}

    files = {classifiers.PREDICTIONS: readouts / classifiers.PREDICTIONS}
    files |= {f"readouts/{path.name}": path for path in readouts.glob("*.safetensors")}
    for name, folder in projections.items():
        files[f"reservoirs/{name}.safetensors"] = folder / "reservoir.safetensors"
        files[f"reservoirs/{name}.losses.json"] = folder / "losses.json"
    for name, store in stores.items():
        if experiment.features.keep:
            files |= {f"features.zarr/{name}/{path.relative_to(store.folder)}": path for path in store.files()}
        else:
            shutil.rmtree(store.folder, ignore_errors=True)
    return results, files


def _engine(reservoir: Reservoir, experiment: Experiment, dataset: Dataset) -> Engine:
    """The engine for the features, after it has agreed to do them."""
    drive = reservoir.drive(dataset.x_train[:1])
    task = Task(drive, reservoir.W, reservoir.dynamics, experiment.protocol, np.zeros(1, np.uint64), 0)
    engine, _ = choose(experiment.engine, task)
    engine.check(task)
    return engine


def _store(
    reservoir: Reservoir, engine: Engine, experiment: Experiment, dataset: Dataset, context: _Context
) -> FeatureStore:
    protocol, chunk = experiment.protocol, experiment.features.chunk
    arrays = (reservoir.W, reservoir.K, reservoir.b)
    facts = (reservoir.dynamics, reservoir.stream, protocol, engine.name, chunk, _digest(dataset, "x_train", "x_test"))
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
    context: _Context,
) -> None:
    """Simulates the chunks that are not there. Sample ids number the training images first, then the test images."""
    store.prepare()
    missing = store.missing()
    total = sum(store.size(number) for number in missing)
    done = 0

    def progress(count: int, _: int) -> None:
        context.listener(f"{engine.name} {name}, images", done + count, total)

    def prepare(number: int) -> Task:
        rows = store.rows(number)
        ids = np.arange(rows.start, rows.stop, dtype=np.uint64)
        return simulation.prepare(reservoir, _inputs(dataset, rows), experiment.protocol, ids)

    # While the engine is busy with a chunk, the drives of the next are computed and the last one goes to disk.
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        prepared = [reader.submit(prepare, number) for number in missing[:1]]
        written: list[Future[None]] = []
        for place, number in enumerate(missing):
            task = prepared.pop().result()
            prepared += [reader.submit(prepare, following) for following in missing[place + 1 : place + 2]]
            moments = simulation.run(task, engine=engine, progress=progress)
            while written:
                written.pop().result()
            written.append(writer.submit(store.write, number, moments.raw, moments.info.clip_count, moments.info.error))
            done += task.n_samples
            left = moments.info.seconds / task.n_samples * (total - done)
            if place == 0 and left > _LONG_SECONDS and engine.name != "meanfield":
                context.note(
                    f"The features of {name} will take {left / 3600:.1f} hours with {engine.name}. "
                    "The engine meanfield gives them in minutes, by an approximation that states its error."
                )
        for writing in written:
            writing.result()


def _inputs(dataset: Dataset, rows: slice) -> NDArray[np.float32]:
    """Images `rows` of the training images followed by the test images."""
    start, stop = (max(row - dataset.n_train, 0) for row in (rows.start, rows.stop))
    return np.concatenate([dataset.x_train[rows], dataset.x_test[start:stop]])


def _readouts(
    stores: dict[str, FeatureStore], experiment: Experiment, dataset: Dataset, context: _Context, folder: Path
) -> None:
    """Readouts, predictions, and what the features know of themselves."""
    plan = experiment.readout
    fitted = classifiers.fit(stores, dataset, plan.sgd, converged=plan.converged, listener=context.listener)
    for model, readout in fitted.items():
        readout.save(folder / classifiers.readout_file(model), {"model": model.key})
    classifiers.save_predictions(folder, dataset.y_test, classifiers.predict(fitted, stores, dataset))
    squares = [[error**2 for error in store.error().values()] for store in stores.values()]
    error = dict(zip(map(str, experiment.protocol.orders), np.sqrt(np.mean(squares, axis=0)).tolist(), strict=True))
    clip_count = sum(store.clip_count() for store in stores.values())
    facts = {"clip_count": clip_count, "error": error if any(error.values()) else None}
    write_whole(folder / "facts.json", json.dumps(facts).encode())


def _report(results: dict[str, Any], context: _Context) -> Files:
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
    parts = ("dynamics", "protocol", "training", "reservoirs", "readout")
    return {
        "experiment": experiment.name,
        "description": experiment.description,
        "dataset": {name: getattr(dataset, name) for name in names},
        "engine": engine,
        "settings": {name: settings[name] for name in parts},
    }


@cache
def _digest(dataset: Dataset, *names: str) -> str:
    return identity(*(getattr(dataset, name) for name in names))
