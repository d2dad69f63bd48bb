"""studies/run_all.py: its parts are the study; a run that is stopped goes on, here or elsewhere, to the same bytes."""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest

from thermoment.runs.run import run

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


def test_parts_are_the_points_of_a_study_each_once(run_all: ModuleType, tmp_path: Path) -> None:
    for name, study in run_all.studies(asked(run_all)).items():
        parts = run_all.parts(study, tmp_path)
        assert [point for part in parts for point in part.points] == list(study.points), name
        assert len({part.file for part in parts}) == len(parts)
        for part in parts:
            assert len(part.points) == len(part.experiment.points)
            for whole, alone in zip(part.points, part.experiment.points, strict=True):
                same = part.experiment.variant(alone)
                assert replace(same, name="any") == replace(study.variant(whole), name="any")


def test_variants_can_be_done_alone(run_all: ModuleType, tmp_path: Path) -> None:
    every = [part for one in run_all.studies(asked(run_all)).values() for part in run_all.parts(one, tmp_path)]
    some = run_all.chosen(["time-and-temperature/map", "time-and-temperature/paper", "fusion"], every)
    names = [name for part in some for name in part.points]
    assert len(names) == 3 * 6 + 1 + 2
    assert {name.split("-")[0].split("_")[0] for name in names} == {"map", "paper", "optimiser"}
    assert run_all.chosen(run_all.STUDIES, every) == every
    with pytest.raises(ValueError, match=r"There is no seeds/nothing\. There are .*, seeds/batches, "):
        run_all.chosen(["fusion", "seeds/nothing"], every)


def test_points_that_read_the_same_features_are_one_part(run_all: ModuleType, tmp_path: Path) -> None:
    found = run_all.studies(asked(run_all))
    moments, times = (
        run_all.parts(found[name], tmp_path) for name in ("what-the-moments-carry", "time-and-temperature")
    )
    assert [len(part.points) for part in moments] == [7, 2, 2]
    assert {len(part.points) for part in times} == {1}


def test_a_part_is_called_after_what_its_points_are(run_all: ModuleType, tmp_path: Path) -> None:
    """What no variant leaves to the command is the same part whatever the command says; the rest is not."""
    name = "time-and-temperature"
    sampled, without, fewer = (
        {part.file.name for part in run_all.parts(run_all.studies(asked(run_all, **how))[name], tmp_path)}
        for how in ({"engine": "native"}, {"engine": "meanfield"}, {"engine": "native", "repeats": 3})
    )

    def kinds(files: set[str]) -> set[str]:
        return {file.removeprefix(f"{name}-").split("_")[0] for file in files}

    assert kinds(sampled & without) == {"time", "cold", "map", "trained", "replicas", "coupling", "wells"}
    groups = ("-paper-", "-time_", "-cold_", "-replicas_", "-coupling_", "-wells_")
    ten_seeds = {file for file in sampled if any(f"temperature{group}" in file for group in groups)}
    assert sampled - fewer == ten_seeds


def test_what_is_sampled_and_what_not(run_all: ModuleType, tmp_path: Path) -> None:
    found = run_all.studies(asked(run_all, engine="native"))
    every = [part for study in found.values() for part in run_all.parts(study, tmp_path)]
    groups = {f"{part.experiment.name}/{part.points[0].split('_')[0]}" for part in every if not part.samples}
    map_and_factors = ("time", "cold", "map", "trained", "replicas", "coupling", "wells")
    assert groups == {
        "seeds/draw",
        "seeds/batches",
        "what-the-moments-carry/pairs-limit",
        *(f"time-and-temperature/{kind}" for kind in map_and_factors),
    }
    leaves_room = {f"{part.experiment.name}/{part.points[0].split('_')[0]}" for part in every if not part.fills_a_gpu}
    assert leaves_room - groups == {"what-the-moments-carry/pairs", "beside-others/trained"}
    assert groups < leaves_room
    sizes = {f"{part.experiment.name}/{part.points[0]}": part.size for part in every}
    paper = 10 * 3 * 256 * 128 * 1000
    assert sizes["seeds/everything"] == sizes["equal-resources/more-replicas"] == paper
    assert sizes["equal-resources/more-nodes"] == paper
    assert sizes["time-and-temperature/sampled-late_t_final-3p0"] == paper * 3 / 10
    assert sizes["time-and-temperature/wells_J2-2p0"] == 10 * 3 * 256


