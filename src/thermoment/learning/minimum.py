"""The minimum of a smooth convex function by L-BFGS, as a loop that JAX compiles: nothing goes to the host meanwhile.

What is known of the inverse Hessian H comes from the last steps s_i and from the changes y_i of the gradient along
them. S and Y are the matrices whose rows are all s_i and y_i, oldest first. R is the upper triangle of S Y^T, D its
diagonal, and gamma = s y / y y of the last step. In the compact form of Byrd, Nocedal and Schnabel

    H g = gamma (g - Y^T u) + S^T R^-T (D u + gamma Y (Y^T u - g))            with R u = S g
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

MEMORY = 10
"""Steps that are remembered."""
_OVERSHOT = 0.9
"""A step is too long where the loss rises at its end as steeply as this part of how it fell at its start."""
_ROUNDING = 1e-6
"""By this part a loss in float32 may rise although the step is good."""
_MOST_TRIALS = 12
"""Of the lengths of one step."""

Function = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""The value and the gradient (n,) at a point (n,)."""


class Found(NamedTuple):
    """Where the search ended."""

    point: jax.Array
    gradient: jax.Array
    evaluations: jax.Array


class _Memory(NamedTuple):
    """The last steps, oldest first; zero where there were fewer."""

    S: jax.Array
    """(m, n)"""
    Y: jax.Array
    """(m, n)"""
    R: jax.Array
    """(m, m), upper triangular; 1 on the diagonal where there is no step"""
    YY: jax.Array
    """(m, m)"""
    gamma: jax.Array

    @classmethod
    def empty(cls, n: int, kind: Any) -> "_Memory":
        none, square = jnp.zeros((MEMORY, n), kind), jnp.zeros((MEMORY, MEMORY), kind)
        return cls(none, none, jnp.eye(MEMORY, dtype=kind), square, jnp.ones((), kind))

    def add(self, s: jax.Array, y: jax.Array) -> "_Memory":
        """With one more step, without the oldest."""
        S, Y = (jnp.concatenate([rows[1:], new[None]]) for rows, new in ((self.S, s), (self.Y, y)))
        along, change = (S * y).sum(1), (Y * y).sum(1)
        return _Memory(S, Y, _shifted(self.R, along), _shifted(self.YY, change, change), along[-1] / change[-1])

    def newton(self, g: jax.Array) -> jax.Array:
        """H g: (n,)."""
        solve = jax.scipy.linalg.solve_triangular
        Sg, Yg = (self.S * g).sum(1), (self.Y * g).sum(1)
        u = solve(self.R, Sg)
        v = solve(self.R, jnp.diagonal(self.R) * u + self.gamma * (self.YY @ u - Yg), trans=1)
        return self.gamma * (g - u @ self.Y) + v @ self.S


class _Trial(NamedTuple):
    """A point tried along a direction."""

    length: jax.Array
    """in units of the direction"""
    value: jax.Array
    gradient: jax.Array
    good: jax.Array
    tries: jax.Array


class _State(NamedTuple):
    point: jax.Array
    value: jax.Array
    gradient: jax.Array
    memory: _Memory
    evaluations: jax.Array
    stuck: jax.Array


def minimise(function: Function, start: jax.Array, largest_gradient: float, most: int) -> Found:
    """From `start` (n,) to where no component of the gradient is above `largest_gradient`.

    function: convex, scaled so that its Hessian is about 1: the first step is the gradient
    most: evaluations; then, or where rounding hides the way down, the search ends where it is
    """

    def unfinished(state: _State) -> jax.Array:
        return (jnp.abs(state.gradient).max() > largest_gradient) & ~state.stuck & (state.evaluations < most)

    def step(state: _State) -> _State:
        direction = -state.memory.newton(state.gradient)
        falls = state.gradient @ direction

        def attempt(last: _Trial) -> _Trial:
            # The slope at the end says where it would be zero, if it changed evenly.
            rises = last.gradient @ direction
            shorter = last.length * jnp.clip(falls / (falls - rises), 0.1, 0.5)
            length = jnp.where(last.tries > 0, shorter, last.length)
            value, gradient = function(state.point + length * direction)
            good = gradient @ direction <= -_OVERSHOT * falls
            good &= value <= state.value + _ROUNDING * jnp.abs(state.value)
            return _Trial(length, value, gradient, good, last.tries + 1)

        none, full = jnp.zeros((), jnp.int32), jnp.ones((), falls.dtype)
        first = _Trial(full, state.value, state.gradient, none > 0, none)
        found = jax.lax.while_loop(lambda one: ~one.good & (one.tries < _MOST_TRIALS), attempt, first)
        s, y = found.length * direction, found.gradient - state.gradient
        return _State(
            jnp.where(found.good, state.point + s, state.point),
            jnp.where(found.good, found.value, state.value),
            jnp.where(found.good, found.gradient, state.gradient),
            state.memory.add(s, y),
            state.evaluations + found.tries,
            ~found.good | (s @ y <= 0),
        )

    value, gradient = function(start)
    memory = _Memory.empty(start.size, start.dtype)
    first = _State(start, value, gradient, memory, jnp.ones((), jnp.int32), jnp.zeros((), bool))
    last: _State = jax.lax.while_loop(unfinished, step, first)
    return Found(last.point, last.gradient, last.evaluations)


def _shifted(square: jax.Array, column: jax.Array, row: jax.Array | None = None) -> jax.Array:
    """A square without its first row and column, with a new last column, and a new last row or zeros."""
    kept = jnp.roll(square, (-1, -1), (0, 1))
    kept = kept.at[-1].set(0.0 if row is None else row)
    return kept.at[:, -1].set(column)
