"""What a report says in words: verdicts beside the paper, significance, how numbers and settings are written."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.made_up import K3, MNIST, results, study
from support.pages import report
from thermoment.report import beside, findings, formatting
from thermoment.report.tables import settings_tables, written
from thermoment.results import paper
from thermoment.results.naming import Fit, ModelKey
from thermoment.results.results import Cost, Results
from thermoment.results.table import Table


def published(row: dict[str, Any]) -> int:
    """How many of 10000 the paper's model of a row got right."""
    return paper.CORRECT[ModelKey.of_columns(row).any_readout]


class TestVerdicts:
    """Results whose accuracies are the paper's own, then shifted."""

    def plain(self, shift: int, repeats: int = 0) -> dict[str, Any]:
        given = results(dataset=MNIST, repeats=repeats)
        for row in given["accuracy"]:
            correct = published(row) + shift
            accuracy = correct / 10_000
            row |= {"correct": correct, "accuracy": accuracy, "ci95": [accuracy - 0.003, accuracy + 0.003]}
        return given

    def at_the_papers(self, shift: int, repeats: int = 0) -> Results:
        return Results.from_json(self.plain(shift, repeats))

    def test_inside(self) -> None:
        compared = beside.compare(self.at_the_papers(0))
        assert [row.verdict for row in compared] == ["inside"] * 10
        assert {row.paper - row.ours for row in compared} == {0}
        sentences = beside.differences(self.at_the_papers(0))
        assert sentences[0] == "10 of the paper's 10 accuracies lie inside the 95 % interval of ours."
        assert sentences[-1] == "K1+K2 is below K2 alone (9658 and 9682), as in the paper."

    def test_which_is_higher(self) -> None:
        given = self.plain(5)
        given["accuracy"][0]["correct"] = 9000
        assert "Ours is higher in 9 of 10 and lower in 1." in beside.differences(Results.from_json(given))

    @pytest.mark.parametrize(("shift", "verdict"), [(-31, "above"), (31, "below"), (-29, "inside"), (29, "inside")])
    def test_where_the_papers_number_lies(self, shift: int, verdict: str) -> None:
        assert {row.verdict for row in beside.compare(self.at_the_papers(shift))} == {verdict}

    def test_the_spread_over_seeds_is_the_better_judge(self, tmp_path: Path) -> None:
        given = self.plain(0, repeats=3)
        for row in given["repeats"]:
            row |= {"range95": [0.5, 0.6]}
        assert {row.over_seeds for row in beside.compare(Results.from_json(given))} == {"above"}
        words = report(tmp_path, given).words
        assert "Of its 10 accuracies, 0 lie inside the 95 % range of one more run over 3 seeds" in words
        assert "|paper inside|paper above" in words

    def test_the_reasons_name_what_was_chosen(self) -> None:
        reasons = beside.reasons(self.at_the_papers(0))
        assert "optimiser trains the input projections (here: sgd)" in reasons[0]
        assert "whether that head sees standardised features (here: none)" in reasons[0]
        assert "by 17 samples" in reasons[-1]

    def test_chance_is_what_the_test_says(self) -> None:
        given = results(dataset=MNIST)
        best = max(given["accuracy"][:3], key=lambda row: row["correct"])["model"]
        for p, wording in ((0.0499, "that is more than chance"), (0.0501, "that may be chance")):
            for row in given["mcnemar"]:
                row["p"] = p
            sentence = next(text for text in findings.summary(Results.from_json(given)) if "McNemar" in text)
            assert f"points more than the best single reservoir, {best} (" in sentence
            assert wording in sentence

    def test_nearest_variant(self, tmp_path: Path) -> None:
        given = study()
        for variant, away in zip(given["study"], (0.02, -0.001, 0.03), strict=True):
            for row in variant["accuracy"]:
                mean = published(row) / 10_000 + away
                row |= {"mean": mean, "range95": [mean - 0.005, mean + 0.005]}
        words = report(tmp_path, given).words
        nearest = "Nearest to the paper is “better”, 0.10 points away (root mean square)"
        assert "The highest mean is 99.95 %, of K1+K2+K3 in “worse” (paper's readout)." in words
        assert f"{nearest}; 10 of its 10 numbers lie inside the range of one more run." in words


