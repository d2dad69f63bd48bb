"""Whole runs: the seconds of every stage, and of the command that only says what there is.

    python benchmarks/runs.py --data-dir FOLDER [--parts] [--beside CHECKOUT] [--set KEY=VALUE ...] [--out FILE]

An experiment is run by the command line in a process of its own, from nothing, and its timings.json is read. With
--parts only a twentieth of the paper's trainings and a few of its features are done, with all programs compiled before.
With --beside the same is done by another checkout of thermoment, in turn with this one; ratios are within a round, so
that a busy machine disturbs both alike. Processor time is told beside wall time. Results are compared byte by byte.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from thermoment._support.files import write_json
from thermoment._support.host import commit, describe

HERE = Path(__file__).parents[1]
COMMANDS = ("--help", "info")
SHARE, IMAGES, REPEATS = 20, 6400, 2
"""Of --parts: how many times fewer epochs, how many training images, how often each part is timed."""
SAME = ("results.json", "predictions.npz")
"""Files of a run that must not depend on who ran it, beside its reservoirs."""


def environment(tree: Path) -> dict[str, str]:
    """That of this process, with the thermoment of the checkout `tree` before any other."""
    others = os.environ.get("PYTHONPATH", "")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), *others.split(os.pathsep)])}


def timed(tree: Path, arguments: list[str]) -> dict[str, float]:
    """Wall and processor seconds of a command of the checkout `tree`."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "thermoment", *arguments],
        env=environment(tree),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(said.decode())
    return {"wall": time.perf_counter() - start, "processor": usage.ru_utime + usage.ru_stime}


def whole_run(tree: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a run and of its stages, and a digest of what it found."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        changes = [part for change in options.set for part in ("--set", change)]
        where = ["--out", str(folder), "--data-dir", str(options.data_dir), "--engine", options.engine]
        found: dict[str, Any] = timed(tree, ["run", options.experiment, *where, *changes])
        found["stages"] = json.loads((folder / "timings.json").read_text("utf-8"))["seconds"]
        files = [folder / name for name in SAME] + sorted((folder / "reservoirs").iterdir())
        found["digest"] = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    return found


def parts(data_dir: Path) -> dict[str, Any]:
    """Seconds of trainings and of features, by the thermoment that is imported, and a digest of what they gave."""
    from thermoment import data
    from thermoment.experiments.experiment import read
    from thermoment.runs.context import Context
    from thermoment.runs.features import complete, features_stage, open_features
    from thermoment.runs.reservoirs import make_static
    from thermoment.runs.store import Store

    paper, dataset = replace(read("paper"), engine="meanfield"), data.load("mnist", data_dir).first(IMAGES, 1000)
    shorter = tuple(
        replace(one, stages=tuple(replace(stage, epochs=stage.epochs // SHARE) for stage in one.stages))
        for one in paper.reservoirs
    )
    paper = replace(paper, reservoirs=shorter)
    limit = replace(paper, protocol=replace(paper.protocol, n_replicas=math.inf))
    found: dict[str, Any] = {}
    digest = hashlib.sha256()

    def timed(what: str, work: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter(), time.process_time()
        given = work(*arguments)
        seconds = {"wall": time.perf_counter() - start[0], "processor": time.process_time() - start[1]}
        before = found.get(what, seconds)
        found[what] = {kind: min(before[kind], seconds[kind]) for kind in seconds}
        return given

    for number in range(1 + REPEATS):
        with tempfile.TemporaryDirectory() as place:
            context = Context(Store.at(place))
            (made,) = timed("training", make_static, [paper], dataset, context)
            name, one = next(iter(made.reservoirs.items()))
            for what, experiment in (("features", paper), ("features, infinitely many replicas", limit)):
                stage = features_stage(one, "meanfield", experiment, dataset, context)
                store = open_features(stage, one, experiment, dataset)
                inputs = ({name: stage}, {name: store}, {name: one}, "meanfield", experiment, dataset, context)
                timed(what, complete, *inputs)
                digest.update(store.features().tobytes())
            digest.update(b"".join(path.read_bytes() for _, path in sorted(made.files.items())))
        if not number:
            found.clear()  # it was compiled
    return {**found, "digest": digest.hexdigest()[:16]}


def parts_of(tree: Path, data_dir: Path) -> dict[str, Any]:
    """The same by the checkout `tree`, in a process of its own."""
    command = [sys.executable, __file__, "--parts-only", "--data-dir", str(data_dir)]
    done = subprocess.run(command, env=environment(tree), capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def ratios(before: dict[str, Any], now: dict[str, Any], kind: str) -> dict[str, float]:
    """How many times as long everything took before."""
    if kind in now:
        return {"whole": before[kind] / now[kind]}
    return {what: before[what][kind] / now[what][kind] for what in now if what != "digest"}


def main() -> None:
    """Runs everything, prints it, writes the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiment", default="paper")
    parser.add_argument("--engine", default="meanfield")
    parser.add_argument("--data-dir", type=Path, required=True, help="a folder with the data set's files")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting of the run")
    parser.add_argument("--beside", type=Path, help="another checkout, such as one of an earlier commit")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--starts", type=int, default=5, help="how often a command that computes nothing is timed")
    parser.add_argument("--parts", action="store_true", help="a part of the trainings and features, no whole run")
    parser.add_argument("--parts-only", action="store_true", help="print those of the thermoment that is imported")
    parser.add_argument("--commit", help="of the code, where the folder is no checkout")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.parts_only:
        print(json.dumps(parts(options.data_dir)))
        return
    trees = {"now": HERE} | ({"before": options.beside.resolve()} if options.beside else {})
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    starts: dict[str, dict[str, list[float]]] = {name: {command: [] for command in COMMANDS} for name in trees}
    for _ in range(options.starts):
        for name, tree in trees.items():
            for command in COMMANDS:
                starts[name][command].append(timed(tree, [command])["wall"])
    for _ in range(options.rounds):
        for name, tree in trees.items():
            runs[name].append(parts_of(tree, options.data_dir) if options.parts else whole_run(tree, options))
    what = [f"paper, epochs / {SHARE}", f"{IMAGES} images"] if options.parts else [options.experiment, options.engine]
    commits = {name: commit(tree) for name, tree in trees.items()}
    if options.commit:
        commits["now"] = options.commit
    result: dict[str, Any] = {
        "machine": describe("jaxlib", "zarr", "matplotlib") | {"commit": commits["now"]},
        "commits": commits,
        "run": [*what, *options.set],
        "seconds": runs,
        "fastest_start": {name: {key: min(values) for key, values in found.items()} for name, found in starts.items()},
    }
    if options.beside:
        pairs = list(zip(runs["before"], runs["now"], strict=True))
        result["before_over_now"] = {}
        for kind in ("wall", "processor"):
            rounds = [ratios(before, now, kind) for before, now in pairs]
            result["before_over_now"][kind] = {what: median(one[what] for one in rounds) for what in rounds[0]}
    digests = [one["digest"] for found in runs.values() for one in found]
    if len(digests) > 1:
        result["same_bytes"] = len({*digests}) == 1
    print(json.dumps(result, indent=1))
    if options.out:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
