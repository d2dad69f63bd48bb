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
from thermoment.results.results import RESULTS, DatasetFacts, Described, Results, StudyResults
from thermoment.runs import readouts as classifiers
from thermoment.runs.context import Context, Files, digest
from thermoment.runs.example_node import simulate_node
from thermoment.runs.features import agreed_engine, feature_store, simulate_missing
from thermoment.runs.readouts import fingerprint, fit_and_predict
from thermoment.runs.reservoirs import Made
from thermoment.runs.store import SUMS, damaged, keep


def one_pass(experiment: Experiment, made: Made, dataset: Dataset, context: Context) -> tuple[Results, Files]:
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
        facts["trained"] = tuple(facts.get("trained", ()))
        results = Results(**vars(describe(experiment, dataset, engine.name)), **facts, **vars(analysis))

    files = {**made.files, classifiers.PREDICTIONS: readouts / classifiers.PREDICTIONS}
    files |= {f"readouts/{path.name}": path for path in readouts.glob("*.safetensors")}
    for name, store in stores.items():
        if experiment.features.keep:
            files |= {f"features.zarr/{name}/{path.relative_to(store.folder)}": path for path in store.files()}
        else:
            shutil.rmtree(store.folder, ignore_errors=True)
    return results, files


def report_files(results: Results | StudyResults, context: Context) -> Files:
    """Figures and report.html, and of a run the node that they show."""
    text = results.to_json()
    folder = context.folder("report", text, __version__)

    def build(folder: Path) -> None:
        context.listener("figures and report", 0, 1)
        write_whole(folder / RESULTS, text.encode())
        node = simulate_node(results.settings) if isinstance(results, Results) else None
        if node is not None:
            node.save(folder / NODE)
        (folder / "figures").mkdir()
        figures.draw(results, folder / "figures", node)
        report.write(folder)
        context.listener("figures and report", 1, 1)

    with context.timed("report"):
        keep(folder, build)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path for path in paths if path.name not in (SUMS, RESULTS)}


def describe(experiment: Experiment, dataset: Dataset, engine: str) -> Described:
    """What results.json says of the experiment itself."""
    settings = as_table(experiment)
    names = ("name", "n_train", "n_test", "n_inputs", "n_classes", "sha256")
    parts = ("dynamics", "protocol", "training", "finite_time", "reservoirs", "readout")
    return Described(
        experiment.name,
        experiment.description,
        DatasetFacts(**{name: getattr(dataset, name) for name in names}),
        engine,
        {name: settings[name] for name in parts if name in settings},
    )
