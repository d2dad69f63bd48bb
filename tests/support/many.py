"""Does a small experiment by many processes of `thermoment run --part k/n` on one store. A program, used by tests.

    many.py FOLDER EXPERIMENT N KILLED SEED

A first run in FOLDER/whole is done by one process. Then N processes start at once on FOLDER/shared; KILLED of them are
killed with SIGKILL, each at an event drawn with SEED, and started again. An event is a report of progress or a claim
that is put up. Prints as JSON what the processes said, what was made how often, how many chunks were begun, and the
files that differ from those of the first run.

To be quick, forked children share what is imported here, and figures are sketches.
"""

import json
import math
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import sklearn.datasets  # noqa: F401

from support.runs import contents
from support.sketches import node_of_zeros, sketch
from thermoment import __main__ as command
from thermoment import cli  # noqa: F401
from thermoment._support import progress
from thermoment.report import page, terminal  # noqa: F401
from thermoment.report.figures import draw
from thermoment.runs import claims, drawing, example_node, features, figure_process, fits, reservoirs, run, stages  # noqa: F401
from thermoment.runs.feature_store import FeatureStore


def log_work(log: Path) -> None:
    """From now on a line in `log` for each chunk that is begun, and for all that has been made. Once is enough."""
    if vars(features)["simulate_chunk"].__name__ == "beginning":
        return

    def tell(line: str) -> None:
        with open(log, "a") as file:
            file.write(f"{line}\n")

    write, begin = FeatureStore.write, features.simulate_chunk

    def writing(self: FeatureStore, number: int, *rest: Any) -> None:
        write(self, number, *rest)
        tell(f"made {self.folder.name}.{number}")

    def beginning(*arguments: Any) -> Any:
        tell("begun")
        return begin(*arguments)

    setattr(FeatureStore, "write", writing)  # noqa: B010
    vars(features)["simulate_chunk"] = beginning
    for module in (reservoirs, fits, stages):
        keep = vars(module)["keep"]

        def keeping(stage: Any, *rest: Any, keep: Any = keep) -> bool:
            if was := keep(stage, *rest):
                return bool(was)
            tell(f"made {stage.name}")
            return False

        vars(module)["keep"] = keeping


def kill_at(event: int) -> None:
    """From now on this process ends at this event."""
    seen, lines, create = 0, progress._lines, claims.Folder.create

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def noticed() -> progress.Listener:
        listener = lines()

        def listen(what: str, done: int, total: int, detail: str = "", /) -> None:
            count()
            listener(what, done, total, detail)

        return listen

    def creating(self: claims.Folder, name: str, text: str) -> bool:
        count()
        made = create(self, name, text)
        count()
        return made

    progress._lines = noticed
    claims.Folder.create = creating  # type: ignore[method-assign]


def started(folder: Path, experiment: str, name: str, *options: str, event: int = 0) -> int:
    """The command in a child: its number."""
    child = os.fork()
    if child:
        return child
    try:
        for stream, path in ((1, os.devnull), (2, str(folder / f"{name}.stderr"))):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        log_work(folder / "log")
        if event:
            kill_at(event)
        out, store = str(folder / "r/run"), str(folder / "r/store")
        sys.argv = ["thermoment", "run", experiment, "--out", out, "--store", store, *options]
        command.main()
    finally:
        os._exit(99)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: Path, experiment: str, total: int, killed: int, seed: int) -> None:
    vars(draw)["draw"], vars(example_node)["simulate_node"] = sketch, node_of_zeros
    vars(drawing)["FROM_CORES"] = math.inf
    config: Any = jax.config
    config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    whole, shared = folder / "whole", folder / "shared"
    for place in (whole, shared):
        place.mkdir()
    if code := ended(started(whole, experiment, "one")):
        raise SystemExit(f"The run failed with {code}: {(whole / 'one.stderr').read_text()}")
    chance = random.Random(seed)
    # Each process has six events at least, with one chunk of its own: two claims and two reports.
    events = {number: chance.randrange(1, 7) for number in chance.sample(range(1, total + 1), killed)}
    children = {
        number: started(shared, experiment, str(number), "--part", f"{number}/{total}", event=events.get(number, 0))
        for number in range(1, total + 1)
    }
    first = {number: ended(child) for number, child in children.items()}
    again = [number for number, code in first.items() if code == -signal.SIGKILL]
    more = {number: started(shared, experiment, str(number), "--part", f"{number}/{total}") for number in again}
    codes = {**first, **{number: ended(child) for number, child in more.items()}}

    def everything(place: Path) -> dict[str, bytes]:
        files = contents(place / "r")
        return {name: data for name, data in files.items() if "/.locks/" not in name and "timings" not in name}

    one, many = everything(whole), everything(shared)
    lines = (shared / "log").read_text().splitlines()
    made = [line for line in lines if line.startswith("made")]
    found = {
        "codes": list(codes.values()),
        "killed": len(again),
        "twice": sorted({line for line in made if made.count(line) > 1}),
        "made": len(made),
        "begun": lines.count("begun"),
        "chunks": sum("features" in line for line in set(made)),
        "different": sorted(name for name in one.keys() | many.keys() if one.get(name) != many.get(name)),
        "said": [(shared / f"{number}.stderr").read_text()[-300:] for number in codes],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6]))
