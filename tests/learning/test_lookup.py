"""Moments as training computes them: against the full mean field, their slopes, their noise, and sampled dynamics."""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import thermoment as tm
from thermoment._engines.meanfield.network import moments_of_drive, node_curves
from thermoment._engines.meanfield.tables import node_tables
from thermoment.learning.finite_time.lookup import TrainingCurves, look_up, noise_factor, noisy_moments, training_curves
from thermoment.physics import LARGEST_DRIVE

ORDERS = (1, 2, 4)
N, D = 8, 5
RNG = np.random.default_rng(11)
IMAGES = RNG.random((3, D))
WEIGHTS = RNG.normal(size=(3, len(ORDERS), N))
"""A linear readout: its value on the moments is what the tests differentiate."""


def reservoir(s_W: float = 0.3) -> tm.Reservoir:
    return tm.Reservoir.draw(N, D, s_W=s_W, s_K=4.0, s_b=0.5, seed=7)


@cache
def exact() -> TrainingCurves:
    with jax.enable_x64(True):
        return training_curves(tm.Dynamics(), 1.0, ORDERS, "float64")


def value(parameters: dict[str, Any], xi: jax.Array | None = None, n_replicas: float = 128) -> jax.Array:
    """The readout of the moments, for K, b, W."""
    h = jnp.asarray(IMAGES) @ parameters["K"].T + parameters["b"]
    seen = noisy_moments(h, [parameters["W"]], exact(), xi, 1 / np.sqrt(n_replicas))
    return jnp.sum(jnp.stack(seen.moments, 1) * WEIGHTS)


def of(reservoir: tm.Reservoir) -> dict[str, jax.Array]:
    return {name: jnp.asarray(getattr(reservoir, name)) for name in ("K", "b", "W")}


def direction(name: str) -> np.ndarray:
    """A change of one of the three that changes the value much; W keeps its diagonal. No element exceeds 1."""
    with jax.enable_x64(True):
        change = np.array(jax.grad(value)(of(reservoir()))[name])
    if name == "W":
        np.fill_diagonal(change, 0)
    return np.asarray(change / np.abs(change).max())


@pytest.mark.parametrize("s_W", [0.0, 0.1, 0.2])
@pytest.mark.slow
def test_moments_agree_with_the_full_mean_field_far_below_the_shot_noise(s_W: float) -> None:
    network = tm.Reservoir.draw(256, 64, s_W=s_W, s_K=4.0, seed=5)
    h = network.drive(np.random.default_rng(1).random((50, 64)))
    with jax.enable_x64(True):
        seen = noisy_moments(jnp.asarray(h), [jnp.asarray(network.W)], exact(), None, 0.0)
        full = moments_of_drive(
            jnp.asarray(h),
            jnp.asarray(network.W),
            node_curves(node_tables(tm.Dynamics(), 1.0, LARGEST_DRIVE), ORDERS, "float64"),
        )
        error = np.sqrt(((np.stack(seen.moments, 1) - np.asarray(full)) ** 2).mean((0, 2)))
    assert (error < (3e-4 if s_W else 2e-6)).all()  # 128 replicas scatter by 1.3e-2


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("name", ["K", "b", "W"])
def test_slopes_are_those_of_the_value(name: str, noise: bool) -> None:
    """With noise they run through the covariance too."""
    with jax.enable_x64(True):
        start, change = of(reservoir()), jnp.asarray(direction(name))
        xi = jnp.asarray(RNG.normal(size=(3, 3, N))) if noise else None
        slope = jnp.sum(jax.grad(value)(start, xi, 4)[name] * change)
        step = 1e-5
        ahead, behind = (value({**start, name: start[name] + s * step * change}, xi, 4) for s in (1, -1))
        assert float(slope) == pytest.approx(float((ahead - behind) / (2 * step)), rel=1e-5)


