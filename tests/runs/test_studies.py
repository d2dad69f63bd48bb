"""Studies: their runs share what they have in common, resume, and give one table; shares of them give the same."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.runs import TINY, contents, experiment
from support.sketches import node_of_zeros, sketch
from thermoment.data import load as load_data
from thermoment.experiments.experiment import Experiment
from thermoment.report.figures import draw
from thermoment.results.results import StudyResults, load
from thermoment.results.study import headlines, rows
from thermoment.runs import example_node, features, plan
from thermoment.runs.executors import Part
from thermoment.runs.folder import verify
from thermoment.runs.run import run_part
from thermoment.runs.store import read_sums, write_sums
from thermoment.runs.tasks import Job, read_later, tasks

SCAN = '[scan]\n"readout.epochs" = [2, 3]\n"protocol.t_final" = [0.06, 0.1]\n'


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)


def small(folder: Path, text: str = SCAN) -> Experiment:
    """Four points in two seeds: two times, each read in two ways, whose features are not kept."""
    shorter = {"n_train = 120": "n_train = 60", "n_test = 60": "n_test = 30", "n_replicas = 6": "n_replicas = 2"}
    written = TINY.replace("t_final = 0.2", "t_final = 0.06")
    for old, new in shorter.items():
        written = written.replace(old, new)
    one = experiment(written + text, folder)
    return replace(
        one,
        repeats=2,
        vary=("trajectories",),
        features=replace(one.features, keep=False),
        readout=replace(one.readout, converged=False),
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int], StudyResults]:
    """A study that has been run, how many images its chunks had, and its results."""
    folder, chunks = tmp_path_factory.mktemp("study"), []
    simulate_chunk = features.simulate_chunk

    def counted(reservoir: Any, inputs: Any, *rest: Any) -> Any:
        chunks.append(len(inputs))
        return simulate_chunk(reservoir, inputs, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw", sketch)
        patch.setattr(example_node, "simulate_node", node_of_zeros)
        patch.setattr(features, "simulate_chunk", counted)
        found = tm.run(small(folder), folder / "study")
    assert isinstance(found, StudyResults)
    return folder / "study", chunks, found


def test_what_points_have_in_common_is_done_once(finished: tuple[Path, list[int], StudyResults]) -> None:
    folder, chunks, _ = finished
    # 90 images through two reservoirs, at two times, with two seeds of the noise: read in two ways each.
    assert sum(chunks) == 90 * 2 * 2 * 2
    assert len(list(folder.parent.glob(".stages/static-*"))) == 2
    assert not list(folder.parent.glob(".stages/features-*"))
    first, second = (
        (folder / name / "readouts/K1.m1-m2-m4.sgd.safetensors").read_bytes()
        for name in ("epochs-2_t_final-0p06", "epochs-3_t_final-0p06")
    )
    assert first != second


def test_every_run_is_in_the_table(finished: tuple[Path, list[int], StudyResults]) -> None:
    folder, _, found = finished
    table = found.table()
    assert len(table) == 4 * 2 * (6 + 1)  # points, seeds, models and raw pixels
    assert list(table.columns[:3]) == ["variant", "readout.epochs", "protocol.t_final"]
    for number, name in enumerate(("", "repeat-1")):
        inner = load(folder / "epochs-3_t_final-0p1" / name)
        chosen = table[
            (table["readout.epochs"] == 3) & (table["protocol.t_final"] == 0.1) & (table["repeat"] == number)
        ]
        expected = [row.correct for row in (*inner.accuracy, *inner.baseline)]  # type: ignore[union-attr]
        assert chosen["correct"].tolist() == expected
    assert ((table["low"] < table["accuracy"]) & (table["accuracy"] < table["high"])).all()
    with open(folder / "study.csv", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [int(row["correct"]) for row in written] == table["correct"].tolist()
    parsed = json.loads((folder / "study.json").read_text())
    assert parsed["factors"] == ["readout.epochs", "protocol.t_final"]
    assert [n for row in parsed["rows"] for n in row["correct"]] == table["correct"].tolist()
    assert load(folder) == found


def test_the_first_point_is_what_others_are_held_against(finished: tuple[Path, list[int], StudyResults]) -> None:
    lines = headlines(finished[2])
    assert lines[0].beside is None
    first, last = (np.array(line.row.correct) / line.row.total for line in (lines[0], lines[-1]))
    assert lines[-1].beside is not None
    assert lines[-1].beside.mean == pytest.approx((last - first).mean())
    report = (finished[0] / "report.html").read_text()
    assert "t_final = 0.1" in report
    assert "Less the first" in report


def test_a_study_that_is_done_does_nothing_again(finished: tuple[Path, list[int], StudyResults]) -> None:
    folder, _, found = finished
    before, heard = contents(folder), []
    assert tm.run(small(folder.parent), folder, listener=lambda *told: heard.append(told)) == found
    assert heard == []
    assert contents(folder) == before
    assert verify(folder) == []


@pytest.mark.slow
def test_shares_of_a_study_give_the_same_files(finished: tuple[Path, list[int], StudyResults], tmp_path: Path) -> None:
    one = small(tmp_path)
    done = [run_part(one, Part(k, 2), tmp_path / "study") for k in (1, 2, 1)]
    assert done[0] is None
    assert done[2] is not None
    assert contents(tmp_path / "study") == contents(finished[0])


def test_features_stay_until_the_last_point_that_reads_them(tmp_path: Path) -> None:
    later = read_later(small(tmp_path), 120, 60)
    assert {reader: sorted(names) for reader, names in later.items()} == {
        (f"epochs-{epochs}_t_final-{t}", repeat): ["K1", "K2"] if epochs == 2 else []
        for epochs in (2, 3)
        for t in ("0p06", "0p1")
        for repeat in (0, 1)
    }


def test_what_a_gpu_trains_side_by_side_others_do_not_read(tmp_path: Path) -> None:
    """A repeat that is trained with others is rounded otherwise than by itself: its features are of no use to them."""
    text = '[variants.all]\nvary = ["reservoirs"]\n[variants.noise]\nvary = ["trajectories"]\n'
    study = replace(small(tmp_path, text))
    alone, together = (read_later(study, 120, 60, accelerated) for accelerated in (False, True))
    assert alone["all", 0] == {"K1", "K2"}
    assert together["all", 0] == set()


def test_repeats_that_share_their_reservoirs_train_them_once(tmp_path: Path) -> None:
    for accelerated in (False, True):
        every = tasks(Job(small(tmp_path), "", "", None, "", accelerated=accelerated), 120, 60)
        assert {task.repeats for task in every if task.kind == "static"} == {(0,)}
        kinds = [task.kind for task in every]
        assert (kinds.count("static"), kinds.count("features"), kinds.count("readouts")) == (2, 2 * 2 * 8, 8)


def test_a_plan_counts_what_is_in_common_once(tmp_path: Path) -> None:
    text = '[scan]\n"readout.epochs" = [2, 3]\n"protocol.t_final" = [0.06, 0.6]\n'
    study, dataset = small(tmp_path, text), load_data("digits").first(120, 60)
    points = {name: study.variant(name) for name in study.points}
    work = plan._work(points, study, dataset)
    assert (work.n_images, work.chunks) == (180 * 2 * 2 * 2, 4 * 2 * 2 * 2)  # reservoirs, times, seeds
    assert work.node_steps == 180 * (6 + 4) * 2 * (3 + 30) * 2
    assert (work.epochs, work.n_readouts) == (2, 8 * 5)
    assert work.equivalent("native", next(iter(points.values()))) == pytest.approx(180 * 2 * (1 + 10))
    assert work.equivalent("meanfield", next(iter(points.values()))) == pytest.approx(180 * 2 * 2)


def test_batches_alone_are_varied(tmp_path: Path) -> None:
    one = replace(small(tmp_path, ""), vary=("batches",))
    tm.run(one, tmp_path / "run")
    first, other = (tmp_path / f"run/{name}/reservoirs" for name in (".", "repeat-1"))
    trained = [tm.Reservoir.load(folder / "K1.safetensors") for folder in (first, other)]
    np.testing.assert_array_equal(trained[0].W, trained[1].W)
    assert np.any(trained[0].K != trained[1].K)
    assert (first / "K2.safetensors").read_bytes() == (other / "K2.safetensors").read_bytes()  # it is not trained


def test_one_run_has_a_table_too(finished: tuple[Path, list[int], StudyResults]) -> None:
    inner = load(finished[0] / "epochs-2_t_final-0p06")
    assert [row["repeat"] for row in rows(inner)[:2]] == [0, 1]
    assert {row["model"] for row in rows(inner)} == {"K1", "K2", "K1+K2", "raw pixels"}


def test_a_study_that_is_not_that_of_its_runs_is_found(
    finished: tuple[Path, list[int], StudyResults], tmp_path: Path
) -> None:
    shutil.copytree(finished[0], tmp_path / "study")
    point, *others = finished[2].study
    row, *rest = point.accuracy
    wrong = replace(row, correct=(row.correct[0] + 1, *row.correct[1:]))
    changed = replace(finished[2], study=(replace(point, accuracy=(wrong, *rest)), *others))
    (tmp_path / "study/results.json").write_text(changed.to_json())
    write_sums(tmp_path / "study", ["results.json"], read_sums(tmp_path / "study"))
    assert verify(tmp_path / "study") == [
        "results.json has other accuracies of epochs-2_t_final-0p06 than its run",
        "study.json does not follow from results.json",
        "study.csv does not follow from results.json",
    ]


def test_without_pandas_a_table_says_so(
    finished: tuple[Path, list[int], StudyResults], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RuntimeError, match="A table needs pandas: pip install pandas"):
        finished[2].table()
