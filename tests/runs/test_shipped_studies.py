"""The studies that ship with the package, at a reduced size on the embedded digits: each can be done, and is."""

import json
from dataclasses import replace
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
    "what-the-moments-carry": [
        "variants.pairs.reservoirs.*.n_nodes=8",
        "variants.pairs-limit.reservoirs.*.n_nodes=8",
    ],
    "time-and-temperature": ["equilibrium=4", "variants.trained.finite_time.epochs=2"],
    "fusion": ["readout.held_out=100"],
    "beside-others": [
        "variants.paper.baselines.names=['pca-16', 'random-24']",
        "variants.paper.baselines.epochs=2",
        "variants.trained.baselines.names=['mlp-8', 'mlp-8-distorted']",
        "variants.trained.baselines.epochs=2",
        "variants.trained.finite_time.epochs=2",
    ],
}
RUNS = {"seeds": 7, "equal-resources": 10, "what-the-moments-carry": 22, "fusion": 4, "beside-others": 6}
"""How many readouts there are to fit in two repeats. Of `seeds` the first repeats of the variants that vary one kind of
seed are one, of those that are sampled and of those that are not."""


def small(name: str, *more: str) -> Experiment:
    """The study with at most two repeats of every variant."""
    found = read(name, [*SMALL, *OWN[name], *more])
    few = {key: {**table, "repeats": min(2, table.get("repeats", 2))} for key, table in found.variants.items()}
    return replace(found, variants=few)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("engine", ["native", "meanfield"])
def test_a_study_can_be_done_on_digits(name: str, engine: str) -> None:
    one = small(name, f"engine={engine}")
    dataset = data.load("digits").first(300, 100)
    check(one, dataset)
    every = tasks(Job(one, "", "", None, ""), dataset.n_train, dataset.n_test)
    readouts = sum(task.kind == "readouts" for task in every)
    if name != "time-and-temperature":
        assert readouts == RUNS[name] + (name == "seeds" and engine != "meanfield")
        return
    # Four replicas are those of all points here, and both cold points are of the map. Where nothing is sampled, two of
    # the points that are sampled beside the map are those of the map in two seeds, one in one seed, and the first point
    # of the study is of the map too.
    assert len(one.points) == 1 + 6 + 18 + 2 + 3 + 1 + 8 + 6 + 5 + 4 + 3 + 2
    twice = {"native": 2 + 4, "meanfield": 2 + 4 + 2 * 2 + 1 + 2}[engine]
    assert readouts == 2 * len(one.points) - 1 - twice


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_a_study_is_done_on_digits(name: str, tmp_path: Path) -> None:
    found = tm.run(small(name), tmp_path / name)
    assert isinstance(found, StudyResults)
    table = found.table()
    assert set(table["repeat"]) == {0, 1}
    assert set(table["variant"]) == set(small(name).points)
    if name == "time-and-temperature":
        assert ((table["distance"] >= 0) & (table["distance"] < 1.01)).all()
        early, late = (table[table["variant"] == f"time_t_final-{t}"]["distance"].iloc[0] for t in ("0p01", "10p0"))
        assert early > 0.9
        assert late < 0.01
        strong = table[table["group"].isin(["strong", "double-wells"])]
        assert set(strong["engine"]) == {"native"}
    assert json.loads((tmp_path / name / "study.json").read_text())["experiment"] == name
    assert (tmp_path / name / "figures/study.svg").is_file()
