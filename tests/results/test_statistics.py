"""Statistics against closed forms, SciPy, brute force and the paper's own counts."""

import math

import numpy as np
import pytest
from scipy import stats

from thermoment.results import paper
from thermoment.results.statistics import Interval, Pair, holm, mcnemar, paired, spread, wilson


class TestMcNemar:
    def test_the_papers_counts_give_the_papers_p(self) -> None:
        (found,) = paper.MCNEMAR.values()
        assert round(mcnemar(found.a_only_wrong, found.b_only_wrong), 4) == 0.2792
        assert round(mcnemar(found.a_only_wrong, found.b_only_wrong), 3) == found.p

    @pytest.mark.parametrize(("a", "b"), [(0, 1), (3, 3), (7, 2), (2, 7), (68, 55), (900, 1100), (0, 40)])
    def test_is_the_exact_binomial_test(self, a: int, b: int) -> None:
        assert mcnemar(a, b) == pytest.approx(stats.binomtest(a, a + b).pvalue, rel=1e-11)

    def test_nothing_discordant(self) -> None:
        assert mcnemar(0, 0) == 1.0

    def test_thousands_of_terms_neither_overflow_nor_fail(self) -> None:
        assert mcnemar(20_000, 20_000) == 1.0
        assert mcnemar(0, 5_000) == 0.0
        assert mcnemar(0, 1_000) == 2.0**-999

    def test_refuses_negative_counts(self) -> None:
        with pytest.raises(ValueError, match="`b_only_wrong` must be an integer from 0"):
            mcnemar(1, -1)


class TestPair:
    WRONG_A = np.array([0, 0, 0, 1, 1, 1, 1, 0], bool)
    WRONG_B = np.array([0, 0, 1, 1, 1, 0, 1, 1], bool)
    PAIR = Pair.of(WRONG_A, WRONG_B)

    def test_counts(self) -> None:
        assert Pair(both_right=2, a_only_wrong=1, b_only_wrong=2, both_wrong=3) == self.PAIR
        assert (self.PAIR.wrong_a, self.PAIR.wrong_b, self.PAIR.union, self.PAIR.total) == (4, 5, 6, 8)

    def test_statistics_follow_from_the_counts(self) -> None:
        assert self.PAIR.jaccard == 0.5
        assert self.PAIR.p == mcnemar(1, 2) == 1.0
        assert self.PAIR.difference == -1 / 8

    @pytest.mark.parametrize(("names", "row"), paper.TABLE_III.items())
    def test_the_papers_counts_give_the_papers_overlaps(self, names: tuple[str, str], row: paper.Overlap) -> None:
        only_a, only_b = row.wrong_a - row.intersection, row.wrong_b - row.intersection
        pair = Pair(paper.N_TEST - row.union, only_a, only_b, row.intersection)
        assert pair.union == row.union == only_a + only_b + row.intersection
        assert pair.jaccard is not None
        assert round(pair.jaccard, 4) == row.jaccard, names

    def test_the_papers_tables_agree_with_each_other(self) -> None:
        wrong = {model.name: paper.N_TEST - correct for model, correct in paper.TABLE_I.items()}
        for (a, b), row in paper.TABLE_III.items():
            assert (row.wrong_a, row.wrong_b) == (wrong[a], wrong[b])
        for names, test in paper.MCNEMAR.items():
            row = paper.TABLE_III[names]
            assert (test.a_only_wrong, test.b_only_wrong) == (
                row.wrong_a - row.intersection,
                row.wrong_b - row.intersection,
            )
        assert all(paper.CORRECT[model] == n for table in (paper.TABLE_I, paper.TABLE_II) for model, n in table.items())

    def test_no_errors_have_no_overlap(self) -> None:
        assert Pair(5, 0, 0, 0).jaccard is None

    def test_refuses_what_is_not_a_pair_of_masks(self) -> None:
        with pytest.raises(ValueError, match=r"`wrong_b` must have shape \(8,\), but has shape \(3,\)"):
            Pair.of(self.WRONG_A, self.WRONG_B[:3])
        with pytest.raises(ValueError, match=r"`wrong_a` must be a boolean array \(S,\), but was of dtype int64"):
            Pair.of(np.array([0, 1]), np.array([True, False]))