class TestReadouts:
    """No number stands without the readout it is of: every accuracy is made unlike every other, then looked up."""

    def given(self, *, trained: bool = True, n_reservoirs: int = 3, baseline: bool = True) -> Results:
        given = results(K3[:n_reservoirs], trained=trained, baseline=baseline)
        for number, row in enumerate([*given["accuracy"], *given["baseline"]] if baseline else given["accuracy"]):
            row |= {"correct": 490 - 3 * number, "accuracy": (490 - 3 * number) / 500}
        return Results.from_json(given)

    def readout_of(self, found: Results) -> dict[str, Fit]:
        rows: dict[str, Fit] = {}
        for share, readout in [
            *((row.accuracy, row.model.readout) for row in found.accuracy),
            *((row.accuracy, row.readout) for row in found.baseline),
        ]:
            rows |= {formatting.percent(share): readout, formatting.rounded(share, 500): readout}
        return rows

    @pytest.mark.parametrize("trained", [True, False])
    @pytest.mark.parametrize("n_reservoirs", [1, 2, 3])
    def test_every_sentence_names_the_readout_of_its_numbers(self, trained: bool, n_reservoirs: int) -> None:
        found = self.given(trained=trained, n_reservoirs=n_reservoirs)
        known, seen = self.readout_of(found), set()
        for sentence in [findings.headline(found), *findings.summary(found)]:
            for number in re.findall(r"\d+\.\d+\N{NO-BREAK SPACE}%", sentence):
                assert formatting.FIT_NAMES[known[number]] in sentence, sentence
                seen.add(known[number])
        assert seen == ({"sgd", "converged", "trained", "predicted"} if trained else {"sgd", "converged"})

    @pytest.mark.parametrize("trained", [True, False])
    def test_numbers_compared_are_of_one_readout(self, trained: bool) -> None:
        """The sentence on joining: its difference is that of the numbers of the readout it names."""
        found = self.given(trained=trained)
        sentence = next(text for text in findings.summary(found) if "the best single reservoir" in text)
        assert sentence.startswith("With the paper's readout, all three reservoirs together get ")
        best = max((row for row in found.accuracy[:3]), key=lambda row: row.correct)
        assert formatting.percent(best.accuracy) in sentence

    def test_the_headline_of_a_run(self) -> None:
        assert findings.headline(self.given(trained=False)).replace("\N{NO-BREAK SPACE}", " ") == (
            "All three reservoirs: 94.4 % of 500 test samples; best single K1 98.0 %; raw pixels 86.0 % "
            "(paper's readout)."
        )

    def test_the_headline_of_a_trained_machine(self) -> None:
        assert findings.headline(self.given()).replace("\N{NO-BREAK SPACE}", " ") == (
            "All three reservoirs, trained with the machine: 86.0 % of 500 test samples; with the paper's readout "
            "94.4 %; best single K1 98.0 %; raw pixels 84.8 %."
        )

    def test_a_baseline_with_another_readout_says_so(self) -> None:
        found = self.given(trained=False)
        other = replace(found, baseline=found.baseline[1:])
        assert findings.headline(other).endswith("raw pixels 85.4\N{NO-BREAK SPACE}% (fully fitted readout).")

    def test_the_headline_of_one_reservoir(self) -> None:
        found = self.given(trained=False, n_reservoirs=1, baseline=False)
        assert findings.headline(found).replace("\N{NO-BREAK SPACE}", " ") == (
            "Reservoir K1: 98.0 % of 500 test samples (paper's readout)."
        )

    def test_heads_of_their_own_are_averaged(self) -> None:
        """Reservoirs trained one by one have no joined head: their averaged logits are the machine as trained."""
        given = results(("K1", "K2"), trained=True)
        for row in given["accuracy"]:
            if row["readout"] in ("trained", "predicted"):
                row["fusion"] = "logit"
        found = Results.from_json(given)
        row = next(row for row in found.accuracy if row.model.readout == "trained")
        assert Table.of(found.accuracy).headline == row
        assert findings.headline(found).startswith("Both reservoirs, trained with the machine: ")
        assert "with the readout trained with the machine (averaged)" in findings.summary(found)[0]


