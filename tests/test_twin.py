"""The referee: without bias whatever its twin, far less noise with the right one, and it catches a wrong moment."""

import math
from functools import cache

import numpy as np
import pytest

import thermoment as tm
from thermoment import twin as module
from thermoment.twin import Refereed, referee

INPUTS = np.random.default_rng(0).uniform(0, 2, (3, 8))
PROTOCOL = tm.Protocol(dt=1e-3, t_final=1.0, n_replicas=64, orders=(1, 2, 4))


def network(s_W: float) -> tm.Reservoir:
    return tm.Reservoir.draw(n_nodes=32, n_inputs=8, s_W=s_W, s_K=1.5, seed=4, stream=3)


@cache
def found(s_W: float, batches: int = 16) -> Refereed:
    return referee(network(s_W), INPUTS, PROTOCOL, batches=batches)


@cache
def plain(s_W: float) -> tuple[np.ndarray, np.ndarray]:
    """Moments of many replicas with noise of their own, and their standard errors."""
    protocol = tm.Protocol(dt=1e-3, t_final=1.0, n_replicas=8192, orders=(1, 2, 4, 8), seed=99)
    moments = tm.simulate(network(s_W), INPUTS, protocol)
    return moments.raw[:, :3], np.stack([moments.standard_error(p) for p in (1, 2, 4)], axis=1)


def worst(one: np.ndarray, other: np.ndarray, error: np.ndarray) -> float:
    """The mean square of the difference in standard errors, less 1, in its own standard deviations."""
    z = (one - other) / error
    return float((np.mean(z**2) - 1) * math.sqrt(z.size / 2))


@pytest.mark.parametrize(("s_W", "least"), [(0.1, 300), (0.2, 100)])
def test_far_fewer_replicas_are_needed(s_W: float, least: float) -> None:
    assert min(found(s_W).gain.values()) > least
    assert found(s_W).gain.keys() == {1, 2, 4}


@pytest.mark.parametrize("s_W", [0.1, 1.0, 2.0])
@pytest.mark.filterwarnings("ignore:The coupling is strong")
def test_it_has_the_moments_of_plain_sampling(s_W: float) -> None:
    moments, error = plain(s_W)
    judged = found(s_W)
    both = np.sqrt(error**2 + judged.standard_error**2)
    assert abs(worst(judged.moments, moments, both)) < 4


@pytest.mark.filterwarnings("ignore:The coupling is strong")
def test_meanfields_error_is_told_where_it_is_seen_and_not_where_it_is_not() -> None:
    weak, strong = found(0.1), found(2.0, 96)
    for p in (1, 2, 4):
        assert weak.error[p] < 1.5e-3
        assert strong.error[p] > 3 * strong.resolution[p]
        assert strong.meanfield.info.error is not None
        assert 0.2 < strong.error[p] / strong.meanfield.info.error[p] < 5


def test_wrong_drives_cost_the_gain_and_nothing_else() -> None:
    wrong = np.full((3, 32), 0.3)
    other = referee(network(0.1), INPUTS, PROTOCOL, batches=16, drives=wrong)
    assert max(other.gain.values()) < 10
    both = np.sqrt(other.standard_error**2 + found(0.1).standard_error ** 2)
    assert abs(worst(other.moments, found(0.1).moments, both)) < 4


def test_a_wrong_moment_of_the_twin_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tm.simulate

    def shifted(reservoir: tm.Reservoir, *rest: object, **options: object) -> tm.Moments:
        moments = real(reservoir, *rest, **options)  # type: ignore[arg-type]
        if options.get("engine") == "meanfield" and reservoir.n_inputs == 32:
            moments.raw[:] += 0.01
        return moments

    monkeypatch.setattr(module, "simulate", shifted)
    moments, error = plain(0.1)
    judged = referee(network(0.1), INPUTS, PROTOCOL, batches=16)
    both = np.sqrt(error**2 + judged.standard_error**2)
    assert abs(worst(judged.moments, moments, both)) > 8


def test_features_are_in_the_order_of_moments() -> None:
    judged = found(0.1)
    assert judged.features().shape == (3, 3 * 32)
    np.testing.assert_array_equal(judged.features()[:, 32:64], judged.moments[:, 1])
    np.testing.assert_allclose(judged.features(), judged.meanfield.features(), atol=0.01)


def test_bad_arguments_are_refused_before_work() -> None:
    for change, message in (
        ({"batches": 1}, "`batches` must be an integer from 2"),
        ({"sample_ids": [0, 1, 2**40]}, r"`sample_ids` must be below 2\^40"),
        ({"drives": np.zeros((3, 4))}, r"`drives` must have shape \(3, 32\)"),
        ({"engine": "meanfield"}, "`engine` must be one that samples"),
    ):
        with pytest.raises(ValueError, match=message):
            referee(network(0.1), INPUTS, PROTOCOL, **change)
