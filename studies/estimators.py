"""How well the estimators do with their defaults, beside logistic regression on the same folds, and in what time.

    python studies/estimators.py --out FILE.json [--seeds 0 1 2] [--only NAME ...]

Classes: five folds as scikit-learn makes them, without shuffling; accuracy is the mean over folds. Logistic regression
sees standardised columns. Numbers: y = cos(2 pi z) at 250 points of [0, 1], and the error at 1000 others. The first fit
of a process compiles the programs; that is within the time of the seed that comes first. A file that is there already
is added to.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thermoment as tm
from thermoment._support.files import write_whole
from thermoment._support.host import describe


def parity(n_rows: int = 2000, n_bits: int = 8) -> tuple[Any, Any]:
    """Random signs (S, n_bits), and whether their product is positive."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_rows, n_bits))
    return signs + np.random.default_rng(1).normal(0, 0.2, signs.shape), signs.prod(axis=1) > 0


CLASSES: dict[str, Callable[[], Any]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "breast cancer, nearly linear": lambda: load_breast_cancer(return_X_y=True),
    "two moons": lambda: make_moons(400, noise=0.2, random_state=0),
    "8-bit parity": parity,
}
SETTINGS: dict[str, dict[str, Any]] = {"breast cancer, nearly linear": {"scale": "standard", "s_K": 0.6}}
"""What is not the default: columns with long tails, and drives so small that nodes answer almost linearly."""


def classes(name: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Accuracy over five folds of the classifier, for every seed, and of logistic regression."""
    X, y = CLASSES[name]()
    straight = make_pipeline(StandardScaler(), LogisticRegression(max_iter=10**4))
    settings = SETTINGS.get(name, {})
    accuracy, seconds = [], []
    for seed in seeds:
        start = time.perf_counter()
        accuracy.append(_mean(tm.LangevinClassifier(**settings, random_state=seed), X, y))
        seconds.append(round(time.perf_counter() - start, 1))
    return {
        "rows": len(y),
        "settings": settings,
        "logistic regression": _mean(straight, X, y),
        "accuracy": accuracy,
        "seconds": seconds,
    }


def _mean(estimator: Any, X: Any, y: Any) -> float:
    return float(cross_val_score(estimator, X, y, cv=StratifiedKFold(5)).mean())


def cosine(seeds: Sequence[int]) -> dict[str, Any]:
    """Mean squared error of the regressor at the points it was fitted to, and between them."""
    z = np.random.default_rng(0).random((1250, 1))
    y = np.cos(2 * np.pi * z[:, 0])
    error, known, seconds = [], [], []
    for seed in seeds:
        start = time.perf_counter()
        machine = tm.LangevinRegressor(random_state=seed).fit(z[:250], y[:250])
        squared = (machine.predict(z) - y) ** 2
        seconds.append(round(time.perf_counter() - start, 1))
        known.append(float(squared[:250].mean()))
        error.append(float(squared[250:].mean()))
    return {"rows": 250, "mean squared error": error, "at the points of the fit": known, "seconds": seconds}


def main() -> None:
    """Measures what is asked for and adds it to the file."""
    parser = argparse.ArgumentParser(description="Accuracy and time of the estimators with their defaults.")
    names = [*CLASSES, "cosine"]
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    asked = parser.parse_args()
    found = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
    host = describe("scikit-learn", checkout=Path(__file__).parent)
    for name in asked.only:
        measured = cosine(asked.seeds) if name == "cosine" else classes(name, asked.seeds)
        found[name] = {"host": host, "seeds": asked.seeds, **measured}
        print(name, measured, flush=True)
        write_whole(asked.out, json.dumps(found, indent=2).encode() + b"\n")


if __name__ == "__main__":
    main()
