"""A data set: images to learn from and images to be judged by, checked."""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import check_integer, check_integers, check_shape, invalid
from thermoment._support.memory import check_fits
from thermoment.data.columns import Columns

MOST_CLASSES = 2**16
"""A label of this or more is some other number, not a class: a readout has a row for every class."""

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
"""The arrays of a data set, by name."""


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
    columns: Columns | None = None
    """Of a table: the names of its columns and classes, and how its values were scaled."""

    def __post_init__(self) -> None:
        shape = check_integers("image_shape", self.image_shape, 1, 2**31)
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
        for name in ARRAYS:
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


def from_images(
    name: str,
    x_train: NDArray[Any],
    y_train: NDArray[Any],
    x_test: NDArray[Any],
    y_test: NDArray[Any],
    columns: Columns | None = None,
) -> Dataset:
    """A data set of images (S, ...), and what holds for a whole one but need not for its first few."""
    shape = x_train.shape[1:]
    if not shape or 0 in x_train.shape:
        raise ValueError(f"Argument `x_train` must have shape (S, D) or (S, ...), but has shape {x_train.shape}.")
    if x_test.shape[1:] != shape or not len(x_test):
        wanted = ", ".join(("S", *map(str, shape)))
        raise ValueError(f"Argument `x_test` must have shape ({wanted}), but has shape {x_test.shape}.")
    x_train, x_test = (x.reshape(len(x), -1) for x in (x_train, x_test))
    dataset = Dataset(name, x_train, y_train, x_test, y_test, shape, columns)
    known, asked = int(dataset.y_train.max()), int(dataset.y_test.max())
    if asked > known:
        raise invalid("y_test", f"have labels up to {known}, the largest of y_train", f"{asked} at the largest")
    return dataset


def grey(levels: NDArray[Any]) -> NDArray[np.float32]:
    """Pixels in [0, 1] from integers of 0 to 255."""
    x: NDArray[np.float32] = np.divide(levels, np.float32(255), dtype=np.float32, casting="unsafe")
    x.flags.writeable = False
    return x


def _pixels(argument: str, value: Any, n_inputs: int) -> NDArray[np.float32]:
    x = check_shape(argument, value, ("S", n_inputs))
    check_fits(argument, x.shape, item_bytes=4)
    if x.dtype.kind != "f":
        raise invalid(argument, "be floats in [0, 1]", f"of type {x.dtype}")
    if not (x.min() >= 0 and x.max() <= 1):  # so written, NaN fails it
        where = tuple(int(i) for i in np.argwhere(~((x >= 0) & (x <= 1)))[0])
        raise invalid(argument, "lie in [0, 1]", f"{x[where]} at index {where}")
    return _own(x, np.dtype(np.float32))


def _labels(argument: str, value: Any, count: int) -> NDArray[np.int64]:
    y = check_shape(argument, value, (count,))
    if y.dtype.kind not in "iu":
        raise invalid(argument, "be integers", f"of type {y.dtype}")
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
