"""What `benchmark.measure` makes of the times it sees: rates, shares, the paper's time, the table and the JSON.

Time is a stand-in that moves as the stand-in for `simulate` works, so every number is known.
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment import bench as benchmark
from thermoment import limits
from thermoment._engines.choice import Status
from thermoment._support.threads import cores
from thermoment.bench import IMAGE_NODE_STEPS, PAPER_IMAGES, Benchmark, Speed
from thermoment.limits import Limit

COST = {"reference": 1.5, "native": 0.05, "meanfield": 1e-4}
"""Seconds an image takes."""
START_UP = 3.0
"""Seconds that the first run of an engine takes for itself."""
CPU = Limit("cpu", "two cores", product=1e9, product_is="this", rest=4e9, rest_is="that")


class Clock:
    """A machine whose time passes only while it works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.started: set[str] = set()
        self.replicas: dict[str, set[float]] = {}

    def simulate(self, reservoir: tm.Reservoir, inputs: Any, protocol: tm.Protocol, engine: str) -> None:
        assert inputs.shape[1] == reservoir.n_inputs == benchmark.D
        assert reservoir.n_nodes == benchmark.N
        self.now += len(inputs) * COST[engine] + (0 if engine in self.started else START_UP)
        self.started.add(engine)
        self.replicas.setdefault(engine, set()).add(protocol.n_replicas)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Three engines, of which cuda cannot run, on a processor whose limit is found faster in the second round."""
    clock = Clock()
    monkeypatch.setattr(benchmark, "simulate", clock.simulate)
    monkeypatch.setattr("thermoment.bench.time.perf_counter", lambda: clock.now)
    able = dict.fromkeys(COST, Status(True, "something")) | {"cuda": Status(False, "no GPU")}
    monkeypatch.setattr(benchmark, "engines", lambda: able)
    found = iter([replace(CPU, product=5e8), CPU, replace(CPU, rest=1e9)])
    monkeypatch.setattr(benchmark, "cpu_limit", lambda _: next(found))
    monkeypatch.setattr(benchmark, "gpu_limit", lambda _: None)
    monkeypatch.setattr(benchmark, "describe", lambda: {"accelerator": "none"})
    return clock


def test_rates_shares_and_the_papers_time(clock: Clock) -> None:
    result = benchmark.measure(seconds=2.0)
    speeds = {speed.engine: speed for speed in result.speeds}
    assert list(speeds) == ["reference", "native", "meanfield"]
    native = speeds["native"]
    assert native.samples == 40  # two seconds at 0.05
    assert native.node_steps_per_second == pytest.approx(IMAGE_NODE_STEPS / 0.05)
    assert native.paper_seconds == pytest.approx(210_000 * 0.05)
    assert result.share(native) == pytest.approx(IMAGE_NODE_STEPS / 0.05 / 1e9)
    assert result.limits == (CPU,)
    assert result.absent == {"cuda": "no GPU"}
    assert clock.replicas == {"reference": {128}, "native": {128}, "meanfield": {math.inf}}


@pytest.mark.usefixtures("clock")
def test_the_engine_that_takes_no_steps_has_images_only() -> None:
    result = benchmark.measure(["meanfield"])
    (speed,) = result.speeds
    assert speed.images_per_second == pytest.approx(1e4)
    assert speed.node_steps_per_second is None
    assert result.share(speed) is None
    assert result.absent == {}


def test_a_slow_round_does_not_move_the_median() -> None:
    speed = Speed("native", "cpu", "something", 100, (1.0, 1.1, 30.0))
    assert speed.images_per_second == pytest.approx(100 / 1.1)


@pytest.mark.usefixtures("clock")
def test_the_table_is_sorted_and_says_what_cannot_run() -> None:
    heading, rows = benchmark.measure().table()
    assert [row[0] for row in rows] == ["meanfield", "native", "reference", "cuda"]
    assert all(len(row) == len(heading) for row in rows)
    assert rows[1] == ("native", "something", "6.6e+08", "66%", "20", "2.92 hours")
    assert rows[0][2:] == ("none taken", "", "1e+04", "21 s")
    assert rows[3][1] == "cannot run: no GPU"


@pytest.mark.usefixtures("clock")
def test_the_json_holds_what_was_measured_and_what_follows() -> None:
    result = benchmark.measure(rounds=2)
    read = json.loads(result.as_json())
    native = read["speeds"][1]
    assert native["engine"] == "native"
    assert len(native["seconds"]) == 2
    assert native["node_steps_per_second"] == pytest.approx(IMAGE_NODE_STEPS * native["images_per_second"])
    assert native["share_of_limit"] == result.share(result.speeds[1])
    assert read["limits"][0]["in_turn"] == pytest.approx(8e8)
    assert read["size"] == {"N": 256, "M": 128, "n_steps": 1000, "paper_images": 210000}


def test_the_papers_experiment_is_its_node_steps() -> None:
    assert pytest.approx(6.88e12, rel=1e-3) == PAPER_IMAGES * IMAGE_NODE_STEPS


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`names` must be among reference, .*, but was 'abacus'"):
        benchmark.measure(["abacus"])
    with pytest.raises(ValueError, match="`seconds` must be positive, but was 0"):
        benchmark.measure(seconds=0)
    with pytest.raises(ValueError, match="`rounds` must be an integer from 1"):
        benchmark.measure(rounds=0)


def test_nothing_measured_is_still_a_result() -> None:
    empty = Benchmark({}, (), (), {"cuda": "no GPU"})
    assert empty.table()[1] == [("cuda", "cannot run: no GPU", "", "", "", "")]
    assert empty.notes() == []


def test_a_limit_is_the_slower_part_and_in_turn_their_sum() -> None:
    assert CPU.overlapped == 1e9
    assert CPU.in_turn == pytest.approx(1 / (1e-9 + 0.25e-9))
    assert CPU.or_faster(replace(CPU, product=2e9, rest=1e9)) == replace(CPU, product=2e9)


def test_work_is_measured_over_the_time_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four units to a portion, a second for a hundred portions, and a tenth of a second that a run takes by itself."""
    clock = Clock()
    monkeypatch.setattr("thermoment.limits.time.perf_counter", lambda: clock.now)

    def work(n: int) -> int:
        clock.now += 0.1 + n / 100
        return 4 * n

    rate = limits._rate(work, 10.0)
    assert 0.95 * 400 < rate < 400


@pytest.mark.skipif(not tm.engines()["native"].can_run, reason="the native engine cannot run")
def test_the_limit_of_this_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = limits.cpu_limit(256, seconds=0.01)
    assert limit is not None
    assert limit.device == "cpu"
    assert limit.product > 0
    assert limit.rest > 0
    monkeypatch.setattr(limits, "_rate", lambda work, _: float(work(1)))
    one = limits.cpu_limit(1)
    many = limits.cpu_limit(256)
    assert one is not None
    assert many is not None
    assert one.product == 256 * many.product
    assert one.rest == many.rest == 4 * 4096 * cores()


@pytest.mark.skipif(not tm.engines()["native"].can_run, reason="the native engine cannot run")
def test_multiplications_are_counted() -> None:
    from thermoment._engines.native import multiply_only

    one = multiply_only(1)
    assert one > 0
    assert multiply_only(1000) == 1000 * one


def test_inputs_are_as_many_as_asked_for(clock: Clock) -> None:
    """Made from a few images over and over, also for a number that they do not divide."""
    clock.started = set(COST)
    assert benchmark._time("native", 300) == pytest.approx(300 * 0.05)
    assert np.isfinite(clock.now)
