"""What a run would cost: node-steps, chunks, disk, and from a short trial the time on every engine that runs here."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from thermoment._engines.choice import choose, engines
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.runs.fits import models_of
from thermoment.runs.price import Price, price
from thermoment.runs.tasks import Job, tasks
from thermoment.simulation import compute, prepare

_TRIAL_SECONDS = 1.0
_MOST_TRIAL_IMAGES = 20_000
_WORTH_A_TRIAL = 1e11
"""Node-steps below which sampling takes minutes at most, on any engine that "auto" takes."""
_ON_A_GPU = 100.0
"""How many times as many `cuda` does in minutes, on the slowest GPU that it runs on: 1e10 a second."""
_LONG_SECONDS = 3600.0
"""Sampling that takes longer than this is worth a warning."""


@dataclass(frozen=True)
class Plan:
    """The size of an experiment, all repeats and points counted; what they have in common once."""

    n_images: int
    """through one reservoir"""
    node_steps: float
    """of an engine that samples, without the points that are not sampled whatever engine is asked for; infinite where
    infinitely many replicas are asked for"""
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
    points = {name: experiment.variant(name) for name in experiment.points} or {"": experiment}
    work, first = _work(points, experiment, dataset), next(iter(points.values()))
    options, n_nodes = first.finite_time, sum(one.n_nodes for one in first.reservoirs)
    n_images = dataset.n_train + dataset.n_test + (dataset.n_test if options is not None and options.beside else 0)
    disk = 4 * len(first.protocol.orders) * (work.images * n_nodes if first.features.keep else n_images * n_nodes)
    seconds = {name: seconds_for(name, first, dataset, work.equivalent(name, first)) for name in engines()}
    speeds = {
        name: work.equivalent(name, first) / found for name, found in seconds.items() if not isinstance(found, str)
    }
    return Plan(
        n_images=work.n_images,
        node_steps=work.node_steps,
        epochs=work.epochs,
        n_readouts=work.n_readouts,
        chunks=work.chunks,
        disk_bytes=round(disk),
        seconds=seconds,
        price=price(experiment, dataset, speeds, rates or {}),
    )


@dataclass
class _Work:
    """What there is to do, what points and repeats have in common counted once."""

    n_images: int = 0
    """through one reservoir"""
    images: float = 0.0
    """through all nodes of the first point"""
    node_steps: float = 0.0
    epochs: int = 0
    n_readouts: int = 0
    chunks: int = 0

    def equivalent(self, engine: str, first: Experiment) -> float:
        """Images through all reservoirs of the first point that take an engine as long as all of it."""
        protocol, nodes = first.protocol, sum(one.n_nodes for one in first.reservoirs)
        if engine == "meanfield" or math.isinf(self.node_steps):
            return self.images
        return self.node_steps / (float(nodes) * protocol.n_replicas * protocol.all_steps)


def _work(points: Mapping[str, Experiment], experiment: Experiment, dataset: Dataset) -> _Work:
    """Adds up the tasks of all points."""
    found, first = _Work(), next(iter(points.values()))
    n_nodes = sum(one.n_nodes for one in first.reservoirs)
    for task in tasks(Job(experiment, "", "", None, ""), dataset.n_train, dataset.n_test):
        one = points[task.variant]
        sizes = {plan.name: plan.n_nodes for plan in one.reservoirs}
        if task.kind == "features":
            n_samples = dataset.n_train + dataset.n_test if task.name in sizes else dataset.n_test
            images = min(one.features.chunk, n_samples - task.number * one.features.chunk)
            nodes = sizes[task.name if task.name in sizes else task.name.removesuffix("-trained")]
            found.n_images += images
            found.images += images * nodes / n_nodes
            if one.engine != "meanfield" or experiment.engine == "meanfield":
                found.node_steps += float(images * nodes) * one.protocol.n_replicas * one.protocol.all_steps
            found.chunks += 1
        elif task.kind == "static":
            found.epochs += len(task.repeats) * sum(stage.epochs for stage in one.reservoirs[task.number].stages)
        elif task.kind == "finite-time" and one.finite_time is not None:
            found.epochs += one.finite_time.epochs * (len(one.reservoirs) if one.finite_time.joint else 1)
        elif task.kind == "readouts":
            n_models = sum(model.fusion == "feature" for model in models_of(one))
            found.n_readouts += n_models * one.readout.n_fits
    return found


def seconds_for(engine: str, experiment: Experiment, dataset: Dataset, n_images: float) -> float | str:
    """Time for `n_images` through all reservoirs, scaled up from a trial with the first as drawn; or why it cannot."""
    first, trial = experiment.reservoirs[0], _shortened(experiment.protocol, engine)
    reservoir = Reservoir.draw(first.n_nodes, dataset.n_inputs, seed=first.seed, dynamics=experiment.dynamics)
    try:
        found, _ = choose(engine)
        count, seconds = 1, 0.0
        while True:
            inputs = dataset.x_train[np.arange(count) % dataset.n_train]
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
    points = {name: experiment.variant(name) for name in experiment.points} or {"": experiment}
    first = next(iter(points.values()))
    work = _work(points, experiment, dataset)
    engine, _ = choose(first.engine)
    few = _WORTH_A_TRIAL * (_ON_A_GPU if engine.name == "cuda" else 1.0)
    if engine.name == "meanfield" or work.node_steps < few:
        return None
    seconds = seconds_for(engine.name, first, dataset, work.equivalent(engine.name, first))
    if isinstance(seconds, str) or seconds < _LONG_SECONDS:
        return None
    return (
        f"Sampling with {engine.name} will take about {seconds / 3600:.1f} hours on this machine. To get an answer in "
        "minutes, stop and add --engine meanfield: it does not sample, but approximates, and states its error."
    )
