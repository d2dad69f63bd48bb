"""Estimators in scikit-learn's hands: all of its checks, pipelines, searches, labels of any kind, what is refused."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import thermoment as tm

SMALL: dict[str, Any] = {"n_nodes": 16, "batch_size": 512, "epochs": 20, "learning_rate": 0.05}
"""One batch, so that trainings of as many classes are one compiled program."""
X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [tm.LangevinFeatures(n_nodes=16), tm.LangevinClassifier(**SMALL), tm.LangevinRegressor(**SMALL)]
)
def test_every_check_of_scikit_learn(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one of the checks skips itself
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        tm.LangevinFeatures(**SMALL, training="finite-time"),
        tm.LangevinClassifier(**SMALL, training=None),
        tm.LangevinClassifier(**SMALL, training="static", n_reservoirs=2, scale="standard"),
        tm.LangevinRegressor(**SMALL, training=None, scale="standard"),
    ]
)
def test_every_check_of_scikit_learn_trained_otherwise(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def classifier() -> tm.LangevinClassifier:
    """Trained on every second iris, with names for classes."""
    return tm.LangevinClassifier(**SMALL, random_state=0).fit(X[::2], NAMES[Y[::2]])


def test_names_are_classes_and_all_answers_agree(classifier: tm.LangevinClassifier) -> None:
    np.testing.assert_array_equal(classifier.classes_, NAMES)
    logits, proba = classifier.decision_function(X[1::2]), classifier.predict_proba(X[1::2])
    assert logits.shape == proba.shape == (75, 3)
    np.testing.assert_allclose(proba.sum(1), 1)
    np.testing.assert_allclose(np.log(proba) - np.log(proba[:, :1]), logits - logits[:, :1], atol=1e-9)
    chosen = classifier.predict(X[1::2])
    np.testing.assert_array_equal(chosen, NAMES[logits.argmax(1)])
    assert classifier.score(X[1::2], NAMES[Y[1::2]]) == np.mean(chosen == NAMES[Y[1::2]]) >= 0.85


def test_training_lowers_its_loss_and_moves_the_reservoirs(classifier: tm.LangevinClassifier) -> None:
    assert classifier.losses_.shape == (20,)
    assert classifier.losses_[-1] < 0.5 * classifier.losses_[0]
    drawn = clone(classifier).set_params(training=None).fit(X[::2], NAMES[Y[::2]])
    assert np.abs(classifier.K_ - drawn.K_).max() > 0.1
    np.testing.assert_array_equal(classifier.W_, drawn.W_)
    assert drawn.losses_.size == 0


def test_features_are_the_moments_of_the_reservoirs() -> None:
    maker = tm.LangevinFeatures(n_reservoirs=2, n_nodes=16, orders=(1, 3), random_state=4, scale=None).fit(X)
    features = maker.transform(X)
    protocol = tm.Protocol(n_replicas=math.inf, clip=math.inf, orders=(1, 3))
    moments = [tm.simulate(one, X, protocol, engine="meanfield") for one in maker.reservoirs_]
    np.testing.assert_array_equal(features, tm.concatenate(moments))
    names = list(maker.get_feature_names_out())
    assert names[:16] + names[-1:] == [*(f"r1_m1_n{i}" for i in range(1, 17)), "r2_m3_n16"]
    assert features[3, names.index("r2_m1_n3")] == moments[1].order(1)[3, 2]


def test_features_of_a_data_frame_are_one() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"), index=np.arange(150) + 7)
    maker = tm.LangevinFeatures(n_nodes=16, random_state=0).set_output(transform="pandas")
    found = maker.fit_transform(frame)
    assert list(found.columns) == list(maker.get_feature_names_out())
    assert list(found.index) == list(frame.index)
    assert list(maker.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(found.to_numpy(), maker.set_output(transform="default").transform(frame))


def test_a_pipeline_is_searched_and_cross_validated() -> None:
    """Moons, which no straight line parts: random features and a linear readout of scikit-learn."""
    moons, label = make_moons(300, noise=0.1, random_state=0)
    pipe = make_pipeline(
        tm.LangevinFeatures(n_nodes=16, s_b=1.0, random_state=0), LogisticRegression(C=1e4, max_iter=10**4)
    )
    search = GridSearchCV(pipe, {"langevinfeatures__s_K": [1e-3, 3.0]}, cv=3).fit(moons, label)
    assert search.best_params_ == {"langevinfeatures__s_K": 3.0}
    straight = cross_val_score(LogisticRegression(), moons, label, cv=3).mean()
    assert cross_val_score(search.best_estimator_, moons, label, cv=3).mean() > straight + 0.05


def test_a_regressor_learns_several_numbers_at_once() -> None:
    z = np.linspace(-1, 1, 120)[:, None]
    both = np.hstack([np.cos(np.pi * z), 100 + 5 * z**3])
    found = tm.LangevinRegressor(**{**SMALL, "epochs": 60}, random_state=0).fit(z, both)
    assert (np.mean((found.predict(z) - both) ** 2, axis=0) < 0.01 * both.var(axis=0)).all()
    assert found.predict(z).shape == (120, 2)
    assert found.set_params(training=None).fit(z, both[:, 0]).predict(z).shape == (120,)


def test_a_cosine_and_two_moons_by_sixteen_nodes() -> None:
    """What no linear model of the inputs can: z between 0 and 1, and a curved border."""
    z = np.random.default_rng(0).random((500, 1))
    y = np.cos(2 * np.pi * z[:, 0])
    machine = tm.LangevinRegressor(**SMALL, random_state=0).fit(z[:250], y[:250])
    assert np.mean((machine.predict(z[250:]) - y[250:]) ** 2) < 1e-3
    moons, label = make_moons(500, noise=0.1, random_state=0)
    found = tm.LangevinClassifier(**{**SMALL, "epochs": 60}, random_state=0).fit(moons[:250], label[:250])
    straight = LogisticRegression().fit(moons[:250], label[:250])
    assert found.score(moons[250:], label[250:]) > straight.score(moons[250:], label[250:]) + 0.05


def test_of_two_answers_in_conflict_the_weights_decide() -> None:
    """Every row twice, with both answers, at weights 3 and 1: the mean of the numbers, the odds of the classes."""
    rows, weights = np.concatenate([X, X]), np.repeat([3.0, 1.0], 150)
    y = X[:, 0] - X[:, 0].mean()
    number = tm.LangevinRegressor(n_nodes=16, training=None, alpha=1e-6, random_state=0)
    number.fit(rows, np.concatenate([y, -y]), sample_weight=weights)
    np.testing.assert_allclose(number.predict(X), y / 2, atol=0.02)
    setosa = np.concatenate([Y == 0, Y != 0])
    odds = tm.LangevinClassifier(n_nodes=16, training=None, alpha=1e-4, random_state=0)
    odds.fit(rows, setosa, sample_weight=weights)
    np.testing.assert_allclose(odds.predict_proba(X)[:, 1], np.where(Y == 0, 0.75, 0.25), atol=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_reservoirs": 0}, "`n_reservoirs` must be an integer from 1"),
        ({"n_nodes": 0}, "`n_nodes` must be an integer from 1"),
        ({"s_K": -1.0}, "`s_K` must be zero or positive"),
        ({"dt": 0.3}, "`dt` must divide t_final"),
        ({"orders": (2, 1)}, "`orders` must be increasing"),
        ({"orders": (1, 5)}, "`orders` must be at most 4"),
        ({"kT": -1.0}, "`kT` must be zero or positive"),
        ({"engine": "warp"}, "`engine` must be one of the following"),
        ({"engine": tm.MeanField()}, "`engine` must be the name of an engine"),
        ({"engine": "reference"}, "`n_replicas` must be finite for an engine that samples"),
        ({"scale": "log"}, "`scale` must be one of range, standard"),
        ({"training": "dynamic"}, "`training` must be one of finite-time, static"),
        ({"epochs": 0}, "`epochs` must be an integer from 1"),
        ({"batch_size": 0}, "`batch_size` must be an integer from 1"),
        ({"learning_rate": 0.0}, "`learning_rate` must be positive"),
        ({"training_replicas": 0.5}, "`training_replicas` must be at least 1"),
        ({"alpha": 0.0}, "`alpha` must be positive"),
    ],
)
def test_a_bad_parameter_is_named_before_any_work(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: Any, **__: Any) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr("thermoment.learning.finite_time.train._start", work)
    with pytest.raises(ValueError, match=message):
        tm.LangevinClassifier(**{**SMALL, **change}).fit(X, Y)


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(ValueError, match="`y` must have at least two classes"):
        tm.LangevinClassifier(**SMALL).fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="`training` must be one of finite-time, but was 'static'"):
        tm.LangevinRegressor(**SMALL, training="static").fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="requires y to be passed"):
        tm.LangevinFeatures(**SMALL, training="static").fit(X)
    with pytest.raises(ValueError, match="`loss` must be one of cross-entropy, squared"):
        tm.LangevinFeatures(**SMALL, training="static", loss="hinge").fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        tm.LangevinFeatures(n_nodes=3).fit(X, sample_weight=np.zeros(150))
