"""Training of K: the surrogate's gradient, the loss as written, what training changes and what it leaves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import thermoment as tm
from thermoment.learning.batches import batches
from thermoment.learning.options import Stage, Training
from thermoment.learning.surrogate import _stationary, train, train_side_by_side

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


def by_hand(
    reservoir: tm.Reservoir, powers: tuple[int, ...], rate: float, epochs: int, seed: int, l2: float, standardise: str
) -> np.ndarray:
    """Plain SGD from a zero head, in float64, with derivatives written out."""
    rng = np.random.default_rng([seed, 0])
    K, b, N = reservoir.K.copy(), reservoir.b, reservoir.n_nodes
    head, bias = np.zeros((len(powers) * N, 3)), np.zeros(3)

    def psi_of(K: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        h = inputs @ K.T + b
        x = reservoir.dynamics.stationary_point(h)
        return x, np.concatenate([x**p for p in powers], axis=1), reservoir.dynamics.stationary_slope(h)

    start = psi_of(K, X)[1]
    mean, deviation = (start.mean(0), start.std(0)) if standardise == "once" else (0.0, np.ones(start.shape[1]))
    for rows in batches(len(X), 64, epochs, rng):
        for batch in rows:
            batch = batch[batch >= 0]
            x, psi, slope = psi_of(K, X[batch])
            psi = (psi - mean) / deviation
            z = psi @ head + bias
            p = np.exp(z - z.max(1, keepdims=True))
            error = (p / p.sum(1, keepdims=True) - np.eye(3)[Y[batch]]) / len(batch)
            back = (error @ head.T / deviation).reshape(len(batch), len(powers), N)
            dx = sum(back[:, i] * q * x ** (q - 1) for i, q in enumerate(powers))
            gradient = (dx * slope).T @ X[batch] + l2 * K
            head, bias = head - rate * psi.T @ error, bias - rate * error.sum(0)
            K = K - rate * gradient
    return K


@pytest.mark.parametrize(("surrogate", "powers"), [("mean", (1,)), ("polynomial", (1, 2, 4))])
@pytest.mark.parametrize("standardise", ["none", "once"])
def test_sgd_is_the_loss_as_written(surrogate: str, powers: tuple[int, ...], standardise: str) -> None:
    reservoir = small()
    training = Training(head="zero", standardise=standardise, batch_size=64, l2=0.1)  # type: ignore[arg-type]
    found = train(reservoir, X, Y, (Stage(surrogate, 3, 0.2),), training, seed=7)  # type: ignore[arg-type]
    expected = by_hand(reservoir, powers, 0.2, 3, 7, 0.1, standardise)
    assert np.abs(expected - reservoir.K).max() > 0.01
    np.testing.assert_allclose(found.reservoir.K, expected, atol=2e-6)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("standardise", ["none", "once", "batch"])
@pytest.mark.parametrize("head", ["zero", "normal", "uniform"])
def test_every_reading_learns(optimiser: str, standardise: str, head: str) -> None:
    training = Training(optimiser, head, standardise, batch_size=32)  # type: ignore[arg-type]
    found = train(small(), X, Y, (Stage("polynomial", 30, 0.02),), training, seed=1)
    assert found.losses[-1] < found.losses[0] - 0.02
    assert len(found.losses) == 30


def test_only_the_projection_changes_and_the_seed_decides() -> None:
    reservoir = small()
    stages = (Stage("mean", 2, 0.1), Stage("polynomial", 2, 0.1))
    first, again, other = (train(reservoir, X, Y, stages, seed=seed).reservoir for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.W, reservoir.W)
    np.testing.assert_array_equal(first.b, reservoir.b)
    np.testing.assert_array_equal(first.K, again.K)
    assert np.any(first.K != other.K)
    assert np.any(first.K != reservoir.K)


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
        (lambda: Stage("median", 1, 0.1), "`surrogate` must be one of mean, polynomial"),  # type: ignore[arg-type]
        (lambda: Stage("mean", 0, 0.1), "`epochs`"),
        (lambda: Stage("mean", 1, -0.1), "`learning_rate`"),
        (lambda: Training(optimiser="adm"), "`optimiser`"),  # type: ignore[arg-type]
        (lambda: Training(l2=-1), "`l2`"),
        (lambda: train(small(), X, Y[:-1], (), seed=1), "`labels` must have shape"),
        (lambda: train(small(), X, Y - 1, (), seed=1), "`labels` must be zero or positive"),
        (lambda: train(small(), X, Y + 0.5, (), seed=1), "`labels` must be integers"),  # type: ignore[arg-type]
        (lambda: train(small(), X[:, :3], Y, (), seed=1), "`inputs` must have shape"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
