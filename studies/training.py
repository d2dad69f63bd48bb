"""What each ingredient of training the machine brings, and how far a machine carries from what it was trained for.

    python studies/training.py ingredients --out FILE.json [--seeds 0 1 2] [--epochs 100] [--only NAME ...]
    python studies/training.py conditions  --out FILE.json [--seeds 0 1 2] [--epochs 100] [--only NAME ...]

Every machine is `best` with something changed, trained on 55000 images of MNIST and judged by its full sampled dynamics
on the 5000 that were held out; the test images are not looked at. A file that is there already is added to, so the
work can be split over calls, and over files, which draw.py joins. `--data` and `--set` make a trial of it.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import thermoment as tm
from thermoment import data
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment, read
from thermoment.learning.fit import fit_sgd
from thermoment.learning.readout import Readout, Scaling
from thermoment.machines.classifier import Classifier
from thermoment.runs.context import Context
from thermoment.runs.reservoirs import make
from thermoment.runs.store import Store

HERE = Path(__file__).parent

INGREDIENTS: dict[str, tuple[str, ...]] = {
    "static": ("adam",),
    "finite time": ("best", "finite_time.n_replicas=inf", "finite_time.distortion={}"),
    "finite time, shot noise": ("best", "finite_time.distortion={}"),
    "finite time, shot noise, distortion: best": ("best",),
    "best without shot noise": ("best", "finite_time.n_replicas=inf"),
    "best, each for itself": ("best", "finite_time.joint=false"),
    "best with b as drawn": ("best", "finite_time.b=false"),
    "best with W trained": ("best", "finite_time.W=true"),
    "best with W trained, symmetric": ("best", "finite_time.W=true", "finite_time.symmetric=true"),
    "best without coupling": ("best", "reservoirs.*.s_W=0.0"),
    "best with m1": ("best", "protocol.orders=[1]"),
    "best with m1, m2": ("best", "protocol.orders=[1, 2]"),
}
"""The experiment each starts from, and what is changed."""
CONDITIONS: dict[str, Sequence[float]] = {
    "n_replicas": (8, 32, 128, 512),
    "kT": (0.02, 0.1, 0.5, 1.0),
    "t_final": (0.05, 0.2, 1.0, 3.0),
}
SECTION = {"n_replicas": "protocol", "kT": "dynamics", "t_final": "protocol"}
Job = tuple[dict[str, Any], Callable[[], int]]
"""What is measured, and the work that gives the number of images it gets right."""


def correct(machine: Classifier, dataset: Dataset) -> int:
    """How many of the images held out it gets right."""
    ids = dataset.n_train + np.arange(dataset.n_test, dtype=np.uint64)
    return int((machine.predict(dataset.x_test, sample_ids=ids) == dataset.y_test).sum())


def refitted(machine: Classifier, dataset: Dataset, engine: str) -> Classifier:
    """The same reservoirs under one readout, the paper's, of the features that `engine` gives."""
    features = machine.features(dataset.x_train, engine=engine)
    return replace(machine, readouts=tuple(fit_sgd(features, dataset.y_train, [np.arange(features.shape[1])])))


def moved_to(machine: Classifier, kT: float, protocol: tm.Protocol) -> Classifier:
    """The same at another temperature, read by another protocol."""
    reservoirs = {name: replace(r, dynamics=replace(r.dynamics, kT=kT)) for name, r in machine.reservoirs.items()}
    return replace(machine, reservoirs=reservoirs, protocol=protocol)


def unfitted(n_features: int, n_classes: int) -> Readout:
    """A readout that takes everything for the first class, until one is fitted."""
    scaling = Scaling(np.zeros(n_features), np.ones(n_features))
    return Readout(np.zeros((n_classes, n_features)), np.zeros(n_classes), scaling)


class Study:
    """The machines of one call: the experiments they come from, each trained once and kept in the store."""

    def __init__(self, options: argparse.Namespace, store: Path) -> None:
        whole = data.load(options.data, options.data_dir)
        rest = slice(whole.n_train - options.held_out, None)
        held_out = replace(whole, x_test=whole.x_train[rest], y_test=whole.y_train[rest])
        self.dataset = held_out.first(whole.n_train - options.held_out)
        self.options = options
        self.context = Context(Store.at(store))

    def experiment(self, source: str, changes: tuple[str, ...], seed: int, count: int = 3) -> Experiment:
        """A shipped experiment with changes, for one seed and its first `count` reservoirs."""
        trial = [*self.options.set, f"finite_time.epochs={self.options.epochs}"] if source == "best" else []
        found = read(source, [*trial, *changes]).repeat(seed)
        return replace(found, reservoirs=found.reservoirs[:count])

    def machine(self, *what: Any) -> Classifier:
        """The trained machine of an experiment; with the paper's readout where it was trained without one."""
        experiment = self.experiment(*what)
        (made,) = make([experiment], self.dataset, self.context)
        heads = tuple(made.heads.values())
        if not heads:
            n_features = len(experiment.protocol.orders) * sum(r.n_nodes for r in made.reservoirs.values())
            heads = (unfitted(n_features, self.dataset.n_classes),)
        machine = Classifier(made.reservoirs, experiment.protocol, heads, self.options.engine)
        return machine if made.heads else refitted(machine, self.dataset, self.options.engine)

    def trained(self, *what: Any) -> int:
        """How many images held out a machine gets right under the conditions it was trained for."""
        return correct(self.machine(*what), self.dataset)

    def moved(self, seed: int, change: str, *, refit: bool) -> int:
        """The same of `best`, as it is or with its head refitted, under changed conditions."""
        there = self.experiment("best", (change,), seed)
        machine = moved_to(self.machine("best", (), seed), there.dynamics.kT, there.protocol)
        return correct(refitted(machine, self.dataset, "meanfield") if refit else machine, self.dataset)

    def ingredients(self) -> Iterator[Job]:
        """For every seed and ingredient; `best` also with one reservoir alone."""
        for seed in self.options.seeds:
            for name, (source, *changes) in INGREDIENTS.items():
                yield {"name": name, "seed": seed}, partial(self.trained, source, tuple(changes), seed)
            yield {"name": "best with one reservoir", "seed": seed}, partial(self.trained, "best", (), seed, 1)

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


def matches(job: dict[str, Any], words: str) -> bool:
    """Whether a row begins so: `kT`, `kT 0.5` or `kT 0.5 as it is`."""
    label = " ".join(str(value) for name, value in job.items() if name != "seed")
    return f"{label} ".startswith(f"{words} ")


def main() -> None:
    """Measures what is missing, and writes after every row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("study", choices=("ingredients", "conditions"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--only", nargs="+", help="rows that begin so; all unless given")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--data-dir")
    parser.add_argument("--held-out", type=int, default=5000)
    parser.add_argument("--set", action="append", default=[], help="further changes to `best`")
    options = parser.parse_args()
    facts = {name: getattr(options, name) for name in ("study", "data", "held_out", "epochs", "engine", "set")}
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    with tempfile.TemporaryDirectory() as store:
        for job, work in getattr(Study(options, Path(store)), options.study)():
            known = any(job.items() <= row.items() for row in rows)
            if known or (options.only and not any(matches(job, words) for words in options.only)):
                continue
            begin = time.perf_counter()
            row = {**job, "correct": work(), "seconds": round(time.perf_counter() - begin, 2)}
            print(row, flush=True)
            rows.append(row)
            result = {"machine": describe(checkout=HERE), **facts, "rows": rows}
            write_json(options.out, result)


if __name__ == "__main__":
    main()
