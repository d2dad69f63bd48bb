"""The readout: standardisation, SGD as written, the converged fit against scikit-learn, late fusion."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge

from support.kernels import built
from thermoment._engines import narrow
from thermoment.learning import fit as module
from thermoment.learning.batches import batches
from thermoment.learning.fit import Standardised, best_ridge, fit_converged, fit_ridge, fit_sgd
from thermoment.learning.options import Sgd
from thermoment.learning.readout import Readout, Scaling, average_logits, classes

IMAGES, LABELS = load_digits(return_X_y=True)
FEATURES = (IMAGES / 16).astype(np.float32)[:600]
LABELS = LABELS[:600]


def test_standardisation_uses_the_sample_deviation_and_falls_back_to_one() -> None:
    features = np.array([[1.0, 5.0, 1e-13], [3.0, 5.0, 0.0], [8.0, 5.0, 0.0]])
    scaling = Scaling.fit(features)
    np.testing.assert_allclose(scaling.mean, [4.0, 5.0, 1e-13 / 3])
    np.testing.assert_allclose(scaling.scale, [np.sqrt(13.0), 1.0, 1.0])
    np.testing.assert_allclose(scaling.apply(features)[:, 0], (features[:, 0] - 4) / np.sqrt(13), rtol=1e-6)
    np.testing.assert_array_equal(scaling.apply(features)[:, 1], 0.0)


def test_standardisation_in_parts_is_that_of_the_whole() -> None:
    features = np.random.default_rng(1).normal(3.0, 2.0, (9000, 3)).astype(np.float32)
    scaling = Scaling.fit(features)
    np.testing.assert_allclose(scaling.mean, features.mean(0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, features.std(0, dtype=np.float64, ddof=1), rtol=1e-12)


def by_hand(features: np.ndarray, settings: Sgd) -> tuple[np.ndarray, np.ndarray]:
    """SGD in float64, from zero, the bias without penalty."""
    x = (features - features.mean(0)) / np.where(features.std(0) > 0, features.std(0, ddof=1), 1.0)
    weights, bias = np.zeros((x.shape[1], 10)), np.zeros(10)
    for rows in batches(len(x), settings.batch_size, settings.epochs, np.random.default_rng(settings.seed)):
        for batch in rows:
            batch = batch[batch >= 0]
            z = x[batch] @ weights + bias
            p = np.exp(z - z.max(1, keepdims=True))
            error = (p / p.sum(1, keepdims=True) - np.eye(10)[LABELS[batch]]) / len(batch)
            weights = weights - settings.learning_rate * (x[batch].T @ error + settings.l2 * weights)
            bias = bias - settings.learning_rate * error.sum(0)
    return weights.T, bias


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written for each kind of device, on this one."""
    monkeypatch.setattr(jax, "default_backend", lambda: request.param)


@pytest.mark.usefixtures("device")
def test_sgd_is_the_loss_as_written_for_every_set_of_columns() -> None:
    settings = Sgd(epochs=4, l2=0.05)
    chosen = [np.arange(64), np.arange(5, 40), np.array([60, 3, 20])]
    for readout, columns in zip(fit_sgd(FEATURES, LABELS, chosen, settings), chosen, strict=True):
        weights, bias = by_hand(FEATURES[:, columns].astype(np.float64), settings)
        np.testing.assert_allclose(readout.weights, weights, atol=3e-6)
        np.testing.assert_allclose(readout.bias, bias, atol=3e-6)


def test_every_epoch_is_reported_with_its_loss() -> None:
    heard: list[tuple[int, float]] = []
    settings = Sgd(epochs=3, l2=0.05)
    (readout,) = fit_sgd(FEATURES, LABELS, [np.arange(64)], settings, report=lambda *said: heard.append(said))
    assert [done for done, _ in heard] == [1, 2, 3]
    right = log_softmax(readout.logits(FEATURES), axis=1)[np.arange(600), LABELS]
    last = settings.l2 / 2 * float((readout.weights**2).sum()) - right.mean()
    assert last < heard[2][1] < heard[1][1] < heard[0][1]  # a mean over batches, the first of which come before


def test_some_columns_are_standardised_as_if_there_were_no_others() -> None:
    """Bit for bit, so that a fit has the same bytes wherever it is done."""
    features = np.random.default_rng(2).normal(3.0, 2.0, (5000, 600)).astype(np.float32)
    columns = np.r_[3:200, 250:257, 590:600]
    some, alone = Standardised.of(features).some(columns), Standardised.of(features[:, columns])
    np.testing.assert_array_equal(some.x, alone.x)
    np.testing.assert_array_equal(some.scaling.mean, alone.scaling.mean)
    np.testing.assert_array_equal(some.scaling.scale, alone.scaling.scale)


