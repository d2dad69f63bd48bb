"""One pass through the stages of an experiment, in their order: features, readouts, analysis; and its report."""

import json
import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from thermoment import __version__
from thermoment._support.files import write_whole
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.toml import as_table
from thermoment.report import page as report
from thermoment.report.figures import draw as figures
from thermoment.results.analysis import analyse
from thermoment.runs import readouts as classifiers
from thermoment.runs.context import Context, Files, digest
from thermoment.runs.features import agreed_engine, feature_store, simulate_missing
from thermoment.runs.folder import RESULTS, results_text
from thermoment.runs.readouts import fingerprint, fit_and_predict
from thermoment.runs.reservoirs import Made
from thermoment.runs.store import SUMS, damaged, keep


def one_pass(experiment: Experiment, made: Made, dataset: Dataset, context: Context) -> tuple[dict[str, Any], Files]:
    """One pass through the stages from the features to the analysis."""
    reservoirs = made.reservoirs
    engine = agreed_engine(next(iter(reservoirs.values())), experiment, dataset)
    stores = {
        name: feature_store(reservoir, engine, experiment, dataset, context) for name, reservoir in reservoirs.items()
    }
    ids = {name: store.folder.name for name, store in stores.items()}
    heads = {"+".join(names): fingerprint(head) for names, head in made.heads.items()}
    labels = digest(dataset, "y_train", "y_test")
    readouts = context.folder("readouts", ids, labels, experiment.readout, *([heads] if heads else []))
    if experiment.features.keep or damaged(readouts):
        with context.timed("features"):
            for name, store in stores.items():
                simulate_missing(name, store, reservoirs[name], engine, experiment, dataset, context)
    with context.timed("readouts"):
        keep(readouts, partial(fit_and_predict, stores, made, experiment, dataset, context))
    with context.timed("analysis"):
        facts = json.loads((readouts / "facts.json").read_text("utf-8"))
        n_nodes = {name: reservoir.n_nodes for name, reservoir in reservoirs.items()}
        analysis = analyse(*classifiers.load_predictions(readouts), n_nodes)
        results = {**describe(experiment, dataset, engine.name), **facts, **analysis}

    files = {**made.files, classifiers.PREDICTIONS: readouts / classifiers.PREDICTIONS}
    files |= {f"readouts/{path.name}": path for path in readouts.glob("*.safetensors")}
    for name, store in stores.items():
        if experiment.features.keep:
            files |= {f"features.zarr/{name}/{path.relative_to(store.folder)}": path for path in store.files()}
        else:
            shutil.rmtree(store.folder, ignore_errors=True)
    return results, files


def report_files(results: dict[str, Any], context: Context) -> Files:
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


def describe(experiment: Experiment, dataset: Dataset, engine: str) -> dict[str, Any]:
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
