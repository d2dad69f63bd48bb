"""A finished run as a classifier, from its folder alone."""

import math
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path

from thermoment._support.checks import invalid
from thermoment.data.columns import Columns
from thermoment.experiments.experiment import read
from thermoment.experiments.toml import as_table
from thermoment.learning.options import trained_name
from thermoment.learning.readout import Readout
from thermoment.machines.classifier import Classifier
from thermoment.machines.pretrained import pretrained
from thermoment.reservoir import Reservoir
from thermoment.results.codec import typed
from thermoment.results.naming import ModelKey, readout_file
from thermoment.results.results import DatasetFacts, Results
from thermoment.results.results import load as load_results
from thermoment.runs.folder import EXPERIMENT
from thermoment.runs.pictures import curves, files_of
from thermoment.runs.readouts import classifier


def load(run: str | PathLike[str], model: str | ModelKey | None = None) -> Classifier:
    """The classifier of a finished run: all its reservoirs, as trained or else with the paper's readout.

    `model` asks for another one by its key, such as "K1+K2|feature|1,2,4|converged"; results.json lists them. With the
    run's own engine and the sample ids of its test images, which count on from those of the training images, it
    predicts what the run's predictions.npz has, bit for bit.
    """
    folder = Path(run)
    results = load_results(folder)
    if not isinstance(results, Results):
        raise ValueError(f"{folder} holds no models: it is a study, whose variants are runs of their own below it.")
    keys = [row.model for row in results.accuracy]
    wanted = _best(keys) if model is None else model if isinstance(model, ModelKey) else ModelKey.parse(model)
    if wanted not in keys:
        raise invalid("model", f"be one of {', '.join(key.key for key in keys)}", wanted.key)
    experiment = read(folder / EXPERIMENT)
    protocol, options, engine = experiment.protocol, experiment.finite_time, results.engine
    if wanted.readout == "predicted":  # the head as trained, on moments without sampling
        wanted, engine = replace(wanted, readout="trained"), "meanfield"
        protocol = replace(protocol, n_replicas=math.inf)
    files = {name: trained_name(name, options) if wanted.readout == "trained" else name for name in wanted.reservoirs}
    reservoirs = {name: Reservoir.load(folder / f"reservoirs/{file}.safetensors") for name, file in files.items()}
    parts = [key for key in keys if key.fusion != "logit" and (folder / "readouts" / readout_file(key)).is_file()]
    readouts = {key: Readout.load(folder / "readouts" / readout_file(key)) for key in parts if _needed(key, wanted)}
    facts = {"model": wanted.key, "experiment": as_table(experiment), "results": results.plain()}
    facts["training"] = [asdict(curve) for curve in curves(files_of(folder))]
    return replace(classifier(wanted, reservoirs, protocol, readouts), engine=engine, facts=facts)


def named(run: str, model: str | None = None) -> Classifier:
    """The classifier of the run in the folder `run`, or else the machine of this name that ships with the package."""
    if Path(run).is_dir():
        return load(run, model)
    if run not in pretrained():
        known = ", ".join(pretrained())
        raise ValueError(f"{run!r} is neither the folder of a run nor a machine that ships with the package ({known}).")
    if model is not None:
        raise invalid("model", f"be left out, as {run} has only one", repr(model))
    return pretrained(run)


def columns(machine: Classifier) -> Columns | None:
    """The columns of the table that the classifier of a run was trained on; None where it was no table."""
    facts = machine.facts.get("results", {}).get("dataset", {})
    found: DatasetFacts | None = typed(DatasetFacts, facts) if facts else None
    return found.columns if found else None


def _best(keys: list[ModelKey]) -> ModelKey:
    """Most reservoirs, most orders, joined before averaged, as trained before the paper's readout."""
    rank = {"trained": 2, "sgd": 1}
    return max(
        keys, key=lambda key: (rank.get(key.readout, 0), len(key.reservoirs), key.fusion == "feature", len(key.orders))
    )


def _needed(key: ModelKey, wanted: ModelKey) -> bool:
    return (key.readout, key.orders) == (wanted.readout, wanted.orders) and set(key.reservoirs) <= set(
        wanted.reservoirs
    )
