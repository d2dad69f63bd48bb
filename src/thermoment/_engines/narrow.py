"""Products of a block of samples with a narrow matrix, in C++, within a program that JAX compiles for a processor.

    M x^T, the answers of a linear readout        M x, the gradient by its weights        M has a row for each class

kernels/cpu/README.md says how they are computed, and how much faster they are than those of XLA.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thermoment._engines.xla_calls import KERNEL, can_call

MOST_CLASSES = 32
"""Rows of M up to which these products are faster than those of XLA."""


def pays(n_classes: int) -> bool:
    """Whether products with a matrix of so many rows are faster here than those of XLA."""
    return n_classes <= MOST_CLASSES and can_call()


def product(x: jax.Array, first: Any, n_rows: int, matrix: jax.Array) -> jax.Array:
    """A matrix (C, F) times samples `first` to `first` + n_rows - 1 of x (S, F): (C, n_rows). All are float32."""
    return _call("thermoment_narrow_product", (len(matrix), n_rows), x, first, matrix)


def sums(x: jax.Array, first: Any, matrix: jax.Array) -> jax.Array:
    """A matrix (C, B) times samples `first` to `first` + B - 1 of x (S, F): (C, F). All are float32."""
    return _call("thermoment_narrow_sums", (len(matrix), x.shape[1]), x, first, matrix)


def _call(name: str, shape: tuple[int, int], x: jax.Array, first: Any, matrix: jax.Array) -> jax.Array:
    result = jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(name, result)
    return jnp.asarray(call(x, jnp.asarray(first, jnp.int32), matrix, kernel=np.int32(KERNEL)))
