"""All models of an experiment fitted to stored features: their readouts, and what they predict on the test images."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment.context import Listener
from thermoment.data import Dataset
from thermoment.files import write_whole
from thermoment.models import Fit, Model, paper_models
from thermoment.readout import Readout, Sgd, average_logits, classes, fit_converged, fit_sgd
from thermoment.store import FeatureStore

Stores = Mapping[str, FeatureStore]
"""The features of every reservoir, by its name."""
Predictions = dict[Model, NDArray[np.int64]]
PREDICTIONS = "predictions.npz"


def fit(
    stores: Stores,
    dataset: Dataset,
    sgd: Sgd,
    *,
    converged: bool,
    listener: Listener,
) -> dict[Model, Readout]:
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


def predict(fitted: Mapping[Model, Readout], stores: Stores, dataset: Dataset) -> Predictions:
    """Classes of the test images by all models, those that average logits among them."""
    orders = _orders(stores)
    features = joined(stores, slice(dataset.n_train, None))
    predictions = {}
    for readout in dict.fromkeys(model.readout for model in fitted):
        for model in paper_models(list(stores), orders, readout):
            if model.fusion == "feature":
                predictions[model] = fitted[model].predict(features[:, columns(model, stores)])
            else:
                singles = [Model((name,), orders, "feature", readout) for name in model.reservoirs]
                blocks = [features[:, columns(single, stores)] for single in singles]
                predictions[model] = classes(average_logits([fitted[single] for single in singles], blocks))
    return predictions


def heads(trained: Mapping[tuple[str, ...], Readout], orders: tuple[int, ...]) -> dict[Model, Readout]:
    """The heads that reservoirs were trained with, by their models."""
    return {Model(names, orders, "feature", "trained"): head for names, head in trained.items()}


def predict_trained(heads: Mapping[Model, Readout], blocks: Mapping[str, NDArray[Any]], readout: Fit) -> Predictions:
    """Classes by heads as trained on each reservoir's features, and by the averaged logits of heads of one each."""
    logits = {
        model: head.logits(np.concatenate([blocks[name] for name in model.reservoirs], axis=1))
        for model, head in heads.items()
    }
    found = {replace(model, readout=readout): classes(z) for model, z in logits.items()}
    if len(heads) > 1:
        together = Model(tuple(blocks), next(iter(heads)).orders, "logit", readout)
        found[together] = classes(np.mean(list(logits.values()), axis=0))
    return found


def blocks(stores: Stores, dataset: Dataset) -> dict[str, NDArray[np.float32]]:
    """Every reservoir's features of the test images."""
    return {name: store.features(slice(dataset.n_train, None)) for name, store in stores.items()}


def joined(stores: Stores, rows: slice) -> NDArray[np.float32]:
    """[phi_K1 | phi_K2 | ...] of some samples: (S, F)."""
    return np.concatenate([store.features(rows) for store in stores.values()], axis=1)


def columns(model: Model, stores: Stores) -> NDArray[np.intp]:
    """The columns of the joined features that a model sees."""
    found, start, orders = [], 0, _orders(stores)
    for name, store in stores.items():
        if name in model.reservoirs:
            found += [start + orders.index(p) * store.n_nodes + np.arange(store.n_nodes) for p in model.orders]
        start += len(orders) * store.n_nodes
    return np.concatenate(found)


def readout_file(model: Model) -> str:
    """The name of a readout's file: "K1+K2.m1-m2-m4.sgd.safetensors"."""
    return f"{model.name}.{'-'.join(f'm{p}' for p in model.orders)}.{model.readout}.safetensors"


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
    return found.pop("labels"), {Model.parse(key): array for key, array in found.items()}


def _orders(stores: Stores) -> tuple[int, ...]:
    return next(iter(stores.values())).orders
