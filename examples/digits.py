"""Handwritten digits by a reservoir whose input weights are trained: half a minute, most of it compilation.

The 1797 images of 8 x 8 pixels come with scikit-learn. Training follows gradients of the moments at the reading time,
for slightly distorted copies of the images. The accuracy is measured by sampling the trained machine.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import thermoment as tm
from thermoment.learning.finite_time.train import train
from thermoment.learning.options import Distortion, FiniteTime
from thermoment.machines.classifier import Classifier

N_TRAIN = 1297


def compare(epochs: int = 20) -> dict[str, float]:
    """Test accuracy on the last 500 images: logistic regression on pixels, and the trained machine."""
    pixels, labels = load_digits(return_X_y=True)
    pixels /= 16  # from 0 to 1
    ids = np.arange(len(labels))
    for_training, for_test = ids[:N_TRAIN], ids[N_TRAIN:]
    by_pixels = LogisticRegression(C=10, max_iter=1000).fit(pixels[for_training], labels[for_training])

    protocol = tm.Protocol(dt=5e-3, n_replicas=32)
    distortion = Distortion(rotation=0.08, scale=0.05, shear=0.05, shift=0.25, elastic=0.12, smoothness=2.0)
    trained = train(
        [tm.Reservoir.draw(n_nodes=64, n_inputs=64, seed=20260611)],
        pixels[for_training],
        labels[for_training],
        protocol,
        FiniteTime(epochs=epochs, batch_size=64, learning_rate=1e-2, distortion=distortion),
        image_shape=(8, 8),
    )
    machine = Classifier({"K1": trained.reservoirs[0]}, protocol, (trained.readout,))
    found = machine.predict(pixels[for_test], sample_ids=for_test)
    return {
        "logistic regression on raw pixels": by_pixels.score(pixels[for_test], labels[for_test]),
        "one trained reservoir of 64 nodes": float((found == labels[for_test]).mean()),
    }


def main() -> None:
    """Prints the test accuracies."""
    print("500 test digits, right answers:")
    for name, accuracy in compare().items():
        print(f"  {name:34} {accuracy:6.1%}")


if __name__ == "__main__":
    main()
