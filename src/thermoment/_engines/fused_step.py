"""One Euler step of `xla` on an NVIDIA GPU as one kernel, written in Pallas: all but the product W x.

XLA by itself computes Philox anew for every normal number that it takes from a call of it, or writes the noise to
memory and reads it back. Here a thread makes a call and moves all four nodes that it is for.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from thermoment._engines.jax_noise import normal_pair

_CELLS = 512
"""Groups of four nodes that a block of threads moves."""
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))


def fused_step(
    x: jax.Array,
    Wx: jax.Array,
    h: jax.Array,
    ids: jax.Array,
    numbers: jax.Array,
    keys: jax.Array,
    node: jax.Array,
    clip: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """x after a step, (q, r, width), and how many of its updates were beyond the clip, (q, r).

    `Wx` is mu dt W x, (q, r, width); h is mu dt h, (q, width); `numbers` are the step and the first replica; `node` is
    linear, cubic and sigma of every column, (3, width). Columns are ordered as in `xla`: the four nodes of a group are
    a quarter of the width apart. On a CPU Pallas interprets the kernel, which is for tests.
    """
    q, r, width = x.shape
    cells = q * r * width // 4
    words = jnp.stack([ids.astype(jnp.uint32), (ids >> np.uint64(32)).astype(jnp.uint32)])
    kernel = pl.pallas_call(
        partial(_kernel, replicas=r, width=width, cells=cells),
        grid=(pl.cdiv(cells, _CELLS),),
        out_shape=(_shape(4 * cells, x.dtype), _shape(cells, jnp.int8)),
        input_output_aliases={0: 0},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=jax.default_backend() == "cpu",
    )
    y, beyond = kernel(
        x.reshape(-1),
        Wx.reshape(-1),
        h.reshape(-1),
        words.reshape(-1),
        numbers.astype(jnp.uint32),
        (keys >> np.uint64(32)).astype(jnp.uint32).reshape(-1),
        node.reshape(-1),
        clip.reshape(1),
    )
    return y.reshape(x.shape), beyond.reshape(q, r, -1).sum(axis=-1, dtype=jnp.uint32)


def _shape(length: int, dtype: Any) -> Any:
    return jax.ShapeDtypeStruct((length,), dtype)  # type: ignore[no-untyped-call]


def _kernel(
    x_in: Any,
    Wx: Any,
    h: Any,
    ids: Any,
    numbers: Any,
    keys: Any,
    node: Any,
    clip: Any,
    x_out: Any,
    beyond_out: Any,
    *,
    replicas: int,
    width: int,
    cells: int,
) -> None:
    groups, samples = width // 4, ids.shape[0] // 2
    cell = pl.program_id(0) * _CELLS + jnp.arange(_CELLS, dtype=jnp.int32)
    inside = cell < cells
    row, group = cell // groups, cell % groups
    sample = row // replicas
    limit = clip[0]

    def load(ref: Any, index: jax.Array) -> jax.Array:
        return triton.load(ref.at[index], mask=inside, other=0)

    place = (numbers[1] + (row % replicas).astype(jnp.uint32)) * np.uint32(4096) + group.astype(jnp.uint32)
    words = (jnp.full_like(place, numbers[0]), place, load(ids, sample), load(ids, samples + sample))
    a, b, c, d = _philox(*words, keys)
    first, second = normal_pair(a, b, np.dtype(np.float32)), normal_pair(c, d, np.dtype(np.float32))
    beyond = jnp.zeros_like(cell)
    for quarter, xi in enumerate((first[0], second[0], first[1], second[1])):
        column = quarter * groups + group
        linear, cubic, sigma = (load(node, k * width + column) for k in range(3))
        x = load(x_in, row * width + column)
        y = x + (x * (linear + cubic * x * x) + load(h, sample * width + column) + load(Wx, row * width + column))
        y = y + sigma * xi
        beyond += (jnp.abs(y) > limit).astype(jnp.int32)
        triton.store(x_out.at[row * width + column], jnp.clip(y, -limit, limit), mask=inside)
    triton.store(beyond_out.at[cell], beyond.astype(jnp.int8), mask=inside)


def _philox(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array, keys: Any) -> tuple[jax.Array, ...]:
    """`noise.philox` on single words: products of 32 by 32 bits are one instruction of a GPU, of 64 by 64 bits four."""
    M0, M1 = _MULTIPLIERS
    for n in range(10):
        from_a, from_c = a.astype(jnp.uint64) * M0, c.astype(jnp.uint64) * M1
        a, b = _high(from_c) ^ b ^ keys[2 * n], from_c.astype(jnp.uint32)
        c, d = _high(from_a) ^ d ^ keys[2 * n + 1], from_a.astype(jnp.uint32)
    return a, b, c, d


def _high(product: jax.Array) -> jax.Array:
    return (product >> np.uint64(32)).astype(jnp.uint32)
