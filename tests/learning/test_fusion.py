"""Late fusion: what is fitted is at its minimum, and one readout of joined features says the same as the parts."""

import numpy as np
import pytest

from thermoment.learning.fusion import calibrated, compose, stacked, temperature, weighted
from thermoment.learning.readout import Readout, Scaling, probabilities

S, C = 4000, 3
RNG = np.random.default_rng(3)
OFFSET = np.array([4.0, 0.0, -4.0])
LABELS = RNG.integers(C, size=S)


def readout(n_features: int) -> Readout:
    scaling = Scaling(RNG.normal(size=n_features), 0.5 + RNG.random(n_features))
    return Readout(RNG.normal(size=(C, n_features)), RNG.normal(size=C), scaling)


PARTS = [readout(4), readout(5)]
FEATURES = [RNG.normal(size=(S, 4)), RNG.normal(size=(S, 5))]
JOINED = np.hstack(FEATURES)


def evidence(scale: float) -> np.ndarray:
    """Logits that are right: Gaussian evidence for the true class, of log likelihood ratio `scale`."""
    return np.asarray(scale * (np.eye(C)[LABELS] + RNG.normal(size=(S, C)) / np.sqrt(scale)))


def entropy(logits: np.ndarray) -> float:
    return float(-np.log(probabilities(logits)[np.arange(S), LABELS]).mean())


def test_a_composed_readout_gives_the_sum_of_its_parts() -> None:
    maps, bias = [RNG.normal(size=(C, C)) for _ in PARTS], RNG.normal(size=C)
    expected = sum(part.logits(x) @ one.T for part, x, one in zip(PARTS, FEATURES, maps, strict=True)) + bias
    np.testing.assert_allclose(compose(PARTS, maps, bias).logits(JOINED), expected, atol=1e-10)


@pytest.mark.parametrize("T", [0.3, 1.0, 4.0])
def test_the_temperature_undoes_a_wrong_scale(T: float) -> None:
    """Gaussian evidence is calibrated, so T times it has temperature T, up to the scatter of S samples."""
    assert temperature(T * evidence(4.0), LABELS) == pytest.approx(T, rel=0.08)


def test_weights_follow_what_each_part_knows() -> None:
    """Independent evidence adds with weight 1, in whatever scale it comes; a part that knows nothing gets none."""
    logits = [evidence(3.0), 2 * evidence(2.0)]
    joined = weighted(PARTS, logits, LABELS)
    shares = [joined.weights[:, :4] / PARTS[0].weights, joined.weights[:, 4:] / PARTS[1].weights]
    np.testing.assert_allclose(shares[0], 1.0, rtol=0.1)
    np.testing.assert_allclose(shares[1], 0.5, rtol=0.1)
    noise = weighted(PARTS, [logits[0], RNG.normal(size=(S, C))], LABELS)
    np.testing.assert_allclose(noise.weights[:, 4:], 0.0, atol=0.1 * np.abs(PARTS[1].weights).max())


def test_calibrated_parts_are_averaged() -> None:
    logits = [evidence(3.0), 2 * evidence(2.0)]
    joined = calibrated(PARTS, logits, LABELS)
    scales = [1 / (2 * temperature(one, LABELS)) for one in logits]
    np.testing.assert_allclose(joined.weights[:, 4:], scales[1] * PARTS[1].weights)
    np.testing.assert_allclose(joined.bias, scales[0] * PARTS[0].bias + scales[1] * PARTS[1].bias)


def test_a_stack_sees_what_weights_cannot() -> None:
    """The second part has its classes in another order: a stack puts them right, weights leave the part out."""
    logits = [evidence(1.0), np.roll(evidence(3.0), 1, axis=1) + OFFSET]
    ones = [Readout(np.eye(C), np.zeros(C), Scaling(np.zeros(C), np.ones(C)))] * 2
    found = {
        "weighted": weighted(ones, logits, LABELS).logits(np.hstack(logits)),
        "stacked": stacked(ones, logits, LABELS, 1e-6).logits(np.hstack(logits)),
    }
    right = logits[0] + np.roll(logits[1] - OFFSET, -1, axis=1)
    assert entropy(found["stacked"]) == pytest.approx(entropy(right), abs=0.01)
    assert entropy(found["weighted"]) > entropy(right) + 0.1
