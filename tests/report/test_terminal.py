"""What a person sees: results that can be read at any width, with no cell cut off."""

from collections.abc import Iterable
from dataclasses import replace
from io import StringIO
from typing import Any, ClassVar

import pytest
from rich.console import Console, RenderableType

from support.made_up import MNIST, results, study
from thermoment.report import terminal as display
from thermoment.results.results import Cost, Results, from_json


def test_a_table_shows_brackets_as_they_are_and_words_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    body = [["a", "1.5 s", "pip install 'x[cuda]'"], ["bcd", "12 s", ""]]
    Console().print(display.table("[title]", ["name", "time", "why"], body))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "[title]",
        "name   time  why",
        "a     1.5 s  pip install 'x[cuda]'",
        "bcd    12 s",
    ]


def printed(items: Iterable[RenderableType], width: int) -> list[str]:
    """The lines of a terminal of this width, with ordinary spaces, without spaces at their ends."""
    out = StringIO()
    console = Console(file=out, width=width, highlight=False, force_terminal=True, no_color=True, color_system=None)
    for item in items:
        console.print(item)
    return [line.rstrip().replace("\N{NO-BREAK SPACE}", " ") for line in out.getvalue().splitlines()]


RUNS = {
    "run": results(baseline=True),
    "trained": results(trained=True),
    "mnist": results(dataset=MNIST, baseline=True),
    "one": results(("K1",)),
}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", RUNS)
def test_every_count_and_per_cent_stands_in_one_line_with_its_model(name: str, width: int) -> None:
    given = Results.from_json(RUNS[name])
    lines = printed(display.result(given, width), width)
    assert max(map(len, lines)) <= width
    decimals = 1 if given.accuracy[0].total == 500 else 2
    for row in given.accuracy:
        model = row.model.name + (", averaged" if row.model.fusion == "logit" else "")
        read = ", ".join(f"m{p}" for p in row.model.orders)
        cell = f"{row.correct}  {100 * row.accuracy:.{decimals}f} %"
        own = [line for line in lines if line.startswith(f"{model} ") and f" {read}  " in line and cell in line]
        assert own, (row, lines)
    for raw in given.baseline:
        assert any(line.startswith("raw pixels ") and f"{raw.correct}  " in line for line in lines)
    assert "…" not in "".join(lines)


def test_the_first_sentence_is_the_result_and_the_last_explains_the_readouts() -> None:
    lines = printed(display.result(Results.from_json(RUNS["run"]), 120), 120)
    joined = RUNS["run"]["accuracy"][6]
    assert lines[0].startswith(
        f"All three reservoirs: {100 * joined['accuracy']:.1f} % of 500 test samples; best single"
    )
    assert lines[1] == "digits: 1297 training and 500 test samples, simulated by xla."
    legend = " ".join(lines[lines.index(next(line for line in lines if line.startswith("Readouts: "))) :])
    for name in ("paper's readout (", "fully fitted readout (", "averaged ("):
        assert name in legend
    assert "trained with the machine" not in legend


def test_intervals_stand_where_they_fit() -> None:
    given = Results.from_json(RUNS["run"])
    low, high = given.accuracy[0].ci95
    interval = f"{100 * low:.2f} to {100 * high:.2f}"
    assert not any(interval in line for line in printed(display.result(given, 80), 80))
    assert any(interval in line for line in printed(display.result(given, 120), 120))


def test_the_machine_as_trained_has_a_table_of_its_own_before_the_others() -> None:
    given = Results.from_json(RUNS["trained"])
    lines = printed(display.result(given, 80), 80)
    heads = [number for number, line in enumerate(lines) if line.startswith("model ")]
    assert "the machine" in lines[heads[0]]
    assert "trained with" in lines[heads[0] - 1]
    assert heads[1] - heads[0] == 3  # one model, and the first line of the next head
    assert "fully fitted" in lines[heads[1] - 1]


def test_clipped_updates_are_told() -> None:
    given = results(("K1",)) | {"clip_count": 7}
    lines = " ".join(printed(display.result(from_json(given), 80), 80))
    # 1797 images through 16 nodes, 32 replicas and 50 steps: 7 of 4.6e7 updates
    assert "7 updates (1.5e-05 %) were clipped to |x| <= 4: the moments are not those of the free dynamics." in lines
    assert not any("clipped" in line for line in printed(display.result(from_json(results(("K1",))), 80), 80))


@pytest.mark.parametrize("width", [60, 120])
def test_a_study_shows_all_reservoirs_and_the_best_single_of_every_variant(width: int) -> None:
    given = study()
    lines = printed(display.result(from_json(given), width), width)
    for variant in given["study"]:
        rows = {(row["model"], row["readout"], row["fusion"], len(row["orders"])): row for row in variant["accuracy"]}
        cells = [rows["K1+K2+K3", fit, "feature", 3] for fit in ("sgd", "converged")]
        cells.append(max((rows[name, "sgd", "feature", 3] for name in ("K1", "K2", "K3")), key=lambda row: row["mean"]))
        numbers = [f"{100 * row['mean']:.2f} ± {100 * row['sd']:.2f}" for row in cells]
        assert any(line.split("  ")[0] == variant["variant"] and all(n in line for n in numbers) for line in lines)


