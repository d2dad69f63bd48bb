"""Attacks thermoment in every way that these modules know, and prints a table of what held.

    python tests/attack/tries.py [--quick]

Signals and failing disks at every event of three small runs, damage to every kind of file, wrong arguments, wrong
settings. The quick form takes a part of the events and of the damage: minutes instead of an hour. Exit code 1 if
anything did not hold.
"""

import argparse
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from attack import arguments, damage, settings
from attack.small import EXPERIMENTS, PLAIN, THREADED, stopped
from support.runs import TINY, experiment
from thermoment._support import memory
from thermoment.data import load
from thermoment.runs import run as runner


class Row(NamedTuple):
    """A line of the table."""

    what: str
    tried: int
    failures: list[str]


def signals_and_disks(folder: Path, quick: bool) -> Iterator[Row]:
    """Every event, or every so manieth; the first is another for every signal and error."""
    for name, text in EXPERIMENTS.items():
        yield from _stopped(name, text, folder / name.replace(" ", "-"), ("SIGKILL",), 40 if quick else 1)
    yield from _stopped("a run of the engine native", THREADED, folder / "threads", ("SIGINT",), 40 if quick else 2)
    acts = ("SIGINT", "EIO", "EACCES", "ENOSPC", "EDQUOT", "ENOLCK")
    yield from _stopped("a run", PLAIN, folder / "disk", acts, 70 if quick else 3)


def _stopped(name: str, text: str, folder: Path, acts: tuple[str, ...], step: int) -> Iterator[Row]:
    jobs = [f"{act}:{1 + number * step // len(acts)}:{step}" for number, act in enumerate(acts)]
    for act, found in stopped(text, folder, *jobs).items():
        yield Row(f"{act} at events of {name}, then the same command", found["tried"], found["failures"])


def damaged_files(folder: Path, quick: bool) -> Iterator[Row]:
    """Every kind of damage to every kind of file."""
    (folder / "whole").mkdir(parents=True)
    chosen, finished = experiment(PLAIN, folder), folder / "whole/run"
    runner.run(chosen, finished)
    failures, tried = [], 0
    for one in damage.tries(finished, 13 if quick else 1):
        place, tried = folder / "damaged", tried + 1
        place.mkdir()
        if problem := damage.problem(one, chosen, finished, place):
            failures.append(f"{one}: {problem}")
        shutil.rmtree(place)
    yield Row("a byte flipped, a file cut or gone, in run and store", tried, failures)


def wrong_arguments(_: Path, __: bool) -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {case: arguments.problem(*case) for case in arguments.cases()}
        special = {name: arguments.refusal(call, must=True) for name, call in arguments.SPECIAL.items()}
    failures = [f"{' '.join(case)}: {problem}" for case, problem in found.items() if problem]
    failures += [f"{name}: {problem}" for name, problem in special.items() if problem]
    yield Row("arguments of the library", len(found) + len(special), failures)


def wrong_settings(folder: Path, _: bool) -> Iterator[Row]:
    source, digits = folder / "tiny.toml", load("digits")
    source.write_text(TINY, "utf-8")
    found = {one: settings.problem(source, one, digits) for one in settings.cases(source)}
    yield Row(
        "settings of an experiment", len(found), [f"{one[:80]}: {wrong}" for one, wrong in found.items() if wrong]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a part of the events and of the damage")
    quick = parser.parse_args().quick
    memory.memory = lambda: 2.0**24  # type: ignore[assignment]  # what is too large here is so on every machine
    failed = 0
    print("| what | tried | held | failed |\n| --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for attack in (wrong_arguments, wrong_settings, damaged_files, signals_and_disks):
            place = Path(folder) / attack.__name__
            place.mkdir()
            for what, tried, failures in attack(place, quick):
                bad = len({failure.split(":")[0] for failure in failures})
                failed += bad
                print(f"| {what} | {tried} | {tried - bad} | {bad} |", flush=True)
                for failure in failures:
                    print(f"  {failure}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
