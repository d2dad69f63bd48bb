"""Data sets in .npz files."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment.data import idx
from thermoment.data.dataset import _ARRAYS, Dataset


def from_npz(path: Path) -> Dataset:
    arrays = _read_npz(path)
    x_train, y_train, x_test, y_test = (arrays[name] for name in _ARRAYS)
    return assemble(path.stem, _scaled("x_train", x_train), y_train, _scaled("x_test", x_test), y_test)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    if not zipfile.is_zipfile(path):
        raise ValueError("It must be a whole .npz file, but is none or cut off.")
    try:
        with np.load(path, allow_pickle=False) as file:
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in file.zip.infolist()}
            if not sizes.keys() >= set(_ARRAYS):
                raise ValueError(f"It must hold {', '.join(_ARRAYS)}, but holds {', '.join(sizes) or 'nothing'}.")
            if max(sizes[name] for name in _ARRAYS) > idx.MOST_BYTES:
                raise ValueError(f"Its arrays must have at most {idx.MOST_BYTES} bytes, but one has more.")
            return {name: file[name] for name in _ARRAYS}
    # A MemoryError comes of a header that claims an impossible shape.
    except (EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"It must be a whole .npz file, but is damaged: {error}.") from None


def _scaled(argument: str, x: NDArray[Any]) -> NDArray[Any]:
    """Pixels in [0, 1] by the rule of this file's head; what is wrong about floats is left for `Dataset` to say."""
    if x.dtype.kind == "b":
        return x.astype(np.float32)
    if x.dtype.kind not in "iu" or x.size == 0:
        return x
    low, high = int(x.min()), int(x.max())
    # Integers that stay below are on another scale, 0 to 1 or 0 to 16: divided by 255 they would be next to nothing.
    if low < 0 or not 127 < high <= 255:
        must = "be grey levels from 0 to 255, some above 127, or else floats in [0, 1]"
        raise invalid(argument, must, f"integers from {low} to {high}")
    return grey(x)


def grey(levels: NDArray[Any]) -> NDArray[np.float32]:
    x: NDArray[np.float32] = np.divide(levels, np.float32(255), dtype=np.float32, casting="unsafe")
    x.flags.writeable = False
    return x


def assemble(
    name: str, x_train: NDArray[Any], y_train: NDArray[Any], x_test: NDArray[Any], y_test: NDArray[Any]
) -> Dataset:
    """A data set of images (S, ...), and what holds for a whole one but need not for its first few."""
    shape = x_train.shape[1:]
    if not shape or 0 in x_train.shape:
        raise ValueError(f"Argument `x_train` must have shape (S, D) or (S, ...), but has shape {x_train.shape}.")
    if x_test.shape[1:] != shape or not len(x_test):
        wanted = ", ".join(("S", *map(str, shape)))
        raise ValueError(f"Argument `x_test` must have shape ({wanted}), but has shape {x_test.shape}.")
    x_train, x_test = (x.reshape(len(x), -1) for x in (x_train, x_test))
    dataset = Dataset(name, x_train, y_train, x_test, y_test, shape)
    known, asked = int(dataset.y_train.max()), int(dataset.y_test.max())
    if asked > known:
        raise invalid("y_test", f"have labels up to {known}, the largest of y_train", f"{asked} at the largest")
    return dataset
