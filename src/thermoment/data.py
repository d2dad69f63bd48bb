"""Data sets: images and their classes, from scikit-learn, verified files, a folder of IDX files or an .npz file.

Pixels become float32 in [0, 1]. Bytes of IDX files are divided by 255. In an .npz file floats must lie in [0, 1] as
they are, integers are grey levels from 0 to 255 and are divided by 255, and booleans are 0 and 1.
"""

import hashlib
import math
import os
import zipfile
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment import idx
from thermoment.sources import KNOWN, candidates, fetch
from thermoment.validation import check_integer, invalid

NAMES = ("digits", *KNOWN)
"""Data sets with a name. `load` takes paths as well."""

MOST_CLASSES = 2**16
"""A label past this is some other number, and a readout has a row for every class."""

_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_DIGITS_TRAIN = 1297


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to learn from and images to be judged by. Arrays are kept read-only; those that are not are copied."""

    name: str
    x_train: NDArray[np.float32]
    """(n_train, n_inputs), in [0, 1]"""
    y_train: NDArray[np.int64]
    """(n_train,), classes from 0"""
    x_test: NDArray[np.float32]
    """(n_test, n_inputs)"""
    y_test: NDArray[np.int64]
    """(n_test,)"""
    image_shape: tuple[int, ...]
    """What a row of x is, unrolled; (n_inputs,) if it is no image."""

    def __post_init__(self) -> None:
        shape = tuple(check_integer("image_shape", length, 1, 2**31) for length in self.image_shape)
        object.__setattr__(self, "image_shape", shape)
        for part in ("train", "test"):
            x = _pixels(f"x_{part}", getattr(self, f"x_{part}"), math.prod(shape))
            object.__setattr__(self, f"x_{part}", x)
            object.__setattr__(self, f"y_{part}", _labels(f"y_{part}", getattr(self, f"y_{part}"), len(x)))

    @property
    def n_train(self) -> int:
        return len(self.y_train)

    @property
    def n_test(self) -> int:
        return len(self.y_test)

    @property
    def n_inputs(self) -> int:
        return int(self.x_train.shape[1])

    @property
    def n_classes(self) -> int:
        """One more than the largest label."""
        return 1 + int(max(self.y_train.max(), self.y_test.max()))

    @cached_property
    def sha256(self) -> str:
        """Of the four arrays: for each a line of name, type and shape, then its little-endian bytes. Hexadecimal."""
        digest = hashlib.sha256()
        for name in _ARRAYS:
            array = getattr(self, name)
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def first(self, n_train: int | None = None, n_test: int | None = None) -> "Dataset":
        """The first `n_train` and the first `n_test` images, all where None. Memory is shared."""
        train = slice(None if n_train is None else check_integer("n_train", n_train, 1, self.n_train))
        test = slice(None if n_test is None else check_integer("n_test", n_test, 1, self.n_test))
        return replace(
            self,
            x_train=self.x_train[train],
            y_train=self.y_train[train],
            x_test=self.x_test[test],
            y_test=self.y_test[test],
        )


@dataclass(frozen=True)
class Place:
    """A place where a data set may be."""

    where: str
    present: bool
    """It has the whole data set, checked. Nothing on the network is asked, so nothing there is present."""
    note: str


def load(name: str | PathLike[str], data_dir: str | PathLike[str] | None = None) -> Dataset:
    """The data set `name`: one of `NAMES`, else the path of a folder of IDX files or of an .npz file.

    `digits` comes with scikit-learn: 8 x 8, the first 1297 to learn from, the last 500 to be judged by. The files of
    `mnist` and `fashion-mnist` are looked for in `data_dir` or in $THERMOMENT_DATA (in a part of it called like the
    data set, or in itself) and nowhere else if either is given; else in the user's cache; else they are downloaded into
    it. An .npz file holds x_train, y_train, x_test, y_test, with x (S, D) or (S, height, width) or of more dimensions.
    """
    name = os.fspath(name)
    if name == "digits":
        return _digits()
    if name in KNOWN:
        files = fetch(name, data_dir)
        return _from_idx(name, {file: idx.parse(files[file], file, n_dims) for file, n_dims in idx.NAMES.items()})
    path = _path(name)
    try:
        return _from_idx(path.name, idx.read_folder(path)) if path.is_dir() else _from_npz(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def locate(name: str | PathLike[str], data_dir: str | PathLike[str] | None = None) -> tuple[Place, ...]:
    """The places where `load` looks, in its order. Folders are read and checked, the network is left alone."""
    name = os.fspath(name)
    if name == "digits":
        return (Place("scikit-learn", True, "comes with it"),)
    if name not in KNOWN:
        return (Place(str(_path(name)), True, "not checked"),)
    places = []
    for source in candidates(name, data_dir):
        if source.remote:
            places.append(Place(source.where, False, "not asked"))
            continue
        try:
            count = sum(1 for _ in source.read(KNOWN[name].files))
            places.append(Place(source.where, True, f"{count} files, checked"))
        except ValueError as error:
            places.append(Place(source.where, False, str(error)))
    return tuple(places)


def _path(name: str) -> Path:
    path = Path(name).expanduser()
    if not name or not (path.is_dir() or (path.is_file() and path.suffix == ".npz")):
        raise invalid("name", f"be {', '.join(NAMES)}, a folder of IDX files or an .npz file", repr(name))
    return Path(os.path.abspath(path))


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = (data.data / 16).astype(np.float32), data.target
    train, test = slice(_DIGITS_TRAIN), slice(_DIGITS_TRAIN, None)
    return Dataset("digits", x[train], y[train], x[test], y[test], (8, 8))


def _from_idx(name: str, arrays: dict[str, NDArray[np.uint8]]) -> Dataset:
    x_train, y_train, x_test, y_test = (arrays[file] for file in idx.NAMES)
    return _assemble(name, _grey(x_train), y_train, _grey(x_test), y_test)


def _from_npz(path: Path) -> Dataset:
    arrays = _read_npz(path)
    x_train, y_train, x_test, y_test = (arrays[name] for name in _ARRAYS)
    return _assemble(path.stem, _scaled("x_train", x_train), y_train, _scaled("x_test", x_test), y_test)


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
    return _grey(x)


def _grey(levels: NDArray[Any]) -> NDArray[np.float32]:
    x: NDArray[np.float32] = np.divide(levels, np.float32(255), dtype=np.float32, casting="unsafe")
    x.flags.writeable = False
    return x


def _assemble(
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


def _pixels(argument: str, value: Any, n_inputs: int) -> NDArray[np.float32]:
    x = np.asarray(value)
    if x.dtype.kind != "f":
        raise invalid(argument, "be floats in [0, 1]", f"of type {x.dtype}")
    if x.ndim != 2 or x.shape[1] != n_inputs or not len(x):
        raise ValueError(f"Argument `{argument}` must have shape (S, {n_inputs}), but has shape {x.shape}.")
    if not (x.min() >= 0 and x.max() <= 1):  # so written, NaN fails it
        where = tuple(int(i) for i in np.argwhere(~((x >= 0) & (x <= 1)))[0])
        raise invalid(argument, "lie in [0, 1]", f"{x[where]} at index {where}")
    return _own(x, np.dtype(np.float32))


def _labels(argument: str, value: Any, count: int) -> NDArray[np.int64]:
    y = np.asarray(value)
    if y.dtype.kind not in "iu":
        raise invalid(argument, "be integers", f"of type {y.dtype}")
    if y.shape != (count,):
        raise ValueError(f"Argument `{argument}` must have shape ({count},), a label each, but has shape {y.shape}.")
    if y.min() < 0 or y.max() >= MOST_CLASSES:
        where = int(np.flatnonzero((y < 0) | (y >= MOST_CLASSES))[0])
        raise invalid(argument, f"be labels from 0 to {MOST_CLASSES - 1}", f"{y[where]} at index {where}")
    return _own(y, np.dtype(np.int64))


def _own(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array, C-contiguous and read-only: itself if it is so already."""
    kept = array.dtype == dtype and array.flags.c_contiguous and not array.flags.writeable
    own = array if kept else np.array(array, dtype, order="C")
    own.flags.writeable = False
    return own