def test_the_noise_has_a_slope_of_its_own() -> None:
    """Without it the covariance would be taken as given."""
    with jax.enable_x64(True):
        start, xi = of(reservoir()), jnp.asarray(RNG.normal(size=(3, 3, N)))
        still, noisy = (np.asarray(jax.grad(value)(start, z, 4)["K"]) for z in (None, xi))
    assert np.abs(noisy - still).max() > 0.02 * np.abs(still).max()


@pytest.mark.parametrize("name", ["K", "b", "W"])
@pytest.mark.slow
def test_slopes_are_those_of_the_full_mean_field(name: str) -> None:
    with jax.enable_x64(True):
        start, change = of(reservoir(0.2)), jnp.asarray(direction(name))
        full = node_curves(node_tables(tm.Dynamics(), 1.0, LARGEST_DRIVE), ORDERS, "float64")

        def solved(parameters: dict[str, Any]) -> jax.Array:
            h = jnp.asarray(IMAGES) @ parameters["K"].T + parameters["b"]
            return jnp.sum(moments_of_drive(h, parameters["W"], full) * WEIGHTS)

        step = 1e-3
        ahead, behind = (solved({**start, name: start[name] + s * step * change}) for s in (1, -1))
        slope = jnp.sum(jax.grad(value)(start)[name] * change)
        assert float(slope) == pytest.approx(float((ahead - behind) / (2 * step)), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step", "left_out"),
    [
        pytest.param("K", 0.02, 1e-3, marks=pytest.mark.slow),
        pytest.param("b", 0.02, 1e-3, marks=pytest.mark.slow),
        ("W", 0.05, 5e-3),
    ],
)
def test_slopes_are_those_of_sampled_moments(name: str, step: float, left_out: float) -> None:
    """Two reservoirs, a step apart, under the same noise: their difference has little scatter.

    Beside 4 standard errors it may be off by the part `left_out`: steps of dt, and for W the fluctuation of the field.
    """
    start = reservoir()
    change = direction(name)
    differences = []
    for seed in range(12):
        protocol = tm.Protocol(dt=2e-3, n_replicas=2048, seed=seed)
        ahead, behind = (
            tm.simulate(
                replace(start, **{name: getattr(start, name) + sign * step * change}), IMAGES, protocol, engine="xla"
            )
            for sign in (1, -1)
        )
        differences.append(float(((ahead.raw - behind.raw) * WEIGHTS).sum() / (2 * step)))
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(len(differences))
    with jax.enable_x64(True):
        slope = float(jnp.sum(jax.grad(value)(of(start))[name] * change))
        uncoupled = float(jnp.sum(jax.grad(value)(of(replace(start, W=0 * start.W)))[name] * change))
    allowed = 4 * error + left_out * abs(mean)
    assert abs(slope - mean) < allowed, (slope, mean, error)
    # The control: a reservoir whose coupling was forgotten is seen to be another.
    assert abs(uncoupled - mean) > allowed, (uncoupled, mean, error)


@pytest.mark.slow
@pytest.mark.parametrize("h", [0.0, 0.7, -3.0])
def test_the_noise_has_the_covariance_of_sampled_powers(h: float) -> None:
    alone = tm.Reservoir(np.zeros((1, 1)), np.zeros((1, 1)), np.array([h]))
    count = 20_000
    protocol = tm.Protocol(dt=1e-3, n_replicas=1)
    x = tm.simulate(alone, np.zeros((count, 1)), protocol, engine="xla").raw[:, 0, 0]
    powers = np.stack([x**p for p in ORDERS], 1)
    with jax.enable_x64(True):
        xi = jnp.asarray(np.random.default_rng(5).normal(size=(3, count, 1)))
        seen = noisy_moments(jnp.full((count, 1), h), [jnp.zeros((1, 1))], exact(), xi, 1 / 8)
        still = noisy_moments(jnp.full((1, 1), h), [jnp.zeros((1, 1))], exact(), None, 1 / 8)
        drawn = 8 * (np.stack(seen.moments, 1)[:, :, 0] - np.stack(still.moments, 1)[0, :, 0])
    for sample in (powers - powers.mean(0), drawn):
        products = sample[:, :, None] * sample[:, None, :]
        exactly = covariance(h)
        error = products.std(0) / np.sqrt(count)
        assert (np.abs(products.mean(0) - exactly) < 4.5 * error + 2e-3 * np.abs(exactly)).all()


