"""Models of two runs beside each other: counts, exact tests, and what is missing."""

import numpy as np
import pytest

from thermoment.results.analysis import baseline
from thermoment.results.naming import ModelKey
from thermoment.results.side_by_side import Predictions, Row, beside
from thermoment.results.statistics import mcnemar, wilson

LABELS = np.arange(10)
ONE, OTHER = ModelKey(("K1",), (1,)), ModelKey(("K1",), (1,), "feature", "trained")


def wrong(*samples: int) -> Predictions:
    """Two models: ONE is wrong in these samples, OTHER in sample 0 alone."""
    classes = {ONE: LABELS.copy(), OTHER: LABELS.copy()}
    classes[ONE][list(samples)] += 1
    classes[OTHER][0] += 1
    return Predictions(LABELS, classes)


def test_the_same_model_on_the_same_images() -> None:
    assert beside(wrong(1, 2, 3), wrong(3), ONE, ONE, same_images=True) == Row(7, 9, mcnemar(2, 0))


def test_two_models_of_two_runs() -> None:
    assert beside(wrong(1, 2, 3), wrong(5), ONE, OTHER, same_images=True) == Row(7, 9, mcnemar(3, 1))


def test_other_images_have_no_test() -> None:
    assert beside(wrong(1), wrong(2), ONE, ONE, same_images=False) == Row(9, 9, None)


def test_a_model_of_one_run_only() -> None:
    lacking = Predictions(LABELS, {ONE: LABELS})
    assert beside(lacking, wrong(2), OTHER, OTHER, same_images=True) == Row(None, 9, None)
    assert beside(wrong(2), lacking, OTHER, OTHER, same_images=True) == Row(9, None, None)


def test_a_baseline_row() -> None:
    row = baseline("raw pixels", "converged", LABELS, np.where(LABELS < 3, 0, LABELS))
    assert (row.model, row.readout, row.correct, row.total, row.accuracy) == ("raw pixels", "converged", 8, 10, 0.8)
    assert row.ci95 == wilson(8, 10)
    with pytest.raises(ValueError, match=r"`predicted` must have shape \(10,\), but has shape \(3,\)"):
        baseline("raw pixels", "sgd", LABELS, LABELS[:3])
