"""Runs that train through the finite-time moments: files, readouts, resuming after kills, what changes what."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from support.runs import contents, experiment
from thermoment.data import load as load_data
from thermoment.experiments import experiment as experiments
from thermoment.experiments.experiment import Experiment, read
from thermoment.learning.finite_time import train as training
from thermoment.learning.fit import fit_sgd
from thermoment.learning.options import Sgd
from thermoment.learning.readout import Readout
from thermoment.results.naming import ModelKey
from thermoment.results.results import Results, load
from thermoment.runs import run as runner
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.folder import verify
from thermoment.runs.load import load as load_classifier
from thermoment.runs.plan import plan
from thermoment.runs.predictions import load_predictions

TINY = """
engine = "reference"
[data]
name = "digits"
n_train = 120
n_test = 60
[protocol]
dt = 0.02
t_final = 0.2
n_replicas = 6
[features]
chunk = 100
[readout]
epochs = 2
converged = false
[finite_time]
epochs = 3
batch_size = 50
learning_rate = 0.02
validation = 20
[finite_time.distortion]
shift = 0.5
[[reservoirs]]
name = "K1"
seed = 1
n_nodes = 6
[[reservoirs]]
name = "K2"
seed = 2
n_nodes = 4
s_W = 0.2
"""
BOTH = ModelKey(("K1", "K2"), (1, 2, 4), "feature", "trained")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(TINY, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def finished(tiny: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    runner.run(tiny, folder)
    return folder


def test_the_run_has_weights_heads_and_histories_and_verifies(finished: Path) -> None:
    names = set(contents(finished))
    assert {"reservoirs/K1.safetensors", "reservoirs/K2.safetensors", "reservoirs/K1+K2.history.json"} <= names
    assert "readouts/K1+K2.m1-m2-m4.trained.safetensors" in names
    assert verify(finished) == []
    assert not list(finished.parent.rglob("checkpoint*"))
    assert len(json.loads((finished / "reservoirs/K1+K2.history.json").read_text())) == 3
    drawn = tm.Reservoir.draw(6, 64, seed=1)
    trained = tm.Reservoir.load(finished / "reservoirs/K1.safetensors")
    np.testing.assert_array_equal(trained.W, drawn.W)
    assert np.any(trained.K != drawn.K)
    assert np.any(trained.b != drawn.b)


def test_the_head_reads_sampled_and_deterministic_moments(tiny: Experiment, finished: Path) -> None:
    _, predictions = load_predictions(finished)
    assert {model.readout for model in predictions} == {"sgd", "trained", "predicted"}
    head = Readout.load(finished / "readouts/K1+K2.m1-m2-m4.trained.safetensors")
    images = load_data("digits").first(120, 60).x_test
    reservoirs = [tm.Reservoir.load(finished / f"reservoirs/{name}.safetensors") for name in ("K1", "K2")]
    assert [reservoir.stream for reservoir in reservoirs] == [0, 1]
    for readout, protocol, engine in (
        ("trained", tiny.protocol, "reference"),
        ("predicted", replace(tiny.protocol, n_replicas=float("inf")), "meanfield"),
    ):
        moments = [
            tm.simulate(one, images, protocol, engine=engine, sample_ids=np.arange(120, 180)).features()
            for one in reservoirs
        ]
        expected = head.predict(np.concatenate(moments, 1).astype(np.float32))
        np.testing.assert_array_equal(predictions[replace(BOTH, readout=readout)], expected)  # type: ignore[arg-type]


def test_what_an_answer_takes_has_the_work_of_the_coupling_where_tables_are_there(
    tiny: Experiment, finished: Path
) -> None:
    cost = load(finished).cost  # type: ignore[union-attr]
    assert cost is not None
    assert cost.counted == ("work_on", "work_off", "work_path")
    images = load_data("digits").first(120, 60).x_test
    for name in ("K1", "K2"):
        one = tm.Reservoir.load(finished / f"reservoirs/{name}.safetensors")
        found = tm.simulate(one, images, tiny.protocol, engine="reference", sample_ids=np.arange(120, 180))
        account = tm.energetics(one, images, tiny.protocol, engine="meanfield")
        drive = (one.drive(images) * found.order(1)).sum(axis=1).mean() / one.dynamics.kT
        path = float(account.work_path.mean())
        assert cost.cycles[name] == pytest.approx(drive + path, abs=1e-4)
        assert abs(path) > 5e-4


def test_a_finished_run_loads_as_a_classifier_that_predicts_again_what_it_predicted(finished: Path) -> None:
    images = load_data("digits").first(120, 60).x_test
    _, predictions = load_predictions(finished)
    for model, expected in predictions.items():
        found = load_classifier(finished, model).predict(images, sample_ids=np.arange(120, 180))
        np.testing.assert_array_equal(found, expected, model.key)
    machine = load_classifier(finished)  # all reservoirs as trained, unless told otherwise
    assert (list(machine.reservoirs), len(machine.readouts), machine.engine) == (["K1", "K2"], 1, "reference")
    assert machine.facts["model"] == "K1+K2|feature|1,2,4|trained"
    assert machine.facts["results"] == json.loads((finished / "results.json").read_text())


def test_what_is_no_finished_run_or_no_model_of_it_does_not_load(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no results\.json"):
        load_classifier(tmp_path)
    with pytest.raises(ValueError, match=r"`model` must be one of K1\|feature"):
        load_classifier(finished, "K3|feature|1,2,4|sgd")


def test_results_tell_how_training_ended(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    history = json.loads((finished / "reservoirs/K1+K2.history.json").read_text())
    assert results["trained"] == [{"model": "K1+K2", **history[-1]}]
    assert results["settings"]["finite_time"]["distortion"]["shift"] == 0.5
    rows = [(row["model"], row["readout"]) for row in results["accuracy"]]
    assert rows.count(("K1+K2", "trained")) == rows.count(("K1+K2", "predicted")) == 1
    assert ("K1", "trained") not in rows
    assert "with the readout trained with the machine" in (finished / "report.html").read_text("utf-8")
    assert read(finished / "experiment.toml").finite_time is not None


def test_a_second_command_computes_nothing(tiny: Experiment, finished: Path) -> None:
    before, heard = contents(finished), []
    runner.run(tiny, finished, listener=lambda *what: heard.append(what))
    assert heard == []
    assert contents(finished) == before


@pytest.mark.slow
def test_progress_tells_loss_and_validation(tiny: Experiment, tmp_path: Path) -> None:
    heard: list[tuple[object, ...]] = []
    runner.run(tiny, tmp_path / "run", listener=lambda *what: heard.append(what))
    told = [what for what in heard if str(what[0]).startswith("training")]
    assert [what[:3] for what in told] == [("training K1+K2, epochs", n, 3) for n in (1, 2, 3)]
    assert all("loss" in str(what[3]) and "validation" in str(what[3]) for what in told)


@pytest.mark.slow
def test_interrupted_in_the_middle_of_training_it_goes_on_from_its_checkpoint(
    tiny: Experiment, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    heard: list[int] = []

    def halt(what: str, done: int, total: int, detail: str = "", /) -> None:  # noqa: ARG001
        if what.startswith("training"):
            heard.append(done)
            if len(heard) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(tiny, tmp_path / "run", listener=halt)
    assert len(list((tmp_path / ".stages").glob("checkpoint-*.safetensors"))) == 1
    runner.run(tiny, tmp_path / "run", listener=halt)
    assert heard == [1, 2, 3]
    assert contents(tmp_path / "run") == contents(finished)
    assert not list((tmp_path / ".stages").glob("checkpoint-*"))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: replace(e, readout=replace(e.readout, epochs=3)),
        pytest.param(lambda e: replace(e, protocol=replace(e.protocol, seed=5)), marks=pytest.mark.slow),
        pytest.param(lambda e: replace(e, protocol=replace(e.protocol, dt=0.01)), marks=pytest.mark.slow),
    ],
)
def test_what_training_does_not_depend_on_does_not_train_again(
    tiny: Experiment, finished: Path, tmp_path: Path, change: Callable[[Experiment], Experiment]
) -> None:
    heard: list[str] = []
    runner.run(
        change(tiny), tmp_path / "run", store=finished.parent / ".stages", listener=lambda what, *_: heard.append(what)
    )
    assert heard
    assert not any(what.startswith("training") for what in heard)


@pytest.mark.slow
def test_heads_of_their_own_and_repeats(tiny: Experiment, tmp_path: Path) -> None:
    assert tiny.finite_time is not None
    separate = replace(
        tiny, repeats=2, finite_time=replace(tiny.finite_time, joint=False, epochs=1, n_replicas=float("inf"))
    )
    results = runner.run(separate, tmp_path / "run").plain()
    rows = {(row["model"], row["fusion"], row["readout"]) for row in results["accuracy"]}
    for readout in ("trained", "predicted"):
        found = {row[:2] for row in rows if row[2] == readout}
        assert found == {("K1", "feature"), ("K2", "feature"), ("K1+K2", "logit")}
    assert results["settings"]["finite_time"]["n_replicas"] is None
    one, other = (tm.Reservoir.load(tmp_path / f"run/{r}reservoirs/K1.safetensors") for r in ("", "repeat-1/"))
    assert np.any(one.K != other.K)
    assert verify(tmp_path / "run") == []
    assert read(tmp_path / "run/experiment.toml").finite_time == separate.finite_time
    images = load_data("digits").first(120, 60).x_test
    machine = load_classifier(tmp_path / "run")  # heads of their own: logits are averaged
    assert len(machine.readouts) == 2
    _, predictions = load_predictions(tmp_path / "run")
    expected = predictions[replace(BOTH, fusion="logit")]
    np.testing.assert_array_equal(machine.predict(images, sample_ids=np.arange(120, 180)), expected)


BESIDE = TINY.replace("[finite_time]", "[finite_time]\nbeside = true").replace(
    'name = "K1"\nseed = 1\nn_nodes = 6\n',
    'name = "K1"\nseed = 1\nn_nodes = 6\nstages = [{ surrogate = "mean", epochs = 2, learning_rate = 0.1 }]\n',
)


@pytest.mark.slow
def test_trained_copies_beside_the_papers_reservoirs_change_neither(
    finished: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("beside")
    one = experiment(BESIDE, folder)
    both = runner.run(one, folder / "both")
    plain = runner.run(replace(one, finite_time=None), folder / "plain")
    assert isinstance(both, Results)
    assert isinstance(plain, Results)
    assert [row for row in both.accuracy if row.model.readout == "sgd"] == list(plain.accuracy)
    alone = load(finished)
    assert isinstance(alone, Results)
    as_trained = [row for row in both.accuracy if row.model.readout in ("trained", "predicted")]
    assert as_trained == [row for row in alone.accuracy if row.model.readout in ("trained", "predicted")]
    names = set(contents(folder / "both"))
    assert {f"reservoirs/{name}.safetensors" for name in ("K1", "K1-trained", "K2", "K2-trained")} <= names
    same = (folder / "both/reservoirs/K1-trained.safetensors").read_bytes()
    assert same == (finished / "reservoirs/K1.safetensors").read_bytes()
    assert FeatureStore.open(folder / "both/features.zarr/K1-trained").n_samples == 60  # the test images alone
    assert verify(folder / "both") == []
    images = load_data("digits").first(120, 60).x_test
    _, predictions = load_predictions(folder / "both")
    for model, expected in predictions.items():
        if len(model.reservoirs) == 2:
            found = load_classifier(folder / "both", model).predict(images, sample_ids=np.arange(120, 180))
            np.testing.assert_array_equal(found, expected, model.key)
    with pytest.raises(ValueError, match="leave the names of trained copies free, but was K1-trained"):
        experiment(BESIDE.replace('"K2"', '"K1-trained"'), folder)


def test_raw_pixels_stand_beside_and_verify_derives_them_again(finished: Path, tmp_path: Path) -> None:
    results = load(finished)
    assert isinstance(results, Results)
    (raw,) = results.baseline
    data = load_data("digits").first(120, 60)
    (readout,) = fit_sgd(data.x_train, data.y_train, [np.arange(64)], Sgd(epochs=2))
    assert (raw.model, raw.readout, raw.total) == ("raw pixels", "sgd", 60)
    assert raw.correct == int((readout.predict(data.x_test) == data.y_test).sum())
    shutil.copytree(finished, tmp_path / "run")
    changed = replace(results, baseline=(replace(raw, correct=raw.correct + 1),))
    (tmp_path / "run/results.json").unlink()
    (tmp_path / "run/results.json").write_text(changed.to_json())
    assert any('"baseline" of results.json does not follow' in problem for problem in verify(tmp_path / "run"))


@pytest.mark.slow
def test_the_plan_counts_its_epochs(tiny: Experiment) -> None:
    assert plan(replace(tiny, repeats=2), load_data("digits").first(120, 60)).epochs == 2 * 2 * 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("finite_time.epochs=0", "epochs"),
        ("finite_time.epoch=3", "did you mean `finite_time.epochs`"),
        ("finite_time.distortion.rotate=1", "did you mean `finite_time.distortion.rotation`"),
        ("finite_time.schedule=linear", "`schedule` must be one of one-cycle"),
        ("finite_time.joint=1", "true or false"),
    ],
)
def test_bad_settings_are_refused(override: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY, "utf-8")
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "tiny.toml", [override])


def test_the_best_experiments_are_the_papers_hardware() -> None:
    best, paper = experiments.read("best"), experiments.read("paper")
    assert best.dynamics == paper.dynamics
    assert best.protocol == paper.protocol
    for one, other in zip(best.reservoirs, paper.reservoirs, strict=True):
        assert replace(other, stages=()) == one
    assert experiments.read("best-digits").data.name == "digits"
