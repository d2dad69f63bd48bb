"""Two runs side by side: the settings that differ, their accuracies, and exact tests on the same test images."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thermoment.results.codec import plain
from thermoment.results.results import Results, StudyResults, load
from thermoment.results.side_by_side import Predictions, beside
from thermoment.results.table import Table
from thermoment.runs.predictions import load_predictions


def compare(a: Path, b: Path) -> dict[str, Any]:
    """Settings that differ; the headline of each run; for every model of either the correct answers and McNemar's p.

    `cost` is what an answer of each takes in units of kT. What a run does not have is None, and an infinite setting is
    the word "infinite". p is None too where the two runs were not tested on the same images.
    """
    results = [_load(folder) for folder in (a, b)]
    shown = ("experiment", "dataset", "engine", "settings")
    facts = [dict(_flat({key: plain(getattr(found, key)) for key in shown})) for found in results]
    keys = list(dict.fromkeys([*facts[0], *facts[1]]))
    different = {key: [f.get(key) for f in facts] for key in keys if facts[0].get(key) != facts[1].get(key)}
    first, second = (Predictions(*load_predictions(folder)) for folder in (a, b))
    same_data = results[0].dataset.sha256 == results[1].dataset.sha256
    same_images = same_data and np.array_equal(first.labels, second.labels)
    headlines = [Table.of(found.accuracy).headline.model for found in results]
    models = dict.fromkeys([*first.classes, *second.classes])
    return {
        "settings": different,
        "total": [len(first.labels), len(second.labels)],
        "cost": [found.cost.answer if found.cost else None for found in results],
        "headline": {
            "models": [model.key for model in headlines],
            **vars(beside(first, second, *headlines, same_images=same_images)),
        },
        "accuracy": [
            {"model": model.key, **vars(beside(first, second, model, model, same_images=same_images))}
            for model in models
        ],
    }


def _load(folder: Path) -> Results:
    found = load(folder)
    if isinstance(found, StudyResults):
        raise ValueError(f"{folder} is a study: compare takes runs, such as the variants in its folder.")
    return found


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; a list of named tables goes by the names."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "name" in item for item in value):
        value = {item["name"]: item for item in value}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, "infinite" if value == math.inf else value
