"""A run on a Dask cluster: the same bytes as here, whatever happens to workers and scheduler."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import thermoment as tm
from support import logged
from support.runs import TINY, contents, experiment
from support.sketches import node_of_zeros, sketch
from thermoment._engines import choice
from thermoment.cli import main
from thermoment.experiments.experiment import Experiment
from thermoment.report.figures import draw
from thermoment.runs import example_node, executors, tasks
from thermoment.runs.claims import SILENCE
from thermoment.runs.tasks import Job

distributed = pytest.importorskip("distributed")

SMALL = f"repeats = 2\n{TINY}".replace("epochs = 3\n", "epochs = 3\nconverged = false\n")
PATIENCE = 240
"""Seconds after which a test that waits for something fails."""


@pytest.fixture(autouse=True)
def _sketches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take longer than all the rest."""
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(SMALL, tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def finished(small: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw", sketch)
        patch.setattr(example_node, "simulate_node", node_of_zeros)
        tm.run(small, folder)
    return folder


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Of a cluster of two workers in this process."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as found,
    ):
        yield found


def test_workers_give_the_same_bytes_as_this_process(
    client: Any, small: Experiment, finished: Path, tmp_path: Path
) -> None:
    heard: list[tuple[str, int, int]] = []
    results = tm.run(small, tmp_path / "tiny", client=client, listener=lambda *what: heard.append(what[:3]))
    assert contents(tmp_path / "tiny") == contents(finished)
    assert results == tm.run(small, finished)
    assert [what for what in heard if what[0] == "tasks"] == [("tasks", done, 26) for done in range(27)]
    # All was done by the workers: here nothing but the report.
    assert {what[0] for what in heard} == {"tasks", "figures and report"}


def test_what_cannot_be_done_is_refused_in_a_sentence_before_any_work(client: Any, tmp_path: Path) -> None:
    bad = experiment(SMALL.replace("converged = false\n", "l2 = 0\n"), tmp_path)
    with pytest.raises(ValueError, match=r"Argument `readout.l2` must be positive"):
        tm.run(bad, tmp_path / "run", client=client)
    assert not list(tmp_path.glob(".stages/*-*"))


def test_workers_of_another_version_are_refused(
    client: Any, small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "__version__", "0.0.1")
    with pytest.raises(RuntimeError, match=r"The worker .* has thermoment .*, but this is thermoment 0.0.1"):
        tm.run(small, tmp_path / "run", client=client)
    monkeypatch.undo()
    other = Job(small, str(tmp_path), "digits", None, "", version="0.0.1")
    with pytest.raises(RuntimeError, match=r"A worker has thermoment .*, but the run was started by 0.0.1"):
        tasks.prepare(other)
    task = tasks.Task("", "static", "", (0,))
    with pytest.raises(RuntimeError, match=r"A worker has thermoment .*, but the run was started by 0.0.1"):
        tasks.do(other, task, other.context())


def test_workers_that_see_another_store_are_refused(
    client: Any, small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_probe", lambda _: nullcontext(str(tmp_path / "not there")))
    with pytest.raises(RuntimeError, match=r"The workers do not see .*: give --store a folder that all machines share"):
        tm.run(small, tmp_path / "run", client=client)


def test_data_that_are_others_on_a_worker_are_refused(small: Experiment, tmp_path: Path) -> None:
    other = Job(small, str(tmp_path), "digits", None, "0" * 64)
    with pytest.raises(RuntimeError, match="The data set digits on this machine is not that of where"):
        tasks.prepare(other)


def test_a_failing_disk_of_a_worker_is_told_as_one_of_this_machine(
    client: Any, small: Experiment, tmp_path: Path
) -> None:
    (tmp_path / ".stages").mkdir()
    (tmp_path / ".stages/.locks").write_text("in the way")
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        tm.run(small, tmp_path / "run", client=client)


def test_a_store_that_vanishes_from_under_the_workers_is_one_sentence(
    client: Any, small: Experiment, finished: Path, tmp_path: Path
) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"

    def vanish(what: str, done: int, *_: object) -> None:
        if what == "tasks" and done == 6:
            store.rename(elsewhere)

    with pytest.raises(RuntimeError, match=r"The store .* vanished in the middle of the run. What is in it is kept"):
        tm.run(small, tmp_path / "tiny", store=store, client=client, listener=vanish)
    done = contents(elsewhere)
    # A worker may be at its last task there. Claims of this process, which lives, would be waited for.
    shutil.copytree(elsewhere, store, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".locks"))
    tm.run(small, tmp_path / "tiny", store=store, client=client)
    assert contents(tmp_path / "tiny") == contents(finished)
    kept = {name: data for name, data in done.items() if not name.startswith((".", "fit-")) and ".partial" not in name}
    assert kept.items() <= contents(store).items()


def test_no_scheduler_and_no_workers_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_CONNECT_SECONDS", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = CliRunner().invoke(main, ["run", "digits", "--dask", address])
    assert done.exit_code == 1
    assert f"thermoment: No Dask scheduler answers at {address}" in done.stderr.splitlines()[-1]
    done = CliRunner().invoke(main, ["run", "digits", "--dask", "local:none"])
    assert "thermoment: Argument `dask` must be local:N" in done.stderr
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(RuntimeError, match="has no workers"),
    ):
        executors._check_workers(client)


