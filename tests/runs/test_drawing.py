"""Figures drawn by other processes: the same bytes as in turn, also where a process dies; and when they are begun."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import thermoment as tm
from support import made_up
from support.runs import TINY, experiment
from support.sketches import node_of_zeros, sketch
from thermoment.experiments.experiment import Experiment
from thermoment.report.figures import draw
from thermoment.results.node import NODE, NodeSample
from thermoment.results.results import Results
from thermoment.runs import drawing, example_node
from thermoment.runs.drawing import Drawing

SETTINGS = {
    "dynamics": {"J2": 1.0, "J4": 1.0, "mu": 1.0, "kT": 1.0},
    "protocol": {"dt": 0.05, "t_final": 1.0, "clip": 10.0, "seed": 3},
}


@pytest.fixture
def _two_cores_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "FROM_CORES", 2)
    monkeypatch.setattr(drawing, "cores", lambda: 2)


def folder_with_results(folder: Path) -> dict[str, Path]:
    """A folder in which figures can be drawn, and the files that they show."""
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(made_up.results(("K1",))), "utf-8")
    made_up.node().save(folder / NODE)
    return {NODE: folder / NODE, "features.zarr/K1/zarr.json": folder / "not read"}


@pytest.mark.usefixtures("_two_cores_are_enough")
def test_the_same_bytes_whoever_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process draws its share. The other is dead, so its share is drawn here."""
    in_turn = Drawing().figures(tmp_path / "turn", folder_with_results(tmp_path / "turn"))
    here: list[Any] = []
    here_as_it_is = drawing._here

    def noted(*what: Any) -> list[str]:
        here.append(what[2:])
        return here_as_it_is(*what)

    monkeypatch.setattr(drawing, "_here", noted)
    files = folder_with_results(tmp_path / "others")
    with Drawing() as others:
        others.begin(SETTINGS)
        node = others.node(SETTINGS)
        assert others._others is not None
        others._others._started[1].kill()
        drawn = others.figures(tmp_path / "others", files)
    assert here == [(1, 2)]
    expected = ["confusion", "density", "errors", "paths", "potential"]
    assert sorted(path.name for path in drawn) == [f"{name}.{form}" for name in expected for form in ("png", "svg")]
    assert {path.name: path.read_bytes() for path in drawn} == {path.name: path.read_bytes() for path in in_turn}
    same_node(node, example_node.simulate_node(SETTINGS), tmp_path)


def same_node(one: NodeSample, other: NodeSample, folder: Path) -> None:
    for node, name in ((one, "one"), (other, "other")):
        node.save(folder / name)
    assert (folder / "one").read_bytes() == (folder / "other").read_bytes()


class Dead:
    """Stands in for processes: none of them answers."""

    told: ClassVar[list[Any]] = []

    def __init__(self, count: int, module: str) -> None:
        self.told.append((count, module))

    def __len__(self) -> int:
        return 2

    def ask(self, *what: Any) -> None:
        self.told.append(what)

    def answer(self, number: int) -> None:
        self.told.append(number)

    def end(self) -> None:
        self.told.append("end")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, _two_cores_are_enough: None) -> Iterator[list[Any]]:
    """What processes are told, none of which answers; the figures of a run are sketches."""
    monkeypatch.setattr(draw, "draw", lambda *what: sketch(*what[:3]))
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)
    monkeypatch.setattr(drawing, "Processes", Dead)
    Dead.told.clear()
    yield Dead.told
    Dead.told.clear()


def small(folder: Path) -> Experiment:
    one = experiment(TINY, folder)
    return replace(one, readout=replace(one.readout, converged=False))


def test_a_run_begins_before_its_last_readouts_and_is_whole_without_answers(told: list[Any], tmp_path: Path) -> None:
    """The node is that of the seeds as written, though it is asked for while a repeat with others is done."""
    one = replace(small(tmp_path), repeats=2, vary=("trajectories",))
    stages: list[str] = []

    def listener(what: str, *_: Any) -> None:
        if told and "begun" not in stages:
            stages.append("begun")
        stages.append(what)

    found = tm.run(one, tmp_path / "run", listener=listener)
    assert isinstance(found, Results)
    settings = {part: found.settings[part] for part in ("dynamics", "protocol")}
    assert told[:2] == [(2, "thermoment.runs.figure_process"), (0, "node", settings)]
    assert [what[1] for what in told[3:5]] == ["figures", "figures"]
    assert told[-1] == "end"
    begun = stages.index("begun")
    assert "images" in stages[begun - 1]
    assert not any("images" in what for what in stages[begun:])
    assert (tmp_path / "run/figures/errors.svg").is_file()

    told.clear()
    tm.run(one, tmp_path / "run")
    assert told == []


def test_processes_end_with_a_run_that_fails(told: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("The disk is full.")

    monkeypatch.setattr(draw, "draw", full)
    with pytest.raises(OSError, match="full"):
        tm.run(small(tmp_path), tmp_path / "run")
    assert told[-1] == "end"
