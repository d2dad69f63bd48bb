"""Drives of a reservoir with a trained K, for the accuracy scan: by the static surrogate, on scikit-learn's digits.

    python studies/trained_drives.py [--out studies/results/trained-drives.json]

The head reads [x*, x*^2, x*^4] with x* the stationary point of the paper's well at h = K I + b, and Adam trains both.
The drives of three images are kept.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import thermoment as tm
from thermoment._support.host import describe

HERE = Path(__file__).parent

NODES, IMAGES = 256, 3
EPOCHS, BATCH, RATE, SEED = 60, 128, 3e-3, 1


def stationary_point(h: jax.Array) -> jax.Array:
    """The root of 2 x + 4 x^3 = h."""
    a = jnp.sqrt(1 / 6)
    return 2 * a * jnp.sinh(jnp.arcsinh(h / (8 * a**3)) / 3)


def loss(parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross-entropy of the linear head on the surrogate's features."""
    x = stationary_point(images @ parameters["K"].T + parameters["b"])
    logits = jnp.concatenate([x, x**2, x**4], axis=1) @ parameters["head"] + parameters["offset"]
    losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses.mean()


def train(images: Any, labels: Any) -> tuple[np.ndarray[Any, Any], float]:
    """Drives (S, N) of the trained reservoir and the share of images its surrogate gets right."""
    drawn = tm.Reservoir.draw(NODES, images.shape[1], seed=SEED)
    parameters = {
        "K": jnp.asarray(drawn.K),
        "b": jnp.asarray(drawn.b),
        "head": jnp.zeros((3 * NODES, 10)),
        "offset": jnp.zeros(10),
    }
    optimiser = optax.adam(RATE)
    state = optimiser.init(parameters)

    @jax.jit
    def step(parameters: Any, state: Any, batch: Any, wanted: Any) -> Any:
        updates, state = optimiser.update(jax.grad(loss)(parameters, batch, wanted), state)
        return optax.apply_updates(parameters, updates), state

    rng = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            part = order[start : start + BATCH]
            parameters, state = step(parameters, state, images[part], labels[part])
    h = np.asarray(images @ parameters["K"].T + parameters["b"], np.float64)
    x = stationary_point(jnp.asarray(h))
    logits = jnp.concatenate([x, x**2, x**4], axis=1) @ parameters["head"] + parameters["offset"]
    return h, float((logits.argmax(axis=1) == labels).mean())


def main() -> None:
    """Trains and writes the drives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    h, right = train(images / 16.0, labels)
    print(f"{right:.4f} right, strongest drive {np.abs(h).max():.3g}")
    result = {"machine": describe(checkout=HERE), "right": right, "drives": h[:IMAGES].round(4).tolist()}
    if options.out:
        options.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
