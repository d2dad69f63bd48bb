"""Time series: the tasks, the readout, a signal that goes on, and memory where it must be and where it cannot."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment.machines.signals.follower import ridge_weights

ANY: Any = 3
PROTOCOL = tm.Protocol(dt=0.05, n_replicas=2, orders=(1, 2))
RESERVOIR = tm.signals.turning(30, seed=1)


def test_narma10_is_its_recursion() -> None:
    u, y = tm.signals.narma10(300, seed=5)
    assert u.min() >= 0
    assert u.max() <= 0.5
    t = np.arange(10, 300)
    past = sum(y[t - k] for k in range(1, 11))
    np.testing.assert_allclose(y[t], 0.3 * y[t - 1] + 0.05 * y[t - 1] * past + 1.5 * u[t - 1] * u[t - 10] + 0.1)
    assert np.all(y[:10] == 0)


def test_mackey_glass_relaxes_as_its_constant_past_says() -> None:
    """Until t = tau: x(t) = p + (c - p) exp(-t / 10), with c the past and p = 2 c / (1 + c^10)."""
    x = tm.signals.mackey_glass(17, seed=3, washout=0)
    t = np.arange(17)
    c = 1.2 + float(np.random.default_rng(3).uniform(-0.1, 0.1))
    p = 2 * c / (1 + c**10)
    np.testing.assert_allclose(x, p + (c - p) * np.exp(-t / 10), rtol=1e-12)


def test_mackey_glass_converges_to_second_order() -> None:
    coarse, middle, fine = (tm.signals.mackey_glass(60, seed=1, steps=n, washout=0) for n in (5, 10, 20))
    assert np.abs(fine - middle).max() < 1e-4
    ratio = np.linalg.norm(coarse - middle) / np.linalg.norm(middle - fine)
    assert ratio == pytest.approx(4, rel=0.1)


def test_the_error_is_a_share_of_the_spread() -> None:
    y = np.array([1.0, 3.0, 1.0, 3.0])
    assert tm.signals.nrmse(y, y) == 0
    assert tm.signals.nrmse(np.full(4, 2.0), y) == 1
    assert tm.signals.nrmse(y + 0.5, y) == 0.5


def test_ridge_weights_are_those_of_the_normal_equations() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones((50, 1)), rng.normal(3.0, [1.0, 10.0], (50, 2))], axis=1)
    w = np.array([[0.5, 1.0], [2.0, 0.0], [-1.0, 4.0]])
    np.testing.assert_allclose(ridge_weights(x, x @ w, 0.0), w, rtol=1e-8, atol=1e-8)
    # A ridge of 1 halves the weight of a single feature, whatever its scale, and keeps the mean.
    halved = ridge_weights(x[:, :2], 1000 * x[:, 1:2], 1.0)
    assert halved[1, 0] == pytest.approx(500)
    assert (x[:, :2] @ halved).mean() == pytest.approx(1000 * x[:, 1].mean())


def test_a_turning_reservoir_turns_and_fades_at_one_rate() -> None:
    """A small state without noise shrinks by exp(-2 J2 t) in length, to the second order of Euler's steps."""
    drawn = tm.signals.turning(20, seed=2, s_W=2, s_K=0, s_b=0, dynamics=tm.Dynamics(J2=0.2, J4=0, kT=0))
    assert np.array_equal(drawn.W, -drawn.W.T)
    x0 = np.random.default_rng(0).normal(0.0, 1.0, 20)
    end = tm.final_states(drawn, [[0.0]], tm.Protocol(dt=1e-3, n_replicas=1), x0=x0, engine="reference")[0, 0]
    assert np.linalg.norm(end) == pytest.approx(np.linalg.norm(x0) * math.exp(-0.4), rel=0.01)
    assert abs(end @ x0) < 0.6 * np.linalg.norm(end) * np.linalg.norm(x0)


def test_the_readout_of_a_fit_is_that_of_its_moments() -> None:
    u, y = tm.signals.narma10(150, seed=1)
    both = np.stack([y, -2 * y], axis=1)
    found = tm.signals.fit(RESERVOIR, u, both, PROTOCOL, hold=0.5, washout=20, ridge=1e-3, engine="reference")
    course = tm.course(RESERVOIR, u[None, :, None], PROTOCOL, hold=0.5, engine="reference")
    features = np.concatenate([np.ones((150, 1)), course.raw[:, 0].reshape(150, -1)], axis=1)
    assert np.array_equal(found.weights, ridge_weights(features[20:], both[20:], 1e-3))
    prediction = found.follow(u).prediction
    np.testing.assert_allclose(prediction, features @ found.weights, rtol=1e-12)
    assert prediction.shape == (150, 2)


