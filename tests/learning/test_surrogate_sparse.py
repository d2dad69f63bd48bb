"""Training of K by products that skip zeros: the same K as by whole products, and used where it should be."""

import os
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest

import thermoment as tm
from thermoment import data
from thermoment._engines import sparse
from thermoment.learning import surrogate
from thermoment.learning.options import Stage, Standardise, SurrogateOptimiser, Training
from thermoment.learning.surrogate import TrainedProjection, train_side_by_side

_STATUS = tm.engines()["native"]
pytestmark = [
    pytest.mark.skipif(not _STATUS.can_run, reason=f"native {_STATUS.note}"),
    pytest.mark.skipif(jax.default_backend() != "cpu", reason="these products are for a processor"),
]

RNG = np.random.default_rng(8)
X = np.where(RNG.random((150, 24)) < 0.25, RNG.random((150, 24)), 0)
X[3] = X[70] = 0  # samples of nothing but zeros
Y = (X[:, :8].sum(1) > X[:, 8:16].sum(1)).astype(int) + (X[:, 16:].sum(1) > 1)
STAGES = (Stage("mean", 2, 0.05), Stage("polynomial", 3, 0.03))


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples were handed to sparse products, for every training; these are used with a small K too."""
    counts: list[int] = []

    def counted(inputs: Any) -> sparse.Sparse:
        counts.append(len(inputs))
        return sparse.compressed(inputs)

    monkeypatch.setattr(sparse, "SMALLEST", 1)
    monkeypatch.setattr(surrogate, "compressed", counted)
    return counts


def train(training: Training, inputs: Any = X, stages: tuple[Stage, ...] = STAGES, **more: Any) -> TrainedProjection:
    """With 18 nodes: a vector or more, and some left. The last batch of 64 has 22 samples and 42 times none."""
    reservoir = tm.Reservoir.draw(18, 24, seed=3, s_K=2.0)
    return train_side_by_side([reservoir], inputs, Y, stages, training, seeds=[7], **more)[0]


def both_ways(training: Training, used: list[int], **more: Any) -> tuple[TrainedProjection, TrainedProjection]:
    """By sparse products and by whole ones."""
    found = train(training, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "SMALLEST", 10**9)
        wanted = train(training, **more)
    assert used == [len(X)]
    return found, wanted


@pytest.mark.parametrize(("optimiser", "standardise"), [("sgd", "once"), ("momentum", "none"), ("adam", "once")])
def test_the_projection_is_that_of_whole_products(
    optimiser: SurrogateOptimiser, standardise: Standardise, used: list[int]
) -> None:
    """15 steps, each of which rounds an element of K, below 2, by at most 6e-8 either way: 2e-6 if all went one way."""
    training = Training(optimiser, standardise=standardise, batch_size=64, l2=0.1)
    found, wanted = both_ways(training, used)
    assert np.abs(wanted.reservoir.K - tm.Reservoir.draw(18, 24, seed=3, s_K=2.0).K).max() > 0.01
    np.testing.assert_allclose(found.reservoir.K, wanted.reservoir.K, atol=2e-6)
    np.testing.assert_allclose(found.losses, wanted.losses, rtol=2e-6)


def test_samples_have_their_weights(used: list[int]) -> None:
    weights = np.random.default_rng(3).integers(0, 4, len(X))
    training, one = Training(batch_size=64), STAGES[:1]
    found, wanted = both_ways(training, used, stages=one, weights=weights)
    np.testing.assert_allclose(found.reservoir.K, wanted.reservoir.K, atol=2e-6)
    assert np.abs(found.reservoir.K - train(training, stages=one).reservoir.K).max() > 1e-4


def test_many_inputs_batches_that_standardise_and_several_reservoirs_have_whole_products(used: list[int]) -> None:
    """What is used is decided before the first stage."""
    train(Training(standardise="batch"), stages=())
    train(Training(), np.where(X == 0, 0.1, X), stages=())
    reservoirs = [tm.Reservoir.draw(18, 24, seed=seed) for seed in (1, 2)]
    train_side_by_side(reservoirs, X, Y, (), seeds=[1, 2])
    assert not used
    train(Training(), stages=())
    assert used == [len(X)]


ON_SOME_CORES = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import hashlib
import numpy as np
import thermoment as tm
from thermoment.learning.options import Stage, Training
from thermoment.learning.surrogate import train_side_by_side
rng = np.random.default_rng(1)
x = np.where(rng.random((600, 400)) < 0.2, rng.random((600, 400)), 0)
stages = Stage("mean", 1, 0.02), Stage("polynomial", 2, 0.02)
training, reservoir = Training(standardise="once"), tm.Reservoir.draw(200, 400, seed=1)
found = train_side_by_side([reservoir], x, rng.integers(0, 10, 600), stages, training, seeds=[1])[0]
print(hashlib.sha256(found.reservoir.K.tobytes()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be held on one core here")
def test_cores_change_no_bit() -> None:
    command = [sys.executable, "-c", ON_SOME_CORES]
    found = [subprocess.run([*command, n], capture_output=True, text=True, check=True).stdout for n in ("1", "64")]
    assert found[0] == found[1] != ""


def test_images_of_eight_by_eight_have_whole_products() -> None:
    """So that results on the data that is built in stay what they are: about half of its pixels are not zero."""
    assert not sparse.pays(data.load("digits").x_train.astype(np.float32), 10**6)
