"""The fits behind the readouts of an experiment, each a stage of its own, so that machines can share them.

All models by SGD are one fit, side by side on the same batches. Each of them to convergence is a fit that starts from
there. Classifiers without reservoirs are a fit too. What was fitted is in the store until the readouts are.
"""

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event, Lock
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.settings import LateFusion
from thermoment.learning.fit import Standardised, fit_converged, fit_sgd
from thermoment.learning.fusion import calibrated, stacked, weighted
from thermoment.learning.readout import Readout
from thermoment.machines.classifier import read_words
from thermoment.reservoir import Reservoir
from thermoment.results.naming import Fit, ModelKey, Read, paper_models, readout_file
from thermoment.runs.baselines import classify
from thermoment.runs.context import Context
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.predictions import Baselines, load_baselines, save_predictions
from thermoment.runs.store import Stage, keep

Stores = Mapping[str, FeatureStore]
"""The features of every reservoir, by its name."""
SGD, BASELINE = "sgd", "baseline"
"""Names of fits. A fit to convergence has the key of its model."""
_FITS_AT_ONCE, _FITS_ON_A_PROCESSOR = 4, 2
"""To convergence, at the same time. Each has a copy of the features that its model reads."""


def fits_at_once() -> int:
    """Fits to convergence that a run does at the same time."""
    return _FITS_ON_A_PROCESSOR if jax.default_backend() == "cpu" else _FITS_AT_ONCE


def fitting_order(sizes: Sequence[int]) -> list[int]:
    """Places of fits of so many features in the order in which they begin: the longest first.

    The first of every size come before all others: those have to be compiled, each once.
    """
    return sorted(range(len(sizes)), key=lambda number: (sizes[:number].count(sizes[number]) > 0, -sizes[number]))


def models_of(experiment: Experiment, readout: Fit = "sgd") -> tuple[ModelKey, ...]:
    """The classifiers that an experiment compares, with one readout."""
    names, options = [plan.name for plan in experiment.reservoirs], experiment.readout
    return paper_models(names, experiment.read, readout, options.fusions, options.subsets, options.lower)


def fitted_models(experiment: Experiment) -> list[ModelKey]:
    """The models that have a fit of their own: those that join features."""
    return [model for model in models_of(experiment) if model.fusion == "feature"]


