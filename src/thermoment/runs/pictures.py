"""What the figures of a run show, read from the run's files: weights as images, mistakes, the course of training."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.identity import sha256
from thermoment.reservoir import Reservoir
from thermoment.results.node import NODE, NodeSample
from thermoment.results.pictures import MISREAD, Curve, Misread, Pictures
from thermoment.results.results import Results
from thermoment.results.table import Table

LOSSES, HISTORY = ".losses.json", ".history.json"


def pictures(files: Mapping[str, Path], results: Results) -> Pictures:
    """All that `files`, by their names in the run's folder, have of it."""
    return Pictures(
        NodeSample.load(files[NODE]) if NODE in files else None,
        Misread.load(files[MISREAD]) if MISREAD in files else None,
        _weights(files, results),
        curves(files),
    )


def needed(files: Mapping[str, Path]) -> dict[str, Path]:
    """Those of the files that `pictures` may read."""
    wanted = (MISREAD, NODE)
    return {name: path for name, path in files.items() if name in wanted or name.startswith("reservoirs/")}


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """SHA-256 of every one of those."""
    return {name: sha256(path) for name, path in needed(files).items()}


def files_of(folder: Path) -> dict[str, Path]:
    """Those files in a run's folder."""
    paths = [*sorted(folder.glob("reservoirs/*")), folder / MISREAD, folder / NODE]
    return {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}


def curves(files: Mapping[str, Path]) -> tuple[Curve, ...]:
    """Every training that the files tell of, in the order of their names. A reservoir that was only drawn has none."""
    found = []
    for name in sorted(files):
        bare = name.removeprefix("reservoirs/")
        if name.endswith(LOSSES) and (losses := _read(files[name])):
            found.append(Curve(bare.removesuffix(LOSSES), "static", tuple(losses)))
        elif name.endswith(HISTORY):
            epochs = _read(files[name])
            held_out = [epoch["validation"] for epoch in epochs if epoch["validation"] is not None]
            loss = tuple(epoch["loss"] for epoch in epochs)
            found.append(Curve(bare.removesuffix(HISTORY), "finite-time", loss, tuple(held_out)))
    return tuple(found)


def _weights(files: Mapping[str, Path], results: Results) -> dict[str, NDArray[np.float64]]:
    """K of the reservoirs that the run is judged by, where its inputs are images."""
    shape = results.dataset.image_shape
    if len(shape) != 2:
        return {}
    model = Table.of(results.accuracy).headline.model
    found = {}
    for name in model.reservoirs:
        copy = f"reservoirs/{name}-trained.safetensors" if model.readout == "trained" else ""
        path = files.get(copy) or files.get(f"reservoirs/{name}.safetensors")
        if path is not None:
            found[name] = Reservoir.load(path).K.reshape(-1, *shape)
    return found


def _read(path: Path) -> list[Any]:
    try:
        found: list[Any] = json.loads(path.read_text("utf-8"))
        return found
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
