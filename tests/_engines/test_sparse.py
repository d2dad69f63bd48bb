"""Products with inputs that are mostly zeros: every kernel, their derivative, and where they are used."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.kernels import KERNELS, built
from thermoment._engines import sparse
from thermoment._engines.sparse import compressed, pays, product

Array = np.ndarray[Any, np.dtype[Any]]


def some_inputs(S: int, D: int, share: float = 0.2) -> Array:
    """With samples and columns of nothing but zeros."""
    rng = np.random.default_rng(D)
    x = np.where(rng.random((S, D)) < share, rng.normal(size=(S, D)), 0).astype(np.float32)
    x[:, D // 2] = x[S // 2] = x[-1] = 0
    return x


def of_rows(x: Array, rows: Array) -> Array:
    """The samples of a batch in float64, zeros where there is none."""
    return np.where(rows[:, None] >= 0, x[rows], 0).astype(np.float64)


# Nodes that fill blocks of 16, 8 and 4 vectors, single ones, and none.
@built
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("N", [3, 64, 261, 350])
def test_products_are_those_of_the_whole_matrix(kernel: str, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of n products in float32, in any order, err by at most n 2^-24 of the sum of their absolute values."""
    monkeypatch.setattr(sparse, "KERNEL", KERNELS[kernel])
    x, rng = some_inputs(40, 30), np.random.default_rng(N)
    rows = np.array([7, -1, 20, 39, 0, 7, 38, -1], np.int32)
    batch = of_rows(x, rows)
    K, slope = rng.normal(size=(30, N)).astype(np.float32), rng.normal(size=(8, N)).astype(np.float32)
    found, derivative = jax.vjp(lambda K: product(compressed(x), jnp.asarray(rows), K), jnp.asarray(K))
    (by_K,) = derivative(jnp.asarray(slope))
    for one, left, right in ((found, batch, K), (by_K, batch.T, slope)):
        off = np.abs(np.asarray(one, np.float64) - left @ right.astype(np.float64))
        assert np.all(off <= 1.01 * (left.shape[1] + 1) * 2.0**-24 * (np.abs(left) @ np.abs(right)))
    assert not np.asarray(found)[[1, 2, 3, 7]].any()
    assert not np.asarray(by_K)[15].any()


@built
def test_bits_of_a_sample_depend_neither_on_its_batch_nor_on_other_nodes() -> None:
    x, K = some_inputs(40, 30), np.random.default_rng(1).normal(size=(30, 261)).astype(np.float32)
    whole = np.asarray(product(compressed(x), jnp.arange(40, dtype=jnp.int32), jnp.asarray(K)))
    part = np.asarray(product(compressed(x), jnp.array([17, 3], jnp.int32), jnp.asarray(K[:, :100])))
    np.testing.assert_array_equal(part, whole[[17, 3], :100])


@built
def test_nothing_but_zeros_and_batches_of_nothing() -> None:
    x, K = np.zeros((3, 5), np.float32), jnp.ones((5, 4))
    for rows in ([0, 1, 2], [-1, -1]):
        found, derivative = jax.vjp(lambda K, rows=rows: product(compressed(x), jnp.array(rows, jnp.int32), K), K)
        np.testing.assert_array_equal(found, np.zeros((len(rows), 4)))
        np.testing.assert_array_equal(derivative(found + 1)[0], np.zeros((5, 4)))


@built
def test_it_pays_for_many_weights_and_few_inputs_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = some_inputs(50, 256, 0.3), some_inputs(50, 256, 0.4)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert pays(few, 256)
    assert not pays(few, 255)
    assert not pays(many, 256)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not pays(few, 256)
