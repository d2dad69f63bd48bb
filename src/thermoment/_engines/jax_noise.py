"""The noise contract's normals in JAX: two to a complex number as a CPU likes it, in quarters as a GPU does."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Minimax polynomials in t^2 of sin(t)/t and cos(t) for |t| <= pi/4, within 3e-9 and 5e-11 of the functions.
_SIN = (0.999999997, -0.166666507, 0.00833203688, -0.00019504022)
_COS = (1.0, -0.499999996, 0.0416666167, -0.00138866192, 2.43799293e-05)
# The same of sin(t)/t for |t| <= pi/2, within 4e-9 of the sine.
_SIN_OF_HALF = (0.999999977, -0.166666476, 0.00833289982, -0.000198008976, 2.59048827e-06)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))


def box_muller(pair: jax.Array, dtype: Any) -> jax.Array:
    """The two normals of a pair of words as one complex number, r exp(i t)."""
    high, low = (pair >> 32).astype(jnp.uint32), pair.astype(jnp.uint32)
    radius = jnp.sqrt(-2 * jnp.log(high.astype(dtype) * dtype.type(2**-32) + dtype.type(2**-33)))
    if dtype == jnp.float64:
        angle = low.astype(dtype) * (2 * np.pi * 2**-32)
        return lax.complex(radius * jnp.cos(angle), radius * jnp.sin(angle))
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
    return lax.complex(radius * cos, radius * sin)


def normals_in_quarters(step: Any, replicas: jax.Array, groups: int, ids: jax.Array, keys: jax.Array) -> jax.Array:
    """All normals of one step in float32: (len(ids), len(replicas), 4 groups).

    The first quarter holds xi_4g, then come xi_4g+2, xi_4g+1 and xi_4g+3. XLA on a GPU computes the words once, in a
    kernel of their own, since they are used four times; what follows it does where the normals are used. On a GPU it
    is worth while to multiply 32 by 32 bits, which is one instruction.
    """
    shape = (len(ids), len(replicas), groups)
    words = (
        jnp.broadcast_to(step.astype(jnp.uint32), shape),
        replicas.astype(jnp.uint32)[:, None] * np.uint32(4096) + lax.broadcasted_iota(jnp.uint32, shape, 2),
        jnp.broadcast_to(ids.astype(jnp.uint32)[:, None, None], shape),
        jnp.broadcast_to(_high(ids)[:, None, None], shape),
    )
    a, b, c, d = (word[:, :, None] for word in _philox_of_words(*words, keys))
    quarter = lax.broadcasted_iota(jnp.uint32, (*shape[:2], 4, groups), 2)
    second, cosine = quarter % 2 == 1, quarter < 2
    radius = jnp.sqrt(-2 * jnp.log(_unit(jnp.where(second, c, a))))
    angle = jnp.where(second, d, b) + jnp.where(cosine, np.uint32(2**30), np.uint32(0))
    return (radius * _sine(angle)).reshape(*shape[:2], 4 * groups)


def _philox_of_words(
    a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array, keys: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """`noise.philox` on single words of 32 bits."""
    M0, M1 = _MULTIPLIERS
    for k0, k1 in keys:
        from_a, from_c = a.astype(jnp.uint64) * M0, c.astype(jnp.uint64) * M1
        a, b = _high(from_c) ^ b ^ _high(k0), from_c.astype(jnp.uint32)
        c, d = _high(from_a) ^ d ^ _high(k1), from_a.astype(jnp.uint32)
    return a, b, c, d


def _high(pair: jax.Array) -> jax.Array:
    return (pair >> 32).astype(jnp.uint32)


def _unit(word: jax.Array) -> jax.Array:
    return word.astype(jnp.float32) * np.float32(2**-32) + np.float32(2**-33)


def _sine(turn: jax.Array) -> jax.Array:
    """sin(2 pi turn / 2^32): the angle folded into |t| <= pi/2, exactly, in integers; then a polynomial."""
    folded = jnp.where(turn + np.uint32(2**30) > np.uint32(2**31), np.uint32(2**31) - turn, turn)
    t = folded.astype(jnp.int32).astype(jnp.float32) * np.float32(2 * np.pi * 2**-32)
    return t * _polynomial(_SIN_OF_HALF, t * t)


def _polynomial(coefficients: tuple[float, ...], z: jax.Array) -> jax.Array:
    value = jnp.full_like(z, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * z + z.dtype.type(c)
    return value
