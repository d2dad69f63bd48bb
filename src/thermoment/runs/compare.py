"""Two runs side by side: the settings that differ, their accuracies, and exact tests on the same test images."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thermoment.results.results import load
from thermoment.results.statistics import Pair
from thermoment.runs.predictions import load_predictions


def compare(a: Path, b: Path) -> dict[str, Any]:
    """Settings that differ, and for every model of both runs the correct answers and McNemar's p.

    p is None where the two runs were not tested on the same images.
    """
    results = [load(folder).plain() for folder in (a, b)]
    facts = [dict(_flat({key: r.get(key) for key in ("experiment", "dataset", "engine", "settings")})) for r in results]
    keys = list(dict.fromkeys([*facts[0], *facts[1]]))
    different = {key: [f.get(key) for f in facts] for key in keys if facts[0].get(key) != facts[1].get(key)}
    (labels, first), (other_labels, second) = load_predictions(a), load_predictions(b)
    same_images = results[0]["dataset"]["sha256"] == results[1]["dataset"]["sha256"] and np.array_equal(
        labels, other_labels
    )
    rows = []
    for model in (model for model in first if model in second):
        wrong = first[model] != labels, second[model] != other_labels
        p = Pair.of(*wrong).p if same_images else None
        rows.append({"model": model.key, "a": int((~wrong[0]).sum()), "b": int((~wrong[1]).sum()), "p": p})
    return {"settings": different, "accuracy": rows}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; a list of named tables goes by the names."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "name" in item for item in value):
        value = {item["name"]: item for item in value}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value
