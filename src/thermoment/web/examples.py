"""Images to click: test images that are on this disk already, those among them that the machine misreads first.

Nothing is downloaded. Where the machine's own data set is not here, the 8 x 8 digits that come with scikit-learn are
enlarged to MNIST's size.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment import data as datasets
from thermoment.machines.classifier import Classifier
from thermoment.web.images import enlarged, side

_LOOKED_AT = 1000
"""Test images among which misread ones are looked for."""
_RIGHT, _WRONG = 2, 12
"""How many of each class are offered that are read right, and how many misread ones in all."""

Array = NDArray[np.float64]


def examples(machine: Classifier, data_dir: str | None = None) -> dict[str, Any]:
    """What `GET /api/examples` gives: images (D,) as bytes from 0 to 255, what each is, and what the machine reads."""
    source, images, labels = _images(machine, data_dir)
    if not len(images):
        return {"source": source, "images": []}
    limit = replace(machine, protocol=replace(machine.protocol, n_replicas=math.inf), engine="meanfield")
    read = limit.predict(images)
    wrong = [int(k) for k in np.flatnonzero(read != labels)[:_WRONG]]
    right = [
        int(k) for c in range(machine.n_classes) for k in np.flatnonzero((labels == c) & (read == labels))[:_RIGHT]
    ]
    return {
        "source": source,
        "images": [
            {"pixels": np.round(images[k] * 255).astype(int).tolist(), "label": int(labels[k]), "read": int(read[k])}
            for k in (*right, *wrong)
        ],
    }


def _images(machine: Classifier, data_dir: str | None) -> tuple[str, Array, NDArray[np.int64]]:
    """Where they are from, test images (S, D) and their classes (S,); none where this machine sees something else."""
    name = _dataset_name(machine)
    if name is not None and datasets.is_here(name, data_dir):
        found = datasets.load(name, data_dir)
        if found.n_inputs == machine.n_inputs:
            chosen = _first_and_wrong(machine, found.n_test)
            return f"test images of {found.name}", found.x_test[chosen].astype(float), found.y_test[chosen]
    if side(machine.n_inputs) == 28 and machine.n_classes == 10 and name in (None, "mnist"):
        digits = datasets.load("digits")
        images = np.array([enlarged(image.reshape(8, 8).astype(float)).ravel() for image in digits.x_test])
        return "the 8 x 8 digits of scikit-learn, enlarged", images, digits.y_test
    return "none on this disk", np.zeros((0, machine.n_inputs)), np.zeros(0, np.int64)


def _first_and_wrong(machine: Classifier, n_test: int) -> list[int]:
    """The first test images, and those that a machine which ships with the package says it misread."""
    test = machine.facts.get("test", {})
    wrong = [k for k in test.get("wrong", ()) if k < n_test] if isinstance(test, dict) else []
    first = min(n_test, _LOOKED_AT) if not wrong else min(n_test, 10 * machine.n_classes)
    return sorted({*range(first), *wrong[: 2 * _WRONG]})


def _dataset_name(machine: Classifier) -> str | None:
    for where in (machine.facts, machine.facts.get("results", {})):
        if isinstance(where, dict) and isinstance(where.get("dataset"), dict):
            name = where["dataset"].get("name")
            return name if isinstance(name, str) else None
    return None
