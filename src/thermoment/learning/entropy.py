"""The cross-entropy of a linear readout over all samples, and its derivatives, as a fit to convergence reads them.

A GPU takes all blocks of samples at the same time. A processor takes one after the other: each is read twice, and stays
in a cache meanwhile. There the products are in C++ where that pays (`_engines/narrow.py`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from thermoment._engines import narrow

_ROWS_IN_BLOCK = 1024
"""Samples of one matrix product on an accelerator."""
_ROWS_IN_CACHE = 512
"""Samples of one matrix product of XLA on a processor."""
_NUMBERS_IN_CACHE = 2**17
"""Features of all samples of one product in C++: half a megabyte."""

Sums = tuple[jax.Array, jax.Array, jax.Array]
"""Over samples: log p of the right class, and minus its derivatives by the weights (C, F) and by the bias (C,)."""
Entropy = Callable[[jax.Array, jax.Array], Sums]
"""`Sums` at weights (F, C) and bias (C,). Derivatives are written by hand: JAX's own take four times as long."""


def entropy_at_once(x: jax.Array, target: jax.Array) -> Entropy:
    """For an accelerator: all blocks of rows at the same time."""
    missing = -len(x) % _ROWS_IN_BLOCK
    x_blocks, target_blocks = (
        jnp.pad(rows, ((0, missing), (0, 0))).reshape(-1, _ROWS_IN_BLOCK, rows.shape[1]) for rows in (x, target)
    )

    def sums(weights: jax.Array, bias: jax.Array) -> Sums:
        def of_block(x: jax.Array, target: jax.Array) -> Sums:
            log_p = jax.nn.log_softmax(jnp.matmul(x, weights, precision="highest") + bias)
            error = jnp.exp(log_p) * target.sum(1, keepdims=True) - target
            return (log_p * target).sum(), jnp.matmul(error.T, x, precision="highest"), error.sum(0)

        log_p, slope, offset = (part.sum(0) for part in jax.vmap(of_block)(x_blocks, target_blocks))
        return log_p, slope, offset

    return sums


def entropy_in_turn(x: jax.Array, target: jax.Array) -> Entropy:
    """For a processor: one block of rows after the other, each read once into a cache, classes before samples."""
    in_cpp = narrow.pays(target.shape[1])
    size = min(len(x), max(16, _NUMBERS_IN_CACHE // x.shape[1] // 4 * 4) if in_cpp else _ROWS_IN_CACHE)
    n_blocks, rest = divmod(len(x), size)
    classes_first = target.T

    def product(by_class: jax.Array, first: Any, n_rows: int) -> jax.Array:
        if in_cpp:
            return narrow.product(x, first, n_rows, by_class)
        part = jax.lax.dynamic_slice_in_dim(x, first, n_rows)
        return jnp.einsum("cf,bf->cb", by_class, part, precision="highest")

    def slope(error: jax.Array, first: Any) -> jax.Array:
        if in_cpp:
            return narrow.sums(x, first, error)
        part = jax.lax.dynamic_slice_in_dim(x, first, error.shape[1])
        return jnp.einsum("cb,bf->cf", error, part, precision="highest")

    def sums(weights: jax.Array, bias: jax.Array) -> Sums:
        by_class = stored(weights.T, at_once=False)

        def of_block(first: Any, n_rows: int) -> Sums:
            target = jax.lax.dynamic_slice_in_dim(classes_first, first, n_rows, 1)
            log_p = jax.nn.log_softmax(product(by_class, first, n_rows) + bias[:, None], axis=0)
            error = jnp.exp(log_p) * target.sum(0) - target
            return (log_p * target).sum(), slope(error, first), error.sum(1)

        def add(number: Any, before: Sums) -> Sums:
            log_p, slope, offset = map(jnp.add, before, of_block(number * size, size))
            return log_p, slope, offset

        found: Sums = jax.lax.fori_loop(0, n_blocks, add, of_block(n_blocks * size, rest))
        return found

    return sums


def stored(matrix: jax.Array, at_once: bool) -> jax.Array:
    """The matrix. On a processor it is stored as it is, and not transposed by XLA within the product that takes it.

    Two fits go on at a time there, and such products of XLA are wrong at times while other threads are busy: a block of
    the result is made of another block of the factor (docs/log.md).
    """
    return matrix if at_once else jax.lax.optimization_barrier(matrix)  # type: ignore[no-untyped-call]
