"""Training of K: the surrogate's gradient, the loss as written, what training changes and what it leaves."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import thermoment as tm
from thermoment.learning.batches import batches
from thermoment.learning.options import Stage, Training
from thermoment.learning.surrogate import TrainedProjection, _epoch, _stationary, train_side_by_side

RNG = np.random.default_rng(5)
X = RNG.random((300, 6))
Y = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0.5)


def small(seed: int = 3, **changes: float) -> tm.Reservoir:
    return tm.Reservoir.draw(5, 6, seed=seed, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("dynamics", [tm.Dynamics(), tm.Dynamics(J2=0.3, J4=2), tm.Dynamics(J2=-1), tm.Dynamics(J4=0)])
def test_surrogate_is_the_stationary_point_with_its_slope(dynamics: tm.Dynamics) -> None:
    h = np.array([-7.0, -0.8, 0.3, 2.5, 30.0])
    with jax.enable_x64(True):
        x, slope = jax.jvp(lambda h: _stationary(h, dynamics), (jnp.asarray(h),), (jnp.ones(len(h)),))
    np.testing.assert_allclose(x, dynamics.stationary_point(h), rtol=1e-12)
    np.testing.assert_allclose(slope, dynamics.stationary_slope(h), rtol=1e-12)


def train(reservoir: tm.Reservoir, *arguments: Any, seed: int, **more: Any) -> TrainedProjection:
    return train_side_by_side([reservoir], *arguments, seeds=[seed], **more)[0]


STAGES = (Stage("mean", 2, 0.05), Stage("polynomial", 3, 0.03))
POWERS = {"mean": (1,), "polynomial": (1, 2, 4)}


def drawn_head(start: str, n_features: int, rng: np.random.Generator) -> np.ndarray:
    if start == "normal":
        return rng.normal(0, 0.01, (n_features, 3))
    bound = 1 / np.sqrt(n_features) if start == "uniform" else 0.0
    return rng.uniform(-bound, bound, (n_features, 3)) if bound else np.zeros((n_features, 3))


def by_hand(reservoir: tm.Reservoir, training: Training, seed: int) -> np.ndarray:
    """K after both stages of SGD, with or without momentum, in float64 and with derivatives written out."""
    K, b, N = reservoir.K, reservoir.b, reservoir.n_nodes
    memory = 0.9 if training.optimiser == "momentum" else 0.0

    def psi_of(K: np.ndarray, inputs: np.ndarray, powers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        h = inputs @ K.T + b
        x = reservoir.dynamics.stationary_point(h)
        return x, np.concatenate([x**p for p in powers], axis=1), reservoir.dynamics.stationary_slope(h)

    for number, stage in enumerate(STAGES):
        rng, powers = np.random.default_rng([seed, number]), POWERS[stage.surrogate]
        p = {"K": K, "head": drawn_head(training.head, len(powers) * N, rng), "bias": np.zeros(3)}
        speed = {name: np.zeros_like(value) for name, value in p.items()}
        start = psi_of(K, X, powers)[1]
        mean, deviation = np.zeros(start.shape[1]), np.ones(start.shape[1])
        if training.standardise == "once":
            mean, deviation = start.mean(0), start.std(0)
        for rows in batches(len(X), training.batch_size, stage.epochs, rng):
            for batch in rows:
                batch = batch[batch >= 0]
                x, psi, slope = psi_of(p["K"], X[batch], powers)
                if training.standardise == "batch":
                    mean, deviation = psi.mean(0), psi.std(0)
                psi = (psi - mean) / deviation
                z = psi @ p["head"] + p["bias"]
                e = np.exp(z - z.max(1, keepdims=True))
                error = (e / e.sum(1, keepdims=True) - np.eye(3)[Y[batch]]) / len(batch)
                back = error @ p["head"].T
                if training.standardise == "batch":  # mean and deviation depend on K too
                    back = back - back.mean(0) - psi * (back * psi).mean(0)
                back = (back / deviation).reshape(len(batch), len(powers), N)
                dx = sum(back[:, i] * q * x ** (q - 1) for i, q in enumerate(powers))
                gradient = {
                    "K": (dx * slope).T @ X[batch] + training.l2 * p["K"],
                    "head": psi.T @ error,
                    "bias": error.sum(0),
                }
                speed = {name: gradient[name] + memory * speed[name] for name in p}
                p = {name: p[name] - stage.learning_rate * speed[name] for name in p}
        K = p["K"]
    return np.asarray(K)


@pytest.mark.parametrize(
    ("optimiser", "head", "standardise"),
    [("sgd", "zero", "none"), ("momentum", "normal", "once"), ("momentum", "uniform", "batch")],
)
def test_two_stages_are_the_loss_as_written(optimiser: str, head: str, standardise: str) -> None:
    reservoir = small()
    training = Training(optimiser, head, standardise, batch_size=64, l2=0.1)  # type: ignore[arg-type]
    found = train(reservoir, X, Y, STAGES, training, seed=7).reservoir.K
    expected = by_hand(reservoir, training, 7)
    assert np.abs(expected - reservoir.K).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=5e-6)


CHOICES = ("sgd", "momentum", "adam"), ("none", "once", "batch"), ("zero", "normal", "uniform")


@pytest.mark.parametrize(("i", "j"), [(i, j) for i in range(3) for j in range(3)])
def test_every_choice_learns_with_every_other(i: int, j: int) -> None:
    """Nine of the 27 combinations, in which every pair of choices occurs once."""
    optimiser, standardise, head = CHOICES[0][i], CHOICES[1][j], CHOICES[2][(i + j) % 3]
    training = Training(optimiser, head, standardise, batch_size=32)  # type: ignore[arg-type]
    found = train(small(), X, Y, (Stage("polynomial", 30, 0.02),), training, seed=1)
    assert found.losses[-1] < found.losses[0] - 0.02
    assert len(found.losses) == 30


def programs() -> int:
    """How many programs of an epoch have been compiled."""
    return int(_epoch._cache_size())  # type: ignore[attr-defined]


def test_learning_rate_and_penalty_compile_nothing() -> None:
    train(small(), X, Y, (Stage("mean", 1, 0.1),), Training(), seed=1)
    before = programs()
    for rate, l2 in ((0.2, 1e-5), (0.1, 1e-3)):
        train(small(), X, Y, (Stage("mean", 2, rate),), Training(l2=l2), seed=2)
    assert programs() == before > 0


def test_only_the_projection_changes_and_the_seed_decides() -> None:
    reservoir = small()
    stages = (Stage("mean", 2, 0.1), Stage("polynomial", 2, 0.1))
    first, again, other = (train(reservoir, X, Y, stages, seed=seed).reservoir for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.W, reservoir.W)
    np.testing.assert_array_equal(first.b, reservoir.b)
    np.testing.assert_array_equal(first.K, again.K)
    assert np.any(first.K != other.K)
    assert np.any(first.K != reservoir.K)


@pytest.mark.slow
def test_side_by_side_is_one_after_the_other() -> None:
    reservoirs = [small(seed) for seed in (3, 4, 5)]
    stages = (Stage("mean", 2, 0.1), Stage("polynomial", 3, 0.1))
    training = Training("momentum", standardise="once")
    together = train_side_by_side(reservoirs, X, Y, stages, training, seeds=[7, 8, 9])
    for reservoir, seed, found in zip(reservoirs, (7, 8, 9), together, strict=True):
        alone = train(reservoir, X, Y, stages, training, seed=seed)
        np.testing.assert_allclose(found.reservoir.K, alone.reservoir.K, atol=1e-6)
        np.testing.assert_allclose(found.losses, alone.losses, rtol=1e-5)
        np.testing.assert_array_equal(found.reservoir.W, reservoir.W)
    with pytest.raises(ValueError, match="the same size"):
        train_side_by_side([small(), tm.Reservoir.draw(4, 6, seed=1)], X, Y, stages, seeds=[1, 2])


@pytest.mark.parametrize("weighted", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_program_for_an_accelerator_does_the_same(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    stages = (Stage("mean", 2, 0.1), Stage("polynomial", 3, 0.1))
    weights = np.random.default_rng(1).random(len(X)) if weighted else None
    found, compiled = [], []
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        training = Training(batch_size=7, standardise="once")
        found.append(train_side_by_side([small(), small(4)], X, Y, stages, training, seeds=[7, 8], weights=weights))
        compiled.append(programs())
    assert compiled[1] == compiled[0] + len(stages)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.reservoir.K, other.reservoir.K, atol=1e-6)
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-5)


def test_without_stages_the_projection_stays_as_drawn() -> None:
    np.testing.assert_array_equal(train(small(), X, Y, (), seed=1).reservoir.K, small().K)


def test_batches_hold_every_row_once() -> None:
    epochs = list(batches(10, 4, 3, np.random.default_rng(1)))
    assert [rows.shape for rows in epochs] == [(3, 4)] * 3
    for rows in epochs:
        assert sorted(rows[rows >= 0]) == list(range(10))
    assert np.any(epochs[0] != epochs[1])


def test_a_diverging_loss_is_an_error_that_names_epoch_and_rate() -> None:
    with pytest.raises(FloatingPointError, match=r"epoch \d+ at learning rate 1e\+30"):
        train(small(), X, Y, (Stage("polynomial", 20, 1e30),), seed=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train(small(), X, Y[:-1], (), seed=1), "`labels` must have shape"),
        (lambda: train(small(), X, Y - 1, (), seed=1), "`labels` must be zero or positive"),
        (lambda: train(small(), X, Y + 0.5, (), seed=1), "`labels` must be integers"),
        (lambda: train(small(), X[:, :3], Y, (), seed=1), "`inputs` must have shape"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_weight_counts_a_sample_as_often() -> None:
    weights = np.random.default_rng(3).integers(0, 4, len(X))
    stages = (Stage("polynomial", 20, 0.5),)
    whole = Training("sgd", "zero", batch_size=10**4)  # one batch: its order does not matter
    weighted = train(small(), X, Y, stages, whole, seed=1, weights=weights).reservoir.K
    repeated = train(small(), np.repeat(X, weights, 0), np.repeat(Y, weights), stages, whole, seed=1).reservoir.K
    np.testing.assert_allclose(weighted, repeated, atol=2e-6)
    assert np.abs(weighted - train(small(), X, Y, stages, whole, seed=1).reservoir.K).max() > 1e-4
