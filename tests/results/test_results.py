"""results.json: the same bytes out as in, infinity as null and back, and one sentence for what is no results.json."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from support.made_up import DIGITS, MNIST, results, study
from thermoment.results import paper
from thermoment.results.naming import ModelKey, readout_file
from thermoment.results.results import Results, StudyResults, from_json, load


def text(given: dict[str, Any]) -> str:
    return json.dumps(given, indent=1, allow_nan=False) + "\n"


FEW = results(("K1",), orders=(1,))


@pytest.mark.parametrize(
    "given",
    [
        FEW,
        results(dataset=MNIST, repeats=3),
        results(trained=True, baseline=True),
        results(rate=0.0),
        study(),
        study(DIGITS, 1),
    ],
    ids=["one", "repeats", "trained", "no errors", "study", "one seed"],
)
def test_the_same_bytes_after_reading_and_writing(given: dict[str, Any]) -> None:
    found = from_json(text(given))
    assert isinstance(found, StudyResults if "study" in given else Results)
    assert found.to_json() == text(given)
    assert from_json(given) == found == type(found).from_json(found.to_json())


def test_the_keys_and_their_order_are_those_that_are_documented() -> None:
    last = [{"model": "K1", "loss": 0.1, "validation": None, "strongest": 4.0}]
    head = ["experiment", "description", "dataset", "engine", "settings"]
    given = results(repeats=2, baseline=True) | {"trained": last}
    found = Results.from_json(given).plain()
    assert [*found] == [
        *head,
        *("clip_count", "error", "trained", "accuracy", "mcnemar", "differences", "jaccard", "regions"),
        *("confusion", "baseline", "repeats"),
    ]
    assert found["trained"] == last  # an absent validation is null, and stays null
    assert [*Results.from_json(FEW).plain()] == [key for key in found if key not in ("trained", "baseline", "repeats")]
    assert [*StudyResults.from_json(study()).plain()] == [*head, "study"]
    model, pair = ["model", "fusion", "orders", "readout"], ["a", "b", "readout"]
    assert {key: [*found[key][0]] for key in found if isinstance(found[key], list) and key != "trained"} == {
        "accuracy": [
            *("model", "fusion", "orders", "readout"),
            *("n_features", "correct", "total", "accuracy", "ci95"),
        ],
        "mcnemar": [*pair, "a_only_wrong", "b_only_wrong", "p"],
        "differences": [*pair, "difference", "ci95"],
        "jaccard": [*pair, "wrong_a", "wrong_b", "intersection", "union", "jaccard"],
        "regions": ["readout", "wrong", "count"],
        "baseline": ["model", "readout", "correct", "total", "accuracy", "ci95"],
        "repeats": [*model, "total", "correct", "mean", "sd", "ci95", "range95"],
    }


@pytest.mark.parametrize("where", [("protocol", "n_replicas"), ("protocol", "clip"), ("finite_time", "n_replicas")])
def test_infinity_is_null_in_the_file_and_infinity_again_when_read(where: tuple[str, str]) -> None:
    group, key = where
    given = results(("K1",), orders=(1,))
    given["settings"].setdefault(group, {"epochs": 3})[key] = None
    found = from_json(text(given))
    assert found.settings[group][key] == math.inf
    assert found.to_json() == text(given)
    # A run has the infinity itself, and writes the same.
    given["settings"][group][key] = math.inf
    assert Results(**{**vars(found), "settings": given["settings"]}).to_json() == found.to_json()


def test_a_row_knows_its_model() -> None:
    row = Results.from_json(results(trained=True)).accuracy[-1]
    assert row.model == ModelKey(("K1", "K2", "K3"), (1, 2, 4), "feature", "predicted")
    assert ModelKey.parse(row.model.key) == row.model == ModelKey.of_columns(row.model.columns)
    assert readout_file(row.model) == "K1+K2+K3.m1-m2-m4.predicted.safetensors"


def changed(*where: Any, to: Any) -> dict[str, Any]:
    """A small results.json with one value replaced; None removes it."""
    given: dict[str, Any] = json.loads(text(FEW))
    inner: Any = given
    for step in where[:-1]:
        inner = inner[step]
    if to is None:
        del inner[where[-1]]
    else:
        inner[where[-1]] = to
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (changed("accuracy", 0, "correct", to="many"), "`accuracy[0].correct` must be an integer, but was 'many'"),
        (changed("accuracy", 0, "correct", to=True), "`accuracy[0].correct` must be an integer, but was True"),
        (changed("accuracy", 0, "ci95", to=[0.5]), "`accuracy[0].ci95` must be two numbers, but was [0.5]"),
        (changed("accuracy", 0, "total", to=None), "the key `accuracy[0].total` is missing"),
        (changed("accuracy", 0, "fusion", to=None), "the key `accuracy[0].fusion` is missing"),
        (changed("accuracy", 0, "readout", to="ridge"), "`accuracy[0]` names no model"),
        (changed("accuracy", 0, "orders", to=[2, 1]), "must be increasing integers from 1 to 8"),
        (changed("accuracy", to={}), "`accuracy` must be a list, but was {}"),
        (changed("regions", 0, "readout", to="ridge"), "`regions[0].readout` must be one of sgd, converged, trained"),
        (changed("dataset", "n_test", to=1.5), "`dataset.n_test` must be an integer, but was 1.5"),
        (changed("dataset", to="digits"), "`dataset` must be an object, but was 'digits'"),
        (changed("settings", to=3), "`settings` must be an object, but was 3"),
        (changed("engine", to=None), "the key `engine` is missing"),
        (changed("colour", to="blue"), "the key `colour` is unknown"),
        ({}, "the key `experiment` is missing"),
    ],
)
def test_foreign_json_is_refused_in_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        from_json(text(given), "runs/a/results.json")
    said = str(caught.value)
    assert said.startswith("runs/a/results.json is not the results of a run: ")
    assert said.count("\n") == 0
    assert not said.endswith("..")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "is damaged: Expecting property name"),
        ("[]", "is not the results of a run: it holds no JSON object"),
        ('{"experiment": NaN}', "is damaged: NaN is not a number of JSON"),
        ('{"experiment": "\udc80"}'.encode("utf-8", "surrogateescape"), "is damaged: 'utf-8' codec"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, given: str | bytes, message: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(given if isinstance(given, bytes) else given.encode())
    with pytest.raises(ValueError, match=re.escape(f"{path} {message}")):
        load(tmp_path)


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path} holds no results.json")):
        load(tmp_path)


class TestThePaper:
    """Which results the published numbers stand beside."""

    @pytest.mark.parametrize("given", [results(dataset=MNIST), study(MNIST)], ids=["run", "study"])
    def test_its_own_models_on_its_own_data(self, given: dict[str, Any]) -> None:
        found = paper.beside(from_json(given))
        assert found
        assert {model: found.correct(model) for model in paper.CORRECT} == paper.CORRECT
        assert found.correct(ModelKey(("K2",), (1, 2, 4), "feature", "converged")) == 9682
        assert found.correct(ModelKey(("K9",), (1, 2, 4))) is None
        assert found.best_single == 9682
        assert found.overlap("K1", "K3") == paper.TABLE_III["K1", "K3"]
        assert found.test("K2", "K1+K2+K3") == paper.MCNEMAR["K2", "K1+K2+K3"]

    @pytest.mark.parametrize(
        "given",
        [
            results(),
            results(dataset=MNIST | {"n_train": 1000}),
            results(dataset=MNIST | {"name": "fashion-mnist"}),
            results(("A", "B", "C"), MNIST),
            study(DIGITS),
        ],
        ids=["digits", "part of MNIST", "fashion", "other reservoirs", "study"],
    )
    def test_nothing_stands_beside_anything_else(self, given: dict[str, Any]) -> None:
        found = paper.beside(from_json(given))
        assert not found
        assert [found.correct(model) for model in paper.CORRECT] == [None] * 10
        assert (found.best_single, found.overlap("K1", "K2"), found.test("K2", "K1+K2+K3")) == (None, None, None)
