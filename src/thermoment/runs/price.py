"""What an experiment costs on a cluster: tasks, core-hours, GPU-hours, bytes. From short trials here, or rates given.

A trial does a part of every kind of task on the first images, twice: the first time also compiles, which every worker
does once. Its time is scaled by what it is proportional to, for every task of every variant.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.choice import choose
from thermoment._support.checks import invalid
from thermoment._support.threads import cores
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.learning.finite_time.train import train
from thermoment.learning.fit import fit_converged, fit_sgd
from thermoment.learning.surrogate import train_side_by_side
from thermoment.reservoir import Reservoir
from thermoment.results.naming import ModelKey
from thermoment.runs.fits import columns, fitted_models
from thermoment.runs.reservoirs import draw, finite_time_groups
from thermoment.runs.tasks import KINDS, Job, Task, tasks

_TRIAL_IMAGES, _TRIAL_SECONDS, _MOST_EPOCHS = 2000, 0.5, 64
_TOGETHER_SECONDS = 12.0
"""To start Python, to put a run together and to draw its figures."""
_WORKERS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Price:
    """What an experiment costs, all repeats and variants counted, on machines like this one."""

    engine: str
    tasks: dict[str, int]
    """by kind"""
    seconds: dict[str, float]
    """of all tasks of a kind, one after the other on one machine"""
    start_seconds: float
    """that a worker needs before its first tasks: it compiles"""
    together_seconds: float
    """to put the run together in the end"""
    cores: int
    """of a machine"""
    core_hours: float
    gpu_hours: float
    written_bytes: int
    """to the store"""
    read_bytes: int
    """from the store"""
    hours: dict[int, float] = field(default_factory=dict)
    """by the number of workers, from the start to the end"""


def price(
    experiment: Experiment, dataset: Dataset, images_per_second: Mapping[str, float], given: Mapping[str, float]
) -> Price:
    """The price of an experiment.

    images_per_second: through all reservoirs, by engine
    given: seconds that a task of a kind takes, in place of a trial
    """
    engine = choose(experiment.engine)[0].name
    names = experiment.points or [""]
    job = Job(experiment, "", "", None, "", engines={}, accelerated=False)
    every = tasks(job, dataset.n_train, dataset.n_test)
    variants = {name: experiment.variant(name) if name else experiment for name in names}
    first = next(iter(variants.values()))
    trial = _Trial.of(first, dataset, images_per_second, given)
    seconds = [given.get(task.kind, trial.seconds(task, variants[task.variant], dataset)) for task in every]
    count = {kind: sum(task.kind == kind for task in every) for kind in KINDS}
    total = {kind: sum(s for s, task in zip(seconds, every, strict=True) if task.kind == kind) for kind in KINDS}
    one_after_another = [kind for kind in KINDS if kind != "baseline"]
    longest = trial.start + sum(
        max((s for s, task in zip(seconds, every, strict=True) if task.kind == kind), default=0.0)
        for kind in one_after_another
    )
    work, on_gpu = sum(seconds), engine == "cuda"
    hours = {n: (max(longest, trial.start + work / n) + _TOGETHER_SECONDS) / 3600 for n in _WORKERS}
    written, read = _bytes(every, variants, dataset)
    return Price(
        engine,
        count,
        total,
        trial.start,
        _TOGETHER_SECONDS,
        cores(),
        0.0 if on_gpu else work * cores() / 3600,
        work / 3600 if on_gpu else 0.0,
        written,
        read,
        hours,
    )


def parse_rates(texts: tuple[str, ...]) -> dict[str, float]:
    """The seconds of a task by its kind, from texts such as "features=0.8"."""
    found = {}
    for text in texts:
        kind, _, value = text.partition("=")
        try:
            found[kind] = float(value)
        except ValueError:
            found[kind] = -1.0
        if kind not in KINDS or not 0 <= found[kind] < 1e9:
            raise invalid("rate", f"be KIND=SECONDS with a kind of {', '.join(KINDS)}", repr(text))
    return found


@dataclass(frozen=True)
class _Trial:
    """Seconds for a unit of each kind of work."""

    static: float = 0.0
    """an image, a node, an epoch"""
    finite_time: float = 0.0
    """an image, a node, an epoch"""
    features: Mapping[str, float] = field(default_factory=dict)
    """by engine: an image, a node, and where the engine samples a replica and a step"""
    without_sampling: float = 0.0
    """an image, a node"""
    sgd: float = 0.0
    """an image, a feature of any model, an epoch"""
    converged: float = 0.0
    """an image, a feature of any model"""
    start: float = 0.0

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        dataset: Dataset,
        images_per_second: Mapping[str, float],
        given: Mapping[str, float],
    ) -> "_Trial":
        """Measured here, as far as it is not given."""
        n = min(dataset.n_train, _TRIAL_IMAGES)
        x, y = dataset.x_train[:n], dataset.y_train[:n]
        drawn = draw(experiment, dataset.n_inputs)
        nodes, protocol = sum(one.n_nodes for one in drawn.values()), experiment.protocol
        found: dict[str, Any] = {}
        start = 0.0
        trained = [(one, stage) for one in experiment.reservoirs for stage in one.stages[:1]]
        if trained and "static" not in given:
            (settings, stage), reservoir = trained[0], drawn[trained[0][0].name]

            def static(epochs: int) -> None:
                shorter = (replace(stage, epochs=epochs),)
                train_side_by_side([reservoir], x, y, shorter, experiment.training, seeds=[settings.seed])

            compiling, seconds, epochs = _measured(static)
            programs = {(one.surrogate, plan.n_nodes) for plan in experiment.reservoirs for one in plan.stages}
            start += compiling * len(programs)
            found["static"] = seconds / (n * reservoir.n_nodes * epochs)
        if (options := experiment.finite_time) is not None and "finite-time" not in given:
            group = [drawn[name] for name in finite_time_groups(experiment)[0]]

            def finite(epochs: int) -> None:
                chosen = replace(options, epochs=epochs, validation=0)
                train(group, x, y, protocol, chosen, image_shape=dataset.image_shape)

            compiling, seconds, epochs = _measured(finite)
            start += compiling
            found["finite_time"] = seconds / (n * sum(one.n_nodes for one in group) * epochs)
        if not {"sgd", "converged", "baseline"} <= given.keys():
            start += _readout_trial(experiment, drawn, x, y, found)
        rates = {
            engine: 1 / speed / (nodes * _steps(engine, experiment)) for engine, speed in images_per_second.items()
        }
        return cls(**found, features=rates, without_sampling=rates.get("meanfield", 0.0), start=start)

    def seconds(self, task: Task, experiment: Experiment, dataset: Dataset) -> float:
        """What a task takes on a machine like this one."""
        plans = experiment.reservoirs
        n_nodes = {one.name: one.n_nodes for one in plans}
        if task.kind == "static":
            epochs = sum(stage.epochs for stage in plans[task.number].stages)
            return len(task.repeats) * self.static * dataset.n_train * plans[task.number].n_nodes * epochs
        options = experiment.finite_time
        if task.kind == "finite-time":
            assert options is not None
            nodes = sum(n_nodes[name] for name in finite_time_groups(experiment)[task.number])
            return self.finite_time * dataset.n_train * nodes * options.epochs
        if task.kind == "features":
            copy = task.name not in n_nodes
            n_samples = dataset.n_test if copy else dataset.n_train + dataset.n_test
            images = min(experiment.features.chunk, n_samples - task.number * experiment.features.chunk)
            nodes = n_nodes[task.name.removesuffix("-trained") if copy else task.name]
            engine = choose(experiment.engine)[0].name
            return self.features.get(engine, 0.0) * images * nodes * _steps(engine, experiment)
        if task.kind == "readouts":
            return self.without_sampling * dataset.n_test * sum(n_nodes.values()) if options is not None else 0.0
        sgd, converged = self.sgd * experiment.readout.epochs, self.converged if experiment.readout.converged else 0.0
        if task.kind == "baseline":
            linear, hidden = _without_reservoirs(experiment, dataset)
            return ((sgd + converged) * linear + self.sgd * hidden) * dataset.n_train
        if task.kind == "sgd":
            return sgd * dataset.n_train * sum(_features_of_models(experiment).values())
        return converged * dataset.n_train * _features_of_models(experiment)[task.name]


def _steps(engine: str, experiment: Experiment) -> float:
    """Replicas times steps, where the engine samples."""
    protocol = experiment.protocol
    return 1.0 if engine == "meanfield" else float(protocol.n_replicas) * protocol.n_steps


def _without_reservoirs(experiment: Experiment, dataset: Dataset) -> tuple[int, float]:
    """What classifiers without reservoirs have to learn: features of linear readouts; products of an epoch of the
    perceptrons, times epochs, in units of what a feature of a linear readout takes.
    """
    others = experiment.baselines
    linear, hidden = dataset.n_inputs if others is None or others.raw else 0, 0.0
    for name in others.names if others else ():
        kind, size = name.split("-")[0], int(name.split("-")[1])
        if kind == "mlp" and others is not None:
            hidden += size * (dataset.n_inputs / dataset.n_classes + 1) * others.epochs
        else:
            linear += size * (2 if kind == "pca" else 1)
    return linear, hidden


def _measured(work: Callable[[int], object]) -> tuple[float, float, int]:
    """Seconds to compile, then the seconds for a number of epochs, and that number."""
    first = _seconds(lambda: work(1))
    epochs = 1
    while (seconds := _seconds(lambda: work(epochs))) < _TRIAL_SECONDS and epochs < _MOST_EPOCHS:  # noqa: B023
        epochs *= 4
    return max(0.0, first - seconds / epochs), seconds, epochs


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _readout_trial(
    experiment: Experiment,
    drawn: Mapping[str, Reservoir],
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    found: dict[str, Any],
) -> float:
    """Adds what fits take to `found`; returns the seconds to compile. The features are powers of tanh h."""
    orders, sgd = experiment.read, experiment.readout.sgd
    blocks = [np.tanh(one.drive(x)) ** (p + 1) for one in drawn.values() for p in range(len(orders))]
    features = np.concatenate(blocks, axis=1).astype(np.float32)
    sizes = {name: one.n_nodes for name, one in drawn.items()}
    chosen = [columns(model, sizes, orders) for model in fitted_models(experiment)]
    compiling, seconds, epochs = _measured(lambda count: fit_sgd(features, y, chosen, replace(sgd, epochs=count)))
    found["sgd"] = seconds / (len(x) * sum(map(len, chosen)) * epochs)
    if experiment.readout.converged:
        (plain,) = fit_sgd(features, y, [np.arange(features.shape[1])], replace(sgd, epochs=10))
        first, second = (_seconds(lambda: fit_converged(features, y, sgd.l2, start=plain)) for _ in range(2))
        found["converged"] = second / features.size
        compiling += (first - second) * len({len(columns) for columns in chosen})
    return compiling


def _features_of_models(experiment: Experiment) -> dict[str, int]:
    """How many features the readout of a model reads, by its key."""
    sizes = {one.name: one.n_nodes for one in experiment.reservoirs}
    models = fitted_models(experiment)
    return {model.key: sum(sizes[name] for name in model.reservoirs) * len(model.orders) for model in models}


def _bytes(every: list[Task], variants: Mapping[str, Experiment], dataset: Dataset) -> tuple[int, int]:
    """Written to the store, and read from it: trained reservoirs and features by the tasks that need them."""
    written = read = 0
    for task in every:
        experiment = variants[task.variant]
        sizes = {one.name: one.n_nodes for one in experiment.reservoirs}
        an_image = 4 * len(experiment.protocol.orders)
        if task.kind == "features":
            n_nodes = sizes[task.name if task.name in sizes else task.name.removesuffix("-trained")]
            n_samples = dataset.n_train + dataset.n_test if task.name in sizes else dataset.n_test
            images = min(experiment.features.chunk, n_samples - task.number * experiment.features.chunk)
            written += an_image * images * n_nodes
        elif task.kind == "sgd":
            read += an_image * dataset.n_train * sum(sizes.values())
        elif task.kind == "converged":
            reads = ModelKey.parse(task.name).reservoirs
            read += an_image * dataset.n_train * sum(sizes[name] for name in reads)
        elif task.kind == "readouts":
            features, options = sum(_features_of_models(experiment).values()), experiment.finite_time
            written += 8 * features * dataset.n_classes * experiment.readout.n_fits
            copies = 2 if options is not None and options.beside else 1
            read += an_image * dataset.n_test * sum(sizes.values()) * copies
        elif task.kind != "baseline":
            made = list(sizes.values()) if task.kind == "finite-time" else [list(sizes.values())[task.number]]
            written += 8 * sum(n * (n + dataset.n_inputs + 1) for n in made) * len(task.repeats)
            read += 8 * sum(n * (n + dataset.n_inputs + 1) for n in made) * len(task.repeats)
    return written, read
