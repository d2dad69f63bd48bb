"""The shipped experiments with the other machines: small ones run in seconds, the whole ones are slow tests."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import thermoment as tm
from support.runs import contents
from thermoment.cli import main
from thermoment.experiments.experiment import read, read_any, to_toml
from thermoment.experiments.machine import KINDS, MachineExperiment, Signals
from thermoment.results.machine import MachineResults, from_json
from thermoment.runs.machine_tasks import echo_states
from thermoment.runs.store import read_sums, write_sums

SMALL = {
    "neurons": "widths=[3,2] points=6 warm_up=2 steps=3 batch_size=3 paths=4 training_dt=0.05 times=[0.5] "
    "protocol.dt=0.05 protocol.n_replicas=4",
    "trajectories": "n_hidden=4 hidden=20 output=10 epochs=1 n_train=40 n_test=20 noises=2 protocol.dt=0.01 "
    "protocol.n_replicas=2",
    "generation": "digits=[0,1] n_hidden=4 duration=0.2 readings=2 samples=3",
    "signals": "n_nodes=4 washout=5 train=20 test=10 machines=2 protocol.dt=0.125 protocol.n_replicas=2",
}
FILES = {"experiment.toml", "results.json", "environment.json", "SHA256SUMS"}


def overrides(name: str) -> list[str]:
    return [f"settings.{one}" for one in SMALL[name].split()]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def small(name: str, *arguments: object) -> Result:
    sets = [part for one in overrides(name) for part in ("--set", one)]
    return call("run", name, *sets, "--engine", "reference", *arguments)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of `generation`."""
    folder = tmp_path_factory.mktemp("machine") / "generation"
    done = small("generation", "--out", folder)
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", SMALL)
def test_a_run_is_a_folder_of_the_same_bytes_every_time(name: str, tmp_path: Path) -> None:
    done = small(name, "--out", tmp_path / "a", "--json")
    assert done.exit_code == 0, done.stderr
    experiment = read_any(name, [*overrides(name), 'engine="reference"'])
    results = tm.run(experiment, tmp_path / "b")
    assert isinstance(results, MachineResults)
    files = contents(tmp_path / "a")
    assert files == contents(tmp_path / "b")
    assert set(files) == FILES | {f"figures/{name}.{form}" for form in ("png", "svg")}
    assert files["results.json"].decode() == done.stdout == results.to_json()
    assert read_any(tmp_path / "a/experiment.toml") == experiment
    assert results.machine == name
    assert results.engine == "reference"
    assert results.versions["thermoment"] == tm.__version__
    assert results.settings["seed"] == experiment.settings.seed  # type: ignore[union-attr]
    for number in results.numbers:
        assert np.isfinite(number.value)
        assert (number.standard_error is None) != (number.ci95 is None)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}, "nothing is left beside the runs"
    assert "is whole." in call("verify", tmp_path / "a").stdout


def test_a_run_in_its_own_folder_prints_its_numbers_again(generated: Path) -> None:
    files = contents(generated)
    again = small("generation", "--out", generated)
    assert again.exit_code == 0
    assert contents(generated) == files
    for number in from_json(files["results.json"].decode()).numbers:
        assert number.what in again.stdout
    assert again.stdout.rstrip().endswith("generation/figures/generation.png")


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("neurons", "settings.step=3", "Unknown key `settings.step`: did you mean `settings.steps`?"),
        ("neurons", "settings.steps=many", "Key `settings.steps` must be an integer, but was 'many'."),
        ("neurons", "settings.paths=2", "Argument `paths` must be an integer from 4 to 1000000, but was 2."),
        ("neurons", "settings.times=[0.5,0.0013]", "Argument `times` must be a whole number of steps of 0.002"),
        ("neurons", "settings.training_dt=0.3", "Argument `t_final` must be a whole number of steps of 0.3"),
        ("neurons", "settings.protocol.n_replicas=inf", "`protocol.n_replicas` must be an integer from 2 to"),
        ("neurons", "settings.widths=[0]", "Argument `widths` must be an integer from 1 to"),
        ("trajectories", "settings.n_test=501", "Argument `n_test` must be an integer from 1 to 500, but was 501."),
        ("trajectories", "settings.hidden=0.0", "Argument `hidden` must be positive, but was 0.0."),
        ("generation", "settings.digits=[1,1]", "Argument `digits` must name at least one class, each once"),
        ("generation", "settings.digits=1", "Key `settings.digits` must be a list, but was 1."),
        ("signals", "settings.hold=0.03", "Argument `hold` must be a whole number of steps of 0.025"),
        ("signals", "settings.ridge=-1.0", "Argument `ridge` must be zero or positive, but was -1.0."),
        ("signals", "machine=clock", "Argument `machine` must be one of neurons, trajectories, generation, signals"),
        ("signals", "engine=meanfield", "Argument `engine` must be one of auto, reference, xla, native, cuda"),
        ("signals", "repeats=2", "Unknown key `repeats`"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(name: str, change: str, sentence: str, tmp_path: Path) -> None:
    done = call("run", name, "--set", change, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (("--dask", "local:1"), "dask"),
        (("--part", "1/2"), "part"),
        (("--store", "somewhere"), "store"),
        (("--data-dir", "."), "data_dir"),
        (("--rate", "features=1"), "rate"),
    ],
)
def test_what_only_other_experiments_can_be_given_is_refused(
    options: tuple[str, str], argument: str, tmp_path: Path
) -> None:
    done = call("run", "signals", *options, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert f"Argument `{argument}` must be left out for signals, which is one task of this process" in done.stderr
    assert not (tmp_path / "run").exists()


def test_from_python_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`store` must be left out for neurons"):
        tm.run("neurons", tmp_path / "run", store=tmp_path)
    with pytest.raises(ValueError, match="neurons is an experiment with the machine neurons"):
        read("neurons")
    with pytest.raises(ValueError, match="be those of the machine neurons"):
        MachineExperiment("mine", "neurons", read_any("signals").settings)  # type: ignore[union-attr]
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ValueError, match="is not a run"):
        tm.run("neurons", tmp_path)


