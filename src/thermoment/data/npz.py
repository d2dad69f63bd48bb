"""Data sets in .npz files: the four arrays, never more than a bound in memory, never a pickle."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment._support.files import DAMAGED_NPZ
from thermoment.data import idx
from thermoment.data.dataset import ARRAYS, Dataset, from_images, grey


def read(path: Path) -> Dataset:
    """The data set in an .npz file, with the file's name."""
    arrays = arrays_of(path, ARRAYS)
    x_train, y_train, x_test, y_test = (arrays[name] for name in ARRAYS)
    return from_images(path.stem, scaled("x_train", x_train), y_train, scaled("x_test", x_test), y_test)


def arrays_of(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """The arrays of these names, and of the `optional` ones those that are there."""
    if not zipfile.is_zipfile(path):
        raise ValueError("It must be a whole .npz file, but is none or cut off.")
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in file.zip.infolist()}
            if not sizes.keys() >= set(names):
                raise ValueError(f"It must hold {', '.join(names)}, but holds {', '.join(sizes) or 'nothing'}.")
            wanted = [*names, *(name for name in optional if name in sizes)]
            if any(sizes[name] > idx.MOST_BYTES for name in wanted):
                raise ValueError(f"Its arrays must have at most {idx.MOST_BYTES} bytes, but one has more.")
            return {name: file[name] for name in wanted}
    except ValueError:
        raise
    except DAMAGED_NPZ as error:
        raise ValueError(f"It must be a whole .npz file, but is damaged: {error}.") from None


def scaled(argument: str, x: NDArray[Any]) -> NDArray[Any]:
    """Pixels in [0, 1] by the rule of `thermoment.data`; floats stay as they are, and `Dataset` checks them."""
    if x.dtype.kind == "b":
        return x.astype(np.float32)
    if x.dtype.kind not in "iu" or x.size == 0:
        return x
    low, high = int(x.min()), int(x.max())
    # Integers that never exceed 127 are on another scale, 0 to 1 or 0 to 16: divided by 255 they would all be near 0.
    if low < 0 or not 127 < high <= 255:
        must = "be grey levels from 0 to 255, some above 127, or else floats in [0, 1]"
        raise invalid(argument, must, f"integers from {low} to {high}")
    return grey(x)
