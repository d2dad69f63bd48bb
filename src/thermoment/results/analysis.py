"""From predictions to every number of results.json, and from repeats of an experiment to their spread.

Rows come in one order whatever the order of the predictions: readout by readout; sets of reservoirs from small to
large; then averaged logits; then lower moment orders. So they can be computed again and compared exactly.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment.results.naming import FITS, FUSIONS, Fit, ModelKey
from thermoment.results.results import (
    Accuracy,
    Analysis,
    Baseline,
    BaselineSummary,
    Confusion,
    Difference,
    Overlap,
    PairedTest,
    Region,
    Summary,
)
from thermoment.results.statistics import Interval, Pair, spread, wilson
from thermoment.results.table import Table

Labels = NDArray[np.integer[Any]]
Wrong = dict[ModelKey, NDArray[np.bool_]]
"""Where each model was wrong: (S,) each."""
MOST_CONFUSED = 100
"""Classes up to which a confusion matrix is counted: it has their square of numbers."""


def analyse(
    labels: Labels, predictions: Mapping[ModelKey, Labels], n_nodes: Mapping[str, int] | None = None
) -> Analysis:
    """What classifiers got right, and how their errors compare.

    labels: (S,), predictions: (S,) each. `n_nodes`, the size of each reservoir, fills in `n_features`, else None.

    accuracy     one row a model, with Wilson's interval
    mcnemar      each single reservoir, the averaged logits and the lower orders against all reservoirs joined
    differences  the same pairs: accuracy of b less accuracy of a, with its bootstrap interval
    jaccard      overlap of wrong sets: single reservoirs with each other, then with all joined
    regions      how many samples were wrong in exactly this set of single reservoirs; sets without any are left out
    confusion    what the model that the run is judged by took each class for
    """
    wrong = _wrong(labels, predictions)
    table = _in_order([_accuracy(model, mask, n_nodes) for model, mask in wrong.items()])
    accuracy, mcnemar, differences, jaccard, regions = [], [], [], [], []
    for fit in FITS:
        accuracy += [table.rows[model][fit] for model in table.models(fit)]
        for a, b in _against_joined(table, fit):
            pair, who = _pair(wrong, a, b, fit), (table.label(a), table.label(b), fit)
            mcnemar.append(PairedTest(*who, pair.a_only_wrong, pair.b_only_wrong, pair.p))
            differences.append(Difference(*who, pair.difference, pair.bootstrap()))
        for a, b in _overlaps(table, fit):
            pair, who = _pair(wrong, a, b, fit), (table.label(a), table.label(b), fit)
            counts = pair.wrong_a, pair.wrong_b, pair.both_wrong, pair.union
            jaccard.append(Overlap(*who, *counts, pair.jaccard))
        regions += _regions(fit, {model.name: wrong[replace(model, readout=fit)] for model in _singles(table, fit)})
    found = tuple(accuracy), tuple(mcnemar), tuple(differences), tuple(jaccard), tuple(regions)
    judged = table.headline.model
    return Analysis(*found, _confusion(judged, labels, predictions[judged]))


def confusion_counts(labels: Labels, predicted: Labels, n_classes: int) -> NDArray[np.int64]:
    """How many samples of each class were taken for each: (C, C), a row for every true class.

    labels, predicted: (S,), from 0 to C - 1
    """
    counts = np.bincount(labels * n_classes + predicted, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)


def baseline(name: str, readout: Fit, labels: Labels, predicted: Labels) -> Baseline:
    """What a classifier without reservoirs got right. labels, predicted: (S,); `name` says what it reads."""
    truth, found = _integers("labels", labels), _integers("predicted", predicted)
    if found.shape != truth.shape:
        raise ValueError(f"Argument `predicted` must have shape {truth.shape}, but has shape {found.shape}.")
    correct, total = int(np.count_nonzero(found == truth)), len(truth)
    return Baseline(name, readout, correct, total, correct / total, wilson(correct, total))


def summarise(repeats: Sequence[Sequence[Accuracy]]) -> tuple[Summary, ...]:
    """Spread of every model's accuracy over `repeats`, the rows of one experiment with different seeds."""
    if not repeats:
        raise invalid("repeats", "hold at least one", "empty")
    first = [(row.model, row.total) for row in repeats[0]]
    for k, rows in enumerate(repeats):
        if [(row.model, row.total) for row in rows] != first:
            raise invalid(f"repeats[{k}]", "have the models and the test set of repeats[0]", "of another experiment")
    return tuple(_summary(rows) for rows in zip(*repeats, strict=True))


def summarise_baselines(repeats: Sequence[Sequence[Baseline]]) -> tuple[BaselineSummary, ...]:
    """Spread of every baseline's accuracy over `repeats`, which have the same baselines."""
    found = []
    for rows in zip(*repeats, strict=True):
        over, first = spread([row.accuracy for row in rows]), rows[0]
        counts = tuple(row.correct for row in rows)
        within = _within(over.ci95)
        found.append(BaselineSummary(first.model, first.readout, first.total, counts, over.mean, over.sd, within))
    return tuple(found)


