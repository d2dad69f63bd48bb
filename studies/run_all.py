"""Runs all studies of the paper's open questions on one store, several processes at a time, and collects study.json.

    python studies/run_all.py --data-dir DIR --engine cuda                  sampled, on a GPU
    python studies/run_all.py --data-dir DIR --engine meanfield --repeats 3 without sampling, on a laptop

The variants of all studies are done by a few processes beside each other: while one samples, others fit. What variants
have in common is done once (features that several studies read stay in the store: 13 GB for MNIST). Then each study is
put together. The same command goes on where a killed one stopped. It prints what each variant and each study took
(seconds of its processes, of which several run at a time), and leaves STUDY.json, or STUDY-DATA.json for other data
than MNIST, in the folder --results.

With --engine meanfield, variants that name an engine of their own that samples are left out.
"""

import argparse
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from thermoment._support.identity import identity
from thermoment.experiments.experiment import Experiment, read

STUDIES = (
    "seeds",
    "equal-resources",
    "what-the-moments-carry",
    "time-and-temperature",
    "fusion",
    "beside-others",
)
FIRST = (
    "seeds/everything",
    "time-and-temperature/trained",
    "what-the-moments-carry/read",
    "beside-others/adam",
    "time-and-temperature/map",
)
"""Long ones, and those whose machines others have too."""
LAST = ("equal-resources/different", "time-and-temperature/paper", "fusion", "beside-others/paper")
"""Those that find their features in the store."""


@dataclass(frozen=True)
class Place:
    """Where everything is."""

    out: Path
    store: Path
    data_dir: str | None


def studies(arguments: argparse.Namespace) -> dict[str, Experiment]:
    """The studies as asked for, by name."""
    found = {}
    for name in arguments.studies:
        one = read(name, [f"data.name={arguments.data}", *arguments.overrides])
        if arguments.engine:
            one = replace(one, engine=arguments.engine)
        if arguments.engine == "meanfield":
            one = replace(one, variants={key: table for key, table in one.variants.items() if not samples(table)})
        if most := arguments.repeats:
            capped = {key: {**table, "repeats": min(most, table.get("repeats", most))}
                      for key, table in one.variants.items()}  # fmt: skip
            one = replace(one, repeats=min(most, one.repeats), variants=capped)
        found[name] = one
    return found


def samples(variant: Mapping[str, Any]) -> bool:
    """Whether a variant names an engine of its own that samples."""
    return bool(variant.get("engine", "meanfield") != "meanfield")


def units(found: dict[str, Experiment]) -> dict[str, Experiment]:
    """Every variant as a study of its own, in the order in which they are best begun."""
    every = {}
    for name, one in found.items():
        for variant, table in one.variants.items():
            every[f"{name}/{variant}"] = replace(one, variants={variant: table})
        if not one.variants:
            every[name] = one
    places = {**{name: k - len(FIRST) for k, name in enumerate(FIRST)}, **{name: k + 1 for k, name in enumerate(LAST)}}
    return dict(sorted(every.items(), key=lambda item: places.get(item[0], 0)))


def do(experiment: Experiment, folder: Path, place: Place) -> float:
    """Runs an experiment; returns the seconds. In a process of its own, which keeps what JAX compiled."""
    from thermoment.runs.run import run

    start = time.perf_counter()
    run(experiment, folder, store=place.store, data_dir=place.data_dir)
    return time.perf_counter() - start


def do_all(work: dict[str, tuple[Experiment, Path]], place: Place, processes: int, end: float) -> dict[str, float]:
    """Seconds that everything took, by name, until the clock says `end`; what was done before is not done again.

    What fails is told, and does not stop the rest.
    """
    marks = {name: place.out / ".done" / identity(name, one)[:32] for name, (one, _) in work.items()}
    left = [name for name in work if not marks[name].is_file()]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        begun = {pool.submit(do, *work[name], place): name for name in left}
        try:
            for number, done in enumerate(
                as_completed(begun, None if end == math.inf else max(0.0, end - time.monotonic()))
            ):
                name = begun[done]
                if error := done.exception():
                    print(f"{name} failed: {error}", flush=True)
                    continue
                marks[name].parent.mkdir(parents=True, exist_ok=True)
                marks[name].write_text(f"{done.result():.1f}")
                print(f"{done.result():8.1f} s  {name}  ({number + 1} of {len(left)})", flush=True)
        except TimeoutError:
            stop()
    return {name: float(mark.read_text()) for name, mark in marks.items() if mark.is_file()}


def stop(*_: object) -> None:
    """Ends the processes and this command; what they were at is begun again the next time."""
    for child in active_children():
        child.terminate()
    sys.exit("Stopped. The same command goes on.")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--data", default="mnist", help="name of the data set")
    parser.add_argument("--engine", help="for all variants that do not name their own")
    parser.add_argument("--out", type=Path, default=Path("runs/studies"))
    parser.add_argument("--store", type=Path, help="[.stages in --out]")
    parser.add_argument("--results", type=Path, help="where study.json of every study goes  [--out]")
    parser.add_argument("--processes", type=int, default=1, help="at a time; 4 are good for a GPU")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; the same command goes on")
    parser.add_argument("--repeats", type=int, help="at most so many of every variant")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("studies", nargs="*", default=STUDIES, help="all unless given")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share the GPU's memory
    place = Place(arguments.out, arguments.store or arguments.out / ".stages", arguments.data_dir)
    found = studies(arguments)
    signal.signal(signal.SIGTERM, stop)
    end = time.monotonic() + 60 * arguments.minutes
    parts = {
        name: (one, place.out / ("parts" if "/" in name else "") / name.replace("/", "-"))
        for name, one in units(found).items()
    }
    taken = do_all(parts, place, arguments.processes, end)
    whole = {name: (one, place.out / name) for name, one in found.items()}
    together = do_all(whole, place, arguments.processes, end)
    for name in found:
        seconds = sum(value for unit, value in taken.items() if unit.split("/")[0] == name)
        again = together.get(name, 0.0) if found[name].variants else 0.0
        print(f"{name}: {seconds:.0f} s, and {again:.0f} s to put it together")
    results = arguments.results or place.out
    results.mkdir(parents=True, exist_ok=True)
    missing = [name for name in found if not (place.out / name / "study.json").is_file()]
    for name in found.keys() - {*missing}:
        ending = "" if arguments.data == "mnist" else f"-{Path(arguments.data).stem}"
        shutil.copyfile(place.out / name / "study.json", results / f"{name}{ending}.json")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
