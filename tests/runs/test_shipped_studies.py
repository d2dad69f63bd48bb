"""The studies that ship with the package, at a reduced size on the embedded digits: each can be done, and is."""

import json
from pathlib import Path

import pytest

import thermoment as tm
from thermoment import data
from thermoment.experiments.experiment import Experiment, read
from thermoment.results.results import StudyResults
from thermoment.runs.check import check
from thermoment.runs.tasks import Job, tasks

SMALL = [
    "data.name=digits",
    "data.n_train=300",
    "data.n_test=100",
    "protocol.dt=0.01",
    "protocol.n_replicas=4",
    "reservoirs.*.n_nodes=8",
    "readout.epochs=3",
    "repeats=2",
]
"""The same for every study: the quick check of docs/studies.md."""
OWN = {
    "seeds": [],
    "equal-resources": [
        "variants.more-replicas.protocol.n_replicas=12",
        "variants.more-replicas.reservoirs.*.n_nodes=8",
        "variants.more-nodes.reservoirs.*.n_nodes=24",
    ],
    "what-the-moments-carry": [],
    "time-and-temperature": [],
    "fusion": ["readout.held_out=100"],
    "beside-others": [
        "variants.paper.baselines.names=['pca-16', 'random-24', 'mlp-8', 'mlp-8-distorted']",
        "variants.paper.baselines.epochs=2",
        "variants.trained.finite_time.epochs=2",
    ],
}
RUNS = {"seeds": 6, "equal-resources": 10, "what-the-moments-carry": 14, "time-and-temperature": 30, "fusion": 4}
"""How many readouts there are to fit: of `seeds` the first repeats of all variants are one."""


def small(name: str) -> Experiment:
    return read(name, [*SMALL, *OWN[name]])


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("engine", ["native", "meanfield"])
def test_a_study_can_be_done_on_digits(name: str, engine: str) -> None:
    one = read(name, [*SMALL, *OWN[name], f"engine={engine}"])
    dataset = data.load("digits").first(300, 100)
    check(one, dataset)
    every = tasks(Job(one, "", "", None, ""), dataset.n_train, dataset.n_test)
    readouts = sum(task.kind == "readouts" for task in every)
    assert readouts == RUNS.get(name, 2 * len(one.points))


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_a_study_is_done_on_digits(name: str, tmp_path: Path) -> None:
    found = tm.run(small(name), tmp_path / name)
    assert isinstance(found, StudyResults)
    table = found.table()
    assert set(table["repeat"]) == {0, 1}
    assert set(table["variant"]) == set(small(name).points)
    assert json.loads((tmp_path / name / "study.json").read_text())["experiment"] == name
    assert (tmp_path / name / "figures/study.svg").is_file()
