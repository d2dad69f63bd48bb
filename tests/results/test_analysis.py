"""results.json's numbers from predictions: by hand, for the paper's counts, and in any order."""

import json
import random
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from thermoment.results import paper
from thermoment.results.analysis import analyse, summarise
from thermoment.results.codec import plain
from thermoment.results.naming import ModelKey, all_orders, label, paper_models
from thermoment.results.results import Accuracy, Difference, Overlap, PairedTest
from thermoment.results.statistics import wilson

LABELS = np.arange(400) % 10
Predictions = Mapping[ModelKey, NDArray[np.int64]]


def predictions(reservoirs: tuple[str, ...], orders: tuple[int, ...] = (1, 2, 4), rate: float = 0.2) -> Predictions:
    """The paper's models with both readouts, wrong at random: a sample in five."""
    rng = np.random.default_rng(1)
    models = [m for fit in ("sgd", "converged") for m in paper_models(reservoirs, orders, fit)]
    return {m: np.where(rng.random(400) < rate, (LABELS + 1) % 10, LABELS) for m in models}


def pairs(rows: Sequence[PairedTest | Difference | Overlap], readout: str = "sgd") -> list[tuple[str, str]]:
    return [(row.a, row.b) for row in rows if row.readout == readout]


class TestThreeReservoirs:
    PREDICTIONS = predictions(("K1", "K2", "K3"))
    RESULTS = analyse(LABELS, PREDICTIONS, {"K1": 8, "K2": 8, "K3": 16})

    def test_accuracy_rows_are_the_papers_models_in_the_papers_order(self) -> None:
        found = [row.model for row in self.RESULTS.accuracy]
        assert found == [m for fit in ("sgd", "converged") for m in paper_models(("K1", "K2", "K3"), (1, 2, 4), fit)]

    def test_accuracy_of_every_row(self) -> None:
        for row in self.RESULTS.accuracy:
            right = sum(int(p == y) for p, y in zip(self.PREDICTIONS[row.model], LABELS, strict=True))
            assert (row.correct, row.total, row.accuracy) == (right, 400, right / 400)
            assert row.ci95.low < row.accuracy < row.ci95.high
            nodes = {"K1": 8, "K2": 8, "K3": 16}
            assert row.n_features == sum(nodes[k] for k in row.model.reservoirs) * len(row.model.orders)

    def test_mcnemar_pairs(self) -> None:
        joined = "K1+K2+K3"
        others = ["K1", "K2", "K3", f"{joined} (logit)", f"{joined} (m1)", f"{joined} (m1,m2)"]
        for readout in ("sgd", "converged"):
            assert pairs(self.RESULTS.mcnemar, readout) == [(other, joined) for other in others]
            assert pairs(self.RESULTS.differences, readout) == [(other, joined) for other in others]

    def test_mcnemar_and_difference_of_one_pair_by_hand(self) -> None:
        a = self.PREDICTIONS[ModelKey(("K2",), (1, 2, 4), "feature", "converged")] != LABELS
        b = self.PREDICTIONS[ModelKey(("K1", "K2", "K3"), (1, 2, 4), "feature", "converged")] != LABELS
        test, difference = (
            next(row for row in getattr(self.RESULTS, key) if row.a == "K2" and row.readout == "converged")
            for key in ("mcnemar", "differences")
        )
        assert (test.a_only_wrong, test.b_only_wrong) == ((a & ~b).sum(), (b & ~a).sum())
        assert difference.difference == pytest.approx(a.mean() - b.mean())
        assert difference.ci95[0] < difference.difference < difference.ci95[1]

    def test_jaccard_rows_are_table_three(self) -> None:
        assert pairs(self.RESULTS.jaccard) == list(paper.TABLE_III)
        a, b = (self.PREDICTIONS[ModelKey((name,), (1, 2, 4))] != LABELS for name in ("K1", "K3"))
        row = self.RESULTS.jaccard[1]
        assert (row.wrong_a, row.wrong_b) == (a.sum(), b.sum())
        assert (row.intersection, row.union) == ((a & b).sum(), (a | b).sum())
        assert row.jaccard == (a & b).sum() / (a | b).sum()

    def test_regions_count_every_wrong_sample_once(self) -> None:
        wrong = {name: self.PREDICTIONS[ModelKey((name,), (1, 2, 4))] != LABELS for name in ("K1", "K2", "K3")}
        rows = [row for row in self.RESULTS.regions if row.readout == "sgd"]
        assert [row.wrong for row in rows] == [
            chosen for size in (1, 2, 3) for chosen in combinations(("K1", "K2", "K3"), size)
        ]
        for row in rows:
            exactly = np.all([mask == (name in row.wrong) for name, mask in wrong.items()], axis=0)
            assert row.count == exactly.sum()

    def test_order_of_the_predictions_does_not_matter(self) -> None:
        shuffled = list(self.PREDICTIONS.items())
        for seed in range(5):
            random.Random(seed).shuffle(shuffled)
            again = analyse(LABELS, dict(shuffled), {"K3": 16, "K2": 8, "K1": 8})
            assert again == self.RESULTS

    def test_is_json_and_survives_it(self) -> None:
        rows = plain(self.RESULTS)
        assert json.loads(json.dumps(rows, allow_nan=False)) == rows

    def test_sizes_are_null_where_they_are_not_known(self) -> None:
        without = analyse(LABELS, self.PREDICTIONS)
        assert {row.n_features for row in without.accuracy} == {None}


