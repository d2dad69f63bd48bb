"""What an answer takes of three machines: the paper's, the shipped one for MNIST, and the published one, thermo_gd.

    python studies/costs.py --thermo-gd parameters.dat [--data-dir DIR] [--store DIR] [--out FILE.json]

The paper's machine is trained here as `thermoment run paper` does, on all 60000 images (several minutes; `--store`
keeps what is trained). Each machine is sampled by `tm.energetics` on every fifth test image: from x = 0, as it was
published, and from rest. The cost of an answer is the cycle of one replica times their number, so few replicas are
enough to count it: images differ far more than replicas. Standard errors are those of the mean over images.
What the file has already is not measured again.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import thermo_gd
from numpy.typing import NDArray

import thermoment as tm
from thermoment import data
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import read
from thermoment.runs.context import Context
from thermoment.runs.reservoirs import make
from thermoment.runs.store import Store

HERE = Path(__file__).parent
EVERY, REPLICAS, REST = 5, 4, 2.0
"""Which test images, by how many replicas, after what rest."""
TERMS = ("cycle", "work_on", "work_off", "work_path", "heat", "energy")


Start = Literal["zero", "rest"]
STARTS: tuple[Start, ...] = ("zero", "rest")


class Machine(NamedTuple):
    """Reservoirs, how they are asked, test images as they see them (S, D), and the share of them that is read right."""

    reservoirs: list[tm.Reservoir]
    protocol: tm.Protocol
    inputs: NDArray[Any]
    right: float


def paper(dataset: Dataset, store: Path) -> Machine:
    """The paper's machine, K trained by its surrogates. What it gets right is the mean over five seeds."""
    experiment = read("paper")
    (made,) = make([experiment], dataset, Context(Store.at(store), lambda *told: print(*told[:3], flush=True)))
    study = json.loads((HERE / "results" / "readings-h200.json").read_text("utf-8"))["study"]
    (variant,) = (row for row in study if row["variant"] == "uniform-head")
    (row,) = (
        row
        for row in variant["accuracy"]
        if (row["model"], row["fusion"], row["orders"], row["readout"]) == ("K1+K2+K3", "feature", [1, 2, 4], "sgd")
    )
    return Machine(list(made.reservoirs.values()), experiment.protocol, dataset.x_test, row["mean"])


def shipped(dataset: Dataset) -> Machine:
    """`tm.pretrained("mnist")`, with what its file says that it gets right."""
    machine = tm.pretrained("mnist")
    found = machine.facts["test"]
    right = found["correct"]["half"] / found["total"]
    return Machine(list(machine.reservoirs.values()), machine.protocol, dataset.x_test, right)


def published(dataset: Dataset, parameters: Path, engine: str) -> Machine:
    """thermo_gd, with what it gets right from one trajectory, in the mean over five seeds."""
    machine, inputs = thermo_gd.load(parameters), thermo_gd.inputs_of(np.asarray(dataset.x_test, np.float64))
    seeds = [thermo_gd.protocol(seed=seed) for seed in range(1, 6)]
    right = np.mean([thermo_gd.right(machine, inputs, dataset.y_test, asked, engine) for asked in seeds])
    return Machine([machine], seeds[0], inputs, float(right))


def measure(machine: Machine, start: Start, engine: str) -> dict[str, Any]:
    """The account of a machine: means over every fifth image, with their standard errors."""
    reservoirs, protocol, inputs, right = machine
    rest = REST if start == "rest" else None
    asked = replace(protocol, n_replicas=REPLICAS, start=start, t_rest=rest)
    images = inputs[::EVERY]
    account = tm.energetics(reservoirs, images, asked, engine=engine)
    spread = np.sqrt(len(images))
    terms = {
        name: [float(found.mean()), float(found.std(ddof=1) / spread)]
        for name, found in ((name, getattr(account, name)) for name in TERMS)
    }
    drives = [reservoir.drive(images) for reservoir in reservoirs]
    return {
        "start": start,
        "right": right,
        "replicas": protocol.n_replicas,
        "nodes": sum(one.n_nodes for one in reservoirs),
        "kT": account.kT,
        "rms_drive": float(np.sqrt(np.mean([(h**2).mean() for h in drives]))),
        "images": len(images),
        "sampled_replicas": REPLICAS,
        "engine": account.engine,
        "cost": [value * protocol.n_replicas for value in terms["cycle"]],
        **terms,
    }


def rounded(value: Any) -> Any:
    """Six digits of every number."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main() -> None:
    """Makes the machines, measures each, and writes after every row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--thermo-gd", type=Path, required=True, help="the file parameters.dat of its authors")
    parser.add_argument("--data-dir")
    parser.add_argument("--store", type=Path, help="keeps what is trained; a temporary folder unless given")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "costs.json")
    options = parser.parse_args()
    dataset = data.load("mnist", options.data_dir)
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else []
    with tempfile.TemporaryDirectory() as temporary:
        machines: dict[str, Callable[[], Machine]] = {
            "thermo_gd": lambda: published(dataset, options.thermo_gd, options.engine),
            "mnist": lambda: shipped(dataset),
            "paper": lambda: paper(dataset, options.store or Path(temporary)),
        }
        for name, machine in machines.items():
            done = {row["start"] for row in rows if row["machine"] == name}
            made = None if done == set(STARTS) else machine()
            for start in STARTS:
                if made is not None and start not in done:
                    rows.append({"machine": name, **rounded(measure(made, start, options.engine))})
                    print(rows[-1], flush=True)
                    result = {"machine": describe(checkout=HERE), "rows": rows}
                    write_json(options.out, result)


if __name__ == "__main__":
    main()
