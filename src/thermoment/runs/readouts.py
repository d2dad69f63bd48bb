"""The stage that fits: readouts of all models of an experiment, and what they predict on the test images."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import write_whole
from thermoment._support.identity import identity
from thermoment._support.progress import Listener
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.settings import LateFusion
from thermoment.learning.fit import fit_converged, fit_sgd
from thermoment.learning.fusion import calibrated, stacked, weighted
from thermoment.learning.readout import Readout, classes, probabilities
from thermoment.machines.classifier import Classifier, read_words
from thermoment.protocol import Protocol
from thermoment.reads import needed
from thermoment.reservoir import Reservoir
from thermoment.results.naming import Fit, ModelKey, Read, paper_models, readout_file
from thermoment.results.pictures import MISREAD, Misread
from thermoment.results.table import Judged, Table
from thermoment.runs.baselines import classify
from thermoment.runs.context import Context, digest
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.predictions import Predictions, save_predictions
from thermoment.runs.reservoirs import Made
from thermoment.runs.store import Stage
from thermoment.simulation import simulate

Stores = Mapping[str, FeatureStore]
"""The features of every reservoir, by its name."""
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
    stores: Stores,
    trained: Stores,
    made: Made,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    folder: Path,
) -> None:
    """Writes readouts, predictions, and a summary of the features to `folder`.

    `stores` are what readouts are fitted to; `trained` what the heads read, of the test images at least.
    """
    protocol = experiment.protocol
    sizes = {name: store.n_nodes for name, store in stores.items()}
    train, test = slice(0, dataset.n_train), slice(dataset.n_train, None)
    seen = read_features(stores, made.reservoirs, experiment, dataset.x_train, train)
    fitted = fit(seen, sizes, experiment, dataset, context.listener)
    del seen
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
    save_predictions(folder, dataset.y_test, predictions, classify(experiment, dataset, context.listener))
    every = {**stores, **{f"{name}-trained": store for name, store in trained.items() if store not in stores.values()}}
    write_whole(folder / SUMMARY, json.dumps(_summary(every, made, protocol)).encode())


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


def models_of(experiment: Experiment, readout: Fit = "sgd") -> tuple[ModelKey, ...]:
    """The classifiers that an experiment compares, with one readout."""
    names, options = [plan.name for plan in experiment.reservoirs], experiment.readout
    return paper_models(names, experiment.read, readout, options.fusions, options.subsets)


def fit(
    features: NDArray[np.float32],
    sizes: Mapping[str, int],
    experiment: Experiment,
    dataset: Dataset,
    listener: Listener,
) -> dict[ModelKey, Readout]:
    """A readout for every model that joins features, by SGD and, if asked, to convergence; and fitted late fusion.

    features: (S, F) of the training images, of all reservoirs with `sizes` nodes each
    """
    settings, read = experiment.readout, experiment.read
    models = [model for model in models_of(experiment) if model.fusion == "feature"]
    fitted = _fit(models, features, sizes, experiment, dataset.y_train, listener)
    fusions = [fusion for fusion in settings.fusions if fusion != "logit"]
    if fusions and len(sizes) > 1:
        # What joins the readouts is fitted to images that they have not seen, by readouts of the other images.
        kept = len(features) - settings.held_out
        singles = [model for model in models if len(model.reservoirs) == 1 and model.orders == read]
        rest = _fit(singles, features[:kept], sizes, experiment, dataset.y_train[:kept], listener)
        for readout in dict.fromkeys(model.readout for model in rest):
            keys = [replace(model, readout=readout) for model in singles]
            blocks = [features[kept:, columns(key, sizes, read)] for key in keys]
            logits = [rest[key].logits(block) for key, block in zip(keys, blocks, strict=True)]
            parts = [fitted[key] for key in keys]
            for fusion in fusions:
                model = ModelKey(tuple(sizes), tuple(read), fusion, readout)
                fitted[model] = fuse(fusion, parts, logits, dataset.y_train[kept:], settings.l2)
    return fitted


def fuse(
    fusion: LateFusion,
    readouts: list[Readout],
    logits: list[NDArray[np.float64]],
    labels: NDArray[np.int64],
    l2: float,
) -> Readout:
    """One readout of joined features, from one for each reservoir; logits (S, C) of images held out, labels (S,)."""
    if fusion == "weighted":
        return weighted(readouts, logits, labels)
    return calibrated(readouts, logits, labels) if fusion == "calibrated" else stacked(readouts, logits, labels, l2)


def _fit(
    models: list[ModelKey],
    features: NDArray[np.float32],
    sizes: Mapping[str, int],
    experiment: Experiment,
    labels: NDArray[np.int64],
    listener: Listener,
) -> dict[ModelKey, Readout]:
    """A readout of features (S, F) for each of the models, by SGD and, if asked, to convergence."""
    sgd = experiment.readout.sgd
    chosen = [columns(model, sizes, experiment.read) for model in models]

    def report(done: int, _: float) -> None:
        listener(f"{len(models)} readouts by SGD, epochs", done, sgd.epochs)

    fitted = dict(zip(models, fit_sgd(features, labels, chosen, sgd, report=report), strict=True))
    if experiment.readout.converged:
        for number, (model, where) in enumerate(zip(models, chosen, strict=True)):
            listener("readouts to convergence", number, len(models))
            fitted[replace(model, readout="converged")] = fit_converged(
                features[:, where], labels, sgd.l2, start=fitted[model]
            )
        listener("readouts to convergence", len(models), len(models))
    return fitted


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
    chosen = features[:, columns(model, sizes, experiment.read)]
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


def joined(stores: Stores, rows: slice) -> NDArray[np.float32]:
    """[phi_K1 | phi_K2 | ...] of some samples: (S, F)."""
    return np.concatenate([store.features(rows) for store in stores.values()], axis=1)


def read_features(
    stores: Stores,
    reservoirs: Mapping[str, Reservoir],
    experiment: Experiment,
    inputs: NDArray[Any],
    rows: slice,
) -> NDArray[np.float32]:
    """What the readouts read of some samples, whose inputs are given, joined over all reservoirs: (S, F)."""
    words = experiment.readout.reads
    if not words:
        return joined(stores, rows)
    parts = []
    for name, store in stores.items():
        raw = store.features(rows).reshape(len(inputs), len(store.orders), store.n_nodes)
        parts.append(read_words(words, raw, store.orders, reservoirs[name], inputs))
    return np.concatenate(parts, axis=1)


def columns(model: ModelKey, sizes: Mapping[str, int], orders: Sequence[Read]) -> NDArray[np.intp]:
    """The columns that a model sees of features joined over all reservoirs, with `sizes` nodes each, and all orders."""
    found, start = [], 0
    for name, n_nodes in sizes.items():
        if name in model.reservoirs:
            found += [start + orders.index(p) * n_nodes + np.arange(n_nodes) for p in model.orders]
        start += len(orders) * n_nodes
    return np.concatenate(found)


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
