"""A whole run: its files, resuming, damage, kills, a full disk, sharing between experiments."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.runs import TINY, contents, copied, experiment
from thermoment._engines.reference import Reference
from thermoment._engines.task import Outcome, Report, Task
from thermoment.data import load as load_data
from thermoment.experiments.experiment import Experiment, read
from thermoment.learning.readout import Readout
from thermoment.learning.surrogate import train_side_by_side
from thermoment.results.naming import ModelKey, readout_file
from thermoment.results.results import load
from thermoment.runs import reservoirs
from thermoment.runs import run as runner
from thermoment.runs.compare import compare
from thermoment.runs.context import Context
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.fits import columns
from thermoment.runs.folder import rewrite_report, verify
from thermoment.runs.predictions import load_predictions
from thermoment.runs.store import Store

SIZES = {"K1": 6, "K2": 4}
FILES = {"experiment.toml", "results.json", "predictions.npz", "environment.json", "report.html", "SHA256SUMS"}
FILES |= {"node.safetensors"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(TINY, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def finished(tiny: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    runner.run(tiny, folder)
    return folder


class Heard:
    """A listener that remembers what was done."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}

    def __call__(self, what: str, done: int, total: int, _: str = "", /) -> None:
        self.done[what] = done


def features(folder: Path, name: str, n_nodes: int, chunk: int = 50) -> FeatureStore:
    return FeatureStore(folder / "features.zarr" / name, 180, (1, 2, 4), n_nodes, chunk)


def test_a_run_has_all_its_files_and_they_verify(finished: Path) -> None:
    found = set(contents(finished))
    assert found >= FILES
    assert {"reservoirs/K1.safetensors", "reservoirs/K2.safetensors", "features.zarr/zarr.json"} <= found
    assert {f"readouts/K1+K2.m1-m2-m4.{fit}.safetensors" for fit in ("sgd", "converged")} <= found
    assert any(name.startswith("figures/") and name.endswith(".svg") for name in found)
    assert any(name.startswith("figures/") and name.endswith(".png") for name in found)
    subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=finished, check=True, capture_output=True)
    listed = [line.partition("  ")[2] for line in (finished / "SHA256SUMS").read_text().splitlines()[1:]]
    assert set(listed) == found - {"SHA256SUMS"}
    assert verify(finished) == []
    assert read(finished / "experiment.toml").reservoirs[1].s_W == 0.2


def test_features_are_those_of_simulate_with_ids_from_training_to_test(tiny: Experiment, finished: Path) -> None:
    from thermoment.data import load

    digits = load("digits").first(120, 60)
    inputs = np.concatenate([digits.x_train, digits.x_test])
    for stream, (name, n_nodes) in enumerate({"K1": 6, "K2": 4}.items()):
        reservoir = tm.Reservoir.load(finished / f"reservoirs/{name}.safetensors")
        assert reservoir.stream == stream
        moments = tm.simulate(reservoir, inputs, tiny.protocol, engine="reference", sample_ids=np.arange(180))
        np.testing.assert_array_equal(
            features(finished, name, n_nodes).features(), moments.features().astype(np.float32)
        )


def test_predictions_follow_from_features_and_readouts(finished: Path) -> None:
    stores = {"K1": features(finished, "K1", 6), "K2": features(finished, "K2", 4)}
    test = np.concatenate([store.features(slice(120, None)) for store in stores.values()], axis=1)
    _, predictions = load_predictions(finished)
    joined = [model for model in predictions if model.fusion == "feature"]
    assert len(joined) == 2 * 5
    for model in joined:
        readout = Readout.load(finished / "readouts" / readout_file(model))
        np.testing.assert_array_equal(predictions[model], readout.predict(test[:, columns(model, SIZES, (1, 2, 4))]))
    logit = ModelKey(("K1", "K2"), (1, 2, 4), "logit", "sgd")
    halves = [
        Readout.load(finished / "readouts" / readout_file(ModelKey((name,), (1, 2, 4)))).logits(
            stores[name].features(slice(120, None))
        )
        for name in stores
    ]
    np.testing.assert_array_equal(predictions[logit], np.mean(halves, axis=0).argmax(1))


