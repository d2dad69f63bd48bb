"""docs/studies.md follows from the numbers; a made-up effect is found, a made-up accident is not, none is invented."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
N_TEST = 10_000


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "studies")
    return importlib.import_module("answers")


def row(variant: str, correct: Any, model: str = "K1+K2+K3", **more: Any) -> dict[str, Any]:
    columns = {"fusion": "feature", "orders": [1, 2, 4], "readout": "sgd", **more}
    return {"variant": variant, "settings": {}, "model": model, **columns, "total": N_TEST, "correct": list(correct)}


def write(folder: Path, name: str, rows: list[dict[str, Any]], where: str = "mnist") -> Path:
    dataset = {"name": where, "n_train": 60_000, "n_test": N_TEST}
    path = folder / f"{name}{'' if where == 'mnist' else f'-{where}'}.json"
    path.write_text(
        json.dumps({"experiment": name, "dataset": dataset, "engine": "cuda", "n_nodes": [256] * 3, "rows": rows}),
        "utf-8",
    )
    return path


def test_the_page_follows_from_the_numbers(answers: ModuleType) -> None:
    assert (ROOT / "docs/studies.md").read_text("utf-8") == answers.page()


def test_every_committed_study_has_its_figure(answers: ModuleType) -> None:
    for question in answers.QUESTIONS:
        for path in answers.files(question.study):
            assert (answers.FIGURES / f"{path.stem}.svg").is_file()


def test_a_study_that_was_not_run_is_said_to_be_so(answers: ModuleType, tmp_path: Path) -> None:
    page = answers.page(tmp_path)
    assert page.count("Not yet run (`thermoment run") == len(answers.QUESTIONS)
    assert "| fusion | `thermoment run fusion` |" in page
    assert "points more" not in page


@pytest.mark.parametrize("n", [2, 5, 10])
def test_only_what_the_seeds_can_tell_is_established(n: int) -> None:
    """Five comparisons: one of 0.5 points, one of 0.2 points, three of nothing; each scatters by 0.05 points."""
    judged = importlib.import_module("judged")
    rng = np.random.default_rng(8)
    base = 0.96 + 0.002 * rng.normal(size=n)
    pairs = [
        judged.Pair("a", str(k), base + shift + 0.0005 * rng.normal(size=n), base)
        for k, shift in enumerate((0.005, 0.002, 0, 0, 0))
    ]
    verdicts = [one.verdict for one in judged.judge(pairs)]
    large = {2: "not established", 5: "established", 10: "established"}[n]
    small = "established" if n == 10 else "not established"
    assert verdicts == [large, small, *["not established"] * 3]


def test_a_difference_is_said_with_its_sign_and_interval() -> None:
    judged = importlib.import_module("judged")
    a, b = np.array([0.5, 0.51, 0.52, 0.53]), np.array([0.6, 0.6, 0.62, 0.62])
    (found,) = judged.judge([judged.Pair("this", "that", a, b)])
    t, sd = 3.1824463, np.std(a - b, ddof=1)
    assert found.mean == pytest.approx(-0.095)
    assert found.ci95 == pytest.approx((-0.095 - t * sd / 2, -0.095 + t * sd / 2))
    assert judged.gain(found).startswith("\N{MINUS SIGN}9.50 points (95 % interval \N{MINUS SIGN}10.")


def test_the_deviation_of_normal_numbers_lies_in_its_interval_nineteen_times_of_twenty() -> None:
    judged = importlib.import_module("judged")
    draws = np.random.default_rng(2).normal(size=(4000, 8)).std(axis=1, ddof=1)
    inside = np.mean([low < 1 < high for low, high in (judged.sd_interval(sd, 8) for sd in draws)])
    assert inside == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 4000))


def test_every_study_gets_an_answer_from_rows_like_those_of_a_run(answers: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)

    def correct(mean: float) -> list[int]:
        return [int(x) for x in np.random.default_rng(1).normal(9000, 20, 10) + mean + rng.normal(0, 3, 10)]

    rows = {
        "seeds": [row(name, correct(0)) for name in ("everything", "draw", "batches", "noise", "fit")],
        "equal-resources": [
            row(name, correct(shift))
            for name, shift in (
                ("different", 0),
                ("one-recipe", 0),
                ("three-noises", -60),
                ("more-replicas", -60),
                ("more-nodes", 40),
            )
        ],
        "what-the-moments-carry": [
            row(f"reads-{k}", correct(30 * len(words)), orders=list(words))
            for k, sets in enumerate(("m1 m2 m4", "m1 mu2 mu4", "m1 m1^2 m1^4", "x x^2 x^4", "mu2", "mu4"))
            for count in range(1, len(sets.split()) + 1)
            if (words := sets.split()[:count])
        ]
        + [row("reads-8", correct(90), orders=[f"m{p}" for p in range(1, 9)])],
        "time-and-temperature": [
            row(f"{kT}-{t}", correct(-100 * (t < 0.3))) | {"settings": {"dynamics.kT": kT, "protocol.t_final": t}}
            for kT in (0.01, 0.1)
            for t in (0.03, 0.3, 1.0)
        ],
        "fusion": [
            row("optimiser-sgd", correct(-20 * (fusion != "feature")), fusion=fusion)
            | {"settings": {"training.optimiser": "sgd"}}
            for fusion in ("feature", "logit", "weighted", "calibrated", "stacked")
        ],
        "beside-others": [
            row("paper", correct(0)),
            row("adam", correct(100)),
            row("trained", correct(200), readout="trained"),
            *(
                {
                    key: value
                    for key, value in row("paper", correct(shift), name).items()
                    if key not in ("fusion", "orders")
                }
                for name, shift in (("raw pixels", -300), ("768 random features", -50), ("2304 random features", 20))
            ),
            {"variant": "paper", "settings": {}, "model": "MLP, 256 hidden units, distorted images"}
            | {"readout": "trained", "total": N_TEST, "correct": correct(200)},
        ],
    }
    for name, found in rows.items():
        write(tmp_path, name, found)
        write(tmp_path, name, found, "fashion-mnist")
    page = answers.page(tmp_path)
    assert "Not yet run" not in page
    for sentence in (
        "of one reservoir with three times the nodes: \N{MINUS SIGN}0.4",
        "Three different reservoirs in place of three draws of one recipe: no difference established",
        "The paper's machine in place of raw pixels: +3.0",
        "at kT = 0.1, t = 0.03: \N{MINUS SIGN}1.0",
    ):
        assert sentence in page, sentence
    assert page.count(
        "**On mnist (60000 training and 10000 test images; 3 reservoirs of 256 nodes; engine cuda).**"
    ) == len(answers.QUESTIONS)
    assert page.count("**On fashion-mnist") == len(answers.QUESTIONS)
