"""What each ingredient of training the machine brings, and how far a machine carries from what it was trained for.

    python benchmarks/training.py ingredients --out FILE.json [--seeds 0 1 2] [--epochs 100] [--only NAME ...]
    python benchmarks/training.py conditions  --out FILE.json [--seeds 0 1 2] [--epochs 100] [--only NAME ...]

Every machine is `best` with something changed, trained on 55000 images of MNIST and judged by its full sampled dynamics
on the 5000 that were held out; the test images are not looked at. A file that is there already is added to, so the
work can be split over calls, and over files, which figures.py joins. `--data` and `--set` make a trial of it.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe
from numpy.typing import NDArray

import thermoment as tm
from thermoment import data
from thermoment.experiment import Experiment, read
from thermoment.files import write_whole
from thermoment.finite_time import FiniteTime, train
from thermoment.projection import train_side_by_side
from thermoment.readout import Readout, average_logits, classes, fit_converged

INGREDIENTS: dict[str, tuple[str, ...]] = {
    "static": ("adam",),
    "finite time": ("best", "finite_time.n_replicas=inf", "finite_time.distortion={}"),
    "and shot noise": ("best", "finite_time.distortion={}"),
    "and distortion": ("best",),
    "distortion, no shot noise": ("best", "finite_time.n_replicas=inf"),
    "each for itself": ("best", "finite_time.joint=false"),
    "b as drawn": ("best", "finite_time.b=false"),
    "W trained": ("best", "finite_time.W=true"),
    "W trained, symmetric": ("best", "finite_time.W=true", "finite_time.symmetric=true"),
    "no coupling": ("best", "reservoirs.*.s_W=0.0"),
    "m1": ("best", "protocol.orders=[1]"),
    "m1, m2": ("best", "protocol.orders=[1, 2]"),
}
"""The experiment each starts from, and what is changed."""
CONDITIONS: dict[str, Sequence[float]] = {
    "n_replicas": (8, 32, 128, 512),
    "kT": (0.02, 0.1, 0.5, 2.0),
    "t_final": (0.05, 0.2, 1.0, 3.0),
}
SECTION = {"n_replicas": "protocol", "kT": "dynamics", "t_final": "protocol"}
Job = tuple[dict[str, Any], Callable[[], int]]
"""What is measured, and the work that gives the number of images it gets right."""


@dataclass(frozen=True)
class Task:
    """Images to train on, and those held out."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    image_shape: tuple[int, ...]
    held_out: int

    @property
    def trained_on(self) -> slice:
        return slice(0, len(self.x) - self.held_out)

    @property
    def judged_by(self) -> slice:
        return slice(len(self.x) - self.held_out, len(self.x))


@dataclass(frozen=True)
class Machine:
    """Reservoirs with one head for all of them, or one for each."""

    reservoirs: tuple[tm.Reservoir, ...]
    heads: tuple[Readout, ...]

    def correct(self, task: Task, protocol: tm.Protocol, engine: str) -> int:
        """How many of the images held out it gets right."""
        blocks = features(self.reservoirs, task, task.judged_by, protocol, engine)
        if len(self.heads) == 1:
            found = self.heads[0].predict(np.concatenate(blocks, axis=1))
        else:
            found = classes(average_logits(self.heads, blocks))
        return int((found == task.y[task.judged_by]).sum())

    def refitted(self, task: Task, protocol: tm.Protocol, engine: str) -> "Machine":
        """The same reservoirs under one head fitted to what they show now."""
        blocks = features(self.reservoirs, task, task.trained_on, protocol, engine)
        return Machine(self.reservoirs, (fit_converged(np.concatenate(blocks, axis=1), task.y[task.trained_on]),))

    def at(self, kT: float) -> "Machine":
        """The same at another temperature."""
        return replace(self, reservoirs=tuple(replace(r, dynamics=replace(r.dynamics, kT=kT)) for r in self.reservoirs))


def features(
    reservoirs: Sequence[tm.Reservoir], task: Task, rows: slice, protocol: tm.Protocol, engine: str
) -> list[Any]:
    """Every reservoir's features of some images, as float32."""
    ids = np.arange(len(task.x), dtype=np.uint64)[rows]
    return [
        tm.simulate(r, task.x[rows], protocol, engine=engine, sample_ids=ids).features().astype(np.float32)
        for r in reservoirs
    ]


def drawn(experiment: Experiment, task: Task) -> list[tm.Reservoir]:
    """The reservoirs of an experiment before any training."""
    return [
        tm.Reservoir.draw(
            plan.n_nodes,
            task.x.shape[1],
            seed=plan.seed,
            s_W=plan.s_W,
            s_K=plan.s_K,
            s_b=plan.s_b,
            stream=stream,
            dynamics=experiment.dynamics,
        )
        for stream, plan in enumerate(experiment.reservoirs)
    ]


