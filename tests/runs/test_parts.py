"""A run by many processes on one store, some of them killed: the same bytes as by one, and nothing made twice."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import thermoment as tm
from support import many
from support.runs import TINY, experiment
from support.sketches import node_of_zeros, sketch
from thermoment.cli import main
from thermoment.report.figures import draw
from thermoment.runs import example_node
from thermoment.runs.claims import SILENCE
from thermoment.runs.executors import Part
from thermoment.runs.folder import verify

REPEATED = f"repeats = 2\n{TINY}".replace("epochs = 3\n", "epochs = 3\nconverged = false\n")
FINER = REPEATED.replace("chunk = 50", "chunk = 20")
STUDY = REPEATED.replace("[features]\n", "[features]\nkeep = false\n").replace("repeats = 2", "repeats = 3")
STUDY += """
[variants.asis]
[variants.longer]
readout.epochs = 4
[variants.hotter]
dynamics.kT = 0.2
"""


def by_many(folder: Path, text: str, total: int, killed: int, seed: int) -> dict[str, Any]:
    (folder / "small.toml").write_text(text, "utf-8")
    program = Path(many.__file__)
    command = [sys.executable, str(program), str(folder), str(folder / "small.toml"), *map(str, (total, killed, seed))]
    paths = [str(program.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("text", "total", "killed", "seed"),
    [
        pytest.param(REPEATED, 4, 1, 2, id="four, one killed", marks=pytest.mark.slow),
        pytest.param(
            REPEATED.replace("chunk = 50", "chunk = 20"), 20, 5, 1, id="twenty, five killed", marks=pytest.mark.slow
        ),
        pytest.param(STUDY, 20, 5, 2, id="a study that keeps no features", marks=pytest.mark.slow),
    ],
)
def test_many_processes_of_which_some_are_killed_give_the_same_bytes(
    tmp_path: Path, text: str, total: int, killed: int, seed: int
) -> None:
    found = by_many(tmp_path, text, total, killed, seed)
    assert found["different"] == []
    assert found["codes"] == total * [0], found["said"]
    assert found["killed"] == killed
    assert found["twice"] == []
    assert found["begun"] - found["chunks"] <= killed  # begun twice is only what died


def test_a_store_that_vanishes_is_one_sentence_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)
    small, store = experiment(REPEATED.replace("repeats = 2", "repeats = 1"), tmp_path), tmp_path / "store"

    def vanish(what: str, *_: object) -> None:
        if what.startswith("reference K2") and store.exists():
            store.rename(tmp_path / "elsewhere")

    with pytest.raises(RuntimeError, match=r"The store .* vanished in the middle of the run. What is in it is kept"):
        tm.run(small, tmp_path / "run", store=store, listener=vanish)
    shutil.rmtree(store, ignore_errors=True)
    (tmp_path / "elsewhere").rename(store)
    monkeypatch.setenv(SILENCE, "0.2")  # the process whose claims came back with the store is this one, and lives
    heard: list[str] = []
    tm.run(small, tmp_path / "run", store=store, listener=lambda what, *_: heard.append(what))
    assert "reference K1, images" not in heard
    assert verify(tmp_path / "run") == []


def test_a_store_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    out, store = str(tmp_path / "run"), str(tmp_path / "file/store")
    done = CliRunner().invoke(main, ["run", "digits", "--out", out, "--store", store])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == f"thermoment: Not a directory: {store}/.locks."
    assert not (tmp_path / "run").exists()


def test_a_store_that_is_read_only_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, store = tmp_path / "run", tmp_path / "store"
    store.mkdir()
    (store / "kept").write_text("what is done")

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    for options in ([], ["--part", "1/2"]):
        done = CliRunner().invoke(main, ["run", "digits", "--out", str(out), "--store", str(store), *options])
        assert done.exit_code == 1
        assert done.stderr.splitlines()[-1] == f"thermoment: Read-only file system: {store}/.locks."
    assert [path.name for path in store.iterdir()] == ["kept"]
    assert not out.exists()


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_a_part_is_one_of_so_many(text: str) -> None:
    with pytest.raises(ValueError, match=r"`part` must be k/n with 1 <= k <= n"):
        Part.parse(text)
    assert Part.parse("7/100") == Part(7, 100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--part", "3/2"], "`part` must be k/n"),
        (["--part", "1/2", "--dask", "local:2"], "--dask and --part are two ways"),
    ],
)
def test_wrong_usage_is_told_before_any_work(options: list[str], message: str) -> None:
    done = CliRunner().invoke(main, ["run", "digits", *options])
    assert done.exit_code == 2
    assert message in done.output
