"""Answers and what sampling noise does to them, judged by readings made one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from support.digits_by_hand import DIGITS
from thermoment.data.drawing import draw
from thermoment.machines.answers import Answers, answer
from thermoment.machines.pretrained import pretrained

IMAGES = np.array([draw(DIGITS[digit]).ravel() for digit in (1, 8)])


@pytest.mark.slow
def test_readings_differ_by_their_noise_alone() -> None:
    machine = replace(pretrained("mnist"), engine="meanfield")
    found = answer(machine, IMAGES, 4)
    assert found.readings.shape == (4, 2, 10)
    assert len({reading.tobytes() for reading in found.readings}) == 4
    np.testing.assert_array_equal(answer(machine, IMAGES, 4).readings, found.readings)
    np.testing.assert_array_equal(found.labels, [1, 8])
    usual = machine.predict_proba(IMAGES, sample_ids=np.arange(2))
    assert not any(np.array_equal(reading, usual) for reading in found.readings)
    still = replace(machine, protocol=replace(machine.protocol, n_replicas=math.inf))
    assert answer(still, IMAGES, 3).spread.max() < 1e-15
    with pytest.raises(ValueError, match="`readings` must be an integer from 1"):
        answer(machine, IMAGES, 0)


def test_spread_and_agreement_by_hand() -> None:
    found = Answers(np.array([[[0.6, 0.4]], [[0.4, 0.6]], [[0.8, 0.2]]]))
    assert (found.labels.tolist(), found.agreement.tolist()) == ([0], [2])
    np.testing.assert_allclose(found.spread, [[0.2, 0.2]])
    told = found.plain(("no", "yes"), np.array([1]))
    assert told["readings"] == 3
    (row,) = told["answers"]
    assert {key: row[key] for key in ("class", "is", "agreement")} == {"class": "no", "is": "yes", "agreement": 2}
    assert row["probabilities"] == {"no": 0.6, "yes": 0.4}
    assert Answers(found.readings[:1]).spread.tolist() == [[0, 0]]
