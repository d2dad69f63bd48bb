"""What a run would cost: node-steps, chunks, disk, and from a short trial the time on every engine that runs here."""

import time
from dataclasses import dataclass, replace

import numpy as np

from thermoment._engines.choice import choose, engines
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

_TRIAL_SECONDS = 1.0
_MOST_TRIAL_IMAGES = 20_000


@dataclass(frozen=True)
class Plan:
    """The size of an experiment, all repeats and variants counted."""

    n_images: int
    """times reservoirs, repeats and variants"""
    node_steps: float
    """of an engine that samples; infinite where infinitely many replicas are asked for"""
    epochs: int
    """of training, over all reservoirs"""
    n_readouts: int
    chunks: int
    disk_bytes: int
    """of the features"""
    seconds: dict[str, float | str]
    """for the features, by engine: from a trial here, or why the engine cannot"""


def plan(experiment: Experiment, dataset: Dataset) -> Plan:
    """Counts what `run` would compute, and times every engine on a few images. Nothing is written."""
    times = experiment.repeats * max(1, len(experiment.variants))
    n_samples = dataset.n_train + dataset.n_test
    protocol, plans = experiment.protocol, experiment.reservoirs
    nodes = sum(plan.n_nodes for plan in plans)
    n_models = 2 ** len(plans) - 1 + len(protocol.orders) - 1
    kept = times if experiment.features.keep else 1
    return Plan(
        n_images=times * n_samples * len(plans),
        node_steps=float(times * n_samples * nodes) * protocol.n_replicas * protocol.n_steps,
        epochs=times * (sum(stage.epochs for plan in plans for stage in plan.stages) + _finite_time(experiment)),
        n_readouts=times * n_models * (2 if experiment.readout.converged else 1),
        chunks=times * len(plans) * -(-n_samples // experiment.features.chunk),
        disk_bytes=kept * 4 * n_samples * nodes * len(protocol.orders),
        seconds={name: _seconds(name, experiment, dataset, times) for name in engines()},
    )


def _finite_time(experiment: Experiment) -> int:
    """Epochs through the finite-time moments."""
    options = experiment.finite_time
    return 0 if options is None else options.epochs * len(experiment.reservoirs)


def _seconds(engine: str, experiment: Experiment, dataset: Dataset, times: int) -> float | str:
    """Time for all features, scaled up from a trial with the first reservoir as drawn."""
    first = experiment.reservoirs[0]
    reservoir = Reservoir.draw(first.n_nodes, dataset.n_inputs, seed=first.seed, dynamics=experiment.dynamics)
    try:
        found, _ = choose(engine)
        count, seconds = 1, 0.0
        while True:
            inputs = np.resize(dataset.x_train, (count, dataset.n_inputs))
            start = time.perf_counter()
            simulate(reservoir, inputs, _shortened(experiment, engine).protocol, engine=found)
            if count > 1 or engine == "reference":  # the first call also compiles
                seconds = time.perf_counter() - start
            if seconds > _TRIAL_SECONDS or count >= _MOST_TRIAL_IMAGES or engine == "reference":
                break
            count = min(_MOST_TRIAL_IMAGES, 4 * count)
    except (ValueError, RuntimeError) as error:
        return str(error)
    share = _shortened(experiment, engine).protocol.n_steps / experiment.protocol.n_steps
    nodes = sum(plan.n_nodes for plan in experiment.reservoirs) / first.n_nodes
    return seconds / count / share * times * (dataset.n_train + dataset.n_test) * nodes


def _shortened(experiment: Experiment, engine: str) -> Experiment:
    """With a twentieth of the steps where the time is proportional to them."""
    steps = experiment.protocol.n_steps
    if engine == "meanfield" or steps < 100:
        return experiment
    return replace(experiment, protocol=replace(experiment.protocol, t_final=experiment.protocol.dt * (steps // 20)))
