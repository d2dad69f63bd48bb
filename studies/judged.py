"""Differences between the rows of a study, seed by seed, and whether they are established. For answers.py."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from thermoment.report.formatting import FIT_NAMES
from thermoment.report.formatting import points as signed_points
from thermoment.results.statistics import Interval, holm, paired

Values = NDArray[np.float64]
"""Accuracies, one a seed."""
LEVEL, SMALL, ENOUGH = 0.05, 0.003, 10
"""A difference below SMALL is judged from ENOUGH seeds on only."""
_DATA_NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}


@dataclass(frozen=True)
class Study:
    """study.json of a run."""

    name: str
    dataset: dict[str, Any]
    engine: str
    n_nodes: list[int]
    rows: list[dict[str, Any]]

    @property
    def data(self) -> str:
        """The name of the data set."""
        return data_name(self.dataset["name"])

    @property
    def where(self) -> str:
        """The data set, the machine, the engine and the readout."""
        nodes = " and ".join(map(str, dict.fromkeys(self.n_nodes)))
        engines = list(dict.fromkeys([self.engine, *(row.get("engine", self.engine) for row in self.rows)]))
        readout = FIT_NAMES["sgd" if any(row["readout"] == "sgd" for row in self.rows) else "converged"]
        return (
            f"{self.data} ({self.dataset['n_train']} training and {self.dataset['n_test']} test images; "
            f"{len(self.n_nodes)} reservoirs of {nodes} nodes; engine{'s' * (len(engines) > 1)} "
            f"{' and '.join(engines)}; {readout})"
        )

    @property
    def unsampled(self) -> set[str]:
        """The points that were not sampled, where others were."""
        engines = {row["variant"]: row.get("engine", self.engine) for row in self.rows}
        found = {name for name, engine in engines.items() if engine == "meanfield"}
        return found if len(found) < len(engines) else set()

    def group(self, name: str) -> list["Point"]:
        """The points of one variant that has a scan of its own, in their order; none where it was left out."""
        rows = {row["variant"]: row for row in self.rows if row.get("group") == name}
        return [
            Point(key, row["settings"], row.get("engine", self.engine), row.get("distance"))
            for key, row in rows.items()
        ]

    def values(
        self,
        variant: str,
        *,
        fusion: str = "feature",
        readout: str | None = None,
        orders: Sequence[Any] | None = None,
        model: str | None = None,
    ) -> Values:
        """Accuracies of a point: of most reservoirs or one model, with these orders or the most that are read.

        Unless it is given, the readout is the paper's or, where there is none, the fully fitted one.
        """
        rows = [row for row in self.rows if (row["variant"], row.get("fusion")) == (variant, fusion)]
        readout = readout or ("sgd" if any(row["readout"] == "sgd" for row in rows) else "converged")
        found = [
            row
            for row in rows
            if row["readout"] == readout
            and (orders is None or row["orders"] == list(orders))
            and model in (None, row["model"])
        ]
        best = max(found, key=lambda row: (row["model"].count("+"), len(row["orders"])))
        return _accuracies(best)

    def has(self, words: Sequence[str]) -> bool:
        """Whether just these words are read anywhere."""
        return any(row.get("orders") == list(words) for row in self.rows)

    def reads(self, words: Sequence[str], group: str | None = None) -> Values:
        """Accuracies of the most reservoirs where just these words are read, in any variant or in one."""
        found = [
            row
            for row in self.rows
            if row.get("fusion") == "feature"
            and row["orders"] == list(words)
            and (group is None or row.get("group") == group)
        ]
        return _accuracies(max(found, key=lambda row: row["model"].count("+")))

    def cost(self, variant: str) -> float | None:
        """What an answer of this machine takes, in units of kT."""
        return next(row.get("cost") for row in self.rows if row["variant"] == variant)

    def baselines(self, variant: str) -> dict[str, Values]:
        """Accuracies of what has no reservoirs, by name, as it was trained or by the machine's first readout."""
        rows = [row for row in self.rows if row["variant"] == variant and "fusion" not in row]
        return {row["model"]: _accuracies(row) for row in rows if row["readout"] != "converged"}

    def fits(self, key: str) -> Iterator[dict[str, str]]:
        """Every point and readout, with what the point sets `key` to."""
        known = dict.fromkeys((row["variant"], row["readout"]) for row in self.rows if row.get("fusion") == "logit")
        for variant, readout in known:
            settings = next(row["settings"] for row in self.rows if row["variant"] == variant)
            yield {"variant": variant, "readout": readout, key.split(".")[-1]: settings[key]}


