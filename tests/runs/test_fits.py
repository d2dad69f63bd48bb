"""Fits as tasks of their own: the bytes of a run in one piece, nothing left over, nothing done twice."""

import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import thermoment as tm
from support.runs import TINY, contents, experiment
from support.sketches import node_of_zeros, sketch
from thermoment import data
from thermoment.experiments.experiment import Experiment
from thermoment.learning.options import FiniteTime
from thermoment.report.figures import draw
from thermoment.results.results import Results, load
from thermoment.runs import example_node, fits, reservoirs
from thermoment.runs.context import Context
from thermoment.runs.tasks import Job, Task, do, prepare, tasks


@pytest.fixture(autouse=True)
def _sketches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Two orders, and a penalty with which fits converge at once: four models."""
    text = TINY.replace("n_replicas = 6\n", "n_replicas = 6\norders = [1, 2]\n").replace(
        "epochs = 3\n", "epochs = 3\nl2 = 1\n"
    )
    return experiment(text, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def finished(small: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw", sketch)
        patch.setattr(example_node, "simulate_node", node_of_zeros)
        folder = tmp_path_factory.mktemp("fits") / "tiny"
        tm.run(small, folder)
        yield folder


def job_in(store: Path, one: Experiment) -> tuple[Job, list[Task]]:
    dataset = data.load("digits").first(120, 60)
    job = prepare(Job(one, str(store), "digits", None, dataset.sha256), dataset)
    return job, tasks(job, 120, 60)


def names(store: Path) -> list[str]:
    return [path.name for path in store.glob("[!.]*")]


def test_fits_one_by_one_give_the_same_bytes_and_are_removed(small: Experiment, finished: Path, tmp_path: Path) -> None:
    job, every = job_in(tmp_path / ".stages", small)
    late = [task for task in every if task.kind == "features" and task.number == 3]
    for task in every:  # each by a process that knows nothing of the others
        if task not in late and task.kind != "readouts":
            do(job, task, job.context())
    assert sum(name.startswith("fit-") for name in names(tmp_path / ".stages")) == 1 + 4 + 1
    for task in [*late, every[-1]]:
        do(job, task, job.context())
    heard: list[str] = []
    tm.run(small, tmp_path / "tiny", listener=lambda what, *_: heard.append(what))
    assert set(heard) == {"figures and report"}
    assert contents(tmp_path / "tiny") == contents(finished)
    assert sorted(names(tmp_path / ".stages")) == sorted(names(finished.parent / ".stages"))
    assert not any(name.startswith("fit-") for name in names(tmp_path / ".stages"))


def test_a_task_that_comes_late_does_nothing(small: Experiment, tmp_path: Path) -> None:
    readout = replace(small.readout, converged=False)
    unkept = replace(small, features=replace(small.features, keep=False), readout=readout)
    tm.run(unkept, tmp_path / "tiny")
    before = contents(tmp_path / ".stages")
    job, every = job_in(tmp_path / ".stages", unkept)
    heard: list[str] = []
    for task in every:
        do(job, task, job.context(lambda what, *_: heard.append(what)))
    assert heard == []
    assert contents(tmp_path / ".stages") == before


def test_a_run_stopped_among_its_fits_goes_on_from_there(small: Experiment, finished: Path, tmp_path: Path) -> None:
    def stop(what: str, done: int, *_: object) -> None:
        if what == "readouts to convergence" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tm.run(small, tmp_path / "tiny", listener=stop)
    heard: list[str] = []
    tm.run(small, tmp_path / "tiny", listener=lambda what, *_: heard.append(what))
    assert set(heard) == {"readouts to convergence", "figures and report"}
    assert contents(tmp_path / "tiny") == contents(finished)


def test_a_fit_reads_the_features_of_its_reservoirs_alone(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, every = job_in(tmp_path / ".stages", small)
    for task in every:
        if task.kind in ("static", "features", "sgd"):
            do(job, task, job.context())
    read: list[list[str]] = []
    joined = fits.joined

    def reading(stores: Any, rows: slice) -> Any:
        read.append(list(stores))
        assert rows == slice(0, 120)
        return joined(stores, rows)

    monkeypatch.setattr(fits, "joined", reading)
    for task in every:
        if task.kind in ("baseline", "converged"):
            do(job, task, job.context())
    assert read == [["K1"], ["K2"], *2 * [["K1", "K2"]]]


def test_features_wait_for_the_training_of_no_other_reservoir(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, every = job_in(tmp_path / ".stages", small)
    trained: list[int] = []
    train = reservoirs.train_static

    def training(number: int, *rest: Any) -> Any:
        trained.append(number)
        return train(number, *rest)

    monkeypatch.setattr(reservoirs, "train_static", training)
    context: Context = job.context()
    for task in every:
        if task.kind == "features" and task.name == "K2":
            do(job, task, context)
    assert trained == [1]


@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("beside", [True, False])
def test_tasks_of_a_finite_time_training_leave_nothing_to_do(
    small: Experiment, tmp_path: Path, joint: bool, beside: bool
) -> None:
    readout = replace(small.readout, converged=False)
    trained = replace(
        small, finite_time=FiniteTime(epochs=1, batch_size=50, joint=joint, beside=beside), readout=readout
    )
    job, every = job_in(tmp_path / ".stages", trained)
    for task in every:
        do(job, task, job.context())
    heard: list[str] = []
    tm.run(trained, tmp_path / "tiny", listener=lambda what, *_: heard.append(what))
    assert set(heard) == {"figures and report"}


def test_without_sgd_a_model_has_the_fully_fitted_readout_alone(
    small: Experiment, finished: Path, tmp_path: Path
) -> None:
    readout = replace(small.readout, epochs=0, fusions=("logit", "stacked"), held_out=40)
    alone = replace(small, readout=readout)
    found = tm.run(alone, tmp_path / "tiny")
    both = load(finished)
    assert isinstance(found, Results)
    assert isinstance(both, Results)
    assert {row.model.readout for row in found.accuracy} == {row.readout for row in found.baseline} == {"converged"}
    assert {row.model.fusion for row in found.accuracy} == {"feature", "logit", "stacked"}
    # The loss is convex: where the fit starts does not matter.
    expected = {row.model: row.correct for row in both.accuracy if row.model.readout == "converged"}
    assert {row.model: row.correct for row in found.accuracy if row.model.fusion != "stacked"} == expected
    job, every = job_in(tmp_path / ".stages", alone)
    for task in every:
        do(job, task, job.context())
    assert tm.load(tmp_path / "tiny").predict(data.load("digits").x_test[:2]).shape == (2,)
    with pytest.raises(ValueError, match="`epochs` must be positive where no readout is fitted to convergence"):
        replace(small.readout, epochs=0, converged=False)


def test_classifiers_without_reservoirs_are_fitted_beside_the_sgd_and_end_with_it(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt of the one ends the other at its next word to the listener."""
    begun, ended = Event(), Event()

    def interrupted(*_: object) -> None:
        assert begun.wait(30)
        raise KeyboardInterrupt

    def classify(_one: object, _dataset: object, listener: Any) -> None:
        begun.set()
        until = time.monotonic() + 30
        try:
            while time.monotonic() < until:
                listener("raw", 0, 1)
        except CancelledError:
            ended.set()
            raise

    monkeypatch.setattr(fits.Fits, "_fit_sgd", interrupted)
    monkeypatch.setattr(fits, "classify", classify)
    with pytest.raises(KeyboardInterrupt):
        tm.run(small, tmp_path / "tiny")
    assert ended.is_set()


def test_long_fits_begin_first_and_one_of_every_size_before_all_others() -> None:
    assert fits.fitting_order([3, 3, 6, 9, 6, 3]) == [3, 2, 0, 4, 1, 5]