def covariance(h: float) -> np.ndarray:
    """From the moments of order 1 to 8 of an uncoupled node."""
    dynamics = tm.Dynamics()
    alone = tm.Reservoir(np.zeros((1, 1)), np.zeros((1, 1)), np.array([h]), dynamics)
    protocol = tm.Protocol(n_replicas=np.inf, orders=tuple(range(1, 9)))
    m = tm.simulate(alone, np.zeros((1, 1)), protocol, engine="meanfield").raw[0, :, 0]
    return np.array([[m[p + q - 1] - m[p - 1] * m[q - 1] for q in ORDERS] for p in ORDERS])


def test_the_factor_survives_tables_whose_covariance_is_not_positive() -> None:
    table = node_tables(tm.Dynamics(), 1.0, LARGEST_DRIVE)
    sound = noise_factor(table, ORDERS)
    moments = table.moments.copy()
    moments[:, 5] *= 1 + 1e-7 * np.sin(np.arange(len(moments)))
    C = np.array([[moments[:, p + q - 1] - moments[:, p - 1] * moments[:, q - 1] for q in ORDERS] for p in ORDERS])
    assert np.linalg.eigvalsh(np.moveaxis(C, 2, 0)).min() < 0
    L = noise_factor(replace(table, moments=moments), ORDERS)
    variance, lifted = ((F**2).sum(2) for F in (sound, L))
    np.testing.assert_allclose(lifted, variance, rtol=1e-3)


def test_a_mirrored_drive_mirrors_odd_orders() -> None:
    with jax.enable_x64(True):
        h, W = jnp.asarray(reservoir().drive(IMAGES)), jnp.asarray(reservoir().W)
        one, other = (noisy_moments(sign * h, [W], exact(), None, 0.0).moments for sign in (1, -1))
    for p, a, b in zip(ORDERS, one, other, strict=True):
        np.testing.assert_allclose(b, (-1) ** p * np.asarray(a), rtol=1e-12)


def test_look_up_reads_the_tables_and_their_slopes() -> None:
    table = node_tables(tm.Dynamics(), 1.0, LARGEST_DRIVE)
    with jax.enable_x64(True):
        h = jnp.asarray(table.h[1:-1])
        found, back = jax.vjp(lambda h: look_up(exact().end, h), h)
        np.testing.assert_allclose(found[0], table.moments[1:-1, 0], rtol=1e-5, atol=1e-6)
        slopes = back([jnp.ones_like(h), *[jnp.zeros_like(h)] * (len(found) - 1)])[0]
    np.testing.assert_allclose(slopes, table.slope[1:-1, 0], rtol=2e-3)


def test_orders_whose_noise_is_not_tabulated_are_refused() -> None:
    with pytest.raises(ValueError, match="`orders` must be at most 4"):
        training_curves(tm.Dynamics(), 1.0, (1, 6))


def test_reservoirs_side_by_side_have_the_moments_of_each_alone() -> None:
    rng, sizes = np.random.default_rng(4), (7, 4)
    with jax.enable_x64(True):
        h = [jnp.asarray(rng.normal(0, 3, (5, n))) for n in sizes]
        W = [jnp.asarray(tm.Reservoir.draw(n, 1, s_W=0.5, seed=n).W) for n in sizes]
        xi = [jnp.asarray(rng.normal(0, 1, (len(ORDERS), 5, n))) for n in sizes]
        both = noisy_moments(jnp.concatenate(h, 1), W, exact(), jnp.concatenate(xi, 2), 0.2).moments
        alone = [noisy_moments(h[i], [W[i]], exact(), xi[i], 0.2).moments for i in (0, 1)]
    for k, found in enumerate(both):
        np.testing.assert_allclose(found, np.concatenate([one[k] for one in alone], 1), atol=1e-12)