def _wrong(labels: Labels, predictions: Mapping[ModelKey, Labels]) -> Wrong:
    labels = _integers("labels", labels)
    if not predictions:
        raise invalid("predictions", "hold at least one model", "empty")
    wrong = {}
    for model, predicted in predictions.items():
        argument = f'predictions["{model.key}"]'
        found = _integers(argument, predicted)
        if found.shape != labels.shape:
            raise ValueError(f"Argument `{argument}` must have shape {labels.shape}, but has shape {found.shape}.")
        wrong[model] = found != labels
    return wrong


def _integers(argument: str, value: Labels) -> Labels:
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.ndim != 1 or not array.size:
        raise invalid(argument, "be integers (S,)", f"of dtype {array.dtype} and shape {array.shape}")
    return array


def _in_order(rows: Sequence[Accuracy]) -> Table[Accuracy]:
    """The table of all rows, its models in an order that does not depend on that of the rows."""
    table = Table.of(rows)
    names, full = table.reservoirs, table.full

    def place(row: Accuracy) -> tuple[Any, ...]:
        model = row.model
        chosen = tuple(map(names.index, model.reservoirs))
        read = len(model.orders), *map(str, model.orders)
        return model.orders != full, FUSIONS.index(model.fusion), len(chosen), chosen, read

    return Table({row.model.any_readout: table.rows[row.model.any_readout] for row in sorted(rows, key=place)}, full)


def _singles(table: Table[Accuracy], fit: Fit) -> list[ModelKey]:
    return [model for model in table.singles if table.get(model, fit)]


def _joined(table: Table[Accuracy], fit: Fit) -> ModelKey | None:
    """All reservoirs and all orders under one readout, where this readout has that model."""
    joined = table.joined
    complete = set(joined.reservoirs) == set(table.reservoirs) and joined in table.ablation
    return joined if complete and table.get(joined, fit) else None


def _against_joined(table: Table[Accuracy], fit: Fit) -> list[tuple[ModelKey, ModelKey]]:
    """Single reservoirs, averaged logits and lower orders of all reservoirs, each beside all joined."""
    joined, every = _joined(table, fit), set(table.reservoirs)
    if joined is None:
        return []
    whole = [model for model in table.models(fit) if set(model.reservoirs) == every]
    others = dict.fromkeys([*_singles(table, fit), *whole])
    return [(model, joined) for model in others if model != joined]


def _overlaps(table: Table[Accuracy], fit: Fit) -> list[tuple[ModelKey, ModelKey]]:
    """Single reservoirs beside each other, then beside all joined."""
    singles, joined = _singles(table, fit), _joined(table, fit)
    return [*combinations(singles, 2), *((model, joined) for model in singles if joined not in (None, model))]


def _pair(wrong: Wrong, a: ModelKey, b: ModelKey, fit: Fit) -> Pair:
    return Pair.of(*(wrong[replace(model, readout=fit)] for model in (a, b)))


def _accuracy(model: ModelKey, wrong: NDArray[np.bool_], n_nodes: Mapping[str, int] | None) -> Accuracy:
    total = len(wrong)
    correct = total - int(np.count_nonzero(wrong))
    n_features = None if n_nodes is None else sum(n_nodes[name] for name in model.reservoirs) * len(model.orders)
    return Accuracy(model, n_features, correct, total, correct / total, wilson(correct, total))


def _confusion(model: ModelKey, labels: Labels, predicted: Labels) -> Confusion | None:
    n_classes = 1 + int(max(labels.max(), predicted.max()))
    if n_classes > MOST_CONFUSED or min(labels.min(), predicted.min()) < 0:
        return None
    counts = confusion_counts(np.asarray(labels), np.asarray(predicted), n_classes)
    return Confusion(model, tuple(map(tuple, counts.tolist())))


def _regions(readout: Fit, wrong: Mapping[str, NDArray[np.bool_]]) -> list[Region]:
    names = list(wrong)
    samples = zip(*(mask.tolist() for mask in wrong.values()), strict=True)
    counts = Counter(tuple(k for k, missed in enumerate(sample) if missed) for sample in samples)
    ordered = sorted((chosen for chosen in counts if chosen), key=lambda chosen: (len(chosen), chosen))
    return [Region(readout, tuple(names[k] for k in chosen), counts[chosen]) for chosen in ordered]


def _summary(rows: Sequence[Accuracy]) -> Summary:
    found = spread([row.accuracy for row in rows])
    intervals = _within(found.ci95), _within(found.range95)
    return Summary(rows[0].model, rows[0].total, tuple(row.correct for row in rows), found.mean, found.sd, *intervals)


def _within(interval: Interval | None) -> Interval | None:
    """The part of it that an accuracy can take."""
    return None if interval is None else Interval(max(0.0, interval.low), min(1.0, interval.high))
