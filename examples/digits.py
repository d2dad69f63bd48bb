"""Classifies scikit-learn's 8x8 digits by the moments of one random, untrained reservoir: seconds, no network."""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thermoment as tm

N_TRAIN = 1297


def main() -> None:
    """Prints the test accuracy of a linear readout of m1, of m1 and m2, and of m1, m2 and m4."""
    pixels, labels = load_digits(return_X_y=True)
    reservoir = tm.Reservoir.draw(n_nodes=128, n_inputs=64, seed=20260611)
    protocol = tm.Protocol(dt=5e-3, n_replicas=32)
    moments = tm.simulate(reservoir, pixels / 16, protocol, progress=True)
    print(f"{len(labels)} images in {moments.info.seconds:.1f} s, {moments.info.clip_count} updates clipped")
    print(f"engine {moments.info.engine}, {moments.info.choice}")
    for orders in ((1,), (1, 2), (1, 2, 4)):
        features = moments.features(orders)
        readout = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
        readout.fit(features[:N_TRAIN], labels[:N_TRAIN])
        correct = round(readout.score(features[N_TRAIN:], labels[N_TRAIN:]) * len(labels[N_TRAIN:]))
        print(f"orders {orders!s:9}  {correct} of {len(labels[N_TRAIN:])} test digits right")


if __name__ == "__main__":
    main()
