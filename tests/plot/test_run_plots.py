"""Plots of a finished run: what it keeps for them, and every line of the gallery."""

import json
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from support.runs import experiment
from thermoment.data import load as load_data
from thermoment.report.figures import draw
from thermoment.results.pictures import MISREAD, Misread, Pictures
from thermoment.results.results import Results, load
from thermoment.runs import run as runner
from thermoment.runs.folder import rewrite_report, verify

ROOT = Path(__file__).parents[2]
TEXT = """
engine = "reference"
[data]
name = "digits"
n_train = 60
n_test = 40
[protocol]
dt = 0.02
t_final = 0.2
n_replicas = 4
[readout]
epochs = 3
converged = false
[[reservoirs]]
name = "K1"
seed = 1
n_nodes = 5
stages = [{ surrogate = "mean", epochs = 2, learning_rate = 0.01 }]
[[reservoirs]]
name = "K2"
seed = 2
n_nodes = 4
"""
NEW = {"confusion", "misread", "training", "weights"}


def sketches(results: Results, folder: Path, pictures: Pictures) -> list[Path]:
    """An empty picture for every figure that would be drawn."""
    paths = [folder / f"{name}.svg" for name in draw._figures(results, pictures)]
    for path in paths:
        path.write_text("<svg/>", "utf-8")
    return paths


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be read only."""
    folder = tmp_path_factory.mktemp("plots")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(draw, "draw", sketches)
        runner.run(experiment(TEXT, folder), folder / "runs/digits")
    return folder / "runs/digits"


def test_a_run_keeps_its_most_confident_mistakes(finished: Path) -> None:
    digits = load_data("digits").first(60, 40)
    p = tm.load(finished).predict_proba(digits.x_test, sample_ids=np.arange(60, 100))
    expected, kept = Misread.of(digits.x_test, digits.y_test, p, (8, 8)), Misread.load(finished / MISREAD)
    assert 0 < len(kept) <= 24
    for name, found in vars(kept).items():
        np.testing.assert_array_equal(found, vars(expected)[name], err_msg=name)


def test_a_loaded_run_knows_its_confusion_and_its_training(finished: Path) -> None:
    machine, results = tm.load(finished), load(finished)
    assert isinstance(results, Results)
    assert results.confusion is not None
    counts = np.array(results.confusion.counts)
    row = next(row for row in results.accuracy if row.model == results.confusion.model)
    assert (np.trace(counts), counts.sum()) == (row.correct, 40)
    shown = tm.plot.confusion(machine).texts
    assert {text.get_position(): text.get_text() for text in shown} == {
        (column, row): str(n) for (row, column), n in np.ndenumerate(counts) if n
    }
    losses = json.loads((finished / "reservoirs/K1.losses.json").read_text("utf-8"))
    (line,) = tm.plot.training(machine).lines  # K2 was only drawn
    np.testing.assert_array_equal(line.get_ydata(), losses)
    other = tm.load(finished, "K1|feature|1,2,4|sgd")
    with pytest.raises(ValueError, match="nothing was counted for this machine"):
        tm.plot.confusion(other)


def test_the_report_shows_them(finished: Path) -> None:
    assert {path.stem for path in (finished / "figures").iterdir()} > NEW
    page = (finished / "report.html").read_text("utf-8")
    assert '<h2 id="mistakes">' in page
    assert '<h2 id="training">' in page
    assert "Most common of" in page


def test_another_confusion_is_found_out_and_an_older_run_has_none(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    results = json.loads((run / "results.json").read_text("utf-8"))
    results["confusion"]["counts"][0][1] += 1
    (run / "results.json").write_text(json.dumps(results), "utf-8")
    assert any('"confusion" of results.json does not follow' in problem for problem in verify(run))
    del results["confusion"]
    (run / "results.json").write_text(json.dumps(results), "utf-8")
    assert not any("confusion" in problem for problem in verify(run))
    (run / MISREAD).unlink()
    shutil.rmtree(run / "figures")
    monkeypatch.setattr(draw, "draw", sketches)
    page = rewrite_report(run).read_text("utf-8")
    assert {path.stem for path in (run / "figures").iterdir()} & NEW == {"training", "weights"}
    assert 'id="mistakes"' not in page
    assert 'id="training"' in page


def test_inputs_that_are_no_images_have_no_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = load_data("digits").first(60, 40)
    arrays = {name: getattr(digits, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    arrays |= {name: arrays[name][:, :60] for name in ("x_train", "x_test")}
    np.savez(tmp_path / "rows.npz", **arrays)
    given = experiment(TEXT, tmp_path)
    given = replace(given, data=replace(given.data, name=str(tmp_path / "rows.npz")))
    monkeypatch.setattr(draw, "draw", sketches)
    runner.run(given, tmp_path / "run")
    assert {path.stem for path in (tmp_path / "run/figures").iterdir()} & NEW == {"confusion", "training"}
    assert not (tmp_path / "run" / MISREAD).exists()
    assert verify(tmp_path / "run") == []
    with pytest.raises(ValueError, match="be the height and width of images of 60 pixels"):
        tm.plot.weights(tm.load(tmp_path / "run"))


@pytest.mark.slow
def test_every_picture_of_the_gallery_can_be_drawn(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.parents[1])
    tool = runpy.run_path(str(ROOT / "tools/gallery.py"))
    drawn = dict(tool["drawn"]())
    assert {f"docs/{name}" for name in drawn} == {
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/figures/gallery/*")
    }
    assert all(ax.get_figure() is not None for ax in drawn.values())