def test_the_papers_error_sets_give_the_papers_numbers() -> None:
    """Predictions built to have the paper's three wrong sets: counts per region chosen to fit all of Table III."""
    joined, singles = ModelKey(("K1", "K2", "K3"), (1, 2, 4)), ("K1", "K2", "K3")
    regions = _regions_that_fit_table_three()
    wrong = np.zeros((4, paper.N_TEST), bool)
    start = 0
    for members, count in regions.items():
        wrong[list(members), start : start + count] = True
        start += count
    labels = np.arange(paper.N_TEST) % 10
    models = [*(ModelKey((name,), (1, 2, 4)) for name in singles), joined]
    results = analyse(labels, {m: np.where(w, (labels + 1) % 10, labels) for m, w in zip(models, wrong, strict=True)})
    for row in results.accuracy:
        assert row.correct == paper.CORRECT[row.model]
    for overlap, (names, expected) in zip(results.jaccard, paper.TABLE_III.items(), strict=True):
        assert (overlap.a, overlap.b) == names
        counts = overlap.wrong_a, overlap.wrong_b, overlap.intersection, overlap.union
        assert (*counts, round(overlap.jaccard or 0, 4)) == tuple(expected)
    assert [(r.a_only_wrong, r.b_only_wrong, round(r.p, 3)) for r in results.mcnemar if r.a == "K2"] == [
        tuple(paper.MCNEMAR["K2", joined.name])
    ]


def _regions_that_fit_table_three() -> dict[tuple[int, ...], int]:
    """Samples wrong in exactly each set of (K1, K2, K3, joined), by integer programming: one of many solutions."""
    sets = [members for size in range(1, 5) for members in combinations(range(4), size)]
    index = {"K1": 0, "K2": 1, "K3": 2, "K1+K2+K3": 3}
    rows, values = [], []
    for (a, b), row in paper.TABLE_III.items():
        for need, value in (
            ({index[a]}, row.wrong_a),
            ({index[b]}, row.wrong_b),
            ({index[a], index[b]}, row.intersection),
        ):
            rows.append([float(need <= set(members)) for members in sets])
            values.append(value)
    found = milp(
        np.zeros(len(sets)),
        constraints=LinearConstraint(np.array(rows), values, values),
        integrality=np.ones(len(sets)),
        bounds=Bounds(0, paper.N_TEST),
    )
    assert found.success
    return {members: round(count) for members, count in zip(sets, found.x, strict=True)}


