"""The stage of the readouts of all models of an experiment, and of what they predict on the test images."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import write_whole
from thermoment._support.identity import identity
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.learning.readout import Readout, classes, probabilities
from thermoment.machines.classifier import Classifier
from thermoment.protocol import Protocol
from thermoment.reads import needed
from thermoment.reservoir import Reservoir
from thermoment.results.naming import ModelKey, readout_file
from thermoment.results.pictures import MISREAD, Misread
from thermoment.results.table import Judged, Table
from thermoment.runs.context import Context, digest
from thermoment.runs.cost import answer_cost, has_tables
from thermoment.runs.fits import Fits, Stores, columns, joined, models_of, read_features
from thermoment.runs.predictions import Predictions, save_predictions
from thermoment.runs.reservoirs import Made
from thermoment.runs.store import Stage
from thermoment.simulation import simulate

SUMMARY = "summary.json"


def readouts_stage(
    features: Mapping[str, Stage], made: Made, experiment: Experiment, dataset: Dataset, context: Context
) -> Stage:
    """Where the store has the readouts of all models, their predictions, and a summary of the features.

    `features` are the stages of all features that enter, by the names of their files.
    """
    heads = {"+".join(names): _digest(head) for names, head in made.heads.items()}
    return context.stage(
        "readouts",
        features={name: stage.name for name, stage in features.items()},
        data=digest(dataset, "x_train", "y_train", "x_test", "y_test"),
        readout=experiment.readout,
        heads=heads,
        **({} if experiment.baselines is None else {"baselines": experiment.baselines}),
    )


def fit_and_predict(
    fits: Fits,
    trained: Stores,
    made: Made,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    folder: Path,
) -> None:
    """Writes readouts, predictions, and a summary of the features to `folder`.

    `trained` is what the heads read, of the test images at least.
    """
    stores, protocol = fits.stores, experiment.protocol
    fitted, raw = fits.do_all()
    test = slice(dataset.n_train, None)
    tested = read_features(stores, made.reservoirs, experiment, dataset.x_test, test)
    heads = {ModelKey(names, protocol.orders, "feature", "trained"): head for names, head in made.heads.items()}
    for model, readout in (fitted | heads).items():
        readout.save(folder / readout_file(model), {"model": model.key})
    models = [
        model
        for readout in dict.fromkeys(model.readout for model in fitted)
        for model in models_of(experiment, readout)
    ]
    predictions = predict(models, fitted, made.reservoirs, experiment, tested)
    judged = tested, fitted, made.reservoirs
    if heads:
        as_trained = list(heads)
        if len(as_trained) > 1:
            as_trained.append(ModelKey(tuple(trained), protocol.orders, "logit", "trained"))
        sampled = joined(trained, slice(-dataset.n_test, None))
        predictions |= predict(as_trained, heads, made.trained, experiment, sampled)
        limit = _without_sampling(made.trained, experiment, dataset, context)
        without = predict(as_trained, heads, made.trained, experiment, limit)
        predictions |= {replace(model, readout="predicted"): found for model, found in without.items()}
        judged = sampled, heads, made.trained
    _save_misread(folder, list(predictions), *judged, dataset, experiment)
    save_predictions(folder, dataset.y_test, predictions, raw)
    every = {**stores, **{f"{name}-trained": store for name, store in trained.items() if store not in stores.values()}}
    summary = _summary(every, made, protocol)
    moments = joined(stores, test) if experiment.readout.reads else judged[0]
    if cost := answer_cost(moments, judged[2], protocol, dataset.x_test, has_tables(experiment)):
        summary["cost"] = cost
    write_whole(folder / SUMMARY, json.dumps(summary).encode())


def _save_misread(
    folder: Path,
    models: list[ModelKey],
    features: NDArray[Any],
    readouts: Mapping[ModelKey, Readout],
    reservoirs: Mapping[str, Reservoir],
    dataset: Dataset,
    experiment: Experiment,
) -> None:
    """Keeps a few images that the model by which the run is judged took for another class, where there are any."""
    if len(dataset.image_shape) != 2:
        return
    model = Table.of([Judged(one) for one in models]).headline.model
    logits = _logits(model, readouts, reservoirs, experiment, features)
    misread = Misread.of(dataset.x_test, dataset.y_test, probabilities(logits), dataset.image_shape)
    if len(misread):
        misread.save(folder / MISREAD)


def predict(
    models: list[ModelKey],
    readouts: Mapping[ModelKey, Readout],
    reservoirs: Mapping[str, Reservoir],
    experiment: Experiment,
    features: NDArray[Any],
) -> Predictions:
    """Classes by each of the models, from features (S, F) of all reservoirs joined."""
    return {model: classes(_logits(model, readouts, reservoirs, experiment, features)) for model in models}


def _logits(
    model: ModelKey,
    readouts: Mapping[ModelKey, Readout],
    reservoirs: Mapping[str, Reservoir],
    experiment: Experiment,
    features: NDArray[Any],
) -> NDArray[np.float64]:
    """(S, C), by one model, from features (S, F) of all reservoirs joined."""
    sizes = {name: one.n_nodes for name, one in reservoirs.items()}
    chosen = np.take(features, columns(model, sizes, experiment.read), axis=1)
    return classifier(model, reservoirs, experiment.protocol, readouts).logits_of(chosen)


def classifier(
    model: ModelKey,
    reservoirs: Mapping[str, Reservoir],
    protocol: Protocol,
    readouts: Mapping[ModelKey, Readout],
) -> Classifier:
    """The classifier that a model's key stands for. One that averages logits has the readouts of its reservoirs."""
    parts = [model]
    if model.fusion == "logit":
        parts = [replace(model, reservoirs=(name,), fusion="feature") for name in model.reservoirs]
    words = tuple(word for word in model.orders if isinstance(word, str))
    orders = tuple(p for p in model.orders if isinstance(p, int)) or needed(words) or protocol.orders
    return Classifier(
        {name: reservoirs[name] for name in model.reservoirs},
        replace(protocol, orders=orders),
        tuple(readouts[part] for part in parts),
        reads=words,
    )


def _summary(stores: Stores, made: Made, protocol: Protocol) -> dict[str, Any]:
    """What results.json says of the features and of training."""
    squares = [[error**2 for error in store.error().values()] for store in stores.values()]
    error = dict(zip(map(str, protocol.orders), np.sqrt(np.mean(squares, axis=0)).tolist(), strict=True))
    clip_count = sum(store.clip_count() for store in stores.values())
    summary: dict[str, Any] = {"clip_count": clip_count, "error": error if any(error.values()) else None}
    if made.histories:
        last = {"+".join(names): history[-1] for names, history in made.histories.items()}
        summary["trained"] = [{"model": model, **epoch} for model, epoch in last.items()]
    return summary


def _without_sampling(
    reservoirs: Mapping[str, Reservoir], experiment: Experiment, dataset: Dataset, context: Context
) -> NDArray[np.float64]:
    """Features of the test images by the mean field, in the limit of infinitely many replicas: (S, F)."""
    protocol = replace(experiment.protocol, n_replicas=math.inf)
    blocks = []
    for name, reservoir in reservoirs.items():
        listener = partial(context.listener, f"meanfield {name}, images")
        moments = simulate(reservoir, dataset.x_test, protocol, engine="meanfield", progress=listener)
        blocks.append(moments.features())
    return np.concatenate(blocks, axis=1)


def _digest(head: Readout) -> str:
    return identity(head.weights, head.bias, head.scaling.mean, head.scaling.scale)
