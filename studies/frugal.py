"""Accuracy against energy: machines trained with the work of their drives in the loss, each sampled from rest.

    python studies/frugal.py scan --out FILE.json [--data-dir DIR]
    python studies/frugal.py test --out FILE.json [--seeds 0 1 2]

Every machine is the shipped experiment `frugal` with something changed, and is judged by its full sampled dynamics.
`scan` trains on 55000 images and judges on the 5000 that were held out: all choices are made there. `test` trains what
was chosen on all 60000 images and looks at the test images, over three seeds. The cost of an answer is the mean work of
switching the drives on and off, which is the whole cost of a cycle where W is symmetric and nodes start from rest. A
file that is there already is added to.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thermoment import data
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import read
from thermoment.machines.classifier import Classifier
from thermoment.runs.context import Context
from thermoment.runs.reservoirs import make
from thermoment.runs.store import Store
from thermoment.thermodynamics.account import switching_work

HERE = Path(__file__).parent
DISTORTION = {"rotation": 0.2, "scale": 0.12, "shear": 0.2, "shift": 2.0, "elastic": 1.0}
"""Strengths in `best`, in units of which a setting states its distortion."""
Setting = dict[str, Any]
"""What is changed: keys of the experiment, and `distortion` in units of that of `best`."""

PENALTY, EPOCHS, NODES = "finite_time.work_penalty", "finite_time.epochs", "reservoirs.*.n_nodes"
SCAN: list[Setting] = [
    *({"distortion": 1.0, PENALTY: penalty} for penalty in (1e-9, 1e-6, 1e-5, 1e-4, 3e-4)),
    *({"distortion": 0.5, PENALTY: penalty} for penalty in (3e-5, 1e-4, 3e-4, 1e-3)),
    *({"distortion": 0.0, PENALTY: penalty} for penalty in (1e-4, 3e-4)),
    {"distortion": 0.5, PENALTY: 3e-5, "protocol.n_replicas": 8},
    {"distortion": 0.5, PENALTY: 3e-6, "protocol.n_replicas": 128},
    *(
        {"distortion": 1.0, PENALTY: 1e-4, **change}
        for change in (
            {"protocol.t_final": 2.0},
            {"dynamics.kT": 1.0},
            {NODES: 128},
            {NODES: 512},
            {"reservoirs.*.s_W": 0.0},
            {"finite_time.W": True},
            {"dynamics.J2": 0.0, "protocol.t_rest": 6.0},
            {"dynamics.J2": -0.5, "protocol.t_rest": 12.0},
            {"finite_time.label_smoothing": 0.0},
            {"finite_time.learning_rate": 8e-3},
            {"finite_time.weight_decay": 0.0},
        )
    ),
    *(
        {"distortion": 0.5, PENALTY: 3e-4, "finite_time.weight_decay": 0.0, **change}
        for change in (
            {EPOCHS: 600},
            {"protocol.t_final": 2.0},
            {"finite_time.learning_rate": 8e-3},
            {NODES: 128},
            {NODES: 512},
            {"finite_time.W": True},
            {"finite_time.W": True, EPOCHS: 600},
            {"finite_time.W": True, "protocol.t_final": 2.0},
            {"finite_time.W": True, "dynamics.kT": 0.3},
            {"finite_time.W": True, NODES: 512},
            {"finite_time.W": True, "finite_time.W_rate": 0.2},
        )
    ),
]
TEST: list[Setting] = [
    {"distortion": 1.0, PENALTY: 1e-6, EPOCHS: 600},
    {"distortion": 1.0, PENALTY: 1e-5},
    {"distortion": 0.75, PENALTY: 1.5e-5},
    {"distortion": 0.5, PENALTY: 3e-5},
    {"distortion": 0.5, PENALTY: 1e-4},
    {"distortion": 0.5, PENALTY: 2e-4},
    {"distortion": 0.5, PENALTY: 3e-4},
    {"distortion": 0.5, PENALTY: 6e-4},
    {"distortion": 0.5, PENALTY: 1e-3},
]


def assignments(setting: Setting) -> list[str]:
    """The setting as `--set` takes it."""
    share = setting["distortion"]
    found = [f"finite_time.distortion.{name}={share * strength:.6g}" for name, strength in DISTORTION.items()]
    return found + [f"{key}={json.dumps(value)}" for key, value in setting.items() if key != "distortion"]


def held_out(whole: Dataset, count: int) -> Dataset:
    """The last `count` training images in place of the test images."""
    rest = slice(whole.n_train - count, None)
    return replace(whole, x_test=whole.x_train[rest], y_test=whole.y_train[rest]).first(whole.n_train - count)


def measure(setting: Setting, seed: int, dataset: Dataset, engine: str) -> dict[str, Any]:
    """Trains a machine, samples it, and says what it gets right and at what cost."""
    experiment = read("frugal", assignments(setting)).repeat(seed)
    with tempfile.TemporaryDirectory() as store:
        (made,) = make([experiment], dataset, Context(Store.at(Path(store))))
    machine = Classifier(made.reservoirs, experiment.protocol, tuple(made.heads.values()), engine)
    ids = dataset.n_train + np.arange(dataset.n_test, dtype=np.uint64)
    features = machine.features(dataset.x_test, sample_ids=ids)
    right = machine.logits_of(features).argmax(1) == dataset.y_test
    work, drives, start = np.zeros(dataset.n_test), [], 0
    for reservoir in made.reservoirs.values():
        h = reservoir.drive(dataset.x_test)
        x = features[:, start : start + reservoir.n_nodes]
        work += switching_work(h, x, reservoir.dynamics.kT) * experiment.protocol.n_replicas
        drives.append((h**2).mean())
        start += reservoir.n_nodes * len(experiment.protocol.orders)
    return {
        "correct": int(right.sum()),
        "total": dataset.n_test,
        "work": float(work.mean()),
        "work_se": float(work.std(ddof=1) / np.sqrt(len(work))),
        "rms_drive": float(np.sqrt(np.mean(drives))),
    }


def main() -> None:
    """Measures what is missing, and writes after every row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("study", choices=("scan", "test"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", help="0 for the scan and 0 1 2 for the test unless given")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--data-dir")
    parser.add_argument("--held-out", type=int, default=5000)
    options = parser.parse_args()
    whole = data.load("mnist", options.data_dir)
    testing = options.study == "test"
    dataset = whole if testing else held_out(whole, options.held_out)
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    for seed in options.seeds or ([0, 1, 2] if testing else [0]):
        for setting in TEST if testing else SCAN:
            job = {"setting": setting, "seed": seed}
            if any(job.items() <= row.items() for row in rows):
                continue
            begin = time.perf_counter()
            row = job | measure(setting, seed, dataset, options.engine)
            row["seconds"] = round(time.perf_counter() - begin, 2)
            print(row, flush=True)
            rows.append(row)
            result = {"machine": describe(checkout=HERE), "on": "test" if testing else "held out", "rows": rows}
            write_json(options.out, result)


if __name__ == "__main__":
    main()
