"""Runs all studies of the paper's open questions on one store, several processes at a time, and collects study.json.

    python studies/run_all.py --data-dir DIR --engine cuda --processes 8          sampled, on a GPU
    python studies/run_all.py --data-dir DIR --engine meanfield --repeats 3       without sampling, on a laptop

A study is done in parts: a variant, or a point of its scan where points have nothing to simulate in common. A few
processes do them beside each other, all trainings first, then the parts that sample little or nothing, then the rest.
A GPU that samples leaves little to others. With --sampler one process more does nothing but sample, once all that needs
no sampling is done, and the others fit what it has sampled; under NVIDIA's multi-process service it leaves some of the
GPU's multiprocessors to them.
What parts have in common is done once (features that several studies read stay in the store: 13 GB for MNIST). The same
command goes on where a killed one stopped.

OUT/parts has one small file for every part that is done, and nothing else is needed to go on: copied to another
machine, which need not have the store, they are not done again there. The files are put together to STUDY.json, or
STUDY-DATA.json for other data than MNIST, in the folder --results: the bytes of study.json that `thermoment run STUDY`
leaves on machines of the same kind. A part says which machine did it, and when, and so do OUT/trainings of trainings
and OUT/samplings of what the sampler did: times-DATA-ENGINE.json, beside the studies, has how long every machine was at
it. Seconds that are printed are those of one process, of which several run at a time.

With --engine meanfield, variants that name an engine of their own that samples are left out. With --leave-sampling no
part that samples is done: those are left to a machine with a GPU, to which OUT/parts is copied. A machine can also be
given single variants, as STUDY/VARIANT.
"""

import argparse
import json
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study_parts import STUDIES, Part, chosen, merged, parts, studies, trainings

from thermoment._support.files import write_json, write_whole
from thermoment._support.host import describe
from thermoment.experiments.experiment import Experiment
from thermoment.results.results import StudyResults
from thermoment.results.study import to_json

if TYPE_CHECKING:
    from thermoment.data.dataset import Dataset
    from thermoment.runs.context import Context

ROOT = Path(__file__).parents[1]
_AHEAD = 2
"""Parts that are sampled and not yet fitted: their features lie in the store, 6.5 GB each on MNIST."""
_SHARE = 90
"""Per cent of a GPU's multiprocessors that the sampler takes. A block of its kernel keeps one for 10 ms, and small
kernels of other processes would wait for it."""


@dataclass(frozen=True)
class Place:
    """Where everything is."""

    out: Path
    store: Path
    data_dir: str | None


def train(part: Part, file: Path, place: Place) -> None:
    """Trains the reservoirs of a part, all repeats side by side, where the store has them not."""
    from thermoment.runs.reservoirs import make

    clock, (repeats, whole, context) = Clock(), opened(part, place)
    make(repeats, whole, context)
    clock.keep(file)


def sample(part: Part, place: Place) -> None:
    """Simulates what a part reads, of all repeats, where the store has neither that nor what is fitted to it."""
    from thermoment.runs.features import share
    from thermoment.runs.reservoirs import make
    from thermoment.runs.stages import Pass
    from thermoment.runs.store import is_kept

    clock, (repeats, whole, context) = Clock(), opened(part, place)
    for experiment, made in zip(repeats, make(repeats, whole, context), strict=True):
        one = Pass.of(experiment, made, whole, context)
        if experiment.features.share:
            share(one.stages.values())
        if not is_kept(one.readouts):
            one.simulate()
    clock.keep(place.out / "samplings" / part.file.name)


def opened(part: Part, place: Place) -> "tuple[list[Experiment], Dataset, Context]":
    """All repeats of the first point of a part, its data and the store."""
    from thermoment import data
    from thermoment.runs.context import Context
    from thermoment.runs.store import Store

    one = part.first
    whole = data.load(one.data.name, place.data_dir, split=one.data.split).first(one.data.n_train, one.data.n_test)
    return [one.repeat(number) for number in range(one.repeats)], whole, Context(Store.at(place.store))