@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_all_tasks_of_the_gpus_engine_go_to_workers_that_have_it(
    small: Experiment, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    did: list[str] = []

    def recorded(job: Job, task: tasks.Task, context: Any) -> None:
        did.append(distributed.get_worker().name)
        tasks.do(job, task, context)

    monkeypatch.setattr(executors, "_CUDA", "reference")  # the engine that stands in for `cuda`
    monkeypatch.setattr(executors, "do", recorded)
    monkeypatch.setattr(choice, "_AUTO", ("reference",))
    common = {"nthreads": 1, "memory_limit": 0, "dashboard_address": ":0"}
    workers = {
        "plain": {"cls": distributed.Worker, "options": common},
        "gpu": {"cls": distributed.Worker, "options": {**common, "resources": {"reference": 1}}},
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0", "protocol": "inproc://"}}
    with (
        distributed.SpecCluster(workers=workers, scheduler=scheduler, silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2)
        tm.run(replace(small, engine=engine), tmp_path / "tiny", client=client)
    assert did == 26 * ["gpu"]
    names = ("results.json", "predictions.npz")
    assert [contents(tmp_path / "tiny")[name] for name in names] == [contents(finished)[name] for name in names]


@contextmanager
def process(*arguments: str, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed in the end, woken if it is stopped."""
    with open(log, "ab") as output:
        started = subprocess.Popen([sys.executable, *arguments], env=env, stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{PATIENCE} s passed without {what}")
        time.sleep(0.05)


@pytest.mark.slow
def test_killed_and_stopped_workers_and_another_scheduler_change_no_byte(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the command in another process draws figures
    tm.run(small, tmp_path / "whole/tiny")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, log = f"tcp://127.0.0.1:{port}", tmp_path / "log"
    log.touch()
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu", SILENCE: "10"}
    env |= {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s", "TEST_LOG": str(log), "OMP_NUM_THREADS": "1"}

    def scheduler() -> Any:
        options = ["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        return process("-m", "dask", *options, env=env, log=tmp_path / "scheduler.log")

    def worker(number: int) -> Any:
        options = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        options += ["--preload", logged.__file__, "--name", f"w{number}"]
        return process("-m", "dask", *options, env=env, log=tmp_path / f"worker{number}.log")

    def made() -> list[str]:
        return [line for line in log.read_text().splitlines() if line.startswith("made")]

    command = ["-m", "thermoment", "run", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "run/tiny")]
    (tmp_path / "tiny.toml").write_text(SMALL, "utf-8")
    with ExitStack() as stack:
        first = stack.enter_context(scheduler())
        workers = [stack.enter_context(worker(number)) for number in range(3)]
        logs = [tmp_path / f"worker{number}.log" for number in range(3)]
        until(lambda: all("Registered to" in one.read_text() for one in logs), "three workers")
        run = stack.enter_context(process(*command, "--dask", address, env=env, log=tmp_path / "run.log"))
        until(lambda: len(made()) >= 2, "two tasks done")
        workers[0].kill()
        os.kill(workers[1].pid, signal.SIGSTOP)
        until(lambda: len(made()) >= 8, "eight tasks done")
        first.kill()
        first.wait()
        stack.enter_context(scheduler())
        workers += [stack.enter_context(worker(number)) for number in (3, 4)]
        until(lambda: run.poll() is not None, "the end of the run")
        assert run.returncode == 0, (tmp_path / "run.log").read_text()[-2000:]
        os.kill(workers[1].pid, signal.SIGCONT)
        workers[1].terminate()
        workers[1].wait()
    assert contents(tmp_path / "run/tiny") == contents(tmp_path / "whole/tiny")
    twice = [what for what, count in Counter(made()).items() if count > 1]
    assert len(twice) <= 1, twice  # the stopped worker's own, if it woke up and went on
    assert "The scheduler went away" in (tmp_path / "run.log").read_text()


def test_ctrl_c_cancels_and_a_later_command_goes_on(
    client: Any, small: Experiment, finished: Path, tmp_path: Path
) -> None:
    def stop(what: str, done: int, total: int, detail: str = "", /) -> None:  # noqa: ARG001
        if what == "tasks" and done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tm.run(small, tmp_path / "tiny", client=client, listener=stop)
    until(lambda: not client.processing() or not any(client.processing().values()), "the workers being idle")
    assert not (tmp_path / "tiny").exists()
    chunks = len(list(tmp_path.glob(".stages/features-*/moments/c/*")))
    assert chunks < 16
    tm.run(small, tmp_path / "tiny", client=client)
    assert contents(tmp_path / "tiny") == contents(finished)
