"""What `bench.measure` makes of the times it sees: rates, the paper's time, and the rows that are shown.

Time is a stand-in that moves as the stand-in for `simulate` works, so every number is known.
"""

import json
import math
from typing import Any

import pytest

import thermoment as tm
from thermoment import bench
from thermoment._engines.choice import Status
from thermoment.bench import IMAGE_NODE_STEPS, PAPER_IMAGES
from thermoment.report.terminal import speed_rows

COST = {"reference": 1.5, "native": 0.05, "meanfield": 1e-4}
"""Seconds an image takes."""
START_UP = 3.0
"""Seconds that the first run of an engine takes for itself."""


class Clock:
    """A machine whose time passes only while it works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.started: set[str] = set()
        self.replicas: dict[str, set[float]] = {}

    def simulate(self, reservoir: tm.Reservoir, inputs: Any, protocol: tm.Protocol, engine: str) -> None:
        assert inputs.shape[1] == reservoir.n_inputs == bench.D
        assert reservoir.n_nodes == bench.N
        self.now += len(inputs) * COST[engine] + (0 if engine in self.started else START_UP)
        self.started.add(engine)
        self.replicas.setdefault(engine, set()).add(protocol.n_replicas)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Three engines that run and cuda, which cannot."""
    clock = Clock()
    monkeypatch.setattr(bench, "simulate", clock.simulate)
    monkeypatch.setattr("thermoment.bench.time.perf_counter", lambda: clock.now)
    able = dict.fromkeys(COST, Status(True, "something")) | {"cuda": Status(False, "no GPU")}
    monkeypatch.setattr(bench, "engines", lambda: able)
    return clock


def test_rates_and_the_papers_time(clock: Clock) -> None:
    result = bench.measure(seconds=2.0, rounds=2)
    assert [row["engine"] for row in result["speeds"]] == ["meanfield", "native", "reference"], "fastest first"
    native = result["speeds"][1]
    assert native["samples"] == 40  # two seconds at 0.05
    assert native["seconds"] == pytest.approx([2.0, 2.0])
    assert native["images_per_second"] == pytest.approx(20)
    assert native["node_steps_per_second"] == pytest.approx(IMAGE_NODE_STEPS / 0.05)
    assert native["paper_seconds"] == pytest.approx(210_000 * 0.05)
    assert result["absent"] == {"cuda": "no GPU"}
    assert result["size"] == {"N": 256, "M": 128, "n_steps": 1000, "paper_images": 210000}
    assert clock.replicas == {"reference": {128}, "native": {128}, "meanfield": {math.inf}}
    assert json.loads(json.dumps(result)) == result


@pytest.mark.usefixtures("clock")
def test_the_engine_that_takes_no_steps_has_images_only() -> None:
    result = bench.measure(["meanfield"])
    (row,) = result["speeds"]
    assert row["images_per_second"] == pytest.approx(1e4)
    assert row["node_steps_per_second"] is None
    assert result["absent"] == {}


def test_a_slow_round_does_not_move_the_median() -> None:
    row = bench.speed("native", "something", 100, (1.0, 1.1, 30.0))
    assert row["images_per_second"] == pytest.approx(100 / 1.1)


@pytest.mark.usefixtures("clock")
def test_the_rows_that_are_shown_say_what_cannot_run() -> None:
    rows = speed_rows(bench.measure())
    assert rows == [
        ["meanfield", "something", "none taken", "1e+04", "21 s"],
        ["native", "something", "6.6e+08", "20", "2.92 hours"],
        ["reference", "something", "2.2e+07", "0.667", "3.65 days"],
        ["cuda", "cannot run: no GPU", "", "", ""],
    ]


def test_the_papers_experiment_is_its_node_steps() -> None:
    assert pytest.approx(6.88e12, rel=1e-3) == PAPER_IMAGES * IMAGE_NODE_STEPS


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`names` must be among reference, .*, but was 'abacus'"):
        bench.measure(["abacus"])
    with pytest.raises(ValueError, match="`seconds` must be positive, but was 0"):
        bench.measure(seconds=0)
    with pytest.raises(ValueError, match="`rounds` must be an integer from 1"):
        bench.measure(rounds=0)


def test_inputs_are_as_many_as_asked_for(clock: Clock) -> None:
    """Made from a few images over and over, also for a number that they do not divide."""
    clock.started = set(COST)
    assert bench._time("native", 300) == pytest.approx(300 * 0.05)