def do(part: Part, place: Place) -> float:
    """Runs a part and keeps its results; returns the seconds. Its process keeps what JAX compiled."""
    from thermoment.runs.run import run

    clock = Clock()
    results = run(part.experiment, place.out / "runs" / part.file.stem, store=place.store, data_dir=place.data_dir)
    assert isinstance(results, StudyResults)
    return clock.keep(part.file, results=results.plain())


class Clock:
    """When something was begun, how long it took, and where."""

    def __init__(self) -> None:
        self._begun, self._start = time.time(), time.perf_counter()

    def keep(self, file: Path, **more: Any) -> float:
        """Writes them to a file, unless there is one: what was done before is in the store. Returns the seconds."""
        seconds = round(time.perf_counter() - self._start, 1)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file():
            facts = {"machine": describe(checkout=ROOT), "begun": round(self._begun), "seconds": seconds}
            write_json(file, {**facts, **more})
        return seconds


def in_order(parts: Iterable[Part]) -> list[Part]:
    """What leaves a GPU to others before what does not, and the largest first."""
    return sorted(parts, key=lambda part: (part.fills_a_gpu, -part.size))


def do_all(left: Sequence[Part], place: Place, processes: int, end: float, *, apart: bool = False) -> None:
    """Does the parts until the clock says `end`. What fails is told, and does not stop the rest.

    apart: what fills a GPU is sampled by a process of its own, after all else, a few parts ahead of the fits
    """
    ordered = in_order(left)
    to_train = deque(trainings(ordered, place.out).items())
    to_sample = deque(part for part in ordered if apart and part.fills_a_gpu)
    to_do = deque(part for part in ordered if part not in to_sample)
    sampled: deque[Part] = deque()
    training: set[Future[Any]] = set()
    sampling: dict[Future[Any], Part] = {}
    doing: dict[Future[Any], Part] = {}
    context, count = get_context("spawn"), 0
    with ExitStack() as pools:
        pool = pools.enter_context(ProcessPoolExecutor(processes, context))
        sampler = pools.enter_context(ProcessPoolExecutor(1, context, leave_room)) if apart else pool
        while count < len(left):
            while len(training) + len(doing) < processes and (to_train or sampled or to_do):
                if to_train:
                    file, part = to_train.popleft()
                    training.add(pool.submit(train, part, file, place))
                else:
                    part = (sampled or to_do).popleft()
                    doing[pool.submit(do, part, place)] = part
            all_else_is_done = not (to_train or training or to_do) and all(part.fills_a_gpu for part in doing.values())
            if to_sample and all_else_is_done and not sampling and len(sampled) < _AHEAD:
                part = to_sample.popleft()
                sampling[sampler.submit(sample, part, place)] = part
            most = None if end == math.inf else max(0.0, end - time.monotonic())
            done, _ = wait([*training, *sampling, *doing], most, FIRST_COMPLETED)
            if not done:
                stop()
            for one in done:  # what fails in training or sampling fails again where the part is done, and is told then
                training.discard(one)
                if one in sampling:
                    sampled.append(sampling.pop(one))
                elif one in doing:
                    count += 1
                    said = f"failed: {error}" if (error := one.exception()) else f"{one.result():.1f} s"
                    print(f"{count} of {len(left)}: {doing.pop(one).file.stem}  {said}", flush=True)


