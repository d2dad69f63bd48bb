"""Products with inputs that are mostly zeros, in C++, within a program that JAX compiles for a processor.

    x K^T = sum over the inputs i that are not zero of x_i (row i of K^T)           and its derivative by K

XLA has no product that skips zeros. kernels/cpu/README.md says how these ones are computed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._engines.xla_calls import KERNEL, can_call

SMALLEST = 2**16
"""Elements of K from which on these products may pay."""
LARGEST_SHARE = 1 / 3
"""Share of the inputs that is not zero, up to which they do."""


class Sparse(NamedTuple):
    """Inputs (S, D), those that are zero left out: the inputs of sample s stand from offsets[s] to offsets[s + 1]."""

    offsets: jax.Array
    """(S + 1,)"""
    columns: jax.Array
    values: jax.Array


def pays(inputs: NDArray[np.float32], n_nodes: int) -> bool:
    """Whether products of inputs (S, D) and a K of n_nodes rows are faster here than those of XLA."""
    if not can_call() or inputs.shape[1] * n_nodes < SMALLEST:
        return False
    return int(np.count_nonzero(inputs)) < min(LARGEST_SHARE * inputs.size, 2**31)


def compressed(inputs: NDArray[np.float32]) -> Sparse:
    """Inputs (S, D) without their zeros."""
    there = inputs != 0
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))]).astype(np.int32)
    columns = np.broadcast_to(np.arange(inputs.shape[1], dtype=np.int32), inputs.shape)[there]
    return Sparse(*map(jnp.asarray, (offsets, columns, inputs[there])))


@jax.custom_vjp
def product(x: Sparse, rows: jax.Array, matrix: jax.Array) -> jax.Array:
    """Samples `rows` (B,) of x times a matrix (D, N), in float32: (B, N). A row of -1 is a sample of zeros.

    Each sum is taken by itself and in order, so that nothing but the instruction set decides on its bits.
    """
    return _call("thermoment_sparse_product", len(rows), x, rows, matrix)


def _forward(x: Sparse, rows: jax.Array, matrix: jax.Array) -> Any:
    return product(x, rows, matrix), (x, rows, matrix)


def _backward(kept: Any, slope: jax.Array) -> Any:
    x, rows, matrix = kept
    return None, None, _call("thermoment_sparse_transposed_product", len(matrix), x, rows, slope)


product.defvjp(_forward, _backward)


def _call(name: str, n_rows: int, x: Sparse, rows: jax.Array, matrix: jax.Array) -> jax.Array:
    result = jax.ShapeDtypeStruct((n_rows, matrix.shape[1]), jnp.float32)  # type: ignore[no-untyped-call]
    return jnp.asarray(jax.ffi.ffi_call(name, result)(*x, rows, matrix, kernel=np.int32(KERNEL)))