class TestOtherShapes:
    def test_one_reservoir_is_compared_with_its_lower_orders_only(self) -> None:
        results = analyse(LABELS, predictions(("K1",)))
        assert pairs(results.mcnemar) == [("K1 (m1)", "K1"), ("K1 (m1,m2)", "K1")]
        assert results.jaccard == ()
        assert [row.wrong for row in results.regions if row.readout == "sgd"] == [("K1",)]

    def test_two_reservoirs_of_two_orders(self) -> None:
        results = analyse(LABELS, predictions(("left", "right"), (1, 3)))
        joined = "left+right"
        others = ["left", "right", f"{joined} (logit)", f"{joined} (m1)"]
        assert pairs(results.mcnemar) == [(other, joined) for other in others]
        assert pairs(results.jaccard) == [("left", "right"), ("left", joined), ("right", joined)]

    def test_many_reservoirs_keep_their_order(self) -> None:
        names = tuple(f"K{k}" for k in range(1, 12))
        rng = np.random.default_rng(0)
        models = [*(ModelKey((name,), (1,)) for name in names), ModelKey(names, (1,))]
        results = analyse(LABELS, {m: np.where(rng.random(400) < 0.3, 0, LABELS) for m in reversed(models)})
        assert [row.model for row in results.accuracy] == models
        assert len(results.jaccard) == 11 * 10 / 2 + 11
        assert sum(row.count for row in results.regions) <= 400

    def test_zero_errors(self) -> None:
        results = analyse(LABELS, predictions(("K1", "K2"), rate=0.0))
        assert {row.accuracy for row in results.accuracy} == {1.0}
        assert {row.jaccard for row in results.jaccard} == {None}
        assert {row.p for row in results.mcnemar} == {1.0}
        assert [row.ci95 for row in results.differences] == [(0.0, 0.0)] * len(results.differences)
        assert results.regions == ()

    def test_all_wrong(self) -> None:
        results = analyse(LABELS, predictions(("K1", "K2"), rate=1.1))
        assert {row.accuracy for row in results.accuracy} == {0.0}
        assert {row.jaccard for row in results.jaccard} == {1.0}
        assert [row.wrong for row in results.regions] == [("K1", "K2")] * 2

    def test_without_a_joined_model_only_singles_are_compared(self) -> None:
        names = ("K1", "K2", "K3", "K4", "K5")
        lower = ModelKey(names, (1,))
        for order in (names, names[::-1]):
            results = analyse(LABELS, {**{ModelKey((name,), (1, 2)): LABELS for name in order}, lower: LABELS})
            assert results.mcnemar == ()
            assert pairs(results.jaccard) == list(combinations(names, 2))
            alone = analyse(LABELS, {ModelKey((name,), (1, 2)): LABELS for name in order})
            assert alone.jaccard == results.jaccard

    def test_refusals(self) -> None:
        model = ModelKey(("K1",), (1,))
        with pytest.raises(ValueError, match=r"`predictions\[\"K1\|feature\|1\|sgd\"\]` must have shape \(400,\)"):
            analyse(LABELS, {model: LABELS[:3]})
        with pytest.raises(ValueError, match=r"`labels` must be integers \(S,\), but was of dtype float64"):
            analyse(LABELS / 2, {model: LABELS})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="`predictions` must hold at least one model"):
            analyse(LABELS, {})


def test_labels_tell_models_apart() -> None:
    names, full = ("K1", "K2"), (1, 2, 4)
    models = [ModelKey(names, orders, fusion) for orders, fusion in product([(1,), (1, 2), full], ["feature", "logit"])]  # type: ignore[arg-type]
    assert all_orders(models) == full
    assert [label(model, full) for model in models] == [
        "K1+K2 (m1)",
        "K1+K2 (logit, m1)",
        "K1+K2 (m1,m2)",
        "K1+K2 (logit, m1,m2)",
        "K1+K2",
        "K1+K2 (logit)",
    ]


class TestSummarise:
    def repeats(self, counts: list[int], total: int = 100) -> list[list[Accuracy]]:
        model = ModelKey(("K1",), (1,))
        return [[Accuracy(model, None, n, total, n / total, wilson(n, total))] for n in counts]

    def test_five_seeds(self) -> None:
        (row,) = summarise(self.repeats([90, 92, 91, 93, 94]))
        assert row.correct == (90, 92, 91, 93, 94)
        assert row.mean == pytest.approx(0.92)
        assert row.sd == pytest.approx(0.0158114)
        assert row.ci95 == pytest.approx((0.9003676, 0.9396324))
        assert row.range95 == pytest.approx((0.8719104, 0.9680896))

    def test_stays_between_zero_and_one(self) -> None:
        (row,) = summarise(self.repeats([100, 90]))
        assert row.ci95 is not None
        assert row.range95 is not None
        assert row.ci95.high == row.range95.high == 1.0
        (row,) = summarise(self.repeats([0, 10]))
        assert row.ci95 is not None
        assert row.range95 is not None
        assert row.ci95.low == row.range95.low == 0.0

    def test_one_seed(self) -> None:
        (row,) = summarise(self.repeats([90]))
        assert (row.mean, row.sd, row.ci95, row.range95) == (0.9, None, None, None)
        json.dumps(plain(row), allow_nan=False)

    def test_what_analyse_gives_is_what_it_takes(self) -> None:
        results = analyse(LABELS, predictions(("K1", "K2")))
        rows = summarise([results.accuracy, results.accuracy])
        assert [row.model for row in rows] == [row.model for row in results.accuracy]
        assert {row.sd for row in rows} == {0.0}

    def test_refuses_other_experiments(self) -> None:
        with pytest.raises(ValueError, match=r"`repeats\[1\]` must have the models and the test set of repeats\[0\]"):
            summarise([*self.repeats([90]), *self.repeats([90], 99)])
        with pytest.raises(ValueError, match="`repeats` must hold at least one"):
            summarise([])