def leave_room() -> None:
    """Leaves some multiprocessors to other processes, under NVIDIA's multi-process service, and lets them go first.

    Both are read when CUDA starts in this process. Without that service they change nothing.
    """
    os.environ.setdefault("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(_SHARE))
    os.environ.setdefault("CUDA_MPS_CLIENT_PRIORITY", "1")  # below normal


def stop(*_: object) -> None:
    """Ends the processes and this command; what they were at is begun again the next time."""
    for child in active_children():
        child.terminate()
    sys.exit("Stopped. The same command goes on.")


def collect(
    found: Mapping[str, Experiment], out: Path, results: Path, ending: str, *, incomplete: bool = False
) -> list[str]:
    """Writes study.json of every study whose parts are all there; says which are not.

    incomplete: writes that of other studies too, with the points that are there
    """
    results.mkdir(parents=True, exist_ok=True)
    missing = []
    for name, study in found.items():
        every = parts(study, out)
        done = [part for part in every if part.file.is_file()]
        if len(done) < len(every):
            missing.append(name)
            if not (incomplete and done):
                continue
        kept = [json.loads(part.file.read_text("utf-8")) for part in done]
        typed = [StudyResults.from_json(one["results"], part.file.name) for one, part in zip(kept, done, strict=True)]
        whole = merged(study, list(zip(done, typed, strict=True)))
        write_whole(results / f"{name}{ending}.json", to_json(whole).encode())
        print(f"{name}: {sum(one['seconds'] for one in kept):.0f} s in {len(done)} of {len(every)} parts", flush=True)
    return missing


def times(found: Mapping[str, Experiment], out: Path) -> dict[str, Any]:
    """How long every machine was at it: what times-DATA-ENGINE.json says."""
    every = [part for study in found.values() for part in parts(study, out)]
    by_machine: dict[str, list[dict[str, Any]]] = {}
    sampled = [out / "samplings" / part.file.name for part in every]
    for file in (*trainings(every, out), *sampled, *(part.file for part in every)):
        if file.is_file():
            one = json.loads(file.read_text("utf-8"))
            by_machine.setdefault(one["machine"]["processor"], []).append(one)
    return {
        "parts": len(every),
        "machines": [
            {
                "processor": processor,
                "cores": max(one["machine"]["cores"] for one in done),
                "accelerator": next(
                    (name for one in done if (name := one["machine"]["accelerator"]) != "none"), "none"
                ),
                "parts": sum("results" in one for one in done),
                "minutes": round(busy((one["begun"], one["begun"] + one["seconds"]) for one in done) / 60, 1),
            }
            for processor, done in by_machine.items()
        ],
    }


def busy(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of some spans of time was going on."""
    total, latest = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, latest))
        latest = max(latest, end)
    return total


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--data", default="mnist", help="name of the data set")
    parser.add_argument("--engine", help="for all variants that do not name their own")
    parser.add_argument("--out", type=Path, default=Path("runs/studies"))
    parser.add_argument("--store", type=Path, help="[.stages in --out]")
    parser.add_argument("--results", type=Path, help="where study.json of every study goes  [--out]")
    parser.add_argument("--processes", type=int, default=1, help="at a time; on a GPU several are faster")
    parser.add_argument("--sampler", action="store_true", help="one more process, which samples after all else")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; the same command goes on")
    parser.add_argument("--repeats", type=int, help="at most so many of every variant")
    parser.add_argument("--leave-sampling", action="store_true", help="do no part that samples")
    parser.add_argument("--collect", action="store_true", help="do no part: STUDY.json of what is done, in part too")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("studies", nargs="*", default=STUDIES, metavar="STUDY[/VARIANT]", help="all unless given")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share the GPU's memory
    place = Place(arguments.out, arguments.store or arguments.out / ".stages", arguments.data_dir)
    try:
        found = studies(arguments)
        every = [part for study in found.values() for part in parts(study, place.out)]
        asked_for = chosen(arguments.studies, every)
    except ValueError as error:
        parser.error(str(error))
    left = [part for part in asked_for if not part.file.is_file() and not (part.samples and arguments.leave_sampling)]
    ending = "" if arguments.data == "mnist" else f"-{Path(arguments.data).stem}"
    results = arguments.results or place.out
    signal.signal(signal.SIGTERM, stop)
    end = time.monotonic() + 60 * arguments.minutes
    try:
        do_all([] if arguments.collect else left, place, arguments.processes, end, apart=arguments.sampler)
    finally:
        missing = collect(found, place.out, results, ending, incomplete=arguments.collect)
        asked = {"data": Path(arguments.data).stem, "engine": arguments.engine or "auto", "repeats": arguments.repeats}
        file = f"times-{asked['data']}-{asked['engine']}.json"
        write_json(results / file, {**asked, **times(found, place.out)})
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
