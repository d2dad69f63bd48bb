"""results.json, typed: the rows that a run or a study found, written to JSON and read back without loss."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from thermoment.data.columns import Columns
from thermoment.results.codec import plain, typed
from thermoment.results.naming import Fit, ModelKey
from thermoment.results.statistics import Interval

if TYPE_CHECKING:
    from pandas import DataFrame

RESULTS = "results.json"
_Kind = TypeVar("_Kind", bound="Described")


@dataclass(frozen=True)
class DatasetFacts:
    """What the results say of their data set."""

    name: str
    n_train: int
    n_test: int
    n_inputs: int
    n_classes: int
    sha256: str
    columns: Columns | None = None
    """of a table: its columns and classes by name, and how they were scaled"""
    image_shape: tuple[int, ...] = ()
    """height and width, where an input is an image"""


@dataclass(frozen=True)
class Accuracy:
    """One model on the test set, with Wilson's 95 % interval."""

    model: ModelKey
    n_features: int | None
    correct: int
    total: int
    accuracy: float
    ci95: Interval


@dataclass(frozen=True)
class PairedTest:
    """Two models with the same readout on the same samples: the exact two-sided p of the McNemar test."""

    a: str
    b: str
    readout: Fit
    a_only_wrong: int
    b_only_wrong: int
    p: float


@dataclass(frozen=True)
class Difference:
    """Accuracy of b less accuracy of a, with its paired bootstrap interval."""

    a: str
    b: str
    readout: Fit
    difference: float
    ci95: Interval


@dataclass(frozen=True)
class Overlap:
    """The samples that two models got wrong; `jaccard` is None where neither was ever wrong."""

    a: str
    b: str
    readout: Fit
    wrong_a: int
    wrong_b: int
    intersection: int
    union: int
    jaccard: float | None


@dataclass(frozen=True)
class Region:
    """How many samples exactly these single reservoirs got wrong, and no other."""

    readout: Fit
    wrong: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Confusion:
    """What one model took the samples of each class for."""

    model: ModelKey
    counts: tuple[tuple[int, ...], ...]
    """(C, C): the row is the class of a sample, the column what it was taken for"""


@dataclass(frozen=True)
class Analysis:
    """Every number that follows from the labels and the predictions of one run."""

    accuracy: tuple[Accuracy, ...]
    mcnemar: tuple[PairedTest, ...]
    differences: tuple[Difference, ...]
    jaccard: tuple[Overlap, ...]
    regions: tuple[Region, ...]
    confusion: Confusion | None = None
    """of the model that the run is judged by; None where there are very many classes"""


@dataclass(frozen=True)
class Baseline:
    """A readout of something other than reservoirs, such as the raw pixels, on the same test set."""

    model: str
    """what was read: "raw pixels\""""
    readout: Fit
    correct: int
    total: int
    accuracy: float
    ci95: Interval


@dataclass(frozen=True)
class Cost:
    """What an answer takes in units of kT, in the mean over the test samples, of the machine the run is judged by."""

    answer: float | None
    """one cycle of every reservoir and every replica; None for infinitely many replicas"""
    cycles: Mapping[str, float]
    """one cycle of one replica, by reservoir"""
    counted: tuple[str, ...]
    """which terms of the energy account are in it: "work_on", "work_off" and, where it is known, "work_path\""""


@dataclass(frozen=True)
class Summary:
    """One model over seeds; from a single seed there is no deviation and no interval."""

    model: ModelKey
    total: int
    correct: tuple[int, ...]
    """of every seed"""
    mean: float
    sd: float | None
    ci95: Interval | None
    """of the mean accuracy"""
    range95: Interval | None
    """in which the accuracy of one more run falls with probability 95 %"""


@dataclass(frozen=True)
class BaselineSummary:
    """A readout of something other than reservoirs over seeds; no deviation and no interval from a single one."""

    model: str
    readout: Fit
    total: int
    correct: tuple[int, ...]
    """of every seed"""
    mean: float
    sd: float | None
    ci95: Interval | None


@dataclass(frozen=True)
class Variant:
    """One point of a study: a variant, with one value of every factor of a scan."""

    variant: str
    description: str
    accuracy: tuple[Summary, ...]
    changes: Mapping[str, Any] | None = None
    """by a scan: dotted keys and their values, None for infinity"""
    baseline: tuple[BaselineSummary, ...] = ()
    cost: float | None = None
    """what an answer takes in units of kT, the mean over the seeds; None where it is not known"""
    group: str | None = None
    """the variant that the point is of, where variants have scans of their own"""
    engine: str | None = None
    """of its features, where the points of the study have several"""
    distance: float | None = None
    """from equilibrium when it is read, as in Results: the mean over the reservoirs of its first seed"""

    def row(self, model: ModelKey) -> Summary | None:
        """The row of `model`, None where this variant does not have it."""
        return next((row for row in self.accuracy if row.model == model), None)


