"""Estimators on data sets of scikit-learn, beside logistic regression on the same folds."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thermoment as tm

pytestmark = pytest.mark.slow


def parity() -> tuple[Any, Any]:
    """Noisy signs (2000, 8), and whether their product is positive."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (2000, 8))
    return signs + rng.normal(0, 0.2, signs.shape), signs.prod(axis=1) > 0


def straight(X: Any, y: Any) -> float:
    """Accuracy of logistic regression."""
    return float(cross_val_score(make_pipeline(StandardScaler(), LogisticRegression(max_iter=10**4)), X, y).mean())


def test_digits() -> None:
    """97.3 to 97.7 % for three seeds."""
    assert cross_val_score(tm.LangevinClassifier(random_state=0), *load_digits(return_X_y=True)).mean() >= 0.97


@pytest.mark.parametrize(
    ("data", "gain", "settings"),
    [
        (load_wine(return_X_y=True), 0.0, {}),
        (load_breast_cancer(return_X_y=True), 0.0, {"scale": "standard", "s_K": 0.6}),
        (make_moons(400, noise=0.2, random_state=0), 0.05, {}),
        (parity(), 0.4, {}),
    ],
    ids=["wine", "breast cancer", "two moons", "parity"],
)
def test_not_below_logistic_regression(data: tuple[Any, Any], gain: float, settings: dict[str, Any]) -> None:
    found = cross_val_score(tm.LangevinClassifier(**settings, random_state=0), *data).mean()
    assert found >= straight(*data) + gain


def test_a_cosine() -> None:
    z = np.random.default_rng(0).random((1250, 1))
    y = np.cos(2 * np.pi * z[:, 0])
    machine = tm.LangevinRegressor(random_state=0).fit(z[:250], y[:250])
    assert np.mean((machine.predict(z[250:]) - y[250:]) ** 2) < 1e-3


def test_the_code_of_the_page_about_estimators_runs() -> None:
    page = (Path(__file__).parents[2] / "docs/estimators.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    for code in blocks:
        exec(code, {})
