"""Data sets in CSV files: a line of names, then a row for each sample, one column of which is its class."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import check_array, check_choice, check_integer, check_real, invalid
from thermoment.data.columns import Columns, Scaling
from thermoment.data.dataset import Dataset, from_images
from thermoment.data.idx import MOST_BYTES

_DEVIATIONS = 3
"""Standard deviations on either side of the mean that the scaling "standard" maps to 0 and 1."""
_SCALED: dict[Scaling, str] = {
    "range": "their smallest and largest training values become 0 and 1",
    "standard": f"{_DEVIATIONS} standard deviations of the training rows below and above the mean become 0 and 1",
    "none": "taken as they are",
}


@dataclass(frozen=True)
class Split:
    """How a CSV file becomes a data set: which column is the class, which rows are the test set, how inputs are scaled.

    Args:
        label: the name of the column with the classes, which may be words or numbers.
        test_share: the share of the rows of each class that is kept for the test set.
        seed: of the generator that chooses these rows.
        scaling: what becomes 0 and 1 in each column, found from the training rows alone: "range" takes the smallest and
            the largest value, "standard" the mean less and plus three standard deviations, "none" leaves numbers as
            they are, which must then lie in [0, 1]. Values beyond are set to 0 or 1.
        leave_out: columns that are neither input nor class.
    """

    label: str
    test_share: float = 0.25
    seed: int = 0
    scaling: Scaling = "range"
    leave_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < check_real("test_share", self.test_share) < 1:
            raise invalid("test_share", "lie between 0 and 1", self.test_share)
        check_integer("split_seed", self.seed, 0, 2**62)
        check_choice("scaling", self.scaling, get_args(Scaling))
        if self.label in self.leave_out:
            raise invalid("leave_out", "not name the column of the classes", repr(self.label))


def read(path: Path, split: Split) -> Dataset:
    """The data set in a CSV file, split and scaled, with the file's name."""
    table = CsvFile(path)
    names = tuple(name for name in table.names if name not in (split.label, *split.leave_out))
    for name in (split.label, *split.leave_out):
        table.place(name)
    if not names:
        raise ValueError(f"It must have a column beside {split.label!r}, but has none.")
    words, values = table.words(split.label), table.numbers(names)
    classes, y = np.unique(words, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"Column {split.label!r} must hold two classes or more, but holds only {str(words[0])!r}.")
    test = _test_rows(y, split)
    low, high = _ends(values[~test], split.scaling)
    columns = Columns(
        split.label, tuple(map(str, classes)), names, tuple(low.tolist()), tuple(high.tolist()), split.scaling
    )
    x = columns.inputs(values)
    return from_images(path.stem, x[~test], y[~test], x[test], y[test], columns)


def describe(dataset: Dataset, split: Split) -> str:
    """How a CSV file was split and scaled, in a sentence that names the settings."""
    assert dataset.columns is not None
    return (
        f"{dataset.name}: {dataset.n_train} training and {dataset.n_test} test rows (data.test_share = "
        f"{split.test_share:g}, data.split_seed = {split.seed}); {dataset.n_inputs} columns, "
        f'{_SCALED[split.scaling]} (data.scaling = "{split.scaling}"); '
        f"{len(dataset.columns.classes)} classes in column {split.label!r}."
    )


class CsvFile:
    """A CSV file: UTF-8, names in its first line, separated by commas, semicolons or tabs, whichever the names are."""

    def __init__(self, path: Path) -> None:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"It must have at most {MOST_BYTES} bytes, but has {path.stat().st_size}.")
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                first = file.readline()
        except UnicodeDecodeError as error:
            raise ValueError(f"It must be text in UTF-8, but is not: {error}.") from None
        self.path, self.separator = path, max(",;\t", key=first.count)
        self.names = tuple(name.strip() for name in next(csv.reader([first], delimiter=self.separator), []))
        twice = [name for name in self.names if self.names.count(name) > 1]
        if not any(self.names) or twice:
            raise ValueError(
                "Its first line must name each column once, but "
                + (f"names {twice[0]!r} twice." if twice else "names none.")
            )

    def place(self, name: str) -> int:
        """Which column is called so."""
        if name not in self.names:
            raise ValueError(f"It must have a column {name!r}, but has {', '.join(map(repr, self.names))}.")
        return self.names.index(name)

    def words(self, name: str) -> NDArray[np.str_]:
        """A column as text (S,), without spaces around; none may be empty."""
        words = np.char.strip(self._load([name], np.dtype(str))[:, 0])
        if (empty := np.flatnonzero(words == "")).size:
            raise ValueError(f"Column {name!r} must hold a class, but is empty in row {empty[0] + 1}.")
        return words

    def numbers(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Columns as finite numbers (S, D)."""
        try:
            values = self._load(names, np.dtype(np.float64))
            return check_array("values", values, ("S", len(names)))
        except ValueError:
            self._name_bad_cell(names)
            raise

    def _load(self, names: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        places = [self.place(name) for name in names]
        with open(self.path, encoding="utf-8-sig", newline="") as file:
            file.readline()
            if not any(line.strip() for line in file):
                raise ValueError("It must have rows below its names, but has none.")
            file.seek(0)
            return np.loadtxt(
                file, dtype, delimiter=self.separator, quotechar='"', skiprows=1, usecols=places, comments=None, ndmin=2
            )

    def _name_bad_cell(self, names: tuple[str, ...]) -> None:
        """Raises for the first cell that is no finite number, by row and column."""
        places = [self.place(name) for name in names]
        with open(self.path, encoding="utf-8-sig", newline="") as file:
            rows = (cells for cells in csv.reader(file, delimiter=self.separator) if cells)
            next(rows)
            for row, cells in enumerate(rows, 1):
                if len(cells) != len(self.names):
                    raise ValueError(f"Row {row} must have {len(self.names)} cells, but has {len(cells)}.")
                for name, place in zip(names, places, strict=True):
                    if not _is_number(cells[place]):
                        raise ValueError(f"Column {name!r} must hold numbers, but is {cells[place]!r} in row {row}.")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _test_rows(y: NDArray[np.int64], split: Split) -> NDArray[np.bool_]:
    """Which rows (S,) are the test set: the same share of every class, never all of a class."""
    random, test = np.random.default_rng(split.seed), np.zeros(len(y), bool)
    for label in range(int(y.max()) + 1):
        rows = random.permutation(np.flatnonzero(y == label))
        test[rows[: min(round(split.test_share * len(rows)), len(rows) - 1)]] = True
    if not test.any():
        raise invalid("test_share", f"leave a row of some class for the test set of {len(y)} rows", split.test_share)
    return test


def _ends(values: NDArray[np.float64], scaling: Scaling) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What becomes 0 and what becomes 1 in every column, (D,) each."""
    if scaling == "range":
        return values.min(axis=0), values.max(axis=0)
    if scaling == "standard":
        centre, reach = values.mean(axis=0), _DEVIATIONS * values.std(axis=0)
        return centre - reach, centre + reach
    return np.zeros(values.shape[1]), np.ones(values.shape[1])
