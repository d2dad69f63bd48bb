"""The command line as a person uses it: what it prints where, and how it ends."""

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import thermoment
from support.digits_by_hand import DIGITS
from support.runs import TINY, contents
from thermoment.cli import main
from thermoment.data import load
from thermoment.data.drawing import draw
from thermoment.experiments.experiment import read
from thermoment.runs import plan
from thermoment.runs import run as runner


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "tiny.toml"
    path.write_text(TINY, "utf-8")
    return path


@pytest.fixture(scope="module")
def ended(tiny: Path) -> Result:
    """How the command ended that made the run."""
    return call("run", tiny, "--out", tiny.parent / "runs/tiny", "--json")


@pytest.fixture(scope="module")
def run(tiny: Path, ended: Result) -> Path:
    """A finished run."""
    assert ended.exit_code == 0, ended.stderr
    return tiny.parent / "runs/tiny"


def test_a_run_prints_results_on_stdout_and_progress_on_stderr(tiny: Path, run: Path, ended: Result) -> None:
    results = json.loads(ended.stdout)
    assert results == json.loads((run / "results.json").read_text())
    assert "training K1, epochs: 2/2" in ended.stderr
    assert "reference K2, images: 180/180" in ended.stderr
    table = call("run", tiny, "--out", run)
    assert "training" not in table.stderr
    for row in results["accuracy"]:
        assert f"{row['correct']}  {100 * row['accuracy']:.1f}\N{NO-BREAK SPACE}%" in table.stdout
    assert table.stdout.rstrip().endswith("report.html")


def test_the_installed_program_is_this_one(run: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "thermoment", "verify", str(run)], capture_output=True, text=True, check=True
    )
    assert "is whole" in done.stdout


@pytest.mark.slow
def test_verify_names_what_is_wrong(tiny: Path, tmp_path: Path) -> None:
    call("run", tiny, "--out", tmp_path / "run")
    assert call("verify", tmp_path / "run").exit_code == 0
    with open(tmp_path / "run/predictions.npz", "ab") as file:
        file.write(b"x")
    done = call("verify", tmp_path / "run")
    assert done.exit_code == 1
    assert "predictions.npz is missing or has other bytes" in done.stdout
    assert "1 problem" in done.stderr


def test_report_is_made_again_from_the_results(run: Path) -> None:
    before = contents(run)
    for path in (run / "report.html", *(run / "figures").iterdir()):
        path.unlink()
    done = call("report", run)
    assert done.exit_code == 0, done.stderr
    assert contents(run) == before
    assert call("verify", run).exit_code == 0


@pytest.mark.slow
def test_compare_tells_settings_and_tests_on_the_same_images(tiny: Path, run: Path, tmp_path: Path) -> None:
    assert call("run", tiny, "--out", tmp_path / "b", "--set", "reservoirs.K2.seed=9").exit_code == 0
    found = json.loads(call("compare", run, tmp_path / "b", "--json").stdout)
    assert found["settings"] == {"settings.reservoirs.K2.seed": [2, 9]}
    rows = {row["model"]: row for row in found["accuracy"]}
    alone = rows["K1|feature|1,2,4|sgd"]
    assert (alone["a"], alone["p"]) == (alone["b"], 1.0)
    assert any(row["a"] != row["b"] for row in rows.values())
    assert all(0 < row["p"] <= 1 for row in rows.values())
    table = call("compare", run, tmp_path / "b").stdout
    assert "reservoirs.K2.seed" in table
    assert f"{run.name}: {found['headline']['a']} of 60 correct" in table
    assert "(K1+K2, paper's readout)" in table
    assert call("run", tiny, "--out", tmp_path / "c", "--set", "data.n_test=50").exit_code == 0
    other = json.loads(call("compare", run, tmp_path / "c", "--json").stdout)
    assert all(row["p"] is None for row in other["accuracy"])
    assert call("run", tiny, "--out", tmp_path / "d", "--set", "readout.converged=false").exit_code == 0
    fewer = json.loads(call("compare", run, tmp_path / "d", "--json").stdout)
    assert {row["model"]: row["b"] for row in fewer["accuracy"]} == {
        key: rows[key]["a"] if key.endswith("sgd") else None for key in rows
    }


