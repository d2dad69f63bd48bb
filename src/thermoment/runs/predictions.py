"""predictions.npz: the labels of the test images, and what every model took them for."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import DAMAGED_NPZ, write_whole
from thermoment.results.analysis import baseline
from thermoment.results.naming import FITS, Fit, ModelKey
from thermoment.results.results import Baseline

Labels = NDArray[np.int64]
Predictions = dict[ModelKey, Labels]
Baselines = dict[tuple[str, Fit], Labels]
"""What a readout of something else than moments took the images for, by what it reads and how it was fitted."""
PREDICTIONS = "predictions.npz"
RAW_PIXELS = "raw pixels"
RAW_COLUMNS = "raw columns"
_BASELINE = "baseline:"
"""No reservoir can be called so: a name has no colon."""


def save_predictions(folder: Path, labels: Labels, predictions: Predictions, baselines: Baselines) -> None:
    """Writes predictions.npz: "labels", and what every model and baseline took the images for, under its key."""
    arrays = {"labels": labels, **{model.key: found for model, found in predictions.items()}}
    arrays |= {f"{_BASELINE}{name}|{readout}": found for (name, readout), found in baselines.items()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(folder / PREDICTIONS, buffer.getvalue())


def load_predictions(folder: Path) -> tuple[Labels, Predictions]:
    """Labels (S,), and every model's classes (S,), from predictions.npz."""
    found = _load(folder)
    labels = found.pop("labels")
    return labels, {ModelKey.parse(key): array for key, array in found.items() if not key.startswith(_BASELINE)}


def load_baselines(folder: Path) -> Baselines:
    """Every baseline's classes (S,), from predictions.npz; a run of an earlier version has none."""
    fits = {str(fit): fit for fit in FITS}
    parts = {key: key.removeprefix(_BASELINE).rpartition("|") for key in _load(folder) if key.startswith(_BASELINE)}
    found = _load(folder)
    return {(name, fits[fit]): found[key] for key, (name, _, fit) in parts.items() if fit in fits}


def baselines(folder: Path) -> tuple[Baseline, ...]:
    """The rows of results.json about what a readout of something else than moments gets right."""
    labels = _load(folder)["labels"]
    found = load_baselines(folder)
    return tuple(baseline(name, fit, labels, predicted) for (name, fit), predicted in found.items())


def _load(folder: Path) -> dict[str, Labels]:
    try:
        # Opened here, since NumPy leaves open what it opened and cannot read.
        with open(folder / PREDICTIONS, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        found["labels"]  # a file without them is no predictions.npz
        return found
    except DAMAGED_NPZ as error:
        raise ValueError(f"{folder / PREDICTIONS} is damaged: {error}.") from None
