"""From predictions to every number of results.json, and from repeats of an experiment to their spread.

Rows come in one order whatever the order of the predictions: readout by readout; sets of reservoirs from small to
large; then averaged logits; then lower moment orders. So they can be computed again and compared exactly.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment.results.naming import FITS, Fit, ModelKey, all_orders, label
from thermoment.results.statistics import Interval, Pair, spread, wilson

Labels = NDArray[np.integer[Any]]
Row = dict[str, Any]


def analyse(
    labels: Labels, predictions: Mapping[ModelKey, Labels], n_nodes: Mapping[str, int] | None = None
) -> dict[str, list[Row]]:
    """What classifiers got right, and how their errors compare, ready for JSON.

    labels: (S,), predictions: (S,) each. `n_nodes`, the size of each reservoir, fills in `n_features`, else null.

    accuracy     one row a model, with Wilson's interval
    mcnemar      each single reservoir, the averaged logits and the lower orders against all reservoirs joined
    differences  the same pairs: accuracy of b less accuracy of a, with its bootstrap interval
    jaccard      overlap of wrong sets: single reservoirs with each other, then with all joined
    regions      how many samples were wrong in exactly this set of single reservoirs; sets without any are left out
    """
    wrong = _wrong(labels, predictions)
    full = all_orders(wrong)
    names = _reservoirs(wrong)
    models = sorted(wrong, key=lambda model: _place(model, names, full))
    results: dict[str, list[Row]] = {
        "accuracy": [_accuracy(model, wrong[model], n_nodes) for model in models],
        "mcnemar": [],
        "differences": [],
        "jaccard": [],
        "regions": [],
    }
    for readout in FITS:
        group = _Group([model for model in models if model.readout == readout], names, full)
        for a, b in group.against_joined():
            pair, row = Pair.of(wrong[a], wrong[b]), group.row(a, b)
            results["mcnemar"].append(
                row | {"a_only_wrong": pair.a_only_wrong, "b_only_wrong": pair.b_only_wrong, "p": pair.p}
            )
            results["differences"].append(row | {"difference": pair.difference, "ci95": list(pair.bootstrap())})
        for a, b in group.overlaps():
            pair = Pair.of(wrong[a], wrong[b])
            results["jaccard"].append(
                group.row(a, b)
                | {"wrong_a": pair.wrong_a, "wrong_b": pair.wrong_b}
                | {"intersection": pair.both_wrong, "union": pair.union, "jaccard": pair.jaccard}
            )
        results["regions"] += _regions(readout, {model.name: wrong[model] for model in group.singles})
    return results


def summarise(repeats: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Spread of every model's accuracy over `repeats`, the results of one experiment with different seeds.

    `ci95` is of the mean accuracy; `range95` holds that of one more run with probability 95 %. One repeat has neither.
    """
    if not repeats:
        raise invalid("repeats", "hold at least one", "empty")
    first = [_identity(row) for row in repeats[0]["accuracy"]]
    for k, repeat in enumerate(repeats):
        if [_identity(row) for row in repeat["accuracy"]] != first:
            raise invalid(f"repeats[{k}]", "have the models and the test set of repeats[0]", "of another experiment")
    return [_summary([repeat["accuracy"][k] for repeat in repeats]) for k in range(len(first))]


def model_of(row: Mapping[str, Any]) -> ModelKey:
    """The model of a row of `accuracy` or of a summary."""
    return ModelKey(tuple(row["model"].split("+")), tuple(row["orders"]), row["fusion"], row["readout"])


def _wrong(labels: Labels, predictions: Mapping[ModelKey, Labels]) -> dict[ModelKey, NDArray[np.bool_]]:
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


def _reservoirs(models: Mapping[ModelKey, Any]) -> tuple[str, ...]:
    """All reservoirs, in the order of the model with most of them, then any others by name."""
    largest = min(models, key=lambda model: (-len(model.reservoirs), model.key)).reservoirs
    others = {name for model in models for name in model.reservoirs} - set(largest)
    return (*largest, *sorted(others))


def _place(model: ModelKey, names: tuple[str, ...], full: tuple[int, ...]) -> tuple[Any, ...]:
    lower, averaged = model.orders != full, model.fusion == "logit"
    chosen = tuple(names.index(name) for name in model.reservoirs)
    return FITS.index(model.readout), lower, averaged, len(chosen), chosen, len(model.orders), model.orders


@dataclass(frozen=True)
class _Group:
    """The models of one readout: comparisons stay within it."""

    models: list[ModelKey]
    names: tuple[str, ...]
    full: tuple[int, ...]

    @property
    def singles(self) -> list[ModelKey]:
        """One reservoir each, all orders."""
        return [m for m in self.models if len(m.reservoirs) == 1 and m.orders == self.full and m.fusion == "feature"]

    @property
    def whole(self) -> list[ModelKey]:
        """All reservoirs, any orders, joined or averaged; in front the one that joins them with all orders."""
        return [m for m in self.models if set(m.reservoirs) == set(self.names)]

    @property
    def joined(self) -> ModelKey | None:
        """All reservoirs, all orders, one readout."""
        return next((m for m in self.whole if m.orders == self.full and m.fusion == "feature"), None)

    def against_joined(self) -> list[tuple[ModelKey, ModelKey]]:
        others = dict.fromkeys([*self.singles, *self.whole])
        return [(model, self.joined) for model in others if self.joined not in (None, model)]

    def overlaps(self) -> list[tuple[ModelKey, ModelKey]]:
        with_joined = [(model, self.joined) for model in self.singles if self.joined not in (None, model)]
        return [*combinations(self.singles, 2), *with_joined]

    def row(self, a: ModelKey, b: ModelKey) -> Row:
        return {"a": label(a, self.full), "b": label(b, self.full), "readout": a.readout}


def _accuracy(model: ModelKey, wrong: NDArray[np.bool_], n_nodes: Mapping[str, int] | None) -> Row:
    total = len(wrong)
    correct = total - int(np.count_nonzero(wrong))
    nodes = None if n_nodes is None else sum(n_nodes[name] for name in model.reservoirs)
    return {
        "model": model.name,
        "fusion": model.fusion,
        "orders": list(model.orders),
        "readout": model.readout,
        "n_features": None if nodes is None else nodes * len(model.orders),
        "correct": correct,
        "total": total,
        "accuracy": correct / total,
        "ci95": list(wilson(correct, total)),
    }


def _regions(readout: Fit, wrong: Mapping[str, NDArray[np.bool_]]) -> list[Row]:
    names = list(wrong)
    samples = zip(*(mask.tolist() for mask in wrong.values()), strict=True)
    counts = Counter(tuple(k for k, missed in enumerate(sample) if missed) for sample in samples)
    ordered = sorted((chosen for chosen in counts if chosen), key=lambda chosen: (len(chosen), chosen))
    return [{"readout": readout, "wrong": [names[k] for k in chosen], "count": counts[chosen]} for chosen in ordered]


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["fusion"], tuple(row["orders"]), row["readout"], row["total"]


def _summary(rows: Sequence[Mapping[str, Any]]) -> Row:
    found = spread([row["accuracy"] for row in rows])
    return {key: rows[0][key] for key in ("model", "fusion", "orders", "readout", "total")} | {
        "correct": [row["correct"] for row in rows],
        "mean": found.mean,
        "sd": found.sd,
        "ci95": _within(found.ci95),
        "range95": _within(found.range95),
    }


def _within(interval: Interval | None) -> list[float] | None:
    """The part of it that an accuracy can take."""
    return None if interval is None else [max(0.0, interval.low), min(1.0, interval.high)]