@pytest.mark.usefixtures("device")
def test_the_converged_fit_is_scikit_learns_logistic_regression() -> None:
    l2 = 1e-3
    ours = fit_converged(FEATURES, LABELS, l2)
    x = Scaling.fit(FEATURES).apply(FEATURES).astype(np.float64)
    theirs = LogisticRegression(C=1 / (l2 * len(x)), tol=1e-9, max_iter=20000).fit(x, LABELS)
    # Strong convexity: l2 |w - w*|^2 is at most twice what the loss is above its minimum, here some 1e-9.
    np.testing.assert_allclose(ours.weights, theirs.coef_, atol=5e-3)
    np.testing.assert_array_equal(ours.predict(FEATURES), theirs.predict(x))
    (sgd,) = fit_sgd(FEATURES, LABELS, [np.arange(64)], Sgd(epochs=20))
    np.testing.assert_allclose(fit_converged(FEATURES, LABELS, l2, start=sgd).weights, theirs.coef_, atol=5e-3)
    with pytest.raises(ValueError, match="`start` must be a readout of 63 features"):
        fit_converged(FEATURES[:, 1:], LABELS, l2, start=sgd)


@built
def test_without_the_products_in_cpp_a_fit_ends_at_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    with_them = fit_converged(FEATURES, LABELS)
    monkeypatch.setattr(narrow, "can_call", lambda: False)
    module._converge.clear_cache()  # type: ignore[attr-defined]
    without = fit_converged(FEATURES, LABELS)
    module._converge.clear_cache()  # type: ignore[attr-defined]
    np.testing.assert_allclose(with_them.weights, without.weights, atol=5e-3)  # as above: to the minimum, not in bits
    assert np.any(with_them.weights != without.weights)  # another program indeed


def test_a_fit_that_stops_too_early_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_EVALUATIONS", 3)
    with pytest.raises(RuntimeError, match="did not converge in 3 evaluations: its loss is still about"):
        fit_converged(FEATURES, LABELS)


def test_a_fit_has_the_same_bytes_twice() -> None:
    one, two = (fit_converged(FEATURES, LABELS, 0.01) for _ in range(2))
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.bias, two.bias)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a processor's program")
def test_on_a_processor_no_product_is_transposed_by_xla() -> None:
    # Such products are wrong at times while other threads are busy. Those in double precision are the search's own, of
    # ten terms each, and it is sums of many that go wrong.
    n_samples, n_features, n_classes = 2000, 600, 10
    shapes = [(n_features + 1, n_classes), (n_samples, n_features), (n_samples, n_classes)]
    with jax.enable_x64(True):
        program = module._converge.lower(*map(np.zeros, shapes[:1]), *(np.zeros(one, np.float32) for one in shapes[1:]),
                                         1e-3, 100, at_once=False)  # fmt: skip
    products = [line for line in str(program.compile().as_text()).splitlines() if " dot(" in line]
    assert sum("f32[" in line for line in products) > 5
    assert [line for line in products if "lhs_contracting_dims={0}" in line and "f64[1,6010]" not in line] == []


@pytest.mark.slow
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a processor's program")
def test_two_large_fits_at_a_time_have_the_bits_of_one() -> None:
    rng = np.random.default_rng(1)
    hidden = rng.standard_normal((60_000, 60), np.float32)
    x = np.hstack([0.6 * hidden[:, k % 60, None] + 0.8 * rng.standard_normal((60_000, 1), np.float32)
                   for k in range(6144)])  # fmt: skip
    features, target = jax.numpy.asarray(x), np.eye(10, dtype=np.float32)[hidden[:, :10].argmax(1)]
    del x

    def fit(_: int) -> NDArray[np.float64]:
        with jax.enable_x64(True):
            return np.asarray(module._converge(np.zeros((6145, 10)), features, target, 1e-3, 10, at_once=False)[0])

    alone = fit(0)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(fit, range(8)):
            np.testing.assert_array_equal(found, alone)


def test_a_handful_of_samples_converges_as_far_as_single_precision_goes() -> None:
    few, labels, l2 = FEATURES[:40], LABELS[:40], 1e-4
    x = Scaling.fit(few).apply(few).astype(np.float64)
    theirs = LogisticRegression(C=1 / (l2 * 40), tol=1e-9, max_iter=20000).fit(x, labels)

    def loss(weights: np.ndarray, bias: np.ndarray) -> float:
        right = log_softmax(x @ weights.T + bias, axis=1)[np.arange(40), labels]
        return float(l2 / 2 * (weights**2).sum() - right.mean())

    ours = fit_converged(few, labels, l2)
    assert 0 < loss(ours.weights, ours.bias) - loss(theirs.coef_, theirs.intercept_) < 2e-6


def test_many_epochs_of_small_steps_reach_the_converged_fit() -> None:
    converged = fit_converged(FEATURES, LABELS, 0.1)
    (sgd,) = fit_sgd(FEATURES, LABELS, [np.arange(64)], Sgd(epochs=300, learning_rate=0.02, l2=0.1))
    np.testing.assert_allclose(sgd.weights, converged.weights, atol=0.02)
    assert np.abs(converged.weights).max() > 0.1


