"""A finished run as a classifier: it predicts again what the run predicted."""

from pathlib import Path

import numpy as np
import pytest

from support.runs import TINY, experiment
from thermoment.data import load as load_data
from thermoment.runs.load import load
from thermoment.runs.predictions import load_predictions
from thermoment.runs.run import run

TRAINED = TINY.replace("[readout]", "[finite_time]\nepochs = 1\njoint = false\n[readout]\nconverged = false")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("load")
    run(experiment(TRAINED, folder), folder / "run")
    return folder / "run"


def test_every_model_predicts_again_what_the_run_predicted(finished: Path) -> None:
    images = load_data("digits").first(120, 60).x_test
    _, predictions = load_predictions(finished)
    assert {model.readout for model in predictions} == {"sgd", "trained", "predicted"}
    for model, expected in predictions.items():
        found = load(finished, model).predict(images, sample_ids=np.arange(120, 180))
        np.testing.assert_array_equal(found, expected, model.key)


def test_unless_told_otherwise_it_is_all_reservoirs_as_trained(finished: Path) -> None:
    found = load(finished)
    assert list(found.reservoirs) == ["K1", "K2"]
    assert len(found.readouts) == 2  # trained each for itself: logits are averaged
    assert found.engine == "reference"


def test_what_is_no_finished_run_or_no_model_of_it_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no results\.json"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"`model` must be one of K1\|feature"):
        load(finished, "K3|feature|1,2,4|sgd")
