"""Bytes flipped, cut off or gone in the files of a run and of its store: found by `verify`, mended by `run`."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from support.runs import contents, copied
from thermoment.cli import main
from thermoment.experiments.experiment import Experiment
from thermoment.runs import run as runner


def flipped(at: float) -> Callable[[bytes], bytes]:
    """One bit of the byte at this part of the file is another."""

    def flip(data: bytes) -> bytes:
        place = min(int(at * len(data)), len(data) - 1)
        return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]

    return flip


DAMAGE: dict[str, Callable[[bytes], bytes] | None] = {
    "its first byte flipped": flipped(0.0),
    "a byte in the middle flipped": flipped(0.5),
    "its last byte flipped": flipped(1.0),
    "cut in half": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "gone": None,
}


class Try(NamedTuple):
    """What is done to which file; `linked` where the file of the run and that of the store are one on disk."""

    name: str
    how: str
    linked: bool

    def __str__(self) -> str:
        return f"{self.name} {self.how}{', one file with the store' if self.linked else ''}"


def tries(run: Path, every: int = 1) -> Iterator[Try]:
    """Every damage to every kind of file of a finished run and of its store beside it; of those each `every`-th."""
    kinds: dict[str, str] = {}
    for root in (run, run.parent / ".stages"):
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            name = str(path.relative_to(run.parent))
            if "/.locks/" not in name and path.name != "timings.json":
                kinds.setdefault(re.sub(r"[0-9a-f]{32}|[0-9]+", "#", name), name)
    found = [Try(name, how, linked) for name in kinds.values() for how in DAMAGE for linked in (False, True)]
    yield from found[::every]


def problem(one: Try, experiment: Experiment, finished: Path, folder: Path) -> str | None:
    """What is wrong after the damage: `verify` and the same command again, on a copy in `folder`."""
    copied(finished, folder / finished.name)
    whole, run = contents(folder), folder / finished.name
    path, change = folder / one.name, DAMAGE[one.how]
    data = path.read_bytes()
    if change is None:
        path.unlink()
    elif one.linked:
        with open(path, "r+b") as file:
            file.write(change(data))
            file.truncate()
    else:
        path.unlink()
        path.write_bytes(change(data))
    if "/projection-" in f"/{one.name}":  # it is not read where the stage that is made of it is there
        for made in (folder / ".stages").glob("static-*"):
            shutil.rmtree(made)
    if path.is_relative_to(run) and (wrong := _verified(run, path.name)):
        return wrong
    try:
        runner.run(experiment, run)
    except Exception as error:
        return f"the same command raised {type(error).__name__}: {error}"
    after = contents(folder)
    names = {name for name in after.keys() | whole.keys() if after.get(name) != whole.get(name)}
    names = {name for name in names if "/.locks/" not in name and not name.endswith("timings.json")}
    return f"other bytes in {', '.join(sorted(names)[:5])}" if names else None


def _verified(run: Path, name: str) -> str | None:
    done = CliRunner().invoke(main, ["verify", str(run)])
    lines = done.stdout.splitlines()
    if done.exit_code != 1 or not isinstance(done.exception, SystemExit) or "mistake of thermoment" in done.stderr:
        return f"verify ended with {done.exit_code} and {(done.stdout + done.stderr)[-200:]!r}"
    if sum(name in line for line in lines) < 1 or len(lines) > 3:
        return f"verify said {lines}"
    return None
