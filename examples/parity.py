"""Parity of four noisy signs: a linear classifier learns it from a reservoir's moments, not from the signs. Seconds.

The inputs are four numbers near -1 or 1, and the class is the sign of their product. Whatever three of them are, the
fourth decides, so a weighted sum of the inputs is right half of the time. A weighted sum of the moments can be right
always, since every node responds to its drive in a nonlinear way.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import thermoment as tm


def compare(n_samples: int = 600) -> dict[str, float]:
    """Test accuracy of logistic regression by what it sees. Half of the samples are for training, half for the test."""
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], (n_samples, 4))
    labels = signs.prod(axis=1) > 0
    inputs = signs + rng.normal(0.0, 0.2, signs.shape)
    reservoir = tm.Reservoir.draw(n_nodes=128, n_inputs=4, s_K=4, s_b=2, seed=1)
    moments = tm.simulate(reservoir, inputs, tm.Protocol(dt=0.01, n_replicas=64))
    seen = {
        "raw inputs": inputs,
        "m1 (mean of x)": moments.features((1,)),
        "m1, m2, m4": moments.features(),
    }
    half = n_samples // 2
    return {
        name: LogisticRegression(max_iter=1000).fit(x[:half], labels[:half]).score(x[half:], labels[half:])
        for name, x in seen.items()
    }


def main() -> None:
    """Prints the test accuracies."""
    print("Is the product of four noisy signs positive? Right answers of a linear classifier that sees the")
    for name, accuracy in compare().items():
        print(f"  {name:15} {accuracy:6.1%}")


if __name__ == "__main__":
    main()
