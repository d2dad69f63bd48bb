"""One pass through the stages of an experiment, in their order: features, readouts, analysis; and its report."""

import json
import shutil
from functools import partial
from pathlib import Path

from thermoment import __version__
from thermoment._support.files import write_whole
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.toml import as_table
from thermoment.report import page as report
from thermoment.report.figures import draw as figures
from thermoment.results.analysis import analyse
from thermoment.results.node import NODE
from thermoment.results.pictures import MISREAD
from thermoment.results.results import RESULTS, DatasetFacts, Described, Results, StudyResults
from thermoment.runs.context import Context, Files
from thermoment.runs.example_node import simulate_node
from thermoment.runs.features import agreed_engine, complete, features_stage, open_features
from thermoment.runs.folder import FEATURES
from thermoment.runs.pictures import digests, pictures
from thermoment.runs.predictions import PREDICTIONS, baselines, load_predictions
from thermoment.runs.readouts import SUMMARY, fit_and_predict, readouts_stage
from thermoment.runs.reservoirs import Made, trained_name
from thermoment.runs.store import FACTS, SUMS, damaged, keep, locked


def one_pass(experiment: Experiment, made: Made, dataset: Dataset, context: Context) -> tuple[Results, Files]:
    """The results of an experiment whose reservoirs are made, and the files that belong to them."""
    engine = agreed_engine(experiment, list(made.reservoirs.values()), dataset.x_train[:1])
    # Readouts are fitted to all images. Copies that were trained beside them have their heads: the test images do.
    options = experiment.finite_time
    parts = [(made.reservoirs, 0)]
    if options is not None and options.beside:
        parts.append(({trained_name(name, options): one for name, one in made.trained.items()}, dataset.n_train))
    stages, stores = {}, {}
    for reservoirs, first in parts:
        for name, one in reservoirs.items():
            stages[name] = features_stage(one, engine, experiment, dataset, context, first)
            stores[name] = open_features(stages[name], one, experiment, dataset, first)
    readouts = readouts_stage(stages, made, experiment, dataset, context)
    if experiment.features.keep or damaged(readouts.folder):
        with context.timed("features"):
            for reservoirs, first in parts:
                own = {name: stages[name] for name in reservoirs}
                complete(own, reservoirs, engine, experiment, dataset, context, first)
    with context.timed("readouts"):
        fitted = {name: stores[name] for name in made.reservoirs}
        trained = {name: stores[trained_name(name, options)] for name in made.trained}
        build = partial(fit_and_predict, fitted, trained, made, experiment, dataset, context)
        keep(readouts, build, context.note)
    with context.timed("analysis"):
        summary = json.loads((readouts.folder / SUMMARY).read_text("utf-8"))
        n_nodes = {name: reservoir.n_nodes for name, reservoir in made.reservoirs.items()}
        analysis = analyse(*load_predictions(readouts.folder), n_nodes)
        summary["trained"] = tuple(summary.get("trained", ()))
        described = describe(experiment, dataset, engine.name)
        results = Results(**vars(described), **summary, **vars(analysis), baseline=baselines(readouts.folder))

    files = {**made.files, PREDICTIONS: readouts.folder / PREDICTIONS}
    files |= {f"readouts/{path.name}": path for path in readouts.folder.glob("*.safetensors") if path.name != MISREAD}
    if (readouts.folder / MISREAD).exists():
        files[MISREAD] = readouts.folder / MISREAD
    for name, store in stores.items():
        if experiment.features.keep:
            files |= {f"{FEATURES}/{name}/{path.relative_to(store.folder)}": path for path in store.files()}
        else:
            with locked(store.folder, context.note):
                shutil.rmtree(store.folder, ignore_errors=True)
    return results, files


def report_files(results: Results | StudyResults, files: Files, context: Context) -> Files:
    """Figures and report.html, and of a run the node that they show. `files` are those of the run."""
    text = results.to_json()
    facts = {"results": json.loads(text), "pictures": digests(files), "thermoment": __version__}
    stage = context.stage("report", **facts)

    def build(folder: Path) -> None:
        context.listener("figures and report", 0, 1)
        write_whole(folder / RESULTS, text.encode())
        shown = None
        if isinstance(results, Results):
            simulate_node(results.settings).save(folder / NODE)
            shown = pictures({**files, NODE: folder / NODE}, results)
        (folder / "figures").mkdir()
        figures.draw(results, folder / "figures", shown)
        report.write(folder)
        context.listener("figures and report", 1, 1)

    with context.timed("report"):
        keep(stage, build, context.note)
    paths = [path for path in stage.folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(stage.folder)): path for path in paths if path.name not in (SUMS, FACTS, RESULTS)}


def describe(experiment: Experiment, dataset: Dataset, engine: str) -> Described:
    """What results.json says of the experiment itself."""
    settings = as_table(experiment)
    names = ("name", "n_train", "n_test", "n_inputs", "n_classes", "sha256", "columns")
    image_shape = dataset.image_shape if len(dataset.image_shape) == 2 else ()
    parts = ("dynamics", "protocol", "training", "finite_time", "reservoirs", "readout")
    return Described(
        experiment.name,
        experiment.description,
        DatasetFacts(**{name: getattr(dataset, name) for name in names}, image_shape=image_shape),
        engine,
        {name: settings[name] for name in parts if name in settings},
    )
