"""L-BFGS as a compiled loop: it finds known minima, shortens steps that are too long, and says where it ended."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from thermoment.learning.minimum import MEMORY, minimise

A = np.random.default_rng(3).normal(size=(60, 40))
HESSIAN, CENTRE = A.T @ A / 60 + 0.1 * np.eye(40), np.linspace(-1, 1, 40)


def quadratic(x: Any) -> Any:
    slope = HESSIAN @ (x - CENTRE)
    return slope @ (x - CENTRE) / 2, slope


def walls(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Steep enough for a whole step from 0 to go far too long; its minimum is at 1."""
    return jnp.cosh(6 * (x - 1)).sum(), 6 * jnp.sinh(6 * (x - 1))


def test_the_minimum_of_a_quadratic_in_about_as_many_steps_as_scipy() -> None:
    with jax.enable_x64(True):
        found = jax.jit(lambda start: minimise(quadratic, start, 1e-8, 500))(jnp.zeros(40))
        np.testing.assert_allclose(found.point, CENTRE, atol=1e-6)
        np.testing.assert_allclose(found.gradient, quadratic(found.point)[1], atol=1e-14)
    options = {"maxcor": MEMORY, "gtol": 1e-8, "ftol": 0.0}
    theirs = minimize(quadratic, np.zeros(40), jac=True, method="L-BFGS-B", options=options)
    assert found.evaluations < 1.3 * theirs.nfev


def test_a_step_that_goes_too_far_is_shortened() -> None:
    with jax.enable_x64(True):
        found = minimise(walls, jnp.linspace(0.0, 0.5, 5), 1e-8, 500)
        np.testing.assert_allclose(found.point, 1.0, atol=1e-8)


def test_a_search_ends_after_its_evaluations_and_where_nothing_is_finite() -> None:
    with jax.enable_x64(True):
        assert 3 <= int(minimise(quadratic, jnp.zeros(40), 1e-8, 3).evaluations) <= 4
        lost = minimise(lambda x: (jnp.where(x.sum() < 0, jnp.nan, x.sum()), jnp.ones(2)), jnp.zeros(2), 1e-8, 500)
        np.testing.assert_array_equal(lost.point, 0.0)
        assert int(lost.evaluations) < 20