def made(experiment: Experiment, task: Task, engine: str) -> Machine:
    """The trained machine of an experiment."""
    start = drawn(experiment, task)
    if experiment.finite_time is None:
        return static(experiment, start, task).refitted(task, experiment.protocol, engine)
    options: FiniteTime = replace(experiment.finite_time, validation=task.held_out)
    groups = [start] if options.joint else [[reservoir] for reservoir in start]
    found = [
        train(
            group,
            task.x,
            task.y,
            experiment.protocol,
            replace(options, seed=options.seed + number),
            image_shape=task.image_shape,
        )
        for number, group in enumerate(groups)
    ]
    return Machine(tuple(r for one in found for r in one.reservoirs), tuple(one.readout for one in found))


def static(experiment: Experiment, start: list[tm.Reservoir], task: Task) -> Machine:
    """Trained by the static surrogates; without a head."""
    rows = task.trained_on
    found = [
        train_side_by_side([r], task.x[rows], task.y[rows], plan.stages, experiment.training, seeds=[plan.seed])
        for r, plan in zip(start, experiment.reservoirs, strict=True)
    ]
    return Machine(tuple(one[0].reservoir for one in found), ())


class Study:
    """The machines of one call: the experiments they come from, trained once each."""

    def __init__(self, options: argparse.Namespace) -> None:
        dataset = data.load(options.data, options.data_dir)
        self.task = Task(dataset.x_train, dataset.y_train, dataset.image_shape, options.held_out)
        self.options = options
        self._made = cache(lambda *what: made(self.experiment(*what), self.task, options.engine))

    def experiment(self, source: str, changes: tuple[str, ...], seed: int, count: int = 3) -> Experiment:
        """A shipped experiment with changes, for one seed and its first `count` reservoirs."""
        trial = [*self.options.set, f"finite_time.epochs={self.options.epochs}"] if source == "best" else []
        found = read(source, [*trial, *changes]).repeat(seed)
        return replace(found, reservoirs=found.reservoirs[:count])

    def machine(self, source: str, changes: tuple[str, ...], seed: int, count: int = 3) -> Machine:
        """The trained machine; that of `best` where the changes change nothing."""
        wanted = self.experiment(source, changes, seed, count)
        nothing = wanted == self.experiment(source, (), seed, count)
        return self._made(source, () if nothing else changes, seed, count)

    def trained(self, *what: Any) -> int:
        """How many images held out a machine gets right under the conditions it was trained for."""
        return self.machine(*what).correct(self.task, self.experiment(*what).protocol, self.options.engine)

    def moved(self, seed: int, change: str, *, refit: bool) -> int:
        """The same of `best`, as it is or with its head refitted, under changed conditions."""
        there = self.experiment("best", (change,), seed)
        machine = self.machine("best", (), seed).at(there.dynamics.kT)
        if refit:
            machine = machine.refitted(self.task, there.protocol, "meanfield")
        return machine.correct(self.task, there.protocol, self.options.engine)

    def ingredients(self) -> Iterator[Job]:
        """For every seed and ingredient; `best` also with one reservoir alone."""
        for seed in self.options.seeds:
            for name, (source, *changes) in INGREDIENTS.items():
                yield {"name": name, "seed": seed}, partial(self.trained, source, tuple(changes), seed)
            yield {"name": "one reservoir", "seed": seed}, partial(self.trained, "best", (), seed, 1)

    def conditions(self) -> Iterator[Job]:
        """For every seed and condition: `best` as it is, with its head refitted, and trained for it."""
        for seed in self.options.seeds:
            for name, values in CONDITIONS.items():
                for value in values:
                    change = f"{SECTION[name]}.{name}={value}"
                    for how, work in {
                        "as it is": partial(self.moved, seed, change, refit=False),
                        "head refitted": partial(self.moved, seed, change, refit=True),
                        "trained for it": partial(self.trained, "best", (change,), seed),
                    }.items():
                        yield {"name": name, "value": value, "how": how, "seed": seed}, work


def main() -> None:
    """Measures what is missing, and writes after every row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("study", choices=("ingredients", "conditions"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--only", nargs="+", help="names of rows; all unless given")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--data-dir")
    parser.add_argument("--held-out", type=int, default=5000)
    parser.add_argument("--set", action="append", default=[], help="further changes to `best`")
    options = parser.parse_args()
    facts = {name: getattr(options, name) for name in ("study", "data", "held_out", "epochs", "engine", "set")}
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    for job, work in getattr(Study(options), options.study)():
        known = any(job.items() <= row.items() for row in rows)
        if known or (options.only and job["name"] not in options.only):
            continue
        begin = time.perf_counter()
        row = {**job, "correct": work(), "seconds": round(time.perf_counter() - begin, 2)}
        print(row, flush=True)
        rows.append(row)
        write_whole(options.out, (json.dumps({"machine": describe(), **facts, "rows": rows}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