def test_what_leaves_a_gpu_to_others_comes_first(run_all: ModuleType, tmp_path: Path) -> None:
    every = [
        part
        for study in run_all.studies(asked(run_all, engine="cuda")).values()
        for part in run_all.parts(study, tmp_path)
    ]
    ordered = run_all.in_order(every)
    fills = [part.fills_a_gpu for part in ordered]
    assert sorted(part.file for part in ordered) == sorted(part.file for part in every)
    assert fills == sorted(fills)
    for kind in (False, True):
        sizes = [part.size for part in ordered if part.fills_a_gpu is kind]
        assert sizes == sorted(sizes, reverse=True)


def test_reservoirs_of_all_parts_are_trained_once(run_all: ModuleType, tmp_path: Path) -> None:
    found = run_all.studies(asked(run_all, engine="native"))

    def trained(*names: str) -> dict[Path, str]:
        parts = [part for name in names for part in run_all.parts(found[name], tmp_path)]
        return {file: "/".join((part.experiment.name, *part.points[:1])) for file, part in
                run_all.trainings(parts, tmp_path).items()}  # fmt: skip

    seeds = trained("seeds")
    assert {point.split("/")[1] for point in seeds.values()} == {"everything", "draw", "batches", "noise", "fit"}
    others = trained("seeds", "equal-resources", "fusion", "beside-others")
    assert {point for file, point in others.items() if file not in seeds} == {
        "equal-resources/one-recipe",
        "equal-resources/three-noises",
        "equal-resources/more-replicas",
        "equal-resources/more-nodes",
        "fusion/optimiser-adam_head-normal",
        "beside-others/trained",
    }
    points = {point.split("/")[1] for point in trained("time-and-temperature").values()}
    assert {point for point in points if point.startswith("map")} == {"map_kT-0p01_t_final-0p01"}
    assert sum(point.startswith("trained") for point in points) == 8
    assert sum(point.startswith("wells") for point in points) == 3


