"""predictions.npz: the labels of the test images, and what every model took them for."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import DAMAGED_NPZ, write_whole
from thermoment.results.naming import ModelKey

Labels = NDArray[np.int64]
Predictions = dict[ModelKey, Labels]
PREDICTIONS = "predictions.npz"


def save_predictions(folder: Path, labels: Labels, predictions: Predictions) -> None:
    """Writes predictions.npz: "labels", and every model's classes under its key."""
    arrays = {"labels": labels, **{model.key: found for model, found in predictions.items()}}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(folder / PREDICTIONS, buffer.getvalue())


def load_predictions(folder: Path) -> tuple[Labels, Predictions]:
    """Labels (S,), and every model's classes (S,), from predictions.npz."""
    try:
        # Opened here, since NumPy leaves open what it opened and cannot read.
        with open(folder / PREDICTIONS, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        return found.pop("labels"), {ModelKey.parse(key): array for key, array in found.items()}
    except DAMAGED_NPZ as error:
        raise ValueError(f"{folder / PREDICTIONS} is damaged: {error}.") from None