def test_what_an_answer_takes_is_the_work_on_the_test_samples(tiny: Experiment, finished: Path) -> None:
    """The account of the same paths: switching the drive on and off, six replicas of both reservoirs."""
    cost = load(finished).cost  # type: ignore[union-attr]
    assert cost is not None
    machine = tm.load(finished)
    images = load_data("digits").first(120, 60).x_test
    for name, one in machine.reservoirs.items():
        ids = np.arange(120, 180)
        account = tm.energetics(one, images, tiny.protocol, engine="reference", sample_ids=ids)
        assert cost.cycles[name] == pytest.approx((account.work_on + account.work_off).mean(), rel=1e-5)
    assert cost.answer == pytest.approx(6 * sum(cost.cycles.values()), rel=1e-5)
    assert cost.counted == ("work_on", "work_off")
    assert compare(finished, finished)["cost"] == [cost.answer, cost.answer]


def test_columns_are_the_orders_of_the_chosen_reservoirs() -> None:
    assert columns(ModelKey(("K2",), (1, 2, 4)), SIZES, (1, 2, 4)).tolist() == list(range(18, 30))
    assert columns(ModelKey(("K1", "K2"), (1,)), SIZES, (1, 2, 4)).tolist() == [*range(6), *range(18, 22)]
    assert columns(ModelKey(("K1", "K2"), (2, 4)), SIZES, (1, 2, 4)).tolist() == [*range(6, 18), *range(22, 30)]


@pytest.mark.slow
def test_the_same_experiment_twice_has_the_same_bytes(tiny: Experiment, finished: Path, tmp_path: Path) -> None:
    runner.run(tiny, tmp_path / "again/tiny")
    assert contents(tmp_path / "again/tiny") == contents(finished)


def test_a_second_command_computes_nothing(tiny: Experiment, finished: Path) -> None:
    before, heard = contents(finished), Heard()
    runner.run(tiny, finished, listener=heard)
    assert heard.done == {}
    assert contents(finished) == before


@pytest.mark.slow
def test_another_chunk_size_gives_the_same_features(tiny: Experiment, finished: Path, tmp_path: Path) -> None:
    runner.run(replace(tiny, features=replace(tiny.features, chunk=37)), tmp_path / "run")
    for name, n_nodes in {"K1": 6, "K2": 4}.items():
        other = features(tmp_path / "run", name, n_nodes, 37).features()
        np.testing.assert_array_equal(other, features(finished, name, n_nodes).features())
    one, two = (json.loads((folder / "results.json").read_text()) for folder in (finished, tmp_path / "run"))
    assert one == two


