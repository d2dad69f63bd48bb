"""What a run would cost: node-steps, chunks, disk, and from a short trial the time on every engine that runs here."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from thermoment._engines.choice import choose, engines
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.runs.price import Price, price
from thermoment.simulation import compute, prepare

_TRIAL_SECONDS = 1.0
_MOST_TRIAL_IMAGES = 20_000
_WORTH_A_TRIAL = 1e11
"""Node-steps below which sampling takes minutes at most, on any engine that "auto" takes."""
_LONG_SECONDS = 3600.0
"""Sampling that takes longer than this is worth a warning."""


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
    price: Price
    """of all of it, by the experiment's engine"""


def plan(experiment: Experiment, dataset: Dataset, rates: Mapping[str, float] | None = None) -> Plan:
    """Counts what `run` would compute, and times every engine on a few images. Nothing is written.

    rates: seconds that a task of a kind takes, in place of a trial here
    """
    times = experiment.repeats * max(1, len(experiment.points))
    n_samples = dataset.n_train + dataset.n_test
    protocol, plans = experiment.protocol, experiment.reservoirs
    nodes = sum(plan.n_nodes for plan in plans)
    options = experiment.finite_time
    n_images = n_samples + (dataset.n_test if options is not None and options.beside else 0)
    n_models = 2 ** len(plans) - 1 + len(experiment.read) - 1
    kept = times if experiment.features.keep else 1
    seconds = {name: seconds_for(name, experiment, dataset, times * n_images) for name in engines()}
    speeds = {name: times * n_images / found for name, found in seconds.items() if not isinstance(found, str)}
    return Plan(
        n_images=times * n_images * len(plans),
        node_steps=float(times * n_images * nodes) * protocol.n_replicas * protocol.all_steps,
        epochs=times * (sum(stage.epochs for plan in plans for stage in plan.stages) + _finite_time(experiment)),
        n_readouts=times * n_models * (2 if experiment.readout.converged else 1),
        chunks=times * len(plans) * -(-n_samples // experiment.features.chunk),
        disk_bytes=kept * 4 * n_images * nodes * len(protocol.orders),
        seconds=seconds,
        price=price(experiment, dataset, speeds, rates or {}),
    )


def _finite_time(experiment: Experiment) -> int:
    """Epochs through the finite-time moments."""
    options = experiment.finite_time
    return 0 if options is None else options.epochs * len(experiment.reservoirs)


def seconds_for(engine: str, experiment: Experiment, dataset: Dataset, n_images: int) -> float | str:
    """Time for `n_images` through all reservoirs, scaled up from a trial with the first as drawn; or why it cannot."""
    first, trial = experiment.reservoirs[0], _shortened(experiment.protocol, engine)
    reservoir = Reservoir.draw(first.n_nodes, dataset.n_inputs, seed=first.seed, dynamics=experiment.dynamics)
    try:
        found, _ = choose(engine)
        count, seconds = 1, 0.0
        while True:
            inputs = np.resize(dataset.x_train, (count, dataset.n_inputs))
            start = time.perf_counter()
            compute(prepare(reservoir, inputs, trial), found)
            if count > 1 or engine == "reference":  # the first call also compiles
                seconds = time.perf_counter() - start
            if seconds > _TRIAL_SECONDS or count >= _MOST_TRIAL_IMAGES or engine == "reference":
                break
            count = min(_MOST_TRIAL_IMAGES, 4 * count)
    except (ValueError, RuntimeError) as error:
        return str(error)
    share = trial.all_steps / experiment.protocol.all_steps
    nodes = sum(plan.n_nodes for plan in experiment.reservoirs) / first.n_nodes
    return seconds / count / share * n_images * nodes


def _shortened(protocol: Protocol, engine: str) -> Protocol:
    """With a twentieth of the steps where the time is proportional to them."""
    if engine == "meanfield" or protocol.n_steps < 100:
        return protocol
    return replace(protocol, t_final=protocol.dt * (protocol.n_steps // 20))


def warning(experiment: Experiment, dataset: Dataset) -> str | None:
    """A sentence for who may not want to wait: where sampling would take hours here, and what there is instead."""
    n_images = experiment.repeats * max(1, len(experiment.points)) * (dataset.n_train + dataset.n_test)
    nodes = sum(plan.n_nodes for plan in experiment.reservoirs)
    engine, _ = choose(experiment.engine)
    node_steps = float(n_images * nodes) * experiment.protocol.n_replicas * experiment.protocol.all_steps
    if engine.name == "meanfield" or node_steps < _WORTH_A_TRIAL:
        return None
    seconds = seconds_for(engine.name, experiment, dataset, n_images)
    if isinstance(seconds, str) or seconds < _LONG_SECONDS:
        return None
    return (
        f"Sampling with {engine.name} will take about {seconds / 3600:.1f} hours on this machine. To get an answer in "
        "minutes, stop and add --engine meanfield: it does not sample, but approximates, and states its error."
    )
