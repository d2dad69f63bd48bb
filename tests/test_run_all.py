"""studies/run_all.py: which variants it runs in which order; a run that is stopped goes on, and leaves every study."""

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
TINY = [
    "data.n_train=100",
    "data.n_test=50",
    "protocol.dt=0.01",
    "protocol.n_replicas=2",
    "reservoirs.*.n_nodes=4",
    "reservoirs.*.stages=[]",
    "readout.epochs=1",
]


@pytest.fixture
def run_all(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "studies")
    return importlib.import_module("run_all")


def asked(run_all: ModuleType, **more: object) -> argparse.Namespace:
    given = {"studies": run_all.STUDIES, "data": "digits", "overrides": [], "engine": None, "repeats": None, **more}
    return argparse.Namespace(**given)


def test_every_variant_is_a_part_and_those_that_others_share_with_come_first(run_all: ModuleType) -> None:
    found = run_all.studies(asked(run_all))
    parts = run_all.units(found)
    assert sorted(parts) == sorted(
        name for study, one in found.items() for name in ([f"{study}/{key}" for key in one.variants] or [study])
    )
    assert list(parts)[: len(run_all.FIRST)] == list(run_all.FIRST)
    assert list(parts)[-len(run_all.LAST) :] == list(run_all.LAST)
    assert sum(len(one.points) for one in parts.values()) == sum(len(one.points) for one in found.values())


def test_without_sampling_what_only_sampling_can_do_is_left_out(run_all: ModuleType) -> None:
    everything, without = (run_all.studies(asked(run_all, engine=engine)) for engine in ("native", "meanfield"))
    left_out = {
        f"{name}/{key}"
        for name, one in everything.items()
        for key in one.variants.keys() - without[name].variants.keys()
    }
    assert left_out == {
        "time-and-temperature/strong",
        "time-and-temperature/double-wells",
        "what-the-moments-carry/pairs",
    }
    engines = {one.variant(name).engine for one in without.values() for name in one.points}
    assert engines == {"meanfield"}


def test_no_variant_has_more_repeats_than_asked_for(run_all: ModuleType) -> None:
    found = run_all.studies(asked(run_all, repeats=2))
    repeats = {f"{name}/{key}": one.variant(key).repeats for name, one in found.items() for key in one.points}
    assert set(repeats.values()) == {1, 2}
    assert [key for key, count in repeats.items() if count == 1] == ["time-and-temperature/sampled-late_t_final-3p0"]


@pytest.mark.slow
def test_what_was_stopped_goes_on(tmp_path: Path) -> None:
    overrides = [word for text in TINY for word in ("--set", text)]
    command = [sys.executable, str(ROOT / "studies/run_all.py"), "seeds", "--data", "digits", "--out", str(tmp_path)]
    command += ["--engine", "native", "--repeats", "2", "--processes", "2", *overrides]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    stopped = subprocess.run([*command, "--minutes", "0"], env=where, capture_output=True, text=True, check=False)
    assert stopped.returncode == 1
    assert "Stopped. The same command goes on." in stopped.stderr
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
    assert "(5 of 5)" in done.stdout
    found = json.loads((tmp_path / "seeds-digits.json").read_text("utf-8"))
    assert {row["variant"] for row in found["rows"]} == {"everything", "draw", "batches", "noise", "fit"}
    assert len(list((tmp_path / ".stages").glob("features-*"))) == 3 * 2  # those that other studies read too
    again = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
    assert "of 5)" not in again.stdout