def test_variants_of_different_reservoirs_are_all_shown_beside_the_first() -> None:
    given = study()
    alone = given["study"][2]
    alone["accuracy"] = [row for row in alone["accuracy"] if row["model"] == "K1"]
    lines = printed(display.result(from_json(given), 120), 120)
    first, *others = ([row for row in variant["accuracy"] if row["orders"] == [1, 2, 4] and row["readout"] == "sgd"
                       and row["fusion"] == "feature"] for variant in given["study"])  # fmt: skip
    home = next(row for row in first if row["model"] == "K1+K2+K3")
    for rows, model, words in zip(others, ("K1+K2+K3", "K1"), ("what better means", "what worse means"), strict=True):
        row = next(row for row in rows if row["model"] == model)
        (line,) = [line for line in lines if line.startswith(words)]
        assert f"{100 * row['mean']:.2f}" in line
        assert f"{100 * (row['mean'] - home['mean']):+.2f}" in line


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_long_cell_goes_on_in_the_next_line(width: int) -> None:
    words = [f"word{number}" for number in range(30)]
    lines = printed([display.table("", ("name", "what"), [("here", " ".join(words))])], width)
    assert max(map(len, lines)) <= width
    assert [word for line in lines for word in line.split() if word.startswith("word")] == words


def test_what_is_not_a_terminal_is_wide(capsys: pytest.CaptureFixture[str]) -> None:
    given = Results.from_json(RUNS["trained"])
    display.show(display.result(given, display.console().width))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    low, high = given.accuracy[0].ci95
    assert f"  {100 * low:.2f} to {100 * high:.2f}" in out


def test_a_run_says_what_an_answer_takes() -> None:
    given = Results.from_json(RUNS["trained"])
    told = replace(given, cost=Cost(5e3, {"K1": 39.0625}, ("work_on", "work_off")))
    assert not any(" kT" in line for line in printed(display.result(given, 200), 200))
    assert any("An answer takes 5,000" in line for line in printed(display.result(told, 200), 200))


class TestComparison:
    FOUND: ClassVar[dict[str, Any]] = {
        "settings": {
            "experiment": ["a", "b"],
            "settings.finite_time.epochs": [None, 200],
            "settings.protocol.W": [0.1, 2.0],
        },
        "total": [500, 500],
        "cost": [161234.5, None],
        "headline": {
            "models": ["K1+K2|feature|1,2|sgd", "K1+K2|feature|1,2|trained"],
            "a": 470,
            "b": 487,
            "p": 0.00049,
        },
        "accuracy": [
            {"model": "K1+K2|feature|1,2|sgd", "a": 470, "b": 475, "p": 0.227},
            {"model": "K1+K2|feature|1|sgd", "a": 450, "b": 440, "p": 0.5},
            {"model": "K1+K2|logit|1,2|sgd", "a": 460, "b": None, "p": None},
            {"model": "K1+K2|feature|1,2|trained", "a": None, "b": 487, "p": None},
        ],
    }

    @pytest.mark.parametrize("width", [60, 80])
    def test_every_model_of_either_run_by_a_plain_name(self, width: int) -> None:
        lines = printed(display.comparison(self.FOUND, "digits", "best-digits"), width)
        assert max(map(len, lines)) <= width
        rows = [line.split() for line in lines]
        assert ["K1+K2", "470", "475", "+5", "0.227"] in rows
        assert ["K1+K2", "(m1)", "450", "440", "-10", "0.5"] in rows
        assert ["K1+K2,", "averaged", "460", "only", "in", "digits"] in rows
        assert ["K1+K2", "487", "only", "in", "best-digits"] in rows
        assert lines.index("paper's readout") < lines.index("trained with the machine")
        assert ["finite_time.epochs", "not", "set", "200"] in rows
        assert not any("|" in line for line in lines)

    def test_the_headlines_come_first_and_name_their_readouts(self) -> None:
        (line, *_) = printed(display.comparison(self.FOUND, "digits", "best-digits"), 200)
        assert line == (
            "digits: 470 of 500 correct, 161,000 kT an answer (K1+K2, paper's readout); best-digits: 487 "
            "of 500 correct (K1+K2, trained with the machine). Exact McNemar p = 0.00049."
        )
        other = self.FOUND | {"headline": self.FOUND["headline"] | {"p": None}}
        (line, *_) = printed(display.comparison(other, "digits", "best-digits"), 200)
        assert line.endswith("Not the same test samples, so no test.")


def test_where_data_sets_are() -> None:
    found = display.places(
        [("mnist", "/here", True, "4 files, checked"), ("mnist", "https://there", False, "not asked")]
    )
    assert found == [["mnist", "/here", "here: 4 files, checked"], ["mnist", "https://there", "would be downloaded"]]
