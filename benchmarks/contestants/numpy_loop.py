"""The recursion as a loop over NumPy arrays: as the equations stand, and with care."""

import numpy as np
from problem import CLIP, DT, ORDERS, SIGMA, Array, M, N, W


def plain(h: Array, n_steps: int) -> Array:
    """As the equations stand, in NumPy's default float64."""
    rng = np.random.default_rng(1)
    x = np.zeros((len(h), M, N))
    for _ in range(n_steps):
        force = -2 * x - 4 * x**3 + h[:, None] + x @ W.T
        x = np.clip(x + DT * force + SIGMA * rng.standard_normal(x.shape), -CLIP, CLIP)
    return np.stack([(x**p).mean(axis=1) for p in ORDERS], axis=1)


def careful(h: Array, n_steps: int) -> Array:
    """The same in float32, without general powers, one sample at a time, temporaries reused."""
    rng = np.random.default_rng(1)
    coupling = (DT * W.T).astype(np.float32)
    moments = np.empty((len(h), len(ORDERS), N))
    noise = np.empty((M, N), np.float32)
    for s, push in enumerate((DT * h).astype(np.float32)):
        x = np.zeros((M, N), np.float32)
        for _ in range(n_steps):
            rng.standard_normal(dtype=np.float32, out=noise)
            noise *= np.float32(SIGMA)
            noise += push
            noise += x @ coupling
            x += x * (np.float32(-2 * DT) - np.float32(4 * DT) * x * x)
            x += noise
            np.clip(x, -CLIP, CLIP, out=x)
        moments[s] = [(x**p).mean(axis=0) for p in ORDERS]
    return moments
