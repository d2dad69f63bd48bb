"""The fits behind the readouts of an experiment, each a stage of its own, so that machines can share them.

All models by SGD are one fit, side by side on the same batches. Each of them to convergence is a fit that starts from
there. Raw inputs are a fit too. What was fitted is in the store until the readouts are.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import ReadoutSettings
from thermoment.learning.fit import fit_converged, fit_sgd
from thermoment.learning.readout import Readout
from thermoment.results.naming import Fit, ModelKey, paper_models, readout_file
from thermoment.runs.context import Context
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.predictions import RAW_COLUMNS, RAW_PIXELS, Baselines, load_baselines, save_predictions
from thermoment.runs.store import Stage, keep

Stores = Mapping[str, FeatureStore]
"""The features of every reservoir, by its name."""
SGD, BASELINE = "sgd", "baseline"
"""Names of fits. A fit to convergence has the key of its model."""


def fitted_models(names: list[str], orders: tuple[int, ...]) -> list[ModelKey]:
    """The models that have a readout of their own: those that join features."""
    return [model for model in paper_models(names, orders) if model.fusion == "feature"]


@dataclass(frozen=True)
class Fits:
    """All fits of one repeat."""

    readouts: Stage
    """that the fits are for; its name stands for all that they depend on"""
    stores: Stores
    """what readouts are fitted to"""
    dataset: Dataset
    settings: ReadoutSettings
    context: Context
    whole: bool
    """whether all fits are done here: the features are read once for all of them"""

    @cached_property
    def models(self) -> list[ModelKey]:
        """Those that are fitted, with the readout "sgd"."""
        return fitted_models(list(self.stores), next(iter(self.stores.values())).orders)

    def names(self) -> list[str]:
        """Of all fits, each after what it needs."""
        return [SGD, *(model.key for model in self.models if self.settings.converged), BASELINE]

    def reads(self, name: str) -> tuple[str, ...]:
        """The reservoirs whose features a fit reads."""
        if name == BASELINE:
            return ()
        return tuple(self.stores) if name == SGD else ModelKey.parse(name).reservoirs

    def stage(self, name: str) -> Stage:
        """Where the store has a fit."""
        return self.context.stage("fit", readouts=self.readouts.name, fit=name)

    def do(self, name: str) -> Stage:
        """Does a fit unless it is in the store, after those that it starts from."""
        stage = self.stage(name)
        build = {SGD: self._fit_sgd, BASELINE: self._fit_baseline}.get(name)
        keep(stage, build or (lambda folder: self._fit_converged(ModelKey.parse(name), folder)), self.context.note)
        return stage

    def do_all(self) -> tuple[dict[ModelKey, Readout], Baselines]:
        """Does all fits, and gives the readouts of all models and what those of the raw inputs say."""
        fitted = self._by_sgd()
        if self.settings.converged:
            for number, model in enumerate(self.models):
                self.context.listener("readouts to convergence", number, len(self.models))
                found = replace(model, readout="converged")
                fitted[found] = Readout.load(self.do(model.key).folder / readout_file(found))
            self.context.listener("readouts to convergence", len(self.models), len(self.models))
        return fitted, load_baselines(self.do(BASELINE).folder)

    def remove(self) -> None:
        """Removes what was fitted, once the readouts are in the store."""
        for stage in map(self.stage, self.names()):
            if stage.folder.exists():
                if stage.store.remote:
                    stage.store.remote.remove(stage.name)
                shutil.rmtree(stage.folder, ignore_errors=True)

    def _by_sgd(self) -> dict[ModelKey, Readout]:
        folder = self.do(SGD).folder
        return {model: Readout.load(folder / readout_file(model)) for model in self.models}

    @cached_property
    def _features(self) -> NDArray[np.float32]:
        return joined(self.stores, slice(0, self.dataset.n_train))

    def _fit_sgd(self, folder: Path) -> None:
        sgd, sizes = self.settings.sgd, {name: store.n_nodes for name, store in self.stores.items()}
        chosen = [columns(model, sizes, self.models[0].orders) for model in self.models]

        def report(done: int, _: float) -> None:
            self.context.listener(f"{len(self.models)} readouts by SGD, epochs", done, sgd.epochs)

        found = fit_sgd(self._features, self.dataset.y_train, chosen, sgd, report=report)
        for model, readout in zip(self.models, found, strict=True):
            readout.save(folder / readout_file(model))

    def _fit_converged(self, model: ModelKey, folder: Path) -> None:
        start = Readout.load(self.do(SGD).folder / readout_file(model))
        stores = self.stores if self.whole else {name: self.stores[name] for name in model.reservoirs}
        features = self._features if self.whole else joined(stores, slice(0, self.dataset.n_train))
        where = columns(model, {name: store.n_nodes for name, store in stores.items()}, self.models[0].orders)
        found = fit_converged(features[:, where], self.dataset.y_train, self.settings.sgd.l2, start=start)
        found.save(folder / readout_file(replace(model, readout="converged")))

    def _fit_baseline(self, folder: Path) -> None:
        """Keeps the classes of the test samples by readouts of the raw inputs: what the reservoirs have to beat."""
        dataset, sgd = self.dataset, self.settings.sgd
        (plain,) = fit_sgd(dataset.x_train, dataset.y_train, [np.arange(dataset.n_inputs)], sgd)
        found: dict[Fit, Readout] = {"sgd": plain}
        if self.settings.converged:
            found["converged"] = fit_converged(dataset.x_train, dataset.y_train, sgd.l2, start=plain)
        name = RAW_COLUMNS if dataset.columns else RAW_PIXELS
        said: Baselines = {(name, fit): readout.predict(dataset.x_test) for fit, readout in found.items()}
        save_predictions(folder, dataset.y_test, {}, said)


def joined(stores: Stores, rows: slice) -> NDArray[np.float32]:
    """[phi_K1 | phi_K2 | ...] of some samples: (S, F)."""
    return np.concatenate([store.features(rows) for store in stores.values()], axis=1)


def columns(model: ModelKey, sizes: Mapping[str, int], orders: tuple[int, ...]) -> NDArray[np.intp]:
    """The columns that a model sees of features joined over all reservoirs, with `sizes` nodes each, and all orders."""
    found, start = [], 0
    for name, n_nodes in sizes.items():
        if name in model.reservoirs:
            found += [start + orders.index(p) * n_nodes + np.arange(n_nodes) for p in model.orders]
        start += len(orders) * n_nodes
    return np.concatenate(found)
