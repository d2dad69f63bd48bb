"""The loss of finite-time training and its descent: steps computed by hand in NumPy, and the schedules."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import thermoment as tm
from thermoment.learning.batches import batches
from thermoment.learning.distortion import distort, strengths
from thermoment.learning.finite_time.lookup import noisy_moments, training_curves
from thermoment.learning.finite_time.loss import RunningMeans, State, epoch
from thermoment.learning.finite_time.program import MOMENTUM, learning_rate, optimiser, program, scalars
from thermoment.learning.options import Distortion, FiniteTime

N, D, C, ORDERS = 5, 16, 3, (1, 2, 4)
SHAPE = (4, 4)
RNG = np.random.default_rng(8)
X = RNG.random((41, D))
Y = RNG.integers(0, C, 41)
ROWS = next(batches(41, 21, 1, RNG))
NUMBERS, WEIGHTS = np.random.default_rng(9).normal(size=(41, C)), np.random.default_rng(10).integers(0, 4, 41)
"""Two batches; the second has a row of -1."""
OPTIONS = FiniteTime(
    learning_rate=0.3,
    schedule="constant",
    optimiser="sgd",
    weight_decay=0.2,
    label_smoothing=0.3,
    W=True,
    W_rate=0.6,
    drive_limit=0.4,
    drive_penalty=1.7,
    distortion=Distortion(rotation=0.5, scale=0.3, shear=0.3, shift=1.0, elastic=0.6, smoothness=1.2),
)
REPLICAS = 9.0
START: dict[str, Any] = {
    "K": RNG.normal(0, 0.5, (N, D)),
    "b": RNG.normal(0, 0.5, N),
    "W": [RNG.normal(0, 0.3, (N, N))],
    "head": RNG.normal(0, 1, (len(ORDERS), N, C)),
    "offset": RNG.normal(0, 1, C),
}
MEAN, SQUARE = RNG.normal(0, 0.2, (len(ORDERS), N)), RNG.uniform(0.5, 1, (len(ORDERS), N))
KEY = jax.random.key(4)


def single(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def compiled(options: FiniteTime, squared: bool = False) -> tuple[State, float]:
    """The state and the mean loss after one epoch of the program; the squared error with weights."""
    node = training_curves(tm.Dynamics(), 1.0, ORDERS)
    what = program(options, REPLICAS, SHAPE, "squared" if squared else "cross-entropy")
    numbers = scalars(options, REPLICAS, 100, C, tm.Dynamics().kT)
    trained = single(START)
    state = State(trained, optimiser(what, numbers).init(trained), RunningMeans(single(MEAN), single(SQUARE)))
    x, y = single(X), single(NUMBERS) if squared else jnp.asarray(Y)
    weights = single(WEIGHTS) if squared else None
    state, loss, _ = epoch(what, numbers, state, {}, node, x, y, jnp.asarray(ROWS), KEY, weights)
    return state, float(loss)


def drawn(options: FiniteTime, number: int) -> tuple[np.ndarray, jax.Array]:
    """The distorted images and the noise of batch `number`."""
    for_images, for_noise = jax.random.split(jax.random.split(KEY, len(ROWS))[number])
    d = options.distortion
    images = jax.jit(distort, static_argnums=(2, 4))(
        for_images, single(X)[ROWS[number]], SHAPE, strengths(d), d.smoothness
    )
    return np.asarray(images, np.float64), jax.random.normal(for_noise, (len(ORDERS), ROWS.shape[1], N))


def by_hand(options: FiniteTime, squared: bool = False) -> tuple[dict[str, Any], np.ndarray, np.ndarray, float]:
    """The same in float64: parameters, running averages, mean loss. Only the slopes of the moments are taken by JAX."""
    node = training_curves(tm.Dynamics(), 1.0, ORDERS)

    @jax.jit
    def moments(h: jax.Array, W: jax.Array, xi: jax.Array) -> Any:
        """phi, and the function that takes slopes in phi to slopes in h and W."""
        return jax.vjp(lambda h, W: noisy_moments(h, [W], node, xi, 1 / np.sqrt(REPLICAS)).moments, h, W)

    @jax.jit
    def means(h: jax.Array, W: jax.Array) -> Any:
        """<x> without noise, and the same for it."""
        return jax.vjp(lambda h, W: noisy_moments(h, [W], node, None, 0.0).moments[0], h, W)

    work = (options.work_penalty or 0.0) * REPLICAS / tm.Dynamics().kT
    p = {**START, "W": START["W"][0]}
    speed = {name: np.zeros_like(value) for name, value in p.items()}
    mean, square, losses, off = MEAN, SQUARE, [], 1 - np.eye(N)
    for number, rows in enumerate(ROWS):
        images, xi = drawn(options, number)
        share = (rows >= 0) * (WEIGHTS[rows] if squared else 1.0)
        share = share / share.sum()
        h = images @ p["K"].T + p["b"]

        phi, back = moments(single(h), single(p["W"] * off), xi)
        phi = np.asarray(phi, np.float64)
        deviation = np.sqrt(square - mean**2)
        standardised = (phi - mean[:, None]) / deviation[:, None]
        z = np.einsum("psn,pnc->sc", standardised, p["head"]) + p["offset"]
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        target = (1 - options.label_smoothing) * np.eye(C)[Y[rows]] + options.label_smoothing / C
        excess = np.maximum(np.abs(h) - options.drive_limit, 0)
        x, back_to_drive = means(single(h), single(p["W"] * off))
        x = np.asarray(x, np.float64)
        penalty = options.drive_penalty * (excess**2).mean(1) + work * (h * x).sum(1)
        error = ((z - NUMBERS[rows]) ** 2).mean(1) if squared else -(target * log_p).sum(1)
        losses.append(share @ (penalty + error))
        mean, square = (0.99 * old + 0.01 * (phi**k).transpose(0, 2, 1) @ share for k, old in ((1, mean), (2, square)))

        dz = share[:, None] * (2 / C * (z - NUMBERS[rows]) if squared else np.exp(log_p) - target)
        dphi = np.einsum("sc,pnc->psn", dz, p["head"]) / deviation[:, None]
        dh, dW = (np.asarray(part, np.float64) for part in back(list(single(dphi))))
        dh = dh + share[:, None] * (options.drive_penalty * 2 * excess * np.sign(h) / N + work * x)
        by_work = back_to_drive(single(share[:, None] * work * h))
        dh, dW = dh + np.asarray(by_work[0]), dW + np.asarray(by_work[1])
        slope = {
            "K": dh.T @ images + options.weight_decay * p["K"],
            "b": dh.sum(0),
            "W": dW * off + options.weight_decay * p["W"],
            "head": np.einsum("psn,sc->pnc", standardised, dz) + options.weight_decay * p["head"],
            "offset": dz.sum(0),
        }
        speed = {name: slope[name] + MOMENTUM * speed[name] for name in p}
        rate = {name: options.learning_rate * (options.W_rate if name == "W" else 1) for name in p}
        p = {name: p[name] - rate[name] * speed[name] for name in p}
    return p, mean, square, float(np.mean(losses))


@pytest.mark.parametrize(
    ("options", "squared"),
    [
        pytest.param(OPTIONS, False, marks=pytest.mark.slow),
        pytest.param(OPTIONS, True, marks=pytest.mark.slow),
        (replace(OPTIONS, work_penalty=3e-3), False),
    ],
)
def test_two_steps_of_sgd_are_the_loss_as_written(options: FiniteTime, squared: bool) -> None:
    """Distortion, noise, smooth labels, penalties, weight decay, momentum, the rate of W, running averages; weights."""
    state, loss = compiled(options, squared)
    parameters, mean, square, expected = by_hand(options, squared)
    assert loss == pytest.approx(expected, rel=1e-5)
    found = {**state.trained, "W": state.trained["W"][0]}
    for name, value in parameters.items():
        np.testing.assert_allclose(found[name], value, atol=2e-5, err_msg=name)
        start = START["W"][0] if name == "W" else START[name]
        assert np.abs(value - start).max() > 0.02, name
    np.testing.assert_allclose(state.means.mean, mean, atol=1e-6)
    np.testing.assert_allclose(state.means.square, square, atol=1e-6)
    assert np.abs(square - SQUARE).max() > 1e-3


@pytest.mark.parametrize(("steps", "rate"), [(1, 0.02), (3, 0.02), (100, 1.0), (1003, 2e-3)])
def test_schedules_are_those_of_optax(steps: int, rate: float) -> None:
    theirs = {
        "one-cycle": optax.cosine_onecycle_schedule(max(steps, 2), rate, 0.3),
        "cosine": optax.cosine_decay_schedule(rate, steps),
        "constant": optax.constant_schedule(rate),
    }
    for schedule, wanted in theirs.items():
        numbers = scalars(FiniteTime(learning_rate=rate, schedule=schedule), 64, steps, C)  # type: ignore[arg-type]
        for count in {0, 1, int(0.3 * steps), int(0.3 * steps) + 1, steps // 2, steps - 1} & set(range(steps)):
            found = float(learning_rate(schedule, numbers, jnp.int32(count)))  # type: ignore[arg-type]
            assert found == pytest.approx(float(wanted(count)), rel=1e-5, abs=1e-7 * rate), (schedule, count)


def test_one_cycle_rises_over_three_tenths_of_the_steps_and_ends_near_zero() -> None:
    numbers = scalars(FiniteTime(learning_rate=1.0), 64, 100, C)
    rates = [float(learning_rate("one-cycle", numbers, count)) for count in (0, 15, 30, 65, 100, 101)]
    assert rates == pytest.approx([0.04, 0.52, 1.0, 0.5, 4e-6, 4e-6], rel=1e-5)
