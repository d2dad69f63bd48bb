"""Runs a small experiment in processes that kill themselves at a file-system event. A program, used by tests of runs.

    killed.py FOLDER EXPERIMENT SEED KILLS

First a run that nothing stops, in FOLDER/whole, which counts its events: files opened, renamed, linked, removed, and
folders made. Only there can a kill change what is left on disk. Then, until KILLS have happened: a run in a new folder,
killed by SIGKILL at a random event, started again, killed again, and in the end left alone. Prints the number of
events, kills and finished runs, as JSON.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

# Everything is imported once, before any child.
from thermoment.experiments.experiment import read
from thermoment.report import page  # noqa: F401
from thermoment.report.figures import draw  # noqa: F401
from thermoment.runs.run import run

KILLS_IN_A_ROW = 7
EVENTS = {"open", "os.rename", "os.mkdir", "os.link", "os.remove", "os.rmdir", "shutil.rmtree"}


def attempt(experiment: str, folder: Path, limit: float) -> int | None:
    """Runs in a child that dies at event `limit`: how many it had if it finished, None if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        seen = 0

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in EVENTS and str(folder) in str(arguments[0]):
                seen += 1
                if seen >= limit:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            run(read(experiment), folder / "run", store=folder / "store")
            os.write(writing, str(seen).encode())
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"The run failed with {os.waitstatus_to_exitcode(status)}.")
    return int(said)


def main(folder: Path, experiment: str, seed: int, wanted: int) -> None:
    rng = random.Random(seed)
    total = attempt(experiment, folder / "whole", float("inf"))
    assert total is not None
    kills, finished = 0, 0
    while kills < wanted:
        place, in_a_row, done = folder / f"killed-{finished}", 0, False
        while not done:
            left_alone = in_a_row == KILLS_IN_A_ROW
            done = attempt(experiment, place, float("inf") if left_alone else rng.randint(1, total // 2)) is not None
            in_a_row += not done
        kills, finished = kills + in_a_row, finished + 1
    print(json.dumps({"events": total, "kills": kills, "finished": finished}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
