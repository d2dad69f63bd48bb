"""What can be known to fail is refused before any work: every variant of an experiment, every reservoir as drawn."""

import math
from dataclasses import replace

from thermoment._engines.meanfield.engine import check_limits
from thermoment._support.checks import invalid
from thermoment._support.memory import check_fits
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.learning.finite_time.lookup import check_trainable, check_work
from thermoment.learning.options import FiniteTime
from thermoment.physics import LARGEST_DRIVE
from thermoment.protocol import check_rest
from thermoment.reservoir import Reservoir
from thermoment.runs.features import agreed_engine
from thermoment.runs.reservoirs import draw


def check(experiment: Experiment, dataset: Dataset) -> None:
    """Raises where the experiment cannot be done on this data set, by the engines that can run here."""
    variants = [experiment.variant(name) for name in experiment.points] or [experiment]
    for one in variants:
        _check_readouts(one, dataset)
        for number in range(one.repeats):
            _check(one.repeat(number), dataset)


def _check_readouts(experiment: Experiment, dataset: Dataset) -> None:
    if experiment.readout.converged and experiment.readout.l2 == 0:
        must = "be positive, or readout.converged false: without a penalty the loss may have no minimum"
        raise invalid("readout.l2", must, experiment.readout.l2)
    if experiment.readout.held_out >= dataset.n_train - 1:
        must = f"leave some of the {dataset.n_train} images to fit readouts to"
        raise invalid("readout.held_out", must, experiment.readout.held_out)
    _check_baselines(experiment, dataset)
    n_features = sum(one.n_nodes for one in experiment.reservoirs) * len(experiment.read)
    check_fits("n_nodes", (dataset.n_train, n_features), item_bytes=4)


def _check_baselines(experiment: Experiment, dataset: Dataset) -> None:
    for name in experiment.baselines.names if experiment.baselines else ():
        if name.startswith("pca") and int(name.split("-")[1]) > dataset.n_inputs:
            raise invalid("baselines.names", f"ask for at most {dataset.n_inputs} principal components", repr(name))
        if name.endswith("distorted"):
            _check_images("baselines.distortion", dataset)


def _check_images(argument: str, dataset: Dataset) -> None:
    """Refuses to distort what is no image of height and width."""
    shape = dataset.image_shape
    if len(shape) != 2 or math.prod(shape) != dataset.n_inputs:
        raise invalid(argument, "be left out where inputs are no images of height and width", f"for shape {shape}")


def _check(experiment: Experiment, dataset: Dataset) -> None:
    drawn = draw(experiment, dataset.n_inputs)
    options = experiment.finite_time
    static = [name for name, one in zip(drawn, experiment.reservoirs, strict=True) if one.stages]
    # What training makes of a reservoir is not known yet: of that one the engine is asked about the first image only.
    for name, reservoir in drawn.items():
        images = (dataset.x_train[:1],) if name in static or options else (dataset.x_train, dataset.x_test)
        agreed_engine(experiment, [reservoir], *images)
    if options is not None:
        _check_training(experiment, options, [one for name, one in drawn.items() if name not in static], dataset)


def _check_training(experiment: Experiment, options: FiniteTime, as_drawn: list[Reservoir], dataset: Dataset) -> None:
    """Refuses what finite-time training of the reservoirs cannot do, and what its prediction cannot do afterwards.

    as_drawn: those of them that are not trained before
    """
    if options.validation >= dataset.n_train:
        raise invalid("validation", f"leave some of the {dataset.n_train} images to train on", options.validation)
    if options.distortion.strength:
        _check_images("distortion", dataset)
    dynamics, protocol = experiment.dynamics, experiment.protocol
    trained = dynamics if options.kT is None else replace(dynamics, kT=options.kT)
    check_trainable(protocol.orders, trained)
    check_work(options, protocol.n_replicas if options.n_replicas is None else options.n_replicas, protocol.orders)
    check_rest(protocol, trained)
    check_limits(trained, options.drive_limit, protocol.clip)
    check_limits(dynamics, 0.0, protocol.clip)  # by `meanfield`, with drives that only training will tell
    for reservoir in as_drawn:
        strongest = reservoir.driven(dataset.x_train).strongest
        check_limits(trained, strongest, math.inf)
        if strongest > LARGEST_DRIVE:
            raise invalid("drive", f"be at most {LARGEST_DRIVE:g} where training begins", f"{strongest:.4g}")
