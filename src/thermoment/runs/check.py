"""What can be known to fail is refused before any work: every variant of an experiment, every reservoir as drawn."""

import math

from thermoment._support.checks import invalid
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.runs.features import agreed_engine
from thermoment.runs.reservoirs import draw


def check(experiment: Experiment, dataset: Dataset) -> None:
    """Raises where the experiment cannot be done on this data set, by the engines that can run here."""
    variants = [experiment.variant(name) for name in experiment.variants] or [experiment]
    for one in variants:
        for number in range(one.repeats):
            _check(one.repeat(number), dataset)


def _check(experiment: Experiment, dataset: Dataset) -> None:
    drawn = draw(experiment, dataset.n_inputs)
    options = experiment.finite_time
    changed = [name for name, one in zip(drawn, experiment.reservoirs, strict=True) if one.stages or options]
    # What training makes of a reservoir is not known yet: of that one the engine is asked about the first image only.
    for name, reservoir in drawn.items():
        images = (dataset.x_train[:1],) if name in changed else (dataset.x_train, dataset.x_test)
        agreed_engine(experiment, [reservoir], *images)
    if options is None:
        return
    if options.validation >= dataset.n_train:
        raise invalid("validation", f"leave some of the {dataset.n_train} images to train on", options.validation)
    shape = dataset.image_shape
    if options.distortion.strength and (len(shape) != 2 or math.prod(shape) != dataset.n_inputs):
        raise invalid("distortion", "be left out where inputs are no images of height and width", f"for shape {shape}")
