"""Steps that are repeated until nothing moves any more, for every sample by itself, as a loop that JAX compiles."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOST_ROUNDS = 100


def iterate(
    steps: Any,
    start: jax.Array,
    tolerance: float,
    most: float = np.inf,
    rows: int | None = None,
    rounds: int = MOST_ROUNDS,
) -> jax.Array:
    """Repeats steps(state) = (after one step, after two steps) until another step would not move a sample any more.

    Successive steps shrink by a constant ratio r = second / first, so the next one would be second * r. We use this
    prediction to stop early, but only once the first step is no larger than `most`. Only the leading `rows` of the
    state are compared. A sample that has converged is left alone, so its result does not depend on the other samples;
    a sample that does not converge becomes NaN. Axis 1 of the state counts samples.
    """

    def body(carry: Any) -> Any:
        state, moving, n = carry
        one, two = steps(state)
        first, second = (jnp.abs(new - old)[:rows].max(axis=(0, 2)) for new, old in ((one, state), (two, one)))
        still = ~((second <= tolerance) | ((second * second <= tolerance * first) & (first <= most)))
        return jnp.where(moving[:, None], two, state), moving & still, n + 2

    def going(carry: Any) -> Any:
        _, moving, n = carry
        return moving.any() & (n < rounds)

    state, moving, _ = lax.while_loop(going, body, (start, jnp.ones(start.shape[1], bool), 0))
    return jnp.where(moving[:, None], jnp.nan, state)