@pytest.mark.slow
def test_chunks_under_way_at_the_same_time_are_kept_in_their_places(
    tiny: Experiment, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(3, timeout=60)
    real = Reference.moments

    def moments(self: Reference, task: Task, report: Report) -> Outcome:
        if task.n_samples == 50 and task.n_nodes == 6:  # three of the four chunks of K1
            together.wait()
        return real(self, task, report)

    monkeypatch.setattr(Reference, "tasks_at_once", 3)
    monkeypatch.setattr(Reference, "moments", moments)
    heard = Heard()
    runner.run(tiny, tmp_path / "tiny", listener=heard)
    assert contents(tmp_path / "tiny") == contents(finished)
    assert heard.done["reference K1, images"] == 180


@pytest.mark.slow
def test_only_what_changed_is_computed(tiny: Experiment, finished: Path, tmp_path: Path) -> None:
    copied(finished, tmp_path / "a")
    heard = Heard()
    runner.run(replace(tiny, name="b", readout=replace(tiny.readout, epochs=4)), tmp_path / "b", listener=heard)
    assert {what.split()[0] for what in heard.done} == {"5", "raw", "readouts", "figures"}
    heard = Heard()
    second = replace(tiny.reservoirs[1], seed=3)
    runner.run(replace(tiny, reservoirs=(tiny.reservoirs[0], second)), tmp_path / "a", listener=heard)
    assert "reference K2, images" in heard.done
    assert "reference K1, images" not in heard.done
    assert not any(what.startswith("training") for what in heard.done)  # K2 has no stages
    assert verify(tmp_path / "a") == []
    assert verify(tmp_path / "b") == []


def test_a_flipped_byte_is_found_and_only_its_chunk_recomputed(
    tiny: Experiment, finished: Path, tmp_path: Path
) -> None:
    copied(finished, tmp_path / "run")
    whole = contents(tmp_path / "run")
    assert whole == contents(finished)
    for name in [n for n in whole if "/moments/c/" in n]:
        data = bytearray(whole[name])
        data[len(data) // 3] ^= 4
        with open(tmp_path / "run" / name, "r+b") as file:  # the same file on disk as the store's
            file.write(data)
        problems = verify(tmp_path / "run")
        assert any(name in problem for problem in problems)
        heard = Heard()
        runner.run(tiny, tmp_path / "run", listener=heard)
        number = int(name.split("/")[4])
        assert list(heard.done.values()) == [30 if number == 3 else 50]
        assert contents(tmp_path / "run") == whole


@pytest.mark.parametrize(
    "name", ["predictions.npz", "readouts/K1.m1-m2-m4.sgd.safetensors", "reservoirs/K1.safetensors"]
)
def test_damage_elsewhere_is_found_and_mended(tiny: Experiment, finished: Path, tmp_path: Path, name: str) -> None:
    copied(finished, tmp_path / "run")
    with open(tmp_path / "run" / name, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\x55\xaa\x33")
    assert any(name in problem for problem in verify(tmp_path / "run"))
    runner.run(tiny, tmp_path / "run")
    assert contents(tmp_path / "run") == contents(finished)


def test_verify_derives_every_number_again(finished: Path, tmp_path: Path) -> None:
    copied(finished, tmp_path / "run")
    results = json.loads((tmp_path / "run/results.json").read_text())

    def numbers(value: Any, where: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if isinstance(value, dict | list):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from numbers(item, (*where, key))
        elif isinstance(value, int | float):
            yield where

    keys = ("accuracy", "mcnemar", "jaccard", "differences", "regions", "clip_count", "cost")
    places = [where for key in keys for where in numbers(results[key], (key,))]
    assert len(places) > 150
    assert sum(where[0] == "cost" for where in places) == 3  # an answer, and a cycle of each reservoir
    for where in (*places[:: len(places) // 40], *places[-3:]):
        changed = json.loads(json.dumps(results))
        inner = changed
        for step in where[:-1]:
            inner = inner[step]
        inner[where[-1]] += 1
        (tmp_path / "run/results.json").unlink()
        (tmp_path / "run/results.json").write_text(json.dumps(changed))
        problems = verify(tmp_path / "run")
        words = ("does not follow", "add up", "is not the results of a run", "replicas take")
        assert any(word in problem for problem in problems for word in words), where


def test_verify_says_that_it_did_not_derive_a_cost(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    assert verify(finished, note=told.append) == []
    assert told == []
    other = load_data("digits").first(120, 59)
    monkeypatch.setattr("thermoment.data._digits", lambda: other)
    assert verify(finished, note=told.append) == []
    monkeypatch.setattr("thermoment.data.is_here", lambda *_: False)
    assert verify(finished, note=told.append) == []
    assert [sentence.partition(": ")[2] for sentence in told] == [
        "the data set digits is another one now.",
        "the data set digits is not on this machine (--data-dir names its folder).",
    ]


def test_repeats_and_variants(tiny: Experiment, tmp_path: Path) -> None:
    plain = replace(
        tiny,
        repeats=2,
        features=replace(tiny.features, keep=False),
        readout=replace(tiny.readout, converged=False),
        variants={"asis": {"description": "as it is"}, "shared": {"reservoirs": {"K2": {"start": "K1", "n_nodes": 6}}}},
    )
    results = runner.run(plain, tmp_path / "study").plain()
    assert [row["variant"] for row in results["study"]] == ["asis", "shared"]
    for row in results["study"]:
        assert all(len(entry["correct"]) == 2 for entry in row["accuracy"])
        for repeat in ("", "repeat-1"):
            inner = json.loads((tmp_path / "study" / row["variant"] / repeat / "results.json").read_text())
            number = 1 if repeat else 0
            assert [e["correct"] for e in inner["accuracy"]] == [e["correct"][number] for e in row["accuracy"]]
    assert (tmp_path / "study/report.html").exists()
    assert not list(tmp_path.glob(".stages/features-*"))
    assert not (tmp_path / "study/asis/features.zarr").exists()
    K1, K2 = (tm.Reservoir.load(tmp_path / f"study/shared/reservoirs/{name}.safetensors") for name in ("K1", "K2"))
    np.testing.assert_array_equal(K1.W, K2.W)
    assert np.any(K1.K != K2.K)  # K1 was trained from there, K2 was not
    told: set[str] = set()
    assert verify(tmp_path / "study", note=told.add) == []
    assert told == {"The cost of an answer was not derived again: the run keeps no features."}
    heard = Heard()
    assert runner.run(plain, tmp_path / "study", listener=heard).plain() == results
    assert heard.done == {}


@pytest.mark.slow
def test_files_of_an_earlier_run_go_and_a_persons_own_stay(tiny: Experiment, finished: Path, tmp_path: Path) -> None:
    copied(finished, tmp_path / "run")
    (tmp_path / "run/notes.txt").write_text("mine")
    runner.run(
        replace(tiny, reservoirs=tiny.reservoirs[:1], readout=replace(tiny.readout, converged=False)), tmp_path / "run"
    )
    assert (tmp_path / "run/notes.txt").read_text() == "mine"
    assert not (tmp_path / "run/reservoirs/K2.safetensors").exists()
    assert sorted(path.name for path in (tmp_path / "run/features.zarr").iterdir()) == ["K1", "zarr.json"]
    assert verify(tmp_path / "run") == []


def test_a_folder_that_is_not_a_run_is_left_alone(tiny: Experiment, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years")
    with pytest.raises(ValueError, match="exists and is not a run"):
        runner.run(tiny, tmp_path / "mine")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.tex"]


@pytest.mark.slow
def test_a_kill_at_the_first_file_or_its_loss_does_not_block_the_run(tiny: Experiment, tmp_path: Path) -> None:
    few = replace(tiny, reservoirs=tiny.reservoirs[1:], repeats=2, readout=replace(tiny.readout, converged=False))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".experiment.toml.1234abcd.partial").write_text("half")
    runner.run(few, folder)
    whole = contents(folder)
    assert not any(name.endswith(".partial") for name in whole)
    (folder / "experiment.toml").unlink()
    runner.run(few, folder)
    assert contents(folder) == whole


@pytest.mark.slow
def test_a_killed_run_with_repeats_has_its_first_file_before_any_repeat(tiny: Experiment, tmp_path: Path) -> None:
    few = replace(tiny, reservoirs=tiny.reservoirs[1:], repeats=2, readout=replace(tiny.readout, converged=False))

    def stop(what: str, done: int, total: int, detail: str = "", /) -> None:  # noqa: ARG001
        if (tmp_path / "run/repeat-1").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(few, tmp_path / "run", listener=stop)
    assert (tmp_path / "run/experiment.toml").exists()
    runner.run(few, tmp_path / "run")
    assert verify(tmp_path / "run") == []


@pytest.mark.slow
def test_two_runs_side_by_side_share_a_store(tiny: Experiment, finished: Path, tmp_path: Path) -> None:
    other = replace(tiny, name="other", reservoirs=tiny.reservoirs[:1], readout=replace(tiny.readout, converged=False))
    jobs = [(tiny, "tiny"), (other, "other")]
    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(runner.run, one, tmp_path / name) for one, name in jobs]:
            job.result()
    assert contents(tmp_path / "tiny") == contents(finished)
    assert verify(tmp_path / "other") == []
    assert len(list(tmp_path.glob(".stages/features-*"))) == 2


@pytest.mark.slow
def test_a_report_made_again_does_not_make_a_damaged_list_look_whole(finished: Path, tmp_path: Path) -> None:
    copied(finished, tmp_path / "run")
    (tmp_path / "run/SHA256SUMS").unlink()
    rewrite_report(tmp_path / "run")
    assert verify(tmp_path / "run") == ["SHA256SUMS is missing or is not a whole list of checksums"]


def test_the_report_of_an_older_run_leaves_its_node_out_in_words(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run/node.safetensors").unlink()
    shutil.rmtree(tmp_path / "run/figures")
    page = rewrite_report(tmp_path / "run").read_text("utf-8")
    drawn = {path.stem for path in (tmp_path / "run/figures").iterdir()}
    assert drawn == {"confusion", "errors", "fusion", "misread", "training", "weights"}
    assert "which this run does not have" in page


@pytest.mark.slow
@pytest.mark.parametrize("key", ["clip", "n_replicas"])
def test_an_infinite_setting_is_written_and_read_again(tiny: Experiment, tmp_path: Path, key: str) -> None:
    protocol = replace(tiny.protocol, **{key: float("inf")})  # type: ignore[arg-type]
    results = runner.run(replace(tiny, engine="meanfield", protocol=protocol), tmp_path / "run")
    assert load(tmp_path / "run") == results
    assert results.settings["protocol"][key] == float("inf")
    assert json.loads((tmp_path / "run/results.json").read_text())["settings"]["protocol"][key] is None
    assert verify(tmp_path / "run") == []


def test_machines_that_differ_in_heat_and_coupling_share_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The surrogates know neither: what they train is that of a machine that is trained by itself."""
    text = TINY + 'stages = [{ surrogate = "mean", epochs = 3, learning_rate = 0.01 }]\n'
    plain = experiment(text, tmp_path)
    hot = replace(plain, dynamics=replace(plain.dynamics, kT=0.7))
    coupled = replace(hot, reservoirs=tuple(replace(one, s_W=0.6) for one in hot.reservoirs))
    wide = replace(plain, dynamics=replace(plain.dynamics, J4=0.5))
    dataset, trainings = load_data("digits").first(120, 60), []

    def training(*arguments: Any, **options: Any) -> Any:
        trainings.append(arguments)
        return train_side_by_side(*arguments, **options)

    monkeypatch.setattr(reservoirs, "train_side_by_side", training)
    shared, own = (Context(Store.at(tmp_path / name)) for name in ("shared", "own"))
    first, second, third, fourth = (
        reservoirs.make_static([one], dataset, shared)[0].reservoirs for one in (plain, hot, coupled, wide)
    )
    assert len(trainings) == 2 * len(plain.reservoirs), "those of the first and of the last"
    (alone,) = reservoirs.make_static([coupled], dataset, own)
    for name, reservoir in alone.reservoirs.items():
        assert all(np.array_equal(getattr(reservoir, key), getattr(third[name], key)) for key in ("W", "K", "b"))
        assert np.array_equal(first[name].K, second[name].K)
        assert np.array_equal(first[name].K, third[name].K)
        assert not np.array_equal(first[name].W, third[name].W)
        assert not np.array_equal(first[name].K, fourth[name].K)
        assert second[name].dynamics.kT == third[name].dynamics.kT == 0.7


def test_reservoirs_trained_side_by_side_are_those_trained_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one core they are trained in turn, on two each in a thread of its own, the longer training first."""
    text = TINY + 'stages = [{ surrogate = "mean", epochs = 3, learning_rate = 0.01 }]\n'
    trained = experiment(text, tmp_path)
    dataset = load_data("digits").first(120, 60)
    found, threads = [], []

    def training(*arguments: Any, **options: Any) -> Any:
        threads.append((threading.current_thread() is threading.main_thread(), options["one_core"]))
        return train_side_by_side(*arguments, **options)

    monkeypatch.setattr(reservoirs, "train_side_by_side", training)
    for cores in (1, 2):
        monkeypatch.setattr(reservoirs, "cores", lambda cores=cores: cores)
        (made,) = reservoirs.make_static([trained], dataset, Context(Store.at(tmp_path / str(cores))))
        assert list(made.reservoirs) == ["K1", "K2"]
        found.append({name: path.read_bytes() for name, path in made.files.items()})
    assert threads == [(True, False), (True, False), (False, True), (False, True)]
    assert found[0] == found[1]