def test_a_sampler_begins_when_all_else_is_done_and_goes_on_beside_the_fits(
    run_all: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit of the first part that was sampled ends here after the sampling of the second has begun."""
    (study,) = run_all.studies(asked(run_all, studies=["seeds"], engine="cuda")).values()
    parts = run_all.parts(study, tmp_path)
    fills = {part.file for part in parts if part.fills_a_gpu}
    assert 2 < len(fills) < len(parts)
    told: list[tuple[str, Path]] = []
    second_is_sampled = Event()

    def train(part: Any, *_: object) -> None:
        told.append(("train", part.file))

    def sample(part: Any, *_: object) -> None:
        told.append(("sample", part.file))
        if [kind for kind, _ in told].count("sample") == 2:
            second_is_sampled.set()

    def do(part: Any, *_: object) -> float:
        if part.file in fills:
            assert ("sample", part.file) in told
            assert second_is_sampled.wait(10)
        told.append(("do", part.file))
        return 0.0

    for function in (train, sample, do):
        monkeypatch.setattr(run_all, function.__name__, function)
    monkeypatch.setattr(run_all, "ProcessPoolExecutor", lambda count, *_: ThreadPoolExecutor(count))
    run_all.do_all(parts, run_all.Place(tmp_path, tmp_path, None), 2, float("inf"), apart=True)
    first = next(number for number, (kind, _) in enumerate(told) if kind == "sample")
    before = {(kind, file) for kind, file in told[:first]}
    assert {file for kind, file in before if kind == "do"} == {part.file for part in parts} - fills
    assert sum(kind == "train" for kind, _ in told[:first]) == len(run_all.trainings(parts, tmp_path))
    assert {file for kind, file in told if kind == "sample"} == fills
    assert sorted(file for kind, file in told if kind == "do") == sorted(part.file for part in parts)


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


@pytest.mark.parametrize(
    ("spans", "total"),
    [([], 0), ([(5, 8)], 3), ([(5, 8), (6, 7)], 3), ([(6, 9), (5, 8)], 4), ([(0, 1), (5, 8), (8, 9)], 5)],
)
def test_time_in_which_something_went_on(spans: list[tuple[float, float]], total: float, run_all: ModuleType) -> None:
    assert run_all.busy(spans) == total


def test_times_of_machines(run_all: ModuleType, tmp_path: Path) -> None:
    """A GPU's machine that also works without it, and another one."""
    found = run_all.studies(asked(run_all, studies=["equal-resources"]))
    files = [part.file for part in run_all.parts(found["equal-resources"], tmp_path)]
    files[0].parent.mkdir()
    for file, processor, cores, accelerator, begun in zip(
        files, "aab", (16, 2, 4), ("H200", "none", "none"), (100, 130, 0), strict=False
    ):
        machine = {"processor": processor, "cores": cores, "accelerator": accelerator}
        file.write_text(json.dumps({"machine": machine, "begun": begun, "seconds": 60.0, "results": {}}), "utf-8")
    training = next(iter(run_all.trainings(run_all.parts(found["equal-resources"], tmp_path), tmp_path)))
    training.parent.mkdir()
    machine = {"processor": "a", "cores": 16, "accelerator": "H200"}
    training.write_text(json.dumps({"machine": machine, "begun": 70, "seconds": 45.0}), "utf-8")
    assert run_all.times(found, tmp_path) == {
        "parts": 5,
        "machines": [
            {"processor": "a", "cores": 16, "accelerator": "H200", "parts": 2, "minutes": 2.0},
            {"processor": "b", "cores": 4, "accelerator": "none", "parts": 1, "minutes": 1.0},
        ],
    }


def tiny(study: str) -> list[str]:
    return [*TINY, "readout.held_out=30"] if study == "fusion" else TINY


def command(study: str, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "studies/run_all.py"), study, "--data", "digits", "--out", str(out)]
    words += [
        "--engine",
        "native",
        "--repeats",
        "2",
        *(word for text in tiny(study) for word in ("--set", text)),
        *more,
    ]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(words, env=where, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_was_stopped_goes_on(tmp_path: Path) -> None:
    stopped = command("seeds", tmp_path, "--processes", "2", "--minutes", "0")
    assert stopped.returncode == 1
    assert "Stopped. The same command goes on." in stopped.stderr
    done = command("seeds", tmp_path, "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert "5 of 5: " in done.stdout
    found = json.loads((tmp_path / "seeds-digits.json").read_text("utf-8"))
    assert {row["variant"] for row in found["rows"]} == {"everything", "draw", "batches", "noise", "fit"}
    assert len(list((tmp_path / ".stages").glob("features-*"))) == 3 * 2  # those that other studies read too
    assert len(list((tmp_path / "trainings").glob("*.json"))) == 5
    assert "of 5: " not in command("seeds", tmp_path, "--processes", "2").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "sampler"), [("seeds", True), ("what-the-moments-carry", False), ("fusion", False), ("fusion", True)]
)
def test_parts_put_together_have_the_bytes_of_the_whole(
    study: str, sampler: bool, run_all: ModuleType, tmp_path: Path
) -> None:
    done = command(study, tmp_path, "--processes", "2", *["--sampler"] * sampler)
    assert done.returncode == 0, done.stderr
    sampled = {"seeds": 3, "fusion": 2}[study] if sampler else 0
    assert len(list((tmp_path / "samplings").glob("*.json"))) == sampled
    (whole,) = run_all.studies(
        asked(run_all, studies=[study], engine="native", repeats=2, overrides=tiny(study))
    ).values()
    run(whole, tmp_path / "whole", store=tmp_path / ".stages")
    assert (tmp_path / f"{study}-digits.json").read_bytes() == (tmp_path / "whole" / "study.json").read_bytes()


@pytest.mark.slow
def test_what_is_done_can_be_collected_before_the_rest(tmp_path: Path) -> None:
    assert command("seeds", tmp_path).returncode == 0
    (tmp_path / "seeds-digits.json").unlink()
    next((tmp_path / "parts").glob("seeds-everything-*.json")).unlink()
    found = command("seeds", tmp_path, "--collect")
    assert found.returncode == 1
    assert "in 4 of 5 parts" in found.stdout
    kept = json.loads((tmp_path / "seeds-digits.json").read_text("utf-8"))
    assert {row["variant"] for row in kept["rows"]} == {"draw", "batches", "noise", "fit"}
    assert not list((tmp_path / "parts").glob("seeds-everything-*.json"))


@pytest.mark.slow
def test_parts_alone_are_enough_to_go_on(tmp_path: Path) -> None:
    assert command("seeds", tmp_path / "here").returncode == 0
    shutil.copytree(tmp_path / "here/parts", tmp_path / "there/parts")
    removed = next((tmp_path / "there/parts").glob("seeds-noise-*.json"))
    removed.unlink()
    again = command("seeds", tmp_path / "there")
    assert "1 of 1: " in again.stdout
    name = "seeds-digits.json"
    assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


@pytest.mark.slow
def test_what_samples_can_be_left_to_another_machine(tmp_path: Path) -> None:
    left = command("seeds", tmp_path, "--leave-sampling")
    assert left.returncode == 1
    assert {file.name.split("-")[1] for file in (tmp_path / "parts").glob("*.json")} == {"draw", "batches"}
    assert "3 of 3: " in command("seeds", tmp_path).stdout
