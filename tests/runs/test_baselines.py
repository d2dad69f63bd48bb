"""A run with everything beside it: other words than raw moments, fitted late fusion, classifiers without reservoirs."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from support.runs import TINY, experiment
from support.sketches import node_of_zeros, sketch
from thermoment import data
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.settings import BaselineSettings
from thermoment.learning.options import FiniteTime
from thermoment.report.figures import draw
from thermoment.results.results import Results
from thermoment.runs import example_node
from thermoment.runs.baselines import _principal, _random, classify
from thermoment.runs.check import check
from thermoment.runs.fits import models_of
from thermoment.runs.folder import verify
from thermoment.runs.predictions import load_predictions

DATA = data.load("digits").first(120, 60)
BESIDE = """
[baselines]
names = ["pca-32", "random-64", "mlp-8"]
epochs = 3
"""


def small(folder: Path) -> Experiment:
    text = TINY.replace("t_final = 0.2", "t_final = 0.06").replace("n_replicas = 6", "n_replicas = 2")
    text = text.replace("dt = 0.02", "dt = 0.02\norders = [1, 2, 3, 4]")
    late = 'held_out = 40\nfusions = ["logit", "weighted", "calibrated", "stacked"]\nconverged = false\n'
    return experiment(text.replace("epochs = 3", f'epochs = 3\nreads = ["mu4", "m1", "x^2"]\n{late}') + BESIDE, folder)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    folder = tmp_path_factory.mktemp("beside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw", sketch)
        patch.setattr(example_node, "simulate_node", node_of_zeros)
        found = tm.run(small(folder), folder / "run")
    assert isinstance(found, Results)
    return folder / "run", found


def test_every_model_is_there_with_its_features(finished: tuple[Path, Results]) -> None:
    features = {row.model.key: row.n_features for row in finished[1].accuracy}
    assert features == {
        "K1|feature|mu4,m1,x^2|sgd": 18,
        "K2|feature|mu4,m1,x^2|sgd": 12,
        "K1+K2|feature|mu4,m1,x^2|sgd": 30,
        "K1+K2|logit|mu4,m1,x^2|sgd": 30,
        "K1+K2|weighted|mu4,m1,x^2|sgd": 30,
        "K1+K2|calibrated|mu4,m1,x^2|sgd": 30,
        "K1+K2|stacked|mu4,m1,x^2|sgd": 30,
        "K1+K2|feature|mu4|sgd": 10,
        "K1+K2|feature|mu4,m1|sgd": 20,
    }
    assert [(row.model, row.readout) for row in finished[1].baseline] == [
        ("raw pixels", "sgd"),
        ("PCA of 32 with squares", "sgd"),
        ("64 random features", "sgd"),
        ("MLP, 8 hidden units", "trained"),
    ]
    assert verify(finished[0]) == []


def test_each_model_that_is_loaded_predicts_what_the_run_did(finished: tuple[Path, Results], tmp_path: Path) -> None:
    _, predictions = load_predictions(finished[0])
    ids = DATA.n_train + np.arange(DATA.n_test)
    for model, expected in predictions.items():
        machine = tm.load(finished[0], model)
        machine.save(tmp_path / "machine.safetensors")
        again = tm.Classifier.load(tmp_path / "machine.safetensors", engine="reference")
        np.testing.assert_array_equal(again.predict(DATA.x_test, sample_ids=ids), expected)


def test_the_report_shows_them(finished: tuple[Path, Results]) -> None:
    page = (finished[0] / "report.html").read_text()
    for words in (
        "raw pixels, no reservoir",
        "PCA of 32 with squares",
        "MLP, 8 hidden units",
        "K1+K2 (stacked)",
        "mu4",
    ):
        assert words in page


def test_principal_components_are_those_of_the_training_images() -> None:
    train, test = _principal(5, DATA, 0)
    centred = DATA.x_train - DATA.x_train.mean(0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.linalg.norm(train[:, :5], axis=0), values[:5], rtol=1e-5)
    np.testing.assert_allclose(np.abs(test[:, 0]), np.abs((DATA.x_test - DATA.x_train.mean(0)) @ axes[0]), atol=1e-5)
    np.testing.assert_allclose(test[:, 5:], test[:, :5] ** 2, rtol=1e-5, atol=1e-7)


def test_random_features_have_a_seed() -> None:
    one, other, third = (next(_random(6, DATA, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, other)
    assert np.any(one != third)
    assert 0.3 < one.std() < 0.9  # neither linear nor saturated


def test_a_repeat_draws_baselines_again(finished: tuple[Path, Results], tmp_path: Path) -> None:
    one = small(tmp_path)
    assert one.baselines is not None
    first, second = (classify(one.repeat(number), DATA, lambda *_: None) for number in (0, 1))
    assert np.any(first["64 random features", "sgd"] != second["64 random features", "sgd"])
    labels, _ = load_predictions(finished[0])
    rights = {row.model: row.correct for row in finished[1].baseline}
    assert rights["MLP, 8 hidden units"] == (first["MLP, 8 hidden units", "trained"] == labels).sum()


def test_without_subsets_all_reservoirs_are_read_and_single_ones_for_fusion(tmp_path: Path) -> None:
    one = small(tmp_path)
    few = replace(one, readout=replace(one.readout, subsets=False))
    three = replace(few, reservoirs=(*one.reservoirs, replace(one.reservoirs[1], name="K3")))
    sets = [model.name for model in models_of(three) if model.fusion == "feature"]
    assert sets == ["K1", "K2", "K3", *["K1+K2+K3"] * 3]
    none = replace(three, readout=replace(few.readout, fusions=(), held_out=0))
    assert [model.name for model in models_of(none)] == ["K1+K2+K3"] * 3


def test_what_cannot_be_is_refused_before_any_work(tmp_path: Path) -> None:
    one = small(tmp_path)
    for changed, message in (
        (replace(one, readout=replace(one.readout, held_out=119)), "`readout.held_out` must leave some of the 120"),
        (replace(one, baselines=BaselineSettings(("pca-65",))), "at most 64 principal components"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            check(changed, DATA)
    with pytest.raises(ValueError, match=r"`protocol.orders` must hold 3 for what readout.reads asks for"):
        replace(one, protocol=replace(one.protocol, orders=(1, 2, 4)))
    with pytest.raises(ValueError, match=r"`readout.reads` must be left out where finite_time trains"):
        replace(one, finite_time=FiniteTime(epochs=1))