def test_a_dry_run_counts_and_writes_nothing(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_TRIAL_SECONDS", 0.02)
    arguments = ("run", tiny, "--out", tmp_path / "run", "--set", "repeats=3", "--dry-run")
    found = json.loads(call(*arguments, "--json").stdout)
    assert found["node_steps"] == 3 * 180 * (6 + 4) * 6 * 10
    assert found["n_images"] == 3 * 180 * 2
    assert found["chunks"] == 3 * 2 * 4
    assert found["epochs"] == 3 * 2
    assert found["n_readouts"] == 3 * 5 * 2
    assert found["disk_bytes"] == 3 * 180 * 10 * 3 * 4
    assert found["seconds"]["reference"] > 0
    assert list(tmp_path.iterdir()) == []
    assert "node-steps" in call(*arguments).stdout


def test_info_and_data_say_what_is_here() -> None:
    found = json.loads(call("info", "--json").stdout)
    assert found["environment"]["thermoment"] == thermoment.__version__
    assert found["engines"]["reference"]["can_run"]
    assert {"digits", "paper", "readings", "adam"} <= set(found["experiments"])
    assert "reference" in call("info").stdout
    assert json.loads(call("data", "digits", "--json").stdout)["n_train"] == 1297
    assert any(row["name"] == "digits" and row["present"] for row in json.loads(call("data", "--json").stdout))
    assert "would be downloaded from there" in call("data").stdout
    assert "n_train: 1297\n" in call("data", "digits").stdout


MISTAKES = [
    "--help",
    "run papr",
    "run digits --set protocol.n_replica=3",
    "run digits --engine cud",
    "run digits --set scan.protocol.kT=[1.0]",
    "bench --engine a",
]


@pytest.mark.parametrize("arguments", MISTAKES)
def test_help_and_mistakes_wait_for_nothing_heavy(arguments: str) -> None:
    program = f"""
import sys
from thermoment.cli import main
try:
    main({arguments.split()!r})
except SystemExit as end:
    heavy = [name for name in ("jax", "optax", "zarr", "matplotlib", "sklearn", "scipy") if name in sys.modules]
    print(end.code, *heavy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ("0" if arguments == "--help" else "2")


def test_help_says_whole_sentences() -> None:
    lines = call("-h").stdout.split("Commands:\n")[1].splitlines()
    assert len(lines) == len(main.commands)
    for line in lines:
        assert line.endswith("."), line
        assert not line.endswith("..."), line


def test_a_file_that_is_no_experiment_is_told_what_one_is(tmp_path: Path) -> None:
    (tmp_path / "wine.txt").write_text("14.23,1.71,2.43\n", "utf-8")
    done = call("run", tmp_path / "wine.txt")
    assert done.exit_code == 2
    assert "wine.txt is not an experiment. An experiment is one of adam, " in done.stderr
    assert "an .npz or a CSV file, as in --set data.name=own.npz" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "papr"), "Did you mean paper?"),
        (("run", "digits", "--set", "protocol.n_replica=3"), "did you mean `protocol.n_replicas`?"),
        (("run", "digits", "--engine", "cud"), "one of auto, reference, xla, native, cuda, meanfield"),
        (("run", "wine.csv"), "Which column holds the classes? Say it by --set data.label=COLUMN."),
        (("run", "digits", "--set", "data.test_share=0.5"), "`label` must name the column with the classes"),
        (("run", "digits", "--sett", "a=b"), "No such option"),
        (("verify", "no-such-folder"), "does not exist"),
        (("frobnicate",), "No such command"),
    ],
)
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...], message: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "data.name=nowhere.npz"), "nowhere.npz"),
        (("--set", "protocol.n_replicas=inf"), "must be finite for an engine that samples"),
        (("--set", "data.n_train=99999"), "n_train"),
    ],
)
def test_failures_end_with_one_and_one_line(
    tiny: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = call("run", tiny, "--out", tmp_path / "run", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (KeyboardInterrupt(), "Interrupted. What was computed is kept", 130),
        (OSError(errno.ENOSPC, "No space left on device", "chunk"), "No space left on the disk to write chunk", 1),
        (OSError(errno.EIO, "Input/output error", "chunk"), "thermoment: Input/output error: chunk.", 1),
        (RuntimeError("the store is in use by another run"), "in use by another run", 1),
        (KeyError("x"), "KeyError: 'x'. This is a mistake of thermoment itself; THERMOMENT_DEBUG=1", 1),
        (MemoryError(), "thermoment: There is not enough memory here.", 1),
    ],
)
def test_what_stops_a_run_is_said_in_a_sentence(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str, code: int
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(runner, "run", stop)
    done = call("run", tiny, "--out", tmp_path / "run")
    assert done.exit_code == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    monkeypatch.setenv("THERMOMENT_DEBUG", "1")
    shown = "Traceback" in call("run", tiny, "--out", tmp_path / "run").stderr
    assert shown == isinstance(error, Exception)


def test_a_gpu_is_not_tried_with_what_it_does_in_minutes(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, digits = read(tiny), load("digits").first(40, 20)
    tried: list[str] = []
    monkeypatch.setattr(plan, "choose", lambda engine: (SimpleNamespace(name=engine), ""))

    def seconds_for(engine: str, *_: Any) -> float:
        tried.append(engine)
        return 0.0

    monkeypatch.setattr(plan, "seconds_for", seconds_for)
    few = plan._work({"": experiment}, experiment, digits).node_steps
    for worth in (few / 2, few / 200):
        monkeypatch.setattr(plan, "_WORTH_A_TRIAL", worth)
        for engine in ("native", "cuda"):
            plan.warning(replace(experiment, engine=engine), digits)
    assert tried == ["native", "native", "cuda"]


def test_hours_of_sampling_are_said_before_they_begin(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "hours on this machine. To get an answer in minutes, stop and add --engine meanfield"
    experiment, digits = read(tiny), load("digits").first(40, 20)
    assert plan.warning(experiment, digits) is None  # it takes seconds
    monkeypatch.setattr(plan, "_WORTH_A_TRIAL", 0.0)
    assert plan.warning(experiment, digits) is None
    monkeypatch.setattr(plan, "_LONG_SECONDS", 0.0)
    assert plan.warning(replace(experiment, engine="meanfield"), digits) is None
    assert said in str(plan.warning(experiment, digits))

    def stop(*_: object) -> None:
        raise RuntimeError("here the work would begin")

    monkeypatch.setattr(runner, "with_repeats", stop)
    stderr = call("run", tiny, "--out", tmp_path / "run").stderr
    assert stderr.index(said) < stderr.index("here the work would begin")
    (tmp_path / "done").mkdir()
    for name in ("SHA256SUMS", "results.json"):
        (tmp_path / "done" / name).write_text("")
    assert said not in call("run", tiny, "--out", tmp_path / "done").stderr  # it is finished


def test_bench_measures_what_is_asked_for() -> None:
    done = call("bench", "--engine", "meanfield", "--seconds", "0.01", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    (speed,) = found["speeds"]
    assert speed["engine"] == "meanfield"
    assert speed["paper_seconds"] == pytest.approx(210_000 / speed["images_per_second"])
    assert "meanfield: round 3 of 3" in done.stderr
    table = call("bench", "--engine", "meanfield", "--seconds", "0.01")
    assert "meanfield" in table.stdout
    wrong = call("bench", "--engine", "abacus")
    assert wrong.exit_code == 2
    assert "must be one of reference, xla, native, cuda, meanfield, but was 'abacus'" in wrong.stderr


def test_predict_classifies_a_file_with_a_run_or_a_shipped_machine(run: Path, tmp_path: Path) -> None:
    data = load("digits")
    np.savez(tmp_path / "five.npz", x=data.x_test[:5], y=data.y_test[:5])
    told = json.loads(call("predict", str(run), str(tmp_path / "five.npz"), "--json", "--readings", "3").stdout)
    assert told["readings"] == 3
    assert [row["is"] for row in told["answers"]] == [str(label) for label in data.y_test[:5]]
    for row in told["answers"]:
        assert sum(row["probabilities"].values()) == pytest.approx(1)
        assert row["probability"] == max(row["probabilities"].values())
    shown = call("predict", str(run), str(tmp_path / "five.npz"), "--readings", "3").stdout
    assert "of 5 are right" in shown
    assert "read 3 times with independent noise" in shown
    Image.fromarray((255 * draw(DIGITS[3])).astype(np.uint8)).save(tmp_path / "three.png")
    shipped = call("predict", "mnist", str(tmp_path / "three.png"), "--engine", "meanfield", "--json").stdout
    assert [row["class"] for row in json.loads(shipped)["answers"]] == ["3"]


@pytest.mark.slow
def test_a_table_is_run_split_scaled_and_predicted(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    rng = np.random.default_rng(0)
    lines = [f"{x:.4f},{k},{'left' if x < 5 else 'right'}" for k, x in enumerate(rng.uniform(0, 10, 60))]
    path.write_text("\n".join(["x,id,side", *lines]) + "\n")
    settings = (
        f"data={{name={str(path)!r}, label='side', leave_out=['id'], split_seed=7}}",
        "readout.epochs=40",
        "readout.converged=false",
    )
    arguments = [part for setting in settings for part in ("--set", setting)]
    done = call("run", str(tiny), "--out", str(tmp_path / "table"), *arguments)
    assert "45 training and 15 test rows (data.test_share = 0.25, data.split_seed = 7)" in done.stderr
    assert 'scaling = "range"' in (tmp_path / "table/experiment.toml").read_text()
    assert "raw columns" in done.stdout
    told = json.loads(call("predict", str(tmp_path / "table"), str(path), "--json").stdout)
    assert {row["is"] for row in told["answers"]} == {"left", "right"}
    assert sum(row["is"] == row["class"] for row in told["answers"]) >= 50
    call("verify", str(tmp_path / "table"))
