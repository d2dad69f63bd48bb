"""Moments: central moments, standard errors, features, files."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import thermoment as tm
from thermoment.moments import Products


def of(x: NDArray[np.float64], orders: tuple[int, ...], first_id: int = 0) -> tm.Moments:
    """Moments of given states (S, M, N)."""
    raw = np.stack([(x**p).mean(axis=1) for p in orders], axis=1)
    ids = np.arange(len(x), dtype=np.uint64) + np.uint64(first_id)
    return tm.Moments(raw, orders, x.shape[1], ids, tm.Info("none", "made up", 0, 1, 0.5))


STATES = np.random.default_rng(0).gamma(2.0, size=(3, 500, 4)) - 1.0


class TestCentral:
    @pytest.mark.parametrize("q", range(1, 9))
    def test_against_the_states(self, q: int) -> None:
        expected = stats.moment(STATES, q, axis=1)
        np.testing.assert_allclose(of(STATES, tuple(range(1, 9))).central(q), expected, rtol=1e-9, atol=1e-12)

    def test_missing_orders_are_named(self) -> None:
        with pytest.raises(ValueError, match=r"order 4 needs the raw moments of order 3, .* orders=\(1, 2, 3, 4\)"):
            of(STATES, (1, 2, 4)).central(4)

    def test_the_papers_decomposition_of_m4(self) -> None:
        """m4 = mu4 + 4 mean mu3 + 6 mean^2 mu2 + mean^4, and m2 = mu2 + mean^2."""
        moments = of(STATES, (1, 2, 3, 4))
        mean, mu2, mu3, mu4 = moments.order(1), *(moments.central(q) for q in (2, 3, 4))
        np.testing.assert_allclose(mu2 + mean**2, moments.order(2), rtol=1e-13)
        np.testing.assert_allclose(mu4 + 4 * mean * mu3 + 6 * mean**2 * mu2 + mean**4, moments.order(4), rtol=1e-12)


class TestStandardError:
    def test_against_the_sample_standard_deviation(self) -> None:
        moments = of(STATES, (1, 2, 4, 8))
        for p in (1, 2, 4):
            expected = (STATES**p).std(axis=1, ddof=1) / np.sqrt(500)
            np.testing.assert_allclose(moments.standard_error(p), expected, rtol=1e-9)

    def test_it_is_the_scatter_of_real_runs(self) -> None:
        """Over 400 samples with the same input and other noise, m_p scatters by its standard error.

        The ratio's own standard error is sqrt(kurtosis + 2) / 2 / sqrt(400), about 4 per cent; five of those allowed.
        """
        node = tm.Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
        protocol = tm.Protocol(dt=1e-2, n_replicas=128, orders=(1, 2, 4, 8))
        moments = tm.simulate(node, np.ones((400, 1)), protocol)
        for p in (1, 2, 4):
            scatter = moments.order(p).std(ddof=1)
            assert scatter / moments.standard_error(p).mean() == pytest.approx(1, abs=0.2)

    def test_needs_twice_the_order(self) -> None:
        with pytest.raises(ValueError, match=r"standard error of order 4 needs .* order 8, .* orders=\(1, 2, 4, 8\)"):
            of(STATES, (1, 2, 4)).standard_error(4)
        with pytest.raises(ValueError, match="orders above 8 are not sampled"):
            of(STATES, (1, 2, 4, 8)).standard_error(8)

    def test_one_replica_has_none(self) -> None:
        with pytest.raises(ValueError, match="`n_replicas` must be at least 2"):
            of(STATES[:, :1], (1, 2)).standard_error(1)

    def test_infinitely_many_have_zero(self) -> None:
        limit = tm.Moments(np.ones((2, 1, 3)), (1,), math.inf, np.arange(2, dtype=np.uint64), tm.Info("", "", 0, 1, 0))
        assert not limit.standard_error(1).any()


class TestMeanAndVariance:
    def test_against_the_states(self) -> None:
        moments = of(STATES, (1, 2))
        np.testing.assert_allclose(moments.mean, STATES.mean(axis=1), rtol=1e-12)
        np.testing.assert_allclose(moments.variance, STATES.var(axis=1), rtol=1e-12)

    def test_missing_orders_are_named(self) -> None:
        with pytest.raises(ValueError, match="The mean needs the raw moments of order 1"):
            _ = of(STATES, (2,)).mean
        with pytest.raises(ValueError, match="The variance needs the raw moments of order 2"):
            _ = of(STATES, (1,)).variance


PAIRS = ((0, 2), (3, 1))


def with_pairs(x: NDArray[np.float64], orders: tuple[int, ...] = (1, 2)) -> tm.Moments:
    """Moments of given states (S, M, N), with those of `PAIRS`."""
    a, b = x[..., [0, 3]], x[..., [2, 1]]
    raw = np.stack([term.mean(axis=1) for term in (a * b, a**2 * b, a * b**2, (a * b) ** 2)], axis=1)
    return replace(of(x, orders), products=Products(PAIRS, raw))


class TestPairs:
    def test_against_the_states(self) -> None:
        moments = with_pairs(STATES)
        a, b = STATES[..., [0, 3]], STATES[..., [2, 1]]
        moved = (a - a.mean(axis=1, keepdims=True)) * (b - b.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(moments.joint, (a * b).mean(axis=1), rtol=1e-12)
        np.testing.assert_allclose(moments.joint_error, (a * b).std(axis=1, ddof=1) / np.sqrt(500), rtol=1e-9)
        np.testing.assert_allclose(moments.covariance, moved.mean(axis=1), atol=1e-13)
        np.testing.assert_allclose(moments.covariance_error, moved.std(axis=1, ddof=1) / np.sqrt(500), rtol=1e-9)
        assert moments.pairs == PAIRS

    def test_features_end_with_them_if_asked(self) -> None:
        moments = with_pairs(STATES)
        assert np.array_equal(moments.features(), of(STATES, (1, 2)).features())
        assert np.array_equal(moments.features((2,), pairs=True), np.hstack([moments.order(2), moments.joint]))

    def test_a_file_keeps_them_to_the_last_bit(self, tmp_path: Path) -> None:
        saved = with_pairs(STATES)
        saved.save(tmp_path / "m.safetensors")
        loaded = tm.Moments.load(tmp_path / "m.safetensors")
        assert loaded.pairs == PAIRS
        assert loaded.joint.tobytes() == saved.joint.tobytes()
        assert loaded.covariance_error.tobytes() == saved.covariance_error.tobytes()

    def test_without_pairs_there_is_no_covariance(self) -> None:
        assert of(STATES, (1, 2)).pairs == ()
        with pytest.raises(ValueError, match="have no pairs of nodes"):
            _ = of(STATES, (1, 2)).covariance

    def test_it_says_how_many(self) -> None:
        assert repr(with_pairs(STATES)).endswith("engine='none', 2 pairs)")


class TestFeatures:
    def test_order_major(self) -> None:
        moments = of(STATES, (1, 2, 4))
        features = moments.features()
        assert features.shape == (3, 12)
        for k, p in enumerate((1, 2, 4)):
            assert np.array_equal(features[:, 4 * k : 4 * k + 4], moments.order(p))
        assert np.array_equal(moments.features((1, 4)), features[:, [0, 1, 2, 3, 8, 9, 10, 11]])

    def test_missing_order(self) -> None:
        with pytest.raises(ValueError, match=r"These features needs? the raw moments of order 3"):
            of(STATES, (1, 2, 4)).features((1, 3))
        with pytest.raises(ValueError, match=r"`p` must be one of the orders \(1, 2, 4\)"):
            of(STATES, (1, 2, 4)).order(3)

    def test_concatenation_puts_reservoirs_side_by_side(self) -> None:
        a, b = of(STATES, (1, 2)), of(STATES[:, :, :3], (1, 2))
        joint = tm.concatenate([a, b])
        assert np.array_equal(joint, np.hstack([a.features(), b.features()]))
        assert np.array_equal(tm.concatenate([a, b], orders=(2,)), np.hstack([a.order(2), b.order(2)]))

    def test_other_samples_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"`reservoirs\[1\]` must have the sample ids of reservoirs\[0\]"):
            tm.concatenate([of(STATES, (1, 2)), of(STATES, (1, 2), first_id=7)])
        with pytest.raises(ValueError, match="`reservoirs` must hold at least one Moments"):
            tm.concatenate([])


def test_it_prints_as_one_line_without_arrays() -> None:
    assert repr(of(STATES, (1, 2, 4))) == "Moments(S=3, orders=(1, 2, 4), N=4, n_replicas=500, engine='none')"
    heat = tm.Observed(np.zeros(3), np.ones(3), 500)
    assert repr(heat) == "Observed(S=3, n_replicas=500)"
    assert repr(replace(of(STATES, (1,)), observed={"heat": heat})).endswith("engine='none', observed=['heat'])")


class TestFiles:
    @pytest.mark.parametrize("n_replicas", [128, math.inf])
    def test_round_trip_to_the_last_bit(self, tmp_path: Path, n_replicas: float) -> None:
        info = tm.Info("xla", "asked for", 3, 1000, 0.1 + 0.2)
        ids = np.array([2**64 - 1, 0, 5], np.uint64)
        saved = tm.Moments(of(STATES, (1, 2, 4)).raw, (1, 2, 4), n_replicas, ids, info)
        saved.save(tmp_path / "m.safetensors")
        loaded = tm.Moments.load(tmp_path / "m.safetensors")
        assert loaded.raw.tobytes() == saved.raw.tobytes()
        assert loaded.sample_ids.tobytes() == ids.tobytes()
        assert (loaded.orders, loaded.n_replicas, loaded.info) == (saved.orders, saved.n_replicas, info)
