"""The noise contract's normals in JAX, from words to pairs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Minimax polynomials in t^2 of sin(t)/t and cos(t) for |t| <= pi/4, within 3e-9 and 5e-11 of the functions.
_SIN = (0.999999997, -0.166666507, 0.00833203688, -0.00019504022)
_COS = (1.0, -0.499999996, 0.0416666167, -0.00138866192, 2.43799293e-05)


def box_muller(pair: jax.Array, dtype: Any) -> jax.Array:
    """The two normals of a pair of words as one complex number, r exp(i t)."""
    return lax.complex(*normal_pair((pair >> 32).astype(jnp.uint32), pair.astype(jnp.uint32), dtype))


def normal_pair(high: jax.Array, low: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """The two normals of two words, r cos(t) and r sin(t)."""
    radius = jnp.sqrt(-2 * jnp.log(high.astype(dtype) * dtype.type(2**-32) + dtype.type(2**-33)))
    if dtype == jnp.float64:
        angle = low.astype(dtype) * (2 * np.pi * 2**-32)
        return radius * jnp.cos(angle), radius * jnp.sin(angle)
    # The angle is a whole number of quarter turns, exact in integers, plus a rest within pi/4, of which sine and cosine
    # are short polynomials.
    quarter = (low + jnp.uint32(2**29)) >> 30
    rest = (low - (quarter << 30)).astype(jnp.int32).astype(dtype) * dtype.type(2 * np.pi * 2**-32)
    sin = rest * _polynomial(_SIN, rest * rest)
    cos = _polynomial(_COS, rest * rest)
    odd = quarter % 2 == 1
    sin, cos = jnp.where(odd, cos, sin), jnp.where(odd, sin, cos)
    sin = jnp.where(quarter >= 2, -sin, sin)
    cos = jnp.where((quarter == 1) | (quarter == 2), -cos, cos)
    return radius * cos, radius * sin


def _polynomial(coefficients: tuple[float, ...], z: jax.Array) -> jax.Array:
    value = jnp.full_like(z, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * z + z.dtype.type(c)
    return value
