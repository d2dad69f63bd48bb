"""Makes a machine that ships with the package: trains it as an experiment says, and keeps it in half precision.

    python tools/make_pretrained.py mnist --experiment best --data-dir DIR [--engine cuda] [--set KEY=VALUE ...]

The test images are simulated by the engine, with the machine as trained and with its numbers rounded to half precision,
and what both get right is kept in the file. On an H200 GPU it takes a few minutes.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thermoment import __version__, data
from thermoment._support.host import commit, describe
from thermoment.experiments.experiment import read
from thermoment.experiments.toml import as_table
from thermoment.learning.finite_time.train import train
from thermoment.machines.classifier import Classifier
from thermoment.reservoir import Reservoir

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src/thermoment/machines/pretrained"
ENGINES = ("cuda", "native", "xla", "meanfield")


def main() -> None:
    """Trains, rounds, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name")
    parser.add_argument("--experiment", default="best")
    parser.add_argument("--data-dir")
    parser.add_argument("--engine", default="cuda", choices=ENGINES)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--commit", help="of the code, where this is no checkout")
    options = parser.parse_args()
    experiment = replace(read(options.experiment, options.set), repeats=1)
    assert experiment.finite_time is not None
    dataset = data.load(experiment.data.name, options.data_dir)
    drawn = [
        Reservoir.draw(
            one.n_nodes, dataset.n_inputs, s_W=one.s_W, s_K=one.s_K, s_b=one.s_b, seed=one.seed, stream=stream,
            dynamics=experiment.dynamics,
        )
        for stream, one in enumerate(experiment.reservoirs)
    ]  # fmt: skip
    trained = train(
        drawn,
        dataset.x_train,
        dataset.y_train,
        experiment.protocol,
        experiment.finite_time,
        image_shape=dataset.image_shape,
        report=lambda done, epoch: print(done, epoch, flush=True) if done % 50 == 0 else None,
    )
    names = [one.name for one in experiment.reservoirs]
    facts: dict[str, Any] = {
        "experiment": as_table(experiment),
        "dataset": {"name": dataset.name, "sha256": dataset.sha256, "image_shape": list(dataset.image_shape)},
        "thermoment": __version__,
        "commit": options.commit or commit(ROOT),
        "machine": describe(),
    }
    machine = Classifier(
        dict(zip(names, trained.reservoirs, strict=True)), experiment.protocol, (trained.readout,), facts=facts
    )
    rounded = half(machine)
    ids = dataset.n_train + np.arange(dataset.n_test)
    found = {
        precision: one.predict(dataset.x_test, engine=options.engine, sample_ids=ids)
        for precision, one in (("single", machine), ("half", rounded))
    }
    facts["test"] = {
        "total": dataset.n_test,
        "correct": {precision: int((predicted == dataset.y_test).sum()) for precision, predicted in found.items()},
        "changed by rounding": int((found["single"] != found["half"]).sum()),
        "engine": options.engine,
        "wrong": np.flatnonzero(found["half"] != dataset.y_test).tolist(),
    }
    path = options.out / f"{options.name}.safetensors"
    replace(rounded, facts=facts).save(path, dtype="float16")
    print(json.dumps({key: value for key, value in facts["test"].items() if key != "wrong"}))


def half(machine: Classifier) -> Classifier:
    """The machine as its file in half precision gives it back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "half.safetensors"
        machine.save(path, dtype="float16")
        return Classifier.load(path)


if __name__ == "__main__":
    main()