def test_a_signal_cut_in_two_goes_on_with_the_same_bits() -> None:
    u, y = tm.signals.narma10(120, seed=1)
    follower = tm.signals.fit(RESERVOIR, u[:60], y[:60], PROTOCOL, hold=0.5, washout=10, engine="reference")
    whole = follower.follow(u).prediction
    assert whole.shape == (120,)
    assert np.array_equal(follower.follow(u[60:], follower.end).prediction, whole[60:])
    assert not np.array_equal(follower.follow(u[60:]).prediction, whole[60:])  # without what came before


def test_a_follower_learns_narma10_and_noise_spoils_it() -> None:
    """The last value as a guess has an error of 1.1, a linear model of the last ten inputs one of 0.4."""
    u, y = tm.signals.narma10(1000, seed=1)

    def error(kT: float) -> float:
        wells = tm.Dynamics(J2=0.05, J4=0.1, kT=kT)
        reservoir = tm.signals.turning(50, seed=1, dynamics=wells)
        follower = tm.signals.fit(reservoir, u[:700], y[:700], PROTOCOL, hold=1.0)
        return tm.signals.nrmse(follower.follow(u[700:], follower.end).prediction, y[700:])

    assert error(1e-8) < 0.5
    assert error(1e-2) > 0.8


def test_memory_is_lost_without_coupling_and_kept_by_turning() -> None:
    """Uncoupled nodes are all the same number but for a factor, so all delays together have a capacity of one."""
    wells, protocol = tm.Dynamics(J2=0.05, J4=0, kT=0), tm.Protocol(dt=0.02, n_replicas=1, orders=(1,))
    options: Any = {"hold": 1.0, "longest": 30, "length": 1000}
    kept = tm.signals.memory_capacity(tm.signals.turning(30, seed=1, dynamics=wells), protocol, **options)
    alone = tm.signals.turning(30, seed=1, s_W=0, dynamics=wells)
    lost = tm.signals.memory_capacity(alone, protocol, **options)
    assert kept.by_delay.shape == (30,)
    assert kept.total == pytest.approx(kept.by_delay.sum())
    assert kept.total > 12
    assert lost.total < 1.5
    assert np.all(kept.by_delay[:5] > 0.6)


U = np.zeros(30)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tm.signals.fit(ANY, U, U, hold=1), "`reservoir` must be a thermoment.Reservoir, but was 3"),
        (lambda: tm.signals.fit(RESERVOIR, U, U[:9], hold=1), "`targets` must have shape (30,), but has shape (9,)"),
        (
            lambda: tm.signals.fit(RESERVOIR, np.zeros((30, 2)), U, hold=1),
            "`signal` must have shape (T, 1), but has shape (30, 2)",
        ),
        (lambda: tm.signals.fit(RESERVOIR, U[:1], U[:1], hold=1), "`signal` must have at least two rows"),
        (lambda: tm.signals.fit(RESERVOIR, U, U, hold=1, washout=29), "`washout` must be an integer from 0 to 28"),
        (lambda: tm.signals.fit(RESERVOIR, U, U, hold=0.0123, washout=1), "`hold` must be a multiple of dt"),
        (lambda: tm.signals.fit(RESERVOIR, U, U, hold=-1, washout=1), "`hold` must be positive"),
        (lambda: tm.signals.fit(RESERVOIR, U, U, hold=1, ridge=-1, washout=1), "`ridge` must be zero or positive"),
        (lambda: tm.signals.fit(RESERVOIR, U + math.nan, U, hold=1), "`signal` must be finite"),
        (lambda: tm.signals.narma10(10, seed=1), "`length` must be an integer from 11"),
        (lambda: tm.signals.mackey_glass(10, tau=0.05), "`tau` must be a multiple of 1 / 10"),
        (lambda: tm.signals.nrmse(U[:3], U), "`prediction` must have shape (30,), but has shape (3,)"),
        (lambda: tm.signals.nrmse(U, U), "`target` must vary, but was 0.0 throughout"),
        (
            lambda: tm.signals.memory_capacity(tm.signals.turning(4, 2, seed=1), hold=1.0),
            "`reservoir` must have one input, but was one of 2",
        ),
        (
            lambda: tm.signals.memory_capacity(RESERVOIR, hold=1.0, longest=40, length=100),
            "`length` must be an integer from 160",
        ),
        (lambda: tm.signals.turning(0, seed=1), "`n_nodes` must be an integer from 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