@dataclass(frozen=True)
class Point:
    """A point of a study whose variants have scans of their own."""

    variant: str
    settings: dict[str, Any]
    engine: str
    distance: float | None
    """from equilibrium when it is read: 1 at the start, 0 in equilibrium"""


def data_name(name: str) -> str:
    """A data set's name as people write it."""
    return _DATA_NAMES.get(name, name)


def _accuracies(row: dict[str, Any]) -> Values:
    return np.asarray(row["correct"], np.float64) / int(row["total"])


def load(path: Path) -> Study:
    """The study in a file."""
    found = json.loads(path.read_text("utf-8"))
    return Study(found["experiment"], found["dataset"], found["engine"], found["n_nodes"], found["rows"])


@dataclass(frozen=True)
class Pair:
    """Two machines with the same seeds; where one has more of them, its first ones count."""

    a: str
    b: str
    values_a: Values
    values_b: Values


@dataclass(frozen=True)
class Comparison:
    """Accuracy of a less that of b."""

    a: str
    b: str
    mean: float
    n: int
    ci95: Interval
    holm: float

    @property
    def judged(self) -> bool:
        """Whether there are enough seeds for a difference of this size."""
        return self.n >= ENOUGH or abs(self.mean) >= SMALL

    @property
    def established(self) -> bool:
        """Whether the difference is one, after all comparisons of the family."""
        return self.judged and self.holm < LEVEL

    @property
    def verdict(self) -> str:
        if not self.judged:
            return "too few seeds"
        return "established" if self.established else "not established"


def judge(pairs: Sequence[Pair]) -> list[Comparison]:
    """All pairs of a table as one family."""
    common = [min(len(pair.values_a), len(pair.values_b)) for pair in pairs]
    found = [
        paired(pair.values_b[:n].tolist(), pair.values_a[:n].tolist()) for pair, n in zip(pairs, common, strict=True)
    ]
    adjusted = holm([1.0 if one.p is None else one.p for one in found])
    return [
        Comparison(pair.a, pair.b, one.mean, one.n, one.ci95 or Interval(-math.inf, math.inf), p)
        for pair, one, p in zip(pairs, found, adjusted, strict=True)
    ]


@dataclass(frozen=True)
class Family:
    """Comparisons that are judged together: one table."""

    title: str
    comparisons: Sequence[Comparison]


@dataclass(frozen=True)
class Answer:
    """What one run of a study says."""

    short: str
    """one sentence: what the question asks first"""
    sentence: str
    """all of it"""
    families: Sequence[Family] = ()
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]] = ()
    """a title, a head and rows each, where there is more to show than comparisons"""

    @property
    def comparisons(self) -> list[Comparison]:
        """Those of all families."""
        return [one for family in self.families for one in family.comparisons]


def gain(one: Comparison) -> str:
    """A difference in words, with its interval."""
    ends = f"95 % interval {interval(one.ci95)}"
    if not one.judged:
        return f"too small to be judged with {one.n} seeds ({points(one.mean)} points, {ends})"
    if not one.established:
        return f"no difference established ({points(one.mean)} points, {ends})"
    return f"{points(one.mean)} points ({ends})"


def more_than(one: Comparison, other: str) -> str:
    """What a gets beside b, after "gets", where b is called `other`."""
    of = f"95 % interval {interval(one.ci95)}"
    which = "more" if one.mean > 0 else "less"
    if one.established:
        return f"{100 * abs(one.mean):.2f} points {which} than {other} ({of})"
    difference = f"{points(one.mean)} points, {of}"
    if one.judged:
        return f"neither more nor less, as far as is established, than {other} ({difference})"
    return f"too little {which} than {other} to be judged with {one.n} seeds ({difference})"


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence: "a, b and c"."""
    return " and ".join([*([", ".join(parts[:-1])] if len(parts) > 1 else []), *parts[-1:]])


def capital(words: str) -> str:
    """As a sentence begins."""
    return f"{words[:1].upper()}{words[1:]}"


def sd_interval(sd: float, freedom: float) -> tuple[float, float]:
    """95 % interval of a standard deviation of normal values; of n of them `freedom` is n - 1."""
    low, high = (sd * math.sqrt(freedom / chi2.ppf(tail, freedom)) for tail in (0.975, 0.025))
    return low, high


def points(value: float) -> str:
    """A difference in percentage points, with its sign."""
    return signed_points(value) if math.isfinite(value) else "unknown"


def interval(ends: Interval) -> str:
    """An interval in percentage points."""
    return " to ".join(map(points, ends))


def percent(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.2f} %"
