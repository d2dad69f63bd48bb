"""Damage to the files of a run and of its store: `verify` says which file, the same command mends it."""

import itertools
from pathlib import Path

import pytest
from click.testing import CliRunner

from attack.damage import problem, tries
from attack.small import PLAIN, REPEATED
from support.runs import copied, experiment
from thermoment.cli import main
from thermoment.experiments.experiment import Experiment
from thermoment.runs import run as runner


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(PLAIN, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def finished(plain: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    runner.run(plain, folder)
    return folder


@pytest.mark.parametrize("every", [pytest.param(131, id="a few"), pytest.param(17, id="many", marks=pytest.mark.slow)])
def test_damage_is_found_and_mended(plain: Experiment, finished: Path, tmp_path: Path, every: int) -> None:
    tried = {}
    for number, one in enumerate(tries(finished, every)):
        place = tmp_path / str(number)
        place.mkdir()
        tried[str(one)] = problem(one, plain, finished, place)
    assert len(tried) > 5
    assert {one: found for one, found in tried.items() if found is not None} == {}


BROKEN = {
    "gone": None,
    "empty": b"",
    "no text": b"\xff\xfe\x00",
    "another text": b"[1]",
    "a zip": b"PK\x03\x04" + bytes(60),
}
FILES = (
    "results.json",
    "experiment.toml",
    "SHA256SUMS",
    "predictions.npz",
    "reservoirs/K1.safetensors",
    "features.zarr/K1/moments/zarr.json",
)


def test_verify_says_one_line_for_a_broken_file(finished: Path, tmp_path: Path) -> None:
    copied(finished, tmp_path / "run")
    for name, how in itertools.product(FILES, BROKEN):
        path, broken = tmp_path / "run" / name, BROKEN[how]
        whole = path.read_bytes()
        path.unlink()
        if broken is not None:
            path.write_bytes(broken)
        done = CliRunner().invoke(main, ["verify", str(tmp_path / "run")])
        assert done.exit_code == 1
        assert done.stderr == f"thermoment: {tmp_path / 'run'} is not as it was written: 1 problem.\n", (name, how)
        (line,) = done.stdout.splitlines()
        assert line.startswith(name), (name, how)
        path.write_bytes(whole)
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "run")]).exit_code == 0


@pytest.mark.slow
def test_verify_misses_a_repeat_that_is_gone(tmp_path: Path) -> None:
    runner.run(experiment(REPEATED, tmp_path), tmp_path / "run")
    (tmp_path / "run/repeat-1/results.json").unlink()
    assert (
        CliRunner().invoke(main, ["verify", str(tmp_path / "run")]).stdout.startswith("repeat-1: results.json is miss")
    )
    (tmp_path / "run/repeat-1/SHA256SUMS").unlink()
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "run")]).stdout == "repeat-1: the run is missing\n"
