"""The perceptron: it learns what no linear readout can, the same way twice, and sees other images when distorted."""

import numpy as np
import pytest

from thermoment.learning import perceptron
from thermoment.learning.options import Distortion

RNG = np.random.default_rng(1)
SIGNS = RNG.choice([-1.0, 1.0], (512, 2))
X = np.hstack([SIGNS, np.zeros((512, 2))]) + 0.1 * RNG.normal(size=(512, 4))
Y = (SIGNS[:, 0] * SIGNS[:, 1] > 0).astype(np.int64)
HOW = {"epochs": 40, "batch_size": 64, "learning_rate": 0.02, "seed": 7}


def test_it_learns_the_product_of_two_signs() -> None:
    found = perceptron.train(X, Y, 16, **HOW)  # type: ignore[arg-type]
    assert (found.predict(X) == Y).mean() == 1.0
    again = perceptron.train(X, Y, 16, **HOW)  # type: ignore[arg-type]
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_distorted_images_teach_something_else() -> None:
    short = {**HOW, "epochs": 2}
    plain = perceptron.train(X, Y, 8, **short)  # type: ignore[arg-type]
    still, moved = (
        perceptron.train(X, Y, 8, **short, distortion=Distortion(shift=shift), shape=(2, 2))  # type: ignore[arg-type]
        for shift in (0.0, 1.0)
    )
    np.testing.assert_allclose(still.U, plain.U, atol=1e-5)
    assert np.abs(moved.U - plain.U).max() > 1e-2
