"""Runs a small experiment by the command `thermoment`, in processes that something stops. A program, used by tests.

    stopped.py FOLDER EXPERIMENT ACT:START:STEP ...

An event is a file opened, renamed, linked, removed, locked or synced, a folder made, or a report of progress: only
there can what stops a run change what is left on disk. A first run that nothing stops, in FOLDER/whole, counts its
events. Then for event number START, START + STEP, ... a run in a new folder in which ACT happens at this event, and the
same command again, which nothing stops. ACT is

    SIGKILL, SIGINT            the process sends itself the signal
    EIO, EACCES                the call that the event is about fails once with this error; a report does not
    ENOLCK                     the next lock is refused with this error
    ENOSPC, EDQUOT             this call and all that write fail from then on

Prints as JSON, by ACT, how many events were tried, and a sentence for each time that something was wrong.
To be quick, forked children share what is imported here and what JAX compiled, and figures are sketches: files as any.
"""

import errno
import fcntl
import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import sklearn.datasets  # noqa: F401

# Everything is imported once, before any child.
from support.runs import contents
from support.sketches import node_of_zeros, sketch
from thermoment import __main__ as command
from thermoment import cli  # noqa: F401
from thermoment._support import progress
from thermoment._support.leaving import INTERRUPTED, SENTENCE
from thermoment.report import page, terminal  # noqa: F401
from thermoment.report.figures import draw
from thermoment.runs import drawing, example_node, figure_process, run  # noqa: F401

PATHS = {"open", "os.rename", "os.mkdir", "os.link", "os.remove", "os.rmdir", "shutil.rmtree"}
STICKY = ("ENOSPC", "EDQUOT")
NEVER = 10**9
NOT_FOR_A_PERSON = ("Traceback", "Fatal", "Exception ignored", "Warning")


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    stderr: str
    events: int


class Stopper:
    """Counts events, and does what it is there for at one of them."""

    def __init__(self, folder: Path, act: str, at: int) -> None:
        self.folder, self.act, self.at, self.seen = str(folder), act, at, 0
        self.done = self.busy = False

    def install(self) -> None:
        sys.addaudithook(self.heard)
        for module, name in ((os, "fsync"), (fcntl, "flock")):
            setattr(module, name, self.counted(name, getattr(module, name)))
        lines = progress._lines

        def noticed() -> progress.Listener:
            listener = lines()

            def listen(what: str, done: int, total: int, detail: str = "", /) -> None:
                self.event("report", None, False)
                listener(what, done, total, detail)

            return listen

        progress._lines = noticed

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(file: int, *flags: int) -> Any:
            if flags != (fcntl.LOCK_UN,):
                self.event(name, None, True)
            return call(file, *flags)

        return counting

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in PATHS and self.folder in str(arguments[0]):
            writes = event != "open" or bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
            self.event(event, str(arguments[0]), writes)

    def event(self, name: str, path: str | None, writes: bool) -> None:
        if self.busy:
            return
        self.seen += 1
        if self.seen < self.at:
            return
        if self.act.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, self.act))
        elif self.fails(name, writes):
            self.done, number = True, getattr(errno, self.act)
            raise OSError(number, os.strerror(number), *([path] if path else []))

    def fails(self, name: str, writes: bool) -> bool:
        """Whether the call that an event is about fails, from event number `at` on."""
        if self.act == "ENOLCK":
            return name == "flock" and not self.done
        if self.act in STICKY:
            return writes and name not in ("report", "flock", "os.remove", "os.rmdir", "shutil.rmtree")
        return name != "report" and self.seen == self.at


def attempt(experiment: str, folder: Path, act: str = "", at: int = NEVER) -> Ended:
    """The command in a child: `thermoment run EXPERIMENT --out FOLDER/run --store FOLDER/store`."""
    folder.mkdir(exist_ok=True)
    said, counted = folder / "stderr", folder / "events"
    child = os.fork()
    if not child:
        stopper = Stopper(folder / "r", act, at)
        for stream, name in ((1, os.devnull), (2, str(said))):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        real_exit = os._exit

        def exit_counted(code: int) -> None:
            stopper.busy = True
            counted.write_text(str(stopper.seen))
            real_exit(code)

        os._exit = exit_counted  # type: ignore[assignment]
        sys.argv = ["thermoment", "run", experiment, "--out", str(folder / "r/run"), "--store", str(folder / "r/store")]
        stopper.install()
        try:
            command.main()
        finally:
            real_exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(code, said.read_text(), int(counted.read_text()) if counted.exists() else 0)


def wrong_end(ended: Ended, act: str, folder: Path) -> Iterator[str]:
    """What is wrong with how a stopped run ended."""
    last = ended.stderr.splitlines()[-1:] or [""]
    if any(word in ended.stderr for word in NOT_FOR_A_PERSON):
        yield f"it printed {ended.stderr[-300:]!r}"
    elif act == "SIGKILL":
        if ended.code not in (-signal.SIGKILL, 0):
            yield f"it ended with {ended.code}"
    elif act == "SIGINT":
        if (ended.code, last[0]) != (INTERRUPTED, SENTENCE) and ended.code != 0:
            yield f"it ended with {ended.code} and {last[0]!r}"
    elif ended.code == 1:
        told = "No space left" if act in STICKY else "has no locks" if act == "ENOLCK" else ": "
        if not last[0].startswith("thermoment: ") or str(folder) not in last[0] or told not in last[0]:
            yield f"it said {last[0]!r}"
    elif ended.code != 0:
        yield f"it ended with {ended.code} and {last[0]!r}"


def everything(folder: Path) -> dict[str, bytes]:
    """All bytes of run and store, but for locks and clocks."""
    files = contents(folder / "r")
    return {name: data for name, data in files.items() if "/.locks/" not in name and not name.endswith("timings.json")}


@contextmanager
def removed(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(folder: Path, experiment: str, jobs: list[str]) -> None:
    vars(draw)["draw"], vars(example_node)["simulate_node"] = sketch, node_of_zeros
    vars(drawing)["FROM_CORES"] = math.inf
    config: Any = jax.config
    config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    whole = attempt(experiment, folder / "whole")
    if whole.code:
        raise SystemExit(f"The run failed with {whole.code}: {whole.stderr}")
    expected = everything(folder / "whole")
    found: dict[str, dict[str, Any]] = {}
    for job in jobs:
        act, start, step = job.split(":")
        numbers = range(int(start), whole.events + 1, int(step))
        problems = {at: stop(experiment, folder / f"{act}-{at}", act, at, expected) for at in numbers}
        failures = [f"{act} at event {at} of {whole.events}: {one}" for at, all_ in problems.items() for one in all_]
        found[act] = {"tried": len(numbers), "failures": failures}
    print(json.dumps(found))


def stop(experiment: str, place: Path, act: str, at: int, expected: dict[str, bytes]) -> list[str]:
    """What is wrong after a run was stopped and the same command was given again."""
    with removed(place):
        problems = list(wrong_end(attempt(experiment, place, act, at), act, place))
        again = attempt(experiment, place)
        if again.code:
            problems.append(f"the next run ended with {again.code}: {again.stderr[-300:]!r}")
        elif (found := everything(place)) != expected:
            names = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
            problems.append(f"other bytes in {', '.join(sorted(names)[:5])}")
    return problems


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
