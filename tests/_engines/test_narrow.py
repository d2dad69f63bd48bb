"""Products of some samples with a narrow matrix: every kernel, and where they are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.kernels import KERNELS, built
from thermoment._engines import narrow, xla_calls
from thermoment._engines.narrow import pays, product, sums


# Classes that fill tiles of ten and of five, and some that do not; the same of features and vectors, and of samples.
@built
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("B", "F", "C"), [(1, 3, 1), (9, 64, 10), (7, 77, 16), (4, 37, 5), (6, 130, 23)])
def test_products_are_those_of_the_samples(
    kernel: str, B: int, F: int, C: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of n products in float32, in any order, err by at most n 2^-24 of the sum of their absolute values."""
    monkeypatch.setattr(narrow, "KERNEL", KERNELS[kernel])
    rng = np.random.default_rng(F)
    x, weights, error = (rng.normal(size=n).astype(np.float32) for n in ((20, F), (C, F), (C, B)))
    first = 11
    part = x[first : first + B]
    for found, left, right in (
        (product(jnp.asarray(x), first, B, jnp.asarray(weights)), weights, part.T),
        (sums(jnp.asarray(x), first, jnp.asarray(error)), error, part),
    ):
        off = np.abs(np.asarray(found, np.float64) - left.astype(np.float64) @ right.astype(np.float64))
        assert np.all(off <= 1.01 * (left.shape[1] + 1) * 2.0**-24 * (np.abs(left) @ np.abs(right)))


@built
def test_the_first_sample_may_be_known_only_when_the_program_runs() -> None:
    x, weights = (np.random.default_rng(1).normal(size=n).astype(np.float32) for n in ((12, 8), (3, 8)))
    each = jax.jit(lambda x, w: jax.lax.map(lambda first: product(x, 4 * first, 4, w), jnp.arange(3)))(x, weights)
    whole = product(jnp.asarray(x), 0, 12, jnp.asarray(weights))
    np.testing.assert_array_equal(np.concatenate(list(each), axis=1), whole)


@built
def test_it_pays_for_few_classes_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert pays(10)
    assert not pays(narrow.MOST_CLASSES + 1)
    monkeypatch.setattr(xla_calls, "KERNEL", -1)
    assert not pays(10)
