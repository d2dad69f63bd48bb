"""What a row contains decides all that happens to it: noise, features, answers, its part in a fit; and pickles."""

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import thermoment as tm

RNG = np.random.default_rng(2)
X = RNG.normal(size=(90, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int) + 2 * (X[:, 2] > 1)
NOISY: dict[str, Any] = {"n_nodes": 16, "n_reservoirs": 2, "n_replicas": 20, "dt": 0.05, "random_state": 1}
SMALL: dict[str, Any] = {"n_nodes": 16, "batch_size": 512, "epochs": 20, "learning_rate": 0.05, "random_state": 1}


@pytest.mark.parametrize("engine", ["meanfield", "reference", "native"])
def test_rows_shuffled_split_and_repeated_have_the_same_features_bit_for_bit(engine: str) -> None:
    if not tm.engines()[engine].can_run:
        pytest.skip(f"{engine} cannot run here")
    maker = tm.LangevinFeatures(engine=engine, **NOISY).fit(X)
    features = maker.transform(X)
    order = RNG.permutation(90)
    np.testing.assert_array_equal(maker.transform(X[order]), features[order])
    np.testing.assert_array_equal(np.concatenate([maker.transform(X[:31]), maker.transform(X[31:])]), features)
    np.testing.assert_array_equal(maker.transform(X[[4, 4, 4]]), features[[4, 4, 4]])
    np.testing.assert_array_equal(maker.transform(X[4:5]), features[4:5])


def test_rows_of_many_blocks_have_the_same_features_in_any_order() -> None:
    """The size of the defaults, at which `meanfield` works in blocks of 128 rows."""
    digits, _ = load_digits(return_X_y=True)
    digits, order = digits[:300], RNG.permutation(300)
    maker = tm.LangevinFeatures(random_state=0).fit(digits)
    features = maker.transform(digits)
    np.testing.assert_array_equal(maker.transform(digits[order]), features[order])
    np.testing.assert_array_equal(maker.transform(digits[129:131]), features[129:131])


def test_noise_is_there_and_differs_between_rows_reservoirs_and_random_states() -> None:
    """Equal reservoirs, seen by rows that differ by almost nothing: what is left between features is noise."""
    rows = np.zeros((400, 1)) + 1e-9 * np.arange(400)[:, None]
    noisy = tm.LangevinFeatures(**NOISY, scale=None).fit(rows)
    limit = clone(noisy).set_params(n_replicas=np.inf).fit(rows)
    noise = noisy.transform(rows)[:, :16] - limit.transform(rows)[:, :16]
    other = noisy.transform(rows)[:, 48:64] - limit.transform(rows)[:, 48:64]
    # The standard error of m1 over 20 replicas of a node at rest is sqrt(0.05 / 20) = 0.05, less as it is stiffer.
    assert 0.03 < noise.std() < 0.06
    for pair in ((noise[1:], noise[:-1]), (noise, other), (noise[:, 1:], noise[:, :-1])):
        a, b = (part.ravel() for part in pair)
        # Independent noise correlates by 1/sqrt(2000 or more): five of those are a false alarm once in a million.
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(a.size)
    again = clone(noisy).set_params(random_state=2).fit(rows)
    assert noisy.noise_seed_ != again.noise_seed_


def test_answers_do_not_depend_on_company() -> None:
    machine = tm.LangevinClassifier(**SMALL).fit(X, Y)
    order = RNG.permutation(90)
    logits = machine.decision_function(X)
    np.testing.assert_array_equal(machine.decision_function(X[order]), logits[order])
    np.testing.assert_array_equal(np.concatenate([machine.decision_function(row[None]) for row in X[:5]]), logits[:5])


@pytest.mark.parametrize("training", [None, "finite-time", "static"])
def test_a_fit_depends_on_neither_order_nor_on_how_weights_are_written(training: str | None) -> None:
    weights, order = RNG.integers(0, 3, 90), RNG.permutation(90)
    machine = tm.LangevinClassifier(**SMALL, training=training, scale="standard")  # type: ignore[arg-type]
    found = machine.fit(X, Y, sample_weight=weights)
    shuffled = clone(machine).fit(X[order], Y[order], sample_weight=weights[order])
    repeated = clone(machine).fit(np.repeat(X, weights, 0), np.repeat(Y, weights))
    plain = clone(machine).fit(X, Y)
    for other in (shuffled, repeated):
        np.testing.assert_array_equal(other.decision_function(X), found.decision_function(X))
    assert np.abs(plain.decision_function(X) - found.decision_function(X)).max() > 0.01


class Strict(pickle.Unpickler):
    """Reads pickles of arrays, plain values and the estimator itself."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] not in ("numpy", "builtins") and not name.startswith("Langevin"):
            raise pickle.UnpicklingError(f"{module}.{name} is no array and no plain value")
        return super().find_class(module, name)


PROGRAM = """
import pickle, sys
import numpy as np
from pathlib import Path
folder = Path(sys.argv[1])
machine, rows = pickle.loads((folder / "machine.pkl").read_bytes())
np.save(folder / "there.npy", machine.predict(rows))
"""


def test_a_pickle_holds_arrays_and_plain_values_and_predicts_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    machine = tm.LangevinRegressor(**SMALL, n_replicas=30).fit(X, Y)
    data = pickle.dumps((machine, X))
    again, _ = Strict(io.BytesIO(data)).load()
    here = machine.predict(X)
    np.testing.assert_array_equal(again.predict(X), here)
    (tmp_path / "machine.pkl").write_bytes(data)
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "there.npy"), here)


def test_an_engine_and_its_replicas_can_be_changed_after_the_fit() -> None:
    machine = tm.LangevinRegressor(**SMALL, dt=0.02).fit(X, Y)
    limit = machine.predict(X)
    sampled = machine.set_params(engine="reference", n_replicas=200).predict(X)
    assert np.abs(sampled - limit).max() > 0
    assert np.corrcoef(sampled, limit)[0, 1] > 0.8
