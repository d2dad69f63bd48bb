"""Runs a small experiment in processes that kill themselves after a number of calls. A program, used by test_runner.

    killed.py FOLDER EXPERIMENT SEED KILLS

First a run that nothing stops, in FOLDER/whole. Then, until KILLS have happened: a run in a new folder, killed by
SIGKILL at a random call into the package or the operating system, started again, killed again, and in the end left
alone. Prints the folders of the finished runs and the number of kills, as JSON.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from thermoment.experiments.experiment import read
from thermoment.runs import run as runner

KILLS_IN_A_ROW = 7


def attempt(experiment: str, folder: Path, limit: float) -> int | None:
    """Runs in a child that dies after `limit` calls: how many it made if it finished, None if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        calls = 0

        def count(frame: FrameType, event: str, _: Any) -> None:
            nonlocal calls
            if event in ("call", "c_call", "c_return") and "thermoment" in frame.f_code.co_filename:
                calls += 1
                if calls >= limit:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(count)
            runner.run(read(experiment), folder / "run", store=folder / "store")
            sys.setprofile(None)
            os.write(writing, str(calls).encode())
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
    print(json.dumps({"calls": total, "kills": kills, "finished": finished}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
