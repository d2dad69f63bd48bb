"""Data sets: images and their classes, from scikit-learn, verified files, a folder of IDX files, an .npz or a CSV file.

Pixels become float32 in [0, 1]. Bytes of IDX files are divided by 255. In an .npz file floats must lie in [0, 1] as
they are, integers are grey levels from 0 to 255 and are divided by 255, and booleans are 0 and 1.
"""

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from thermoment._support.checks import invalid, quoted
from thermoment._support.progress import Listener
from thermoment.data import idx, npz, table
from thermoment.data.dataset import Dataset
from thermoment.data.sources import KNOWN, candidates, fetch
from thermoment.data.table import Split

NAMES = ("digits", *KNOWN)
"""Data sets with a name. `load` takes paths as well."""
_DIGITS_TRAIN = 1297


@dataclass(frozen=True)
class Place:
    """A place where a data set may be."""

    where: str
    present: bool
    """It has the whole data set, checked. The network is not asked, so nothing there is present."""
    note: str


def load(
    name: str | PathLike[str],
    data_dir: str | PathLike[str] | None = None,
    *,
    split: Split | None = None,
    listener: Listener | None = None,
) -> Dataset:
    """The data set `name`: one of `NAMES`, else the path of a folder of IDX files, of an .npz or of a CSV file.

    `digits` comes with scikit-learn: 8 x 8, the first 1297 to learn from, the last 500 to be judged by. The files of
    `mnist` and `fashion-mnist` are looked for in `data_dir` or in $THERMOMENT_DATA (in a part of it called like the
    data set, or in itself) and nowhere else if either is given; else in the user's cache; else they are downloaded into
    it, and `listener` is told how far; without one, stderr shows it. An .npz file holds x_train, y_train, x_test,
    y_test, with x (S, D) or (S, height, width) or of more dimensions. A CSV file has names in its first line, and
    `split` says which column is the class, how rows are split and how they are scaled.
    """
    name = _name(name)
    is_csv = name not in NAMES and Path(name).suffix.lower() == ".csv"
    if is_csv and split is None:
        raise ValueError(f"{name}: The column with the classes must be named: set `data.label`.")
    if split is not None and not is_csv:
        raise ValueError(f"{name} is no CSV file, so there is no column to name: leave out `data.label`.")
    if name == "digits":
        return _digits()
    if name in KNOWN:
        return idx.from_files(name, fetch(name, data_dir, listener))
    path = _path(name)
    try:
        if split is not None:
            return table.read(path, split)
        return idx.read(path) if path.is_dir() else npz.read(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def locate(name: str | PathLike[str], data_dir: str | PathLike[str] | None = None) -> tuple[Place, ...]:
    """The places where `load` looks, in its order. Folders are read and checked, the network is left alone."""
    name = _name(name)
    if name == "digits":
        return (Place("scikit-learn", True, "comes with it"),)
    if name not in KNOWN:
        return (Place(str(_path(name)), True, "not checked"),)
    places = []
    for source in candidates(name, data_dir):
        if source.remote:
            places.append(Place(source.where, False, "would be downloaded from there"))
            continue
        try:
            count = sum(1 for _ in source.read(KNOWN[name].files))
            places.append(Place(source.where, True, f"{count} files, checked"))
        except ValueError as error:
            places.append(Place(source.where, False, str(error)))
    return tuple(places)


def is_here(name: str | PathLike[str], data_dir: str | PathLike[str] | None = None) -> bool:
    """Whether `load` finds a data set on this machine, without the network."""
    try:
        return any(place.present for place in locate(name, data_dir))
    except (ValueError, OSError):
        return False


def _name(name: str | PathLike[str]) -> str:
    try:
        text = os.fspath(name)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise invalid("name", f"be {', '.join(NAMES)}, or a path", quoted(name))
    return text


def _path(name: str) -> Path:
    path = Path(name).expanduser()
    if not name or not (path.is_dir() or (path.is_file() and path.suffix.lower() in (".npz", ".csv"))):
        must = f"be {', '.join(NAMES)}, a folder of IDX files, an .npz or a CSV file that exists"
        raise invalid("name", must, quoted(name))
    return Path(os.path.abspath(path))


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = (data.data / 16).astype(np.float32), data.target
    train, test = slice(_DIGITS_TRAIN), slice(_DIGITS_TRAIN, None)
    return Dataset("digits", x[train], y[train], x[test], y[test], (8, 8))