def test_a_store_of_the_environment_is_for_other_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOMENT_STORE", str(tmp_path / "store"))
    assert small("generation", "--out", tmp_path / "run").exit_code == 0
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("name", KINDS)
def test_a_dry_run_says_what_would_be_done(name: str, tmp_path: Path) -> None:
    done = call("run", name, "--dry-run", "--out", tmp_path / "run")
    assert done.exit_code == 0
    assert done.stdout.endswith(to_toml(read_any(name)) + "\n")
    assert not (tmp_path / "run").exists()
    assert json.loads(call("run", name, "--dry-run", "--json").stdout)["experiment"] == to_toml(read_any(name))


def test_commands_for_classifiers_refuse_the_run(generated: Path, tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"")
    for command in (
        ("compare", generated, generated),
        ("report", generated),
        ("predict", generated, tmp_path / "image.png"),
    ):
        done = call(*command)
        assert done.exit_code == 1
        assert "results.json is of the machine generation: it has numbers and a figure, no classifier." in done.stderr
    with pytest.raises(ValueError, match="is of the machine generation"):
        tm.load(generated)


def test_verify_names_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert small("generation", "--out", folder).exit_code == 0
    results = from_json((folder / "results.json").read_text("utf-8"))
    with open(folder / "figures/generation.svg", "ab") as file:
        file.write(b" ")
    done = call("verify", folder)
    assert done.exit_code == 1
    assert "figures/generation.svg is missing or has other bytes" in done.stdout
    changed = {**json.loads(results.to_json()), "settings": {**results.settings, "samples": 4}}
    (folder / "results.json").write_text(json.dumps(changed), "utf-8")
    write_sums(folder, read_sums(folder))
    assert call("verify", folder).stdout == '"settings" of results.json are not those of experiment.toml\n'
    (folder / "experiment.toml").write_text("machine = 3", "utf-8")
    told = call("verify", folder).stdout
    assert "experiment.toml is missing or has other bytes" in told
    assert "Argument `machine` must be one of" in told
    (folder / "results.json").write_text(json.dumps({**changed, "numbers": 3}), "utf-8")
    assert "`numbers` must be a list, but was 3" in call("verify", folder).stdout


def test_an_echo_state_network_follows_its_recursion() -> None:
    given = read_any("signals", ["settings.n_nodes=3", "settings.echo_leak=0.25"]).settings  # type: ignore[union-attr]
    assert isinstance(given, Signals)
    u = np.array([0.3, -1.2, 0.7, 0.1])
    states = echo_states(u, given, seed=4)
    rng = np.random.default_rng(4)
    W = rng.normal(size=(3, 3))
    W = W / max(abs(np.linalg.eigvals(W))) * given.echo_radius
    K, b = rng.uniform(-1, 1, 3) * given.echo_input, rng.uniform(-1, 1, 3) * given.echo_bias
    x = np.zeros(3)
    for t in range(4):
        x = 0.75 * x + 0.25 * np.tanh(W @ x + K * u[t] + b)
        np.testing.assert_allclose(states[t], [1, *x, *x**2], rtol=1e-12)


def whole(name: str, folder: Path) -> MachineResults:
    results = tm.run(name, folder / name)
    assert isinstance(results, MachineResults)
    return results


@pytest.mark.slow
def test_neurons_learn_the_cosine_for_their_time(tmp_path: Path) -> None:
    results = whole("neurons", tmp_path)
    error = results["squared error of infinitely many replicas"]
    assert error.standard_error is not None
    assert 0 < error.value + 2 * error.standard_error < 1e-3
    for time in ("0.9", "1.1"):
        assert results[f"squared error, read at t = {time}"].value > 10 * error.value


@pytest.mark.slow
def test_a_student_reads_digits_from_one_trajectory(tmp_path: Path) -> None:
    results = whole("trajectories", tmp_path)
    teacher, one, ten = (number.value for number in results.numbers[:3])
    assert one > 0.9
    assert ten >= one
    assert teacher >= ten - 0.02


@pytest.mark.slow
def test_generated_digits_are_recognised_and_noise_is_not(tmp_path: Path) -> None:
    results = whole("generation", tmp_path)
    assert results["recognised"].value > 0.95
    assert results["recognised in the noise they came from"].value == 0
    assert all(results.curves["recognised of each"].values()), "each of the three digits is made"


@pytest.mark.slow
def test_moments_follow_narma(tmp_path: Path) -> None:
    moments, echo = (number.value for number in whole("signals", tmp_path).numbers)
    assert moments < 0.25
    assert moments < echo < 0.35
