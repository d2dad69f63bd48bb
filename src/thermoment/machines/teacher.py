"""A teacher for path training: a layered network whose units answer as a node in its well does.

    u = A I + a        s = x*(hidden u) / x*(hidden)        z = V s + v

x*(h) is where a node rests under the field h. So the fields that the teacher asks of a student with H hidden and C
output nodes, `hidden` * u and `output` * z, are ones that a student can have: the first is linear in the input, the
second linear in where the hidden nodes come to rest.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_fields, check_labels, invalid, quoted
from thermoment.learning.batches import batches
from thermoment.physics import Dynamics, stationary_point

Array = NDArray[np.float64]

# Logits are this times z: fields of the right and the wrong classes then differ by a few times `output`.
_SHARPNESS = 4.0
# Penalties of the squares of A and V, and of z, which keeps a few samples from asking for huge fields.
_SQUARES, _LARGE = 1e-4, 0.01


@dataclass(frozen=True)
class Teaching:
    """What a teacher is, and how it is trained.

    Args:
        n_hidden: H.
        hidden: the field on a hidden node for u = 1. The stronger it is beside `output`, the less the output nodes push
            back on the hidden ones, which a symmetric coupling makes them do.
        output: the field on an output node for z = 1.
        epochs: passes through the samples.
        batch: samples a step.
        rate: of Adam; it falls to zero along a cosine.
        seed: of the first weights and of the order of samples.
    """

    n_hidden: int = 64
    hidden: float = 200.0
    output: float = 90.0
    epochs: int = 12
    batch: int = 250
    rate: float = 4e-3
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {"n_hidden": (1, 10**4), "epochs": (1, 10**6), "batch": (1, 2**31), "seed": (0, 2**32 - 1)}
        check_fields(self, positive=("hidden", "output", "rate"), integers=limits)


@dataclass(frozen=True, eq=False)
class Teacher:
    """Fields for a student, from inputs."""

    A: Array
    """(H, D)"""
    a: Array
    """(H,)"""
    V: Array
    """(C, H)"""
    v: Array
    """(C,)"""
    dynamics: Dynamics
    teaching: Teaching = field(default_factory=Teaching)

    def fields(self, inputs: ArrayLike) -> Array:
        """The field wanted on every node of a student: (S, H + C) for inputs (S, D)."""
        X = check_array("inputs", inputs, ("S", self.A.shape[1]))
        u, z = _answer({"A": self.A, "a": self.a, "V": self.V, "v": self.v}, X, self.dynamics, self.teaching, np)
        return np.concatenate([self.teaching.hidden * u, self.teaching.output * z], axis=1)

    def predict(self, inputs: ArrayLike) -> NDArray[np.int64]:
        """The class of each input, that with the highest z: (S,)."""
        return np.asarray(self.fields(inputs)[:, len(self.A) :].argmax(axis=1), np.int64)


def train_teacher(
    inputs: ArrayLike, labels: ArrayLike, dynamics: Dynamics, teaching: Teaching | None = None
) -> Teacher:
    """A teacher trained by Adam on the cross-entropy of the classes.

    Args:
        inputs: (S, D), one sample a row.
        labels: (S,), class numbers from 0.
        dynamics: the well of the student's nodes.
        teaching: sizes and training.
    """
    teaching = Teaching() if teaching is None else teaching
    if not isinstance(dynamics, Dynamics):
        raise invalid("dynamics", "be a thermoment.Dynamics", quoted(dynamics))
    if not isinstance(teaching, Teaching):
        raise invalid("teaching", "be a thermoment.Teaching", quoted(teaching))
    X = check_array("inputs", inputs, ("S", "D")).astype(np.float32)
    y = check_labels("labels", labels, len(X))
    rng, H, C = np.random.default_rng(teaching.seed), teaching.n_hidden, int(y.max()) + 1
    width = float(np.sqrt((X**2).sum(axis=1).mean())) or 1.0  # so that u is of order 1 in the beginning
    weights: dict[str, Any] = {
        "A": jnp.asarray(rng.normal(0, 1 / width, (H, X.shape[1])), jnp.float32),
        "a": jnp.zeros(H),
        "V": jnp.asarray(rng.normal(0, 1 / np.sqrt(H), (C, H)), jnp.float32),
        "v": jnp.zeros(C),
    }

    def loss(weights: dict[str, Any], X: Any, y: Any) -> Any:
        _, z = _answer(weights, X, dynamics, teaching, jnp)
        wrong = optax.softmax_cross_entropy_with_integer_labels(_SHARPNESS * z, y).mean()
        return wrong + _LARGE * (z**2).mean() + _SQUARES * ((weights["A"] ** 2).sum() + (weights["V"] ** 2).sum())

    n_steps = teaching.epochs * -(-len(X) // teaching.batch)
    optimiser = optax.adam(optax.cosine_decay_schedule(teaching.rate, n_steps))
    state = optimiser.init(weights)

    @jax.jit
    def update(weights: dict[str, Any], state: Any, X: Any, y: Any) -> Any:
        change, state = optimiser.update(jax.grad(loss)(weights, X, y), state)
        return optax.apply_updates(weights, change), state

    for epoch in batches(len(X), min(teaching.batch, len(X)), teaching.epochs, rng):
        for rows in epoch:
            chosen = rows[rows >= 0]
            weights, state = update(weights, state, X[chosen], y[chosen])
    arrays = {name: np.asarray(part, np.float64) for name, part in weights.items()}
    return Teacher(**arrays, dynamics=dynamics, teaching=teaching)


def _answer(weights: dict[str, Any], X: Any, dynamics: Dynamics, teaching: Teaching, xp: Any) -> tuple[Any, Any]:
    """u (S, H) and z (S, C)."""
    u = X @ weights["A"].T + weights["a"]
    s = stationary_point(teaching.hidden * u, dynamics, xp) / float(dynamics.stationary_point(teaching.hidden))
    return u, s @ weights["V"].T + weights["v"]