@dataclass(frozen=True)
class Fits:
    """All fits of one repeat."""

    readouts: Stage
    """that the fits are for; its name stands for all that they depend on"""
    stores: Stores
    """what readouts are fitted to"""
    reservoirs: Mapping[str, Reservoir]
    dataset: Dataset
    experiment: Experiment
    context: Context
    whole: bool
    """whether all fits are done here: the features are read once for all of them"""
    _reading: Lock = field(default_factory=Lock)
    _standardised: list[Standardised] = field(default_factory=list)
    """the features of all reservoirs, once they were read"""
    _unwanted: Event = field(default_factory=Event)
    """set when another fit has failed or the run was interrupted"""

    @cached_property
    def models(self) -> list[ModelKey]:
        """Those that are fitted, with the readout "sgd"."""
        return fitted_models(self.experiment)

    def names(self) -> list[str]:
        """Of all fits, each after what it needs."""
        return [SGD, *(model.key for model in self.models if self.experiment.readout.converged), BASELINE]

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
        models = self.models if self.experiment.readout.converged else []
        order = fitting_order([len(self._columns(model, list(self.stores))) for model in models])
        # Threads, because a GPU takes less time for a fit than the processor takes to compile it. On a processor a fit
        # takes one core for most of the time, and what needs no reservoirs is fitted beside the SGD of what does.
        with ThreadPoolExecutor(fits_at_once()) as pool:
            try:
                early = pool.submit(self.do, BASELINE) if jax.default_backend() == "cpu" else None
                fitted = self._by_sgd()
                if not self.experiment.readout.epochs:
                    fitted = {}
                stages = {number: pool.submit(self.do, models[number].key) for number in order}
                raw = load_baselines((early.result() if early else self.do(BASELINE)).folder)
                for number, model in enumerate(models):
                    self.context.listener("readouts to convergence", number, len(models))
                    found = replace(model, readout="converged")
                    fitted[found] = Readout.load(stages[number].result().folder / readout_file(found))
            except BaseException:
                self._unwanted.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if models:
            self.context.listener("readouts to convergence", len(models), len(models))
        return fitted | self._fused(fitted), raw

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

    def _read(self, names: Sequence[str]) -> NDArray[np.float32]:
        """What readouts read of the training images and these reservoirs: (S, F)."""
        stores = {name: self.stores[name] for name in self.stores if name in names}
        rows = slice(0, self.dataset.n_train)
        return read_features(stores, self.reservoirs, self.experiment, self.dataset.x_train, rows)

    @cached_property
    def _features(self) -> NDArray[np.float32]:
        return self._read(list(self.stores))

    def _all(self) -> Standardised:
        """What readouts read of the training images and all reservoirs; read once, whichever thread comes first."""
        with self._reading:
            if not self._standardised:
                self._standardised.append(Standardised.of(self._read(list(self.stores))))
            return self._standardised[0]

    def _columns(self, model: ModelKey, names: Sequence[str]) -> NDArray[np.intp]:
        """Where the features of a model stand among those of these reservoirs."""
        sizes = {name: store.n_nodes for name, store in self.stores.items() if name in names}
        return columns(model, sizes, self.experiment.read)

    def _sgd(self, models: list[ModelKey], features: Standardised, rows: slice) -> list[Readout]:
        """A readout for each of the models, by SGD on the features of some of the training images."""
        sgd = self.experiment.readout.sgd
        chosen = [self._columns(model, list(self.stores)) for model in models]

        def report(done: int, _: float) -> None:
            self.context.listener(f"{len(models)} readouts by SGD, epochs", done, sgd.epochs)

        return fit_sgd(features, self.dataset.y_train[rows], chosen, sgd, report=report)

    def _fit_sgd(self, folder: Path) -> None:
        found = self._sgd(self.models, self._all(), slice(None))
        for model, readout in zip(self.models, found, strict=True):
            readout.save(folder / readout_file(model))

    def _fit_converged(self, model: ModelKey, folder: Path) -> None:
        start = Readout.load(self.do(SGD).folder / readout_file(model))
        names = list(self.stores) if self.whole else list(model.reservoirs)
        features = self._all() if self.whole else Standardised.of(self._read(names))
        features = features.some(self._columns(model, names))
        found = fit_converged(features, self.dataset.y_train, self.experiment.readout.sgd.l2, start=start)
        found.save(folder / readout_file(replace(model, readout="converged")))

    def _fit_baseline(self, folder: Path) -> None:
        """Keeps the classes of the test samples by classifiers without reservoirs."""

        def listener(what: str, done: int, total: int, detail: str = "", /) -> None:
            if self._unwanted.is_set():
                raise CancelledError("Something beside this failed.")
            self.context.listener(what, done, total, detail)

        said = classify(self.experiment, self.dataset, listener)
        save_predictions(folder, self.dataset.y_test, {}, said)

    def _fused(self, fitted: Mapping[ModelKey, Readout]) -> dict[ModelKey, Readout]:
        """Readouts that join those of single reservoirs late, where the experiment asks for them.

        What joins them is fitted to images that they have not seen, by readouts of the other images.
        """
        settings, read = self.experiment.readout, self.experiment.read
        fusions = [fusion for fusion in settings.fusions if fusion != "logit"]
        if not fusions or len(self.stores) == 1:
            return {}
        kept = self.dataset.n_train - settings.held_out
        rest, unseen = slice(0, kept), slice(kept, None)
        singles = [model for model in self.models if len(model.reservoirs) == 1 and model.orders == read]
        by_sgd = self._sgd(singles, Standardised.of(self._features[rest]), rest)
        found: dict[ModelKey, Readout] = {}
        for readout in dict.fromkeys(model.readout for model in fitted):
            parts, logits = [], []
            for model, start in zip(singles, by_sgd, strict=True):
                features = self._features[:, self._columns(model, list(self.stores))]
                if readout == "converged":
                    start = fit_converged(features[rest], self.dataset.y_train[rest], settings.sgd.l2, start=start)
                parts.append(fitted[replace(model, readout=readout)])
                logits.append(start.logits(features[unseen]))
            for fusion in fusions:
                joint = ModelKey(tuple(self.stores), tuple(read), fusion, readout)
                found[joint] = fuse(fusion, parts, logits, self.dataset.y_train[unseen], settings.l2)
        return found


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


def joined(stores: Stores, rows: slice) -> NDArray[np.float32]:
    """[phi_K1 | phi_K2 | ...] of some samples, the raw moments of each: (S, F)."""
    every = list(stores.values())
    ends = np.cumsum([len(store.orders) * store.n_nodes for store in every])
    found = np.empty((len(range(*rows.indices(every[0].n_samples))), ends[-1]), np.float32)
    for store, start, end in zip(every, [0, *ends], ends, strict=False):
        store.features(rows, into=found[:, start:end])
    return found


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
        raw = store.features(rows).reshape(len(inputs), store.n_read, store.n_nodes)
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