WEIGHTS = np.random.default_rng(6).integers(0, 4, 600)


def test_a_weight_counts_a_row_as_often_in_the_scaling_and_in_the_converged_fit() -> None:
    repeated = np.repeat(FEATURES, WEIGHTS, axis=0)
    found = Scaling.fit(FEATURES, WEIGHTS.astype(float))
    np.testing.assert_allclose(found.mean, repeated.mean(0, dtype=np.float64), atol=1e-12)
    deviation = repeated.std(0, dtype=np.float64)
    np.testing.assert_allclose(found.scale, np.where(deviation > 0, deviation, 1.0), rtol=1e-9)
    weighted = fit_converged(FEATURES, LABELS, 0.01, weights=WEIGHTS.astype(float))
    again = fit_converged(repeated, np.repeat(LABELS, WEIGHTS), 0.01)
    np.testing.assert_allclose(weighted.logits(FEATURES), again.logits(FEATURES), atol=0.02)
    plain = fit_converged(FEATURES, LABELS, 0.01)
    assert np.abs(weighted.logits(FEATURES) - plain.logits(FEATURES)).max() > 0.5


def test_ridge_is_scikit_learns() -> None:
    targets = np.stack([np.cos(LABELS), 7 + IMAGES[:600, 20]], axis=1)
    ours = fit_ridge(FEATURES, targets, 0.05, WEIGHTS.astype(float))
    x = (FEATURES - ours.scaling.mean) / ours.scaling.scale
    theirs = Ridge(alpha=0.05 * WEIGHTS.sum()).fit(x, targets, WEIGHTS)
    np.testing.assert_allclose(ours.logits(FEATURES), theirs.predict(x), atol=1e-8)


def test_the_best_ridge_errs_least_on_samples_left_out() -> None:
    """By hand: every sample left out in turn, its weight and all. Targets have noise, so that some ridge is best."""
    rng = np.random.default_rng(5)
    x, weights = rng.normal(size=(30, 12)), rng.integers(1, 4, 30).astype(float)
    targets = x[:, :2] + rng.normal(size=(30, 2))
    scaling, share = Scaling.fit(x, weights), weights / weights.sum()
    z = (x - scaling.mean) / scaling.scale

    def error(l2: float) -> float:
        total = 0.0
        for i in range(30):
            rest = np.arange(30) != i
            one = Ridge(alpha=l2).fit(z[rest], targets[rest], share[rest])
            total += share[i] * float(((one.predict(z[i : i + 1]) - targets[i]) ** 2).sum())
        return total

    errors = [error(l2) for l2 in module.RIDGES]
    assert best_ridge(x, targets, weights) == module.RIDGES[int(np.argmin(errors))]
    assert 0 < np.argmin(errors) < len(errors) - 1


def test_logits_are_averaged_before_the_class_is_chosen() -> None:
    one, two = (
        Readout(np.array(w), np.zeros(2), Scaling(np.zeros(1), np.ones(1))) for w in ([[3.0], [0.0]], [[0.0], [1.0]])
    )
    features = np.array([[1.0], [-1.0]])
    averaged = average_logits([one, two], [features, features])
    np.testing.assert_allclose(averaged, [[1.5, 0.5], [-1.5, -0.5]])
    np.testing.assert_array_equal(classes(averaged), [0, 1])
    np.testing.assert_array_equal(two.predict(features), [1, 0])


def test_a_saved_readout_comes_back_with_the_same_bits(tmp_path: Path) -> None:
    (readout,) = fit_sgd(FEATURES, LABELS, [np.arange(64)], Sgd(epochs=1))
    readout.save(tmp_path / "r.safetensors")
    np.testing.assert_array_equal(Readout.load(tmp_path / "r.safetensors").logits(FEATURES), readout.logits(FEATURES))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_sgd(FEATURES, LABELS[:-1], [np.arange(64)]), "`labels` must have shape"),
        (lambda: fit_converged(FEATURES, LABELS, 0.0), "`l2` must be positive"),
        (lambda: fit_ridge(FEATURES, IMAGES[:600], 0.0, np.ones(600)), "`l2` must be positive"),
        (lambda: Scaling.fit(FEATURES[:1]), "`features` must have shape"),
        (lambda: fit_sgd(FEATURES, LABELS, [np.arange(64)], Sgd(epochs=1))[0].predict(FEATURES[:, :3]), r"\(S, 64\)"),
        (lambda: average_logits([], [FEATURES]), "`readouts`"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_diverging_readout_is_an_error() -> None:
    with pytest.raises(FloatingPointError, match="diverged at learning rate 1e"):
        fit_sgd(FEATURES * 1e3, LABELS, [np.arange(64)], Sgd(epochs=30, learning_rate=1e37))