class TestWords:
    @pytest.mark.parametrize(
        ("function", "value", "written"),
        [
            (formatting.percent, 0.9695, "96.95\N{NO-BREAK SPACE}%"),
            (formatting.more, 0.016, "1.60 points more than"),
            (formatting.more, -0.016, "1.60 points less than"),
            (formatting.more, -1e-9, "as much as"),
            (formatting.all_of, ["K1", "K2", "K3"], "All three reservoirs"),
            (formatting.all_of, ["K1", "K2"], "Both reservoirs"),
            (formatting.all_of, list("abcdefg"), "All 7 reservoirs"),
            (formatting.points, 0.0013, "+0.13"),
            (formatting.points, -0.0013, "\N{MINUS SIGN}0.13"),
            (formatting.points, -1e-9, "0.00"),
            (formatting.probability, 0.27919, "0.2792"),
            (formatting.probability, 1.0, "1.0000"),
            (formatting.probability, 2.34e-9, "2.3 \N{MULTIPLICATION SIGN} 10⁻⁹"),
            (formatting.probability, 0.0, "below 10⁻³⁰⁰"),
            (formatting.listing, ["a"], "a"),
            (formatting.listing, ["a", "b", "c"], "a, b and c"),
        ],
    )
    def test_numbers(self, function: Any, value: Any, written: str) -> None:
        assert function(value) == written

    @pytest.mark.parametrize(
        ("key", "value", "text"),
        [
            ("dt", 0.001, "0.001"),
            ("l2", 1.23456789e-5, "1.23456789e-05"),
            ("t_final", 1.0, "1"),
            ("n_replicas", math.inf, "infinitely many"),
            ("clip", math.inf, "none"),
            ("start", None, "none"),
            ("train_bias", False, "no"),
            ("orders", [1, 2, 4], "1, 2, 4"),
            ("stages", [], "none"),
            ("stages", [{"surrogate": "mean", "epochs": 3}, {"epochs": 4}], "surrogate mean, epochs 3; then epochs 4"),
            ("other", {"a": 1, "b": [2.5]}, "a 1, b 2.5"),
        ],
    )
    def test_settings(self, key: str, value: Any, text: str) -> None:
        assert written(key, value) == text

    def test_reservoirs_may_have_different_settings(self) -> None:
        given = results(K3)
        given["settings"]["reservoirs"][1]["shares_start_with"] = "K1"
        found = settings_tables(Results.from_json(given))
        column = found["columns"].index("shares_start_with")
        assert [row[column] for row in found["rows"]] == ["none", "K1", "none"]


class TestCost:
    """What an answer takes, with what was counted and what was not."""

    @pytest.mark.parametrize(
        ("cost", "protocol", "sentence"),
        [
            (
                Cost(161234.5, {"K1": 1259.644}, ("work_on", "work_off")),
                {},
                "An answer takes 161,000 kT of work, 1,260 kT for a cycle (switching the drive on and off; without the "
                "directed coupling and putting the nodes to zero before).",
            ),
            (
                Cost(30.0, {"K1": 10.0, "K2": 5.0}, ("work_on", "work_off", "work_path")),
                {"start": "rest", "t_rest": 2.0},
                "An answer takes 30 kT of work, 15 kT for a cycle of the machine (switching the drive on and off, and "
                "the directed coupling).",
            ),
            (
                Cost(None, {"K1": 0.123456}, ("work_on", "work_off", "work_path")),
                {"start": "rest", "t_rest": 2.0},
                "A cycle takes 0.123 kT of work (switching the drive on and off, and the directed coupling).",
            ),
        ],
    )
    def test_in_a_sentence(self, cost: Cost, protocol: dict[str, Any], sentence: str, tmp_path: Path) -> None:
        given = results()
        given["settings"]["protocol"] |= protocol
        found = replace(Results.from_json(given), cost=cost)
        assert findings.cost(found).replace("\N{NO-BREAK SPACE}", " ") == sentence
        assert Results.from_json(found.to_json()) == found
        assert findings.cost(found) in report(tmp_path, json.loads(found.to_json())).text

    def test_nothing_is_said_where_it_is_not_known(self, tmp_path: Path) -> None:
        assert findings.cost(Results.from_json(results())) == ""
        assert "of work" not in report(tmp_path, results()).text
