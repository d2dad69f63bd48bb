"""The equation solved by diffrax, as its documentation shows for Euler steps and an ensemble: vmap over keys.

The Brownian motion is the one made for fixed steps, which is the faster. diffrax cannot clip x after a step; at the
paper's drives no update comes near the clip.
"""

from typing import Any

import diffrax  # type: ignore[import-not-found,unused-ignore]
import jax
import jax.numpy as jnp
import lineax  # type: ignore[import-not-found,unused-ignore]
import numpy as np
from problem import DT, KT, ORDERS, Array, M, N, W


def ensemble(h: Array, n_steps: int) -> Array:
    keys = jax.random.split(jax.random.key(1), (len(h), M))
    return np.asarray(_moments(jnp.asarray(h), keys, n_steps * DT))


@jax.jit
def _moments(h: jax.Array, keys: jax.Array, t_final: float) -> jax.Array:
    x = jax.vmap(jax.vmap(_path, in_axes=(None, 0, None)), in_axes=(0, 0, None))(h, keys, t_final)
    return jnp.stack([(x**p).mean(axis=1) for p in ORDERS], axis=1)


def _path(h: jax.Array, key: jax.Array, t_final: float) -> jax.Array:
    """x(t_final) of one replica: (N,)."""
    noise = diffrax.ControlTerm(_diffusion, diffrax.UnsafeBrownianPath(shape=(N,), key=key))
    solution = diffrax.diffeqsolve(
        diffrax.MultiTerm(diffrax.ODETerm(_drift), noise),
        diffrax.Euler(),
        t0=0.0,
        t1=t_final,
        dt0=DT,
        y0=jnp.zeros(N),
        args=h,
        saveat=diffrax.SaveAt(t1=True),
        adjoint=diffrax.ForwardMode(),
    )
    last: jax.Array = solution.ys[0]
    return last


def _drift(_t: Any, x: jax.Array, h: jax.Array) -> jax.Array:
    return -2 * x - 4 * x**3 + h + jnp.asarray(W) @ x


def _diffusion(_t: Any, _x: jax.Array, _h: jax.Array) -> Any:
    return lineax.DiagonalLinearOperator(jnp.full(N, np.sqrt(2 * KT)))
