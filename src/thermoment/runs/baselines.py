"""Classifiers without reservoirs, on the same images: raw inputs, principal components, random features, perceptrons.

Those that are linear in fixed features have the machine's own readouts. What a name means is said in BaselineSettings.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thermoment._support.progress import Listener
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.settings import BaselineSettings
from thermoment.learning import perceptron
from thermoment.learning.fit import Standardised, fit_converged, fit_sgd
from thermoment.learning.options import Sgd
from thermoment.runs.predictions import RAW_COLUMNS, RAW_PIXELS, Baselines

Matrix = NDArray[np.float32]


def classify(experiment: Experiment, dataset: Dataset, listener: Listener) -> Baselines:
    """Classes of the test images by raw inputs, unless they are left out, and by every baseline that is asked for."""
    settings, others = experiment.readout, experiment.baselines
    found: Baselines = {}
    if others is None or others.raw:
        raw = RAW_COLUMNS if dataset.columns else RAW_PIXELS
        found = read_linearly(raw, dataset.x_train, dataset.x_test, dataset, settings.sgd, settings.converged, listener)
    for name in others.names if others else ():
        assert others is not None
        kind, size, *rest = name.split("-")
        if kind == "mlp":
            title = f"MLP, {size} hidden units{', distorted images' if rest else ''}"
            found[title, "trained"] = _perceptron(int(size), bool(rest), others, dataset, listener, title)
        else:
            title = f"PCA of {size} with squares" if kind == "pca" else f"{size} random features"
            train, test = (_principal if kind == "pca" else _random)(int(size), dataset, others.seed)
            found |= read_linearly(title, train, test, dataset, settings.sgd, settings.converged, listener)
    return found


def read_linearly(
    name: str, train: Matrix, test: Matrix, dataset: Dataset, sgd: Sgd, converged: bool, listener: Listener
) -> Baselines:
    """Classes of the test images by the machine's readouts of features train (S, F) and test (S', F)."""
    features = Standardised.of(train)

    def report(done: int, _: float) -> None:
        listener(f"{name} by SGD, epochs", done, sgd.epochs)

    (plain,) = fit_sgd(features, dataset.y_train, [np.arange(train.shape[1])], sgd, report=report)
    found: Baselines = {(name, "sgd"): plain.predict(test)} if sgd.epochs else {}
    if converged:
        readout = fit_converged(features, dataset.y_train, sgd.l2, start=plain)
        found[name, "converged"] = readout.predict(test)
    return found


def _principal(size: int, dataset: Dataset, _seed: int) -> Iterator[Matrix]:
    """The first principal components of the training images, and their squares: of these and of the test images."""
    x = dataset.x_train.astype(np.float64)
    mean = x.mean(0)
    _, vectors = np.linalg.eigh((x - mean).T @ (x - mean))
    axes = vectors[:, ::-1][:, :size]
    for images in (dataset.x_train, dataset.x_test):
        parts = (images - mean) @ axes
        yield np.concatenate([parts, parts**2], axis=1).astype(np.float32)


def _random(size: int, dataset: Dataset, seed: int) -> Iterator[Matrix]:
    """tanh(A I + a) with A_ij ~ N(0, 4/D), a_i ~ N(0, 1), for images of mean zero and variance one over all pixels."""
    rng = np.random.default_rng(seed)
    A = rng.normal(0, 2 / np.sqrt(dataset.n_inputs), (size, dataset.n_inputs))
    a = rng.normal(size=size)
    mean, deviation = float(dataset.x_train.mean()), float(dataset.x_train.std())
    for images in (dataset.x_train, dataset.x_test):
        yield np.tanh((images - mean) / deviation @ A.T + a).astype(np.float32)


def _perceptron(
    size: int, distorted: bool, settings: BaselineSettings, dataset: Dataset, listener: Listener, title: str
) -> NDArray[np.int64]:
    trained = perceptron.train(
        dataset.x_train,
        dataset.y_train,
        size,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
        distortion=settings.distortion if distorted else None,
        shape=dataset.image_shape,
        report=lambda done, _: listener(f"{title}, epochs", done, settings.epochs),
    )
    return trained.predict(dataset.x_test)
