"""All models of an experiment fitted to stored features: their readouts, and what they predict on the test images."""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment import simulation
from thermoment._support.files import write_whole
from thermoment._support.identity import identity
from thermoment._support.progress import Listener
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.learning.fit import fit_converged, fit_sgd
from thermoment.learning.options import Sgd
from thermoment.learning.readout import Readout, average_logits, classes
from thermoment.reservoir import Reservoir
from thermoment.results.naming import Fit, ModelKey, paper_models, readout_file
from thermoment.runs.context import Context
from thermoment.runs.features import FeatureStore
from thermoment.runs.reservoirs import Made

Stores = Mapping[str, FeatureStore]
"""The features of every reservoir, by its name."""
Predictions = dict[ModelKey, NDArray[np.int64]]
PREDICTIONS = "predictions.npz"


def fit(
    stores: Stores,
    dataset: Dataset,
    sgd: Sgd,
    *,
    converged: bool,
    listener: Listener,
) -> dict[ModelKey, Readout]:
    """A readout for every model that joins features, by SGD and, if asked, to convergence."""
    features = joined(stores, slice(0, dataset.n_train))
    models = [model for model in paper_models(list(stores), _orders(stores)) if model.fusion == "feature"]
    chosen = [columns(model, stores) for model in models]

    def report(done: int, _: float) -> None:
        listener(f"{len(models)} readouts by SGD, epochs", done, sgd.epochs)

    fitted = dict(zip(models, fit_sgd(features, dataset.y_train, chosen, sgd, report=report), strict=True))
    if converged:
        for number, (model, where) in enumerate(zip(models, chosen, strict=True)):
            listener("readouts to convergence", number, len(models))
            fitted[replace(model, readout="converged")] = fit_converged(
                features[:, where], dataset.y_train, sgd.l2, start=fitted[model]
            )
        listener("readouts to convergence", len(models), len(models))
    return fitted


def predict(fitted: Mapping[ModelKey, Readout], stores: Stores, dataset: Dataset) -> Predictions:
    """Classes of the test images by all models, those that average logits among them."""
    orders = _orders(stores)
    features = joined(stores, slice(dataset.n_train, None))
    predictions = {}
    for readout in dict.fromkeys(model.readout for model in fitted):
        for model in paper_models(list(stores), orders, readout):
            if model.fusion == "feature":
                predictions[model] = fitted[model].predict(features[:, columns(model, stores)])
            else:
                singles = [ModelKey((name,), orders, "feature", readout) for name in model.reservoirs]
                blocks = [features[:, columns(single, stores)] for single in singles]
                predictions[model] = classes(average_logits([fitted[single] for single in singles], blocks))
    return predictions


def heads(trained: Mapping[tuple[str, ...], Readout], orders: tuple[int, ...]) -> dict[ModelKey, Readout]:
    """The heads that reservoirs were trained with, by their models."""
    return {ModelKey(names, orders, "feature", "trained"): head for names, head in trained.items()}


def predict_trained(heads: Mapping[ModelKey, Readout], blocks: Mapping[str, NDArray[Any]], readout: Fit) -> Predictions:
    """Classes by heads as trained on each reservoir's features, and by the averaged logits of heads of one each."""
    logits = {
        model: head.logits(np.concatenate([blocks[name] for name in model.reservoirs], axis=1))
        for model, head in heads.items()
    }
    found = {replace(model, readout=readout): classes(z) for model, z in logits.items()}
    if len(heads) > 1:
        together = ModelKey(tuple(blocks), next(iter(heads)).orders, "logit", readout)
        found[together] = classes(np.mean(list(logits.values()), axis=0))
    return found


def blocks(stores: Stores, dataset: Dataset) -> dict[str, NDArray[np.float32]]:
    """Every reservoir's features of the test images."""
    return {name: store.features(slice(dataset.n_train, None)) for name, store in stores.items()}


def joined(stores: Stores, rows: slice) -> NDArray[np.float32]:
    """[phi_K1 | phi_K2 | ...] of some samples: (S, F)."""
    return np.concatenate([store.features(rows) for store in stores.values()], axis=1)


def columns(model: ModelKey, stores: Stores) -> NDArray[np.intp]:
    """The columns of the joined features that a model sees."""
    found, start, orders = [], 0, _orders(stores)
    for name, store in stores.items():
        if name in model.reservoirs:
            found += [start + orders.index(p) * store.n_nodes + np.arange(store.n_nodes) for p in model.orders]
        start += len(orders) * store.n_nodes
    return np.concatenate(found)


def save_predictions(folder: Path, labels: NDArray[np.int64], predictions: Predictions) -> None:
    """Writes predictions.npz: "labels", and every model's classes under its key."""
    arrays = {"labels": labels, **{model.key: found for model, found in predictions.items()}}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(folder / PREDICTIONS, buffer.getvalue())


def load_predictions(folder: Path) -> tuple[NDArray[np.int64], Predictions]:
    """Labels, and every model's classes, from predictions.npz."""
    with np.load(folder / PREDICTIONS, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    return found.pop("labels"), {ModelKey.parse(key): array for key, array in found.items()}


def _orders(stores: Stores) -> tuple[int, ...]:
    return next(iter(stores.values())).orders


def fingerprint(head: Readout) -> str:
    return identity(head.weights, head.bias, head.scaling.mean, head.scaling.scale)


def fit_and_predict(
    stores: dict[str, FeatureStore],
    made: Made,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    folder: Path,
) -> None:
    """Readouts, predictions, and what the features know of themselves."""
    plan = experiment.readout
    fitted = fit(stores, dataset, plan.sgd, converged=plan.converged, listener=context.listener)
    as_trained = heads(made.heads, experiment.protocol.orders)
    for model, readout in (fitted | as_trained).items():
        readout.save(folder / readout_file(model), {"model": model.key})
    predictions = predict(fitted, stores, dataset)
    if as_trained:
        predictions |= predict_trained(as_trained, blocks(stores, dataset), "trained")
        limit = _without_sampling(made.reservoirs, experiment, dataset, context)
        predictions |= predict_trained(as_trained, limit, "predicted")
    save_predictions(folder, dataset.y_test, predictions)
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