@dataclass(frozen=True)
class Described:
    """What all results say first. An infinite setting is math.inf here and null in JSON."""

    experiment: str
    description: str
    dataset: DatasetFacts
    engine: str
    settings: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """The results as JSON knows them: dicts, lists, no infinity."""
        return {**plain(self), "settings": null_for_infinity(plain(self.settings))}

    def to_json(self) -> str:
        """The text of results.json: the same bytes for the same results."""
        return json.dumps(self.plain(), indent=1, allow_nan=False) + "\n"

    def table(self) -> "DataFrame":
        """A pandas table with a row for every point, repeat, model and readout."""
        from thermoment.results.study import frame

        return frame(self)

    @classmethod
    def from_json(cls: type[_Kind], given: str | Mapping[str, Any], source: str = RESULTS) -> _Kind:
        """The results in a text or in its parsed value; `source` names the file in messages."""
        value = parsed(given, source)
        try:
            found: _Kind = typed(cls, {**value, "settings": _infinity_for_null(value.get("settings"))})
        except ValueError as error:
            raise ValueError(f"{source} is not the results of a run: {error}.") from None
        return found


@dataclass(frozen=True, kw_only=True)
class Results(Described):
    """Results of one run."""

    clip_count: int
    """clipped updates over all samples and reservoirs"""
    error: Mapping[str, float] | None
    """of the moments by order, as an engine that approximates states it"""
    trained: tuple[Mapping[str, Any], ...] = ()
    """the last epoch of each training through the finite-time moments"""
    accuracy: tuple[Accuracy, ...]
    mcnemar: tuple[PairedTest, ...]
    differences: tuple[Difference, ...]
    jaccard: tuple[Overlap, ...]
    regions: tuple[Region, ...]
    confusion: Confusion | None = None
    """of the model that the run is judged by; a run of an earlier version has none"""
    baseline: tuple[Baseline, ...] = ()
    """what the same readouts get without a reservoir, where that was asked"""
    cost: Cost | None = None
    """None at kT = 0, where the mean positions are not read, and in a run of an earlier version"""
    repeats: tuple[Summary, ...] = ()
    """every model over seeds, where there are several"""
    distance: Mapping[str, float] | None = None
    """by reservoir how far the means of its nodes are from their stationary values when they are read, as a share of
    these: 1 at the start, 0 in equilibrium; None where it was not asked for"""

    @property
    def n_repeats(self) -> int:
        """Over how many seeds there are results."""
        return len(self.repeats[0].correct) if self.repeats else 1


@dataclass(frozen=True, kw_only=True)
class StudyResults(Described):
    """Results of the points of a study."""

    study: tuple[Variant, ...]


def from_json(given: str | Mapping[str, Any], source: str = RESULTS) -> Results | StudyResults:
    """The results of a run or of a study, whichever it is."""
    value = parsed(given, source)
    if "machine" in value:
        raise ValueError(f"{source} is of the machine {value['machine']}: it has numbers and a figure, no classifier.")
    return (StudyResults if "study" in value else Results).from_json(value, source)


def load(folder: Path) -> Results | StudyResults:
    """The results in a run's folder."""
    path = folder / RESULTS
    try:
        return from_json(path.read_text("utf-8"), str(path))
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no {RESULTS}: it is not a run, or not a finished one.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}.") from None


def parsed(given: str | Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """The JSON object in a text; a parsed one stays as it is."""
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(given, parse_constant=_refuse)
    except ValueError as error:
        raise ValueError(f"{source} is damaged: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{source} is not the results of a run: it holds no JSON object.")
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


def null_for_infinity(settings: Any) -> Any:
    """Settings for JSON, which has no infinity: null stands for it, as no setting is ever null otherwise."""
    if isinstance(settings, dict):
        return {key: null_for_infinity(item) for key, item in settings.items()}
    if isinstance(settings, list):
        return [null_for_infinity(item) for item in settings]
    return None if settings == math.inf else settings


def _infinity_for_null(settings: Any) -> Any:
    """Settings as they were before `null_for_infinity`."""
    if isinstance(settings, Mapping):
        return {key: _infinity_for_null(item) for key, item in settings.items()}
    if isinstance(settings, list):
        return [_infinity_for_null(item) for item in settings]
    return math.inf if settings is None else settings