class TestBootstrap:
    @pytest.mark.parametrize("pair", [Pair(9627, 68, 55, 250), Pair(40, 7, 1, 2), Pair(0, 5, 15, 0)])
    def test_is_what_resampling_gives(self, pair: Pair) -> None:
        """A million resamples: a quantile's probability is then known to 1.6e-4, so allow 8e-4, five of those."""
        draws = np.random.default_rng(7).multinomial(pair.total, np.array(pair) / pair.total, size=1_000_000)
        differences = (draws[:, 1] - draws[:, 2]) / pair.total
        low, high = pair.bootstrap()
        step = 1 / pair.total
        assert (differences < low - step / 2).mean() < 0.025 + 8e-4
        assert (differences < low + step / 2).mean() > 0.025 - 8e-4
        assert (differences > high + step / 2).mean() < 0.025 + 8e-4
        assert (differences > high - step / 2).mean() > 0.025 - 8e-4

    def test_resampling_masks_is_resampling_counts(self) -> None:
        """The one statistical step behind it: rows drawn from the two masks have multinomial counts."""
        rng = np.random.default_rng(3)
        wrong = rng.random((200, 2)) < [0.2, 0.35]
        low, high = Pair.of(wrong[:, 0], wrong[:, 1]).bootstrap()
        rows = rng.integers(200, size=(20_000, 200))
        differences = wrong[rows, 0].mean(1) - wrong[rows, 1].mean(1)
        # A quantile of 20000 draws moves by 0.0011 in probability, or less than one step of 1/200 in the difference.
        assert np.quantile(differences, [0.025, 0.975]) == pytest.approx([low, high], abs=1.01 / 200)

    def test_swapping_mirrors(self) -> None:
        low, high = Pair(100, 9, 4, 3).bootstrap()
        assert Pair(100, 4, 9, 3).bootstrap() == (-high, -low)

    def test_no_discordance_no_width(self) -> None:
        assert Pair(7, 0, 0, 3).bootstrap() == (0.0, 0.0)
        assert Pair(0, 4, 0, 0).bootstrap() == (1.0, 1.0)


class TestWilson:
    @pytest.mark.parametrize(("correct", "total"), [(9695, 10_000), (0, 10), (10, 10), (1, 3), (250, 500)])
    def test_is_scipys(self, correct: int, total: int) -> None:
        expected = stats.binomtest(correct, total).proportion_ci(0.95, "wilson")
        assert wilson(correct, total) == pytest.approx((expected.low, expected.high), abs=1e-14)

    def test_holds_the_truth_as_often_as_it_says(self) -> None:
        """Exactly, at S = 500 and 97 %: Wilson's coverage is within 2 per cent of 95 there; Wald's is not."""
        p, total = 0.97, 500
        k = np.arange(total + 1)
        covered = np.array([p in wilson(int(i), total) for i in k])
        assert stats.binom.pmf(k, total, p)[covered].sum() == pytest.approx(0.95, abs=0.02)
        half = 1.96 * np.sqrt(k / total * (1 - k / total) / total)
        assert stats.binom.pmf(k, total, p)[np.abs(k / total - p) < half].sum() < 0.93

    def test_ends_are_exact(self) -> None:
        assert wilson(0, 7).low == 0.0
        assert wilson(7, 7).high == 1.0

    def test_refuses_more_right_than_there_are(self) -> None:
        with pytest.raises(ValueError, match="`correct` must be an integer from 0 to 3, but was 4"):
            wilson(4, 3)
        with pytest.raises(ValueError, match="`total` must be an integer from 1"):
            wilson(0, 0)


class TestSpread:
    def test_against_scipy(self) -> None:
        values = [0.967, 0.9685, 0.9671, 0.9702, 0.9660]
        found = spread(values)
        standard_error = stats.sem(values)
        assert found.mean == pytest.approx(np.mean(values), rel=1e-15)
        assert found.sd == pytest.approx(np.std(values, ddof=1))
        assert found.ci95 == pytest.approx(stats.t.interval(0.95, 4, np.mean(values), standard_error))
        one_more = stats.t.interval(0.95, 4, np.mean(values), math.sqrt(6) * standard_error)
        assert found.range95 == pytest.approx(one_more)

    def test_one_more_run_falls_inside_95_times_in_100(self) -> None:
        """Over 4000 experiments of 5 runs and one more; the standard error of the share is 0.0034, five allowed."""
        runs = np.random.default_rng(11).normal(0.97, 0.002, size=(4000, 6))
        inside = [run[5] in (spread(run[:5]).range95 or ()) for run in runs]
        assert np.mean(inside) == pytest.approx(0.95, abs=0.017)
        too_narrow = [run[5] in (spread(run[:5]).ci95 or ()) for run in runs]
        assert np.mean(too_narrow) < 0.8

    def test_a_single_value_has_no_spread(self) -> None:
        assert spread([0.5]) == (0.5, None, None, None)

    def test_refuses_none(self) -> None:
        with pytest.raises(ValueError, match="`values` must have shape"):
            spread([])


def test_an_interval_knows_what_it_holds() -> None:
    interval = Interval(0.2, 0.4)
    assert 0.2 in interval
    assert 0.3 in interval
    assert 0.41 not in interval


def test_paired_values_are_judged_by_their_differences() -> None:
    """The t test of scipy on the differences; what two seeds have in common does not count."""
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    common = rng.normal(size=12)
    a, b = common + 0.01 * rng.normal(size=12), common + 0.02 + 0.01 * rng.normal(size=12)
    found, known = paired(a.tolist(), b.tolist()), ttest_rel(b, a)
    assert found.p == pytest.approx(known.pvalue)
    assert found.ci95 == pytest.approx(known.confidence_interval())
    assert found.mean == pytest.approx((b - a).mean())
    assert found.n == 12
    assert paired([1.0], [2.0]) == (1.0, 1, None, None)
    assert paired([1.0, 2.0], [1.0, 2.0]).p == 1.0
    assert paired([1.0, 2.0], [2.0, 3.0]).p == 0.0
    with pytest.raises(ValueError, match="`b` must have a value for each of the 2 seeds of a, but was 1"):
        paired([1.0, 2.0], [1.0])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
