"""Inputs for a machine that is already there: an image, or a file of many, checked against what the machine takes."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import check_labels, check_shape
from thermoment.data import idx, npz
from thermoment.data.columns import Columns
from thermoment.data.dataset import grey
from thermoment.data.drawing import fit
from thermoment.data.table import CsvFile

_GZIP, _ZIP, _IDX = b"\x1f\x8b", b"PK", b"\x00\x00\x08"


@dataclass(frozen=True)
class Inputs:
    """Inputs (S, D) in [0, 1], and their classes (S,) where the file has them."""

    x: NDArray[np.float32]
    y: NDArray[np.int64] | None = None


def read(
    path: Path, n_inputs: int, n_classes: int, *, columns: Columns | None = None, label: str | None = None, fitted: bool
) -> Inputs:
    """The inputs in a file, whose kind its first bytes tell: an .npz or IDX file, an image; else a CSV file.

    Args:
        path: An .npz file holds `x` (S, D) or (S, height, width), or `x_test`, and perhaps their classes, `y` or
            `y_test`. An IDX file holds images. A CSV file has names in its first line, and a row for each input.
        n_inputs: D, what the machine takes.
        n_classes: how many classes it knows.
        columns: of a machine for tables: columns by name, and how they are scaled.
        label: the column of a CSV file that holds classes; that of `columns` unless given.
        fitted: an image of any size is taken: what is drawn on it is cut out and centred as MNIST's digits are.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    with open(path, "rb") as file:
        first = file.read(3)
    try:
        if path.suffix.lower() == ".csv":
            return _from_csv(path, n_inputs, n_classes, columns, label)
        if columns is not None:
            raise ValueError(f"This machine reads tables: it needs a CSV file with {', '.join(columns.names)}.")
        if first[:2] == _ZIP:
            return _from_npz(path, n_inputs, n_classes)
        if first == _IDX or first[:2] == _GZIP:
            with open(path, "rb") as file:
                return Inputs(_unrolled(grey(idx.parse(idx.unpack(file, path.name), path.name, 3)), n_inputs))
        pixels = _picture(path)
        return Inputs(_unrolled(fit(pixels)[np.newaxis] if fitted else pixels[np.newaxis], n_inputs))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _from_npz(path: Path, n_inputs: int, n_classes: int) -> Inputs:
    found = npz.arrays_of(path, (), ("x", "y", "x_test", "y_test"))
    ending = "" if "x" in found else "_test"
    if f"x{ending}" not in found:
        raise ValueError("It must hold the array x or x_test, but holds neither.")
    x = _unrolled(npz.scaled("x", found[f"x{ending}"]), n_inputs)
    y = found.get(f"y{ending}")
    return Inputs(x, None if y is None else check_labels(f"y{ending}", y, len(x), n_classes))


def _from_csv(path: Path, n_inputs: int, n_classes: int, columns: Columns | None, label: str | None) -> Inputs:
    file = CsvFile(path)
    if columns is not None:
        known = label or columns.label
        y = columns.labels(file.words(known)) if label or known in file.names else None
        return Inputs(columns.inputs(file.numbers(columns.names)), y)
    names = tuple(name for name in file.names if name != label)
    words = file.numbers((label,))[:, 0] if label is not None else None
    if len(names) != n_inputs:
        raise ValueError(f"It must have {n_inputs} columns of inputs, as the machine takes, but has {len(names)}.")
    x = _unrolled(file.numbers(names), n_inputs)
    if words is None:
        return Inputs(x)
    if (words != words.round()).any():
        raise ValueError(f"Column {label!r} must hold class numbers, but holds others.")
    return Inputs(x, check_labels(str(label), words.astype(np.int64), len(x), n_classes))


def _picture(path: Path) -> NDArray[np.float32]:
    """The grey levels (height, width) of an image file, from 0 for black to 1 for white."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                return grey(np.asarray(image.convert("L")))
    except UnidentifiedImageError:
        raise ValueError("It must be an image, an .npz file, an IDX file or a CSV file, but is none of them.") from None
    except (OSError, Image.DecompressionBombError, Image.DecompressionBombWarning, SyntaxError) as error:
        raise ValueError(f"It cannot be read as an image: {error}.") from None


def _unrolled(x: NDArray[np.floating], n_inputs: int) -> NDArray[np.float32]:
    """Inputs (S, D) from (S, D) or (S, height, width), refused where they do not fit the machine."""
    side = math.isqrt(n_inputs)
    wanted = f"{side} x {side} pixels" if side * side == n_inputs else f"{n_inputs} numbers"
    if x.ndim < 2 or not len(x) or math.prod(x.shape[1:]) != n_inputs or (x.ndim == 3 and x.shape[1] != side):
        have = " x ".join(map(str, x.shape[1:])) or "a single number"
        hint = ". To cut out and centre what is drawn, use --fit" if x.ndim == 3 and n_inputs == 784 else ""
        raise ValueError(f"An input must be of {wanted}, as the machine takes, but is of {have}{hint}.")
    flat = check_shape("x", x.reshape(len(x), -1), ("S", n_inputs)).astype(np.float32)
    if not (flat.min() >= 0 and flat.max() <= 1):  # so written, NaN fails it
        row = int(np.flatnonzero(~((flat >= 0) & (flat <= 1)).all(axis=1))[0])
        raise ValueError(f"Inputs must lie in [0, 1], but row {row + 1} has others.")
    return flat
