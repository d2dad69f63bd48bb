"""The noise contract's normals in JAX: two to a complex number as a CPU likes it, each by itself as a GPU does."""

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


def normals_in_groups(step: Any, replicas: jax.Array, groups: int, ids: jax.Array, keys: jax.Array) -> jax.Array:
    """All normals of one step in float32, node by node, with keys of 32 bits: (len(ids), len(replicas), 4 groups).

    Every element is computed by itself from the words of its group. A thread of XLA's kernels on a GPU does four
    neighbouring elements, which are a group, and the compiler sees that their words are the same: Philox runs once. So
    nothing but x and W x goes through memory in a step. A multiplication of 32 by 32 bits is one instruction on a GPU.
    """
    shape = (len(ids), len(replicas), groups, 4)
    place = lax.broadcasted_iota(jnp.uint32, shape, 3)
    # XLA does not know that this is 0. It would make a kernel of its own of each part of Philox that is the same for
    # several nodes, and starting these takes longer than what they save.
    zero = place >> np.uint32(31)
    words = (
        zero + step.astype(jnp.uint32),
        zero
        + (replicas.astype(jnp.uint32) * np.uint32(4096))[:, None, None]
        + lax.broadcasted_iota(jnp.uint32, shape, 2),
        zero + ids.astype(jnp.uint32)[:, None, None, None],
        zero + high_words(ids)[:, None, None, None],
    )
    a, b, c, d = _philox_of_words(*words, keys)
    second, cosine = place >= 2, place % 2 == 0
    radius = jnp.sqrt(-2 * jnp.log(_unit(jnp.where(second, c, a))))
    angle = jnp.where(second, d, b) + jnp.where(cosine, np.uint32(2**30), np.uint32(0))
    return (radius * _sine(angle)).reshape(*shape[:2], 4 * groups)


def _philox_of_words(
    a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array, keys: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """`noise.philox` on single words of 32 bits, with keys (rounds, 2) of 32 bits."""
    M0, M1 = _MULTIPLIERS
    for k0, k1 in keys:
        from_a, from_c = a.astype(jnp.uint64) * M0, c.astype(jnp.uint64) * M1
        a, b = high_words(from_c) ^ b ^ k0, from_c.astype(jnp.uint32)
        c, d = high_words(from_a) ^ d ^ k1, from_a.astype(jnp.uint32)
    return a, b, c, d


def high_words(pair: jax.Array) -> jax.Array:
    """The upper 32 bits of each uint64."""
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
