"""What may be read of a node, beside NumPy's moments of the same samples; and what is refused."""

import re

import numpy as np
import pytest

import thermoment as tm
from thermoment.reads import blocks, check_reads, needed, needs_drive, pairs_of, partners

SAMPLES = np.random.default_rng(5).gamma(2.0, 0.4, (3, 4000, 2))
RAW = np.stack([(SAMPLES**p).mean(1) for p in (1, 2, 3, 4)], axis=1)
CENTRED = SAMPLES - SAMPLES.mean(1, keepdims=True)
DRIVE = np.array([[-3.0, 0.5], [0.0, 1.0], [2.0, 20.0]])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("m1", RAW[:, 0]),
        ("m4", RAW[:, 3]),
        ("mu2", SAMPLES.var(1)),
        ("mu3", (CENTRED**3).mean(1)),
        ("mu4", (CENTRED**4).mean(1)),
        ("m1^2", RAW[:, 0] ** 2),
        ("m1^4", RAW[:, 0] ** 4),
    ],
)
def test_a_word_is_that_moment_of_the_samples(word: str, expected: np.ndarray) -> None:
    np.testing.assert_allclose(blocks([word], RAW, (1, 2, 3, 4), None, tm.Dynamics()), expected, rtol=1e-6)


def test_the_stationary_point_is_where_the_force_of_the_well_vanishes() -> None:
    x = blocks(["x", "x^2", "x^4"], RAW, (1, 2, 3, 4), DRIVE, tm.Dynamics(J2=0.5, J4=2.0)).astype(np.float64)
    np.testing.assert_allclose(2 * 0.5 * x[:, :2] + 4 * 2.0 * x[:, :2] ** 3, DRIVE, atol=1e-5)
    np.testing.assert_allclose(x[:, 2:], np.hstack([x[:, :2] ** 2, x[:, :2] ** 4]), rtol=1e-5, atol=1e-12)


def test_a_node_and_its_partner() -> None:
    """E[x_i x_j] of the node that pushes it most strongly, and the product of the two means."""
    W = np.array([[9.0, 0.1, -0.3], [0.0, 9.0, 0.0], [0.2, -0.5, 9.0]])
    assert partners(W).tolist() == [2, 0, 1]
    assert W[0, 0] == 9.0
    assert pairs_of(["m1", "pair"], W) == ((0, 2), (1, 0), (2, 1))
    assert pairs_of(["m1", "means"], W) == ()
    x = np.random.default_rng(6).gamma(2.0, 0.4, (5, 400, 3))
    partner = partners(W)
    joint = (x * x[:, :, partner]).mean(1)
    raw = np.stack([x.mean(1), (x**2).mean(1), joint], axis=1)
    found = blocks(["pair", "means", "m2"], raw, (1, 2), None, tm.Dynamics(), partner)
    means = x.mean(1)
    np.testing.assert_allclose(found, np.hstack([joint, means * means[:, partner], (x**2).mean(1)]), rtol=1e-6)


def test_words_say_which_moments_they_are_made_of() -> None:
    assert needed(["m2", "mu3", "m7"]) == (1, 2, 3, 7)
    assert needed(["m1^4"]) == (1,)
    assert needed(["x", "x^2", "pair"]) == ()
    assert needed(["means"]) == (1,)
    assert [needs_drive([word]) for word in ("x^4", "m1", "mu2")] == [True, False, False]


@pytest.mark.parametrize("words", [["m0"], ["m9"], ["mu5"], ["m2^2"], ["m1", "m1"], ["variance"], [1], ["x^9"], [""]])
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape("`reads` must be words such as m1, m2, mu2 (variance)")):
        check_reads("reads", words)
