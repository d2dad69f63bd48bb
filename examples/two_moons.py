"""Two moons: no straight line separates them, but a linear classifier of a reservoir's moments does. Seconds.

A point of the plane drives 64 coupled nodes. The moments of the nodes after a fixed time are nonlinear functions of the
point, and their weighted sums can follow the curved border between the two classes.
"""

from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thermoment as tm


def compare(n_points: int = 1000) -> dict[str, float]:
    """Test accuracy of logistic regression by what it sees. Half of the points are for training, half for the test."""
    points, labels = make_moons(n_points, noise=0.15, random_state=1)
    reservoir = tm.Reservoir.draw(n_nodes=64, n_inputs=2, s_K=3, s_b=1, seed=1)
    moments = tm.simulate(reservoir, points, tm.Protocol(dt=0.01, n_replicas=128))
    seen = {
        "raw coordinates": points,
        "m1 (mean of x)": moments.features((1,)),
        "m1, m2, m4": moments.features(),
    }
    half = n_points // 2
    return {
        name: make_pipeline(StandardScaler(), LogisticRegression(C=10, max_iter=1000))
        .fit(x[:half], labels[:half])
        .score(x[half:], labels[half:])
        for name, x in seen.items()
    }


def main() -> None:
    """Prints the test accuracies."""
    print("Which moon is a point of? Right answers of a linear classifier that sees the")
    for name, accuracy in compare().items():
        print(f"  {name:16} {accuracy:6.1%}")


if __name__ == "__main__":
    main()
