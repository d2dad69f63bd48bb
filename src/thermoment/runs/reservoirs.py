"""The stages that make reservoirs: drawn, trained by the static surrogates, trained through the finite-time moments."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from thermoment._support.files import read_tensors, write_tensors, write_whole
from thermoment._support.threads import at_the_same_time, cores
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.toml import as_table
from thermoment.learning.finite_time.train import Epoch, train
from thermoment.learning.options import FiniteTime, trained_name
from thermoment.learning.readout import Readout
from thermoment.learning.surrogate import train_side_by_side
from thermoment.reservoir import Reservoir
from thermoment.runs.context import Context, Files, digest
from thermoment.runs.store import Stage, is_kept, keep

HEAD, HISTORY = "head.safetensors", "history.json"
PROJECTION = "projection"


@dataclass(frozen=True)
class Made:
    """The reservoirs of one repeat, and the heads they were trained with."""

    reservoirs: dict[str, Reservoir]
    """whose features the readouts are fitted to, by name"""
    files: Files
    trained: dict[str, Reservoir] = field(default_factory=dict)
    """those that the heads read, by name: the same ones, or copies of their own"""
    heads: dict[tuple[str, ...], Readout] = field(default_factory=dict)
    """by the reservoirs that each reads"""
    histories: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)
    """of those heads: loss, validation and strongest drive of every epoch"""


def draw(experiment: Experiment, n_inputs: int) -> dict[str, Reservoir]:
    """The reservoirs of an experiment before any training, by name. The first has stream 0, the next 1, and so on."""
    return {one.name: draw_one(number, experiment, n_inputs) for number, one in enumerate(experiment.reservoirs)}


def draw_one(number: int, experiment: Experiment, n_inputs: int) -> Reservoir:
    """Reservoir `number` of an experiment before any training; `number` is its stream."""
    own = experiment.reservoirs[number]
    source = next(one for one in experiment.reservoirs if one.name == (own.start or own.name))
    return Reservoir.draw(
        source.n_nodes,
        n_inputs,
        s_W=source.s_W,
        s_K=source.s_K,
        s_b=source.s_b,
        symmetric=source.symmetric,
        seed=source.seed,
        stream=number,
        dynamics=experiment.dynamics,
    )


def make(repeats: Sequence[Experiment], dataset: Dataset, context: Context) -> list[Made]:
    """For every repeat its reservoirs, drawn and trained."""
    made = make_static(repeats, dataset, context)
    for one, experiment in zip(made, repeats, strict=True):
        for number, names in enumerate(finite_time_groups(experiment)):
            stage = train_finite_time(number, one.reservoirs, experiment, dataset, context)
            _add_trained(one, names, stage, experiment)
        if experiment.finite_time is not None and not experiment.finite_time.beside:
            one.reservoirs.update(one.trained)
    return made


def make_one(name: str, repeats: Sequence[Experiment], place: int, dataset: Dataset, context: Context) -> Reservoir:
    """Of repeat `place` of those trained side by side, the reservoir whose features are called `name`.

    Only what it needs is trained, or waited for.
    """
    options = repeats[place].finite_time
    for number, one in enumerate(repeats[place].reservoirs):
        if one.name == name and (options is None or options.beside):
            return Reservoir.load(train_static(number, repeats, dataset, context).folder / f"{place}.safetensors")
    for number, group in enumerate(finite_time_groups(repeats[place])):
        for own in group:
            if trained_name(own, options) == name:
                beside = options is not None and options.beside
                static = {} if beside else make_static(repeats, dataset, context)[place].reservoirs
                stage = train_finite_time(number, static, repeats[place], dataset, context)
                return Reservoir.load(stage.folder / f"{own}.safetensors")
    raise AssertionError(f"no features are called {name}")


def make_static(repeats: Sequence[Experiment], dataset: Dataset, context: Context) -> list[Made]:
    """For every repeat its reservoirs, drawn and trained by their static surrogates."""
    first, places = distinct(repeats)
    made = [Made({}, {}) for _ in repeats]
    plans, groups = repeats[0].reservoirs, together(len(first), context.accelerated)
    trainings = [(number, tuple(group)) for number in range(len(plans)) for group in groups]
    longest_first = sorted(trainings, key=lambda one: -sum(stage.epochs for stage in plans[one[0]].stages))

    # A GPU does epochs in turn, but while one training is at it, others can be compiled and draw their batches.
    at_once = min(cores(), len(trainings))
    one_core = at_once > 1 and cores() < 2 * at_once

    def train(which: tuple[int, tuple[int, ...]], stop: Callable[[], None]) -> Stage:
        number, group = which
        return train_static(number, [repeats[first[k]] for k in group], dataset, context, stop, one_core)

    trained = dict(zip(longest_first, at_the_same_time(train, longest_first, at_once), strict=True))
    for number, group in trainings:
        stage, name = trained[number, group], plans[number].name
        for k, where in enumerate(places):
            if where in group:
                place = group.index(where)
                path, losses = (stage.folder / f"{place}.{ending}" for ending in ("safetensors", "losses.json"))
                made[k].reservoirs[name] = Reservoir.load(path)
                made[k].files[f"reservoirs/{name}.safetensors"] = path
                made[k].files[f"reservoirs/{name}.losses.json"] = losses
    return made


def distinct(repeats: Sequence[Experiment]) -> tuple[list[int], list[int]]:
    """The numbers of the repeats whose reservoirs no earlier one has, and for every repeat its place among them."""
    first: dict[Any, int] = {}
    for number, repeat in enumerate(repeats):
        first.setdefault(repeat.reservoirs, number)
    return list(first.values()), [list(first).index(repeat.reservoirs) for repeat in repeats]


def are_made(repeats: Sequence[Experiment], dataset: Dataset, context: Context) -> bool:
    """Whether the store has all that `make` would train."""
    numbers = range(len(repeats[0].reservoirs))
    first, _ = distinct(repeats)
    groups = [[repeats[first[k]] for k in group] for group in together(len(first), context.accelerated)]
    if not all(is_kept(_static(number, group, dataset, context)[1]) for number in numbers for group in groups):
        return False
    if repeats[0].finite_time is None:
        return True
    static = make_static(repeats, dataset, context)
    return all(
        is_kept(_finite_time(number, made.reservoirs, repeat, dataset, context)[2])
        for repeat, made in zip(repeats, static, strict=True)
        for number in range(len(finite_time_groups(repeat)))
    )


def together(n_repeats: int, accelerated: bool | None) -> list[list[int]]:
    """Which repeats of a reservoir are trained side by side; `accelerated` as in Context."""
    accelerated = is_accelerated(accelerated)
    # A GPU trains the repeats of a reservoir side by side. That changes their rounding, so they are one stage together.
    numbers = list(range(n_repeats))
    return [numbers] if accelerated else [[k] for k in numbers]


def is_accelerated(accelerated: bool | None) -> bool:
    """Whether JAX has an accelerator, as it is said in a Context or, where it is not, on this machine."""
    return jax.default_backend() != "cpu" if accelerated is None else accelerated


def finite_time_groups(experiment: Experiment) -> list[list[str]]:
    """The reservoirs that are trained under one head, for every head; none where there is no such training."""
    names = [one.name for one in experiment.reservoirs]
    if experiment.finite_time is None:
        return []
    return [names] if experiment.finite_time.joint else [[name] for name in names]


def static_stage(
    number: int,
    drawn: Sequence[Reservoir],
    seeds: Sequence[int],
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> Stage:
    """Where the store has reservoir `number` of some repeats, trained side by side by its static surrogates."""
    return context.stage(
        "static",
        reservoirs=[[one.W, one.K, one.b, one.stream] for one in drawn],
        dynamics=experiment.dynamics,
        **_training_facts(number, seeds, experiment, dataset),
    )


def projection_stage(
    number: int,
    drawn: Sequence[Reservoir],
    seeds: Sequence[int],
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> Stage:
    """Where the store has K of reservoir `number` of some repeats, as the static surrogates train it.

    They know neither W, nor kT, nor mu: machines that differ in these alone share the training.
    """
    return context.stage(
        "projection",
        reservoirs=[[one.K, one.b] for one in drawn],
        dynamics=replace(experiment.dynamics, mu=1.0, kT=1.0),
        **_training_facts(number, seeds, experiment, dataset),
    )


def _training_facts(number: int, seeds: Sequence[int], experiment: Experiment, dataset: Dataset) -> dict[str, Any]:
    """What a training by static surrogates depends on, beside the machine."""
    return {
        "stages": [as_table(one) for one in experiment.reservoirs[number].stages],
        "training": experiment.training,
        "seeds": list(seeds),
        "images": digest(dataset, "x_train", "y_train"),
    }


def finite_time_stage(
    names: Sequence[str],
    reservoirs: Sequence[Reservoir],
    options: FiniteTime,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> Stage:
    """Where the store has the reservoirs `names` and their head, trained through the finite-time moments."""
    protocol = experiment.protocol
    rest = {} if protocol.t_rest is None else {"t_rest": protocol.t_rest}
    return context.stage(
        "finite-time",
        names=list(names),
        reservoirs=[[one.W, one.K, one.b, one.stream] for one in reservoirs],
        dynamics=experiment.dynamics,
        options=options,
        t_final=protocol.t_final,
        n_replicas=protocol.n_replicas,
        orders=protocol.orders,
        clip=protocol.clip,
        **rest,
        image_shape=dataset.image_shape,
        images=digest(dataset, "x_train", "y_train"),
    )


def _static(
    number: int, repeats: Sequence[Experiment], dataset: Dataset, context: Context
) -> tuple[list[Reservoir], Stage]:
    """Reservoir `number` of some repeats as drawn, and the stage that trains them side by side."""
    seeds = [repeat.reservoirs[number].training_seed for repeat in repeats]
    drawn = [draw_one(number, repeat, dataset.n_inputs) for repeat in repeats]
    return drawn, static_stage(number, drawn, seeds, repeats[0], dataset, context)


def train_static(
    number: int,
    repeats: Sequence[Experiment],
    dataset: Dataset,
    context: Context,
    stop: Callable[[], None] = lambda: None,
    one_core: bool = False,
) -> Stage:
    """Trains reservoir `number` of some repeats side by side: 0.safetensors, 1.safetensors, ..., and their losses.

    stop: called after every epoch, to raise where the training is not wanted any more
    one_core: whether it takes one core alone, beside others
    """
    experiment, seeds = repeats[0], [repeat.reservoirs[number].training_seed for repeat in repeats]
    settings = experiment.reservoirs[number]
    drawn, stage = _static(number, repeats, dataset, context)
    total = sum(one.epochs for one in settings.stages)

    def report(done: int, _: float) -> None:
        stop()
        context.listener(f"training {settings.name}, epochs", done, total)

    def train(folder: Path) -> None:
        trained = train_side_by_side(
            drawn,
            dataset.x_train,
            dataset.y_train,
            settings.stages,
            experiment.training,
            seeds=seeds,
            report=report,
            one_core=one_core,
        )
        for place, (reservoir, losses) in enumerate(trained):
            write_tensors(folder / f"{place}.safetensors", PROJECTION, {"K": reservoir.K}, "")
            write_whole(folder / f"{place}.losses.json", json.dumps(losses.tolist()).encode())

    def build(folder: Path) -> None:
        projection = projection_stage(number, drawn, seeds, experiment, dataset, context)
        keep(projection, train, context.note)
        for place, reservoir in enumerate(drawn):
            tensors, _ = read_tensors(projection.folder / f"{place}.safetensors", PROJECTION, ("K",))
            replace(reservoir, K=tensors["K"]).save(folder / f"{place}.safetensors")
            losses = f"{place}.losses.json"
            write_whole(folder / losses, (projection.folder / losses).read_bytes())

    keep(stage, build, context.note)
    return stage


def _finite_time(
    number: int, static: Mapping[str, Reservoir], experiment: Experiment, dataset: Dataset, context: Context
) -> tuple[list[Reservoir], FiniteTime, Stage]:
    """Group `number` before its training, from `static` or as drawn, its options, and the stage that trains it."""
    assert experiment.finite_time is not None
    options = replace(experiment.finite_time, seed=experiment.finite_time.seed + number)
    names = finite_time_groups(experiment)[number]
    start = draw(experiment, dataset.n_inputs) if options.beside else static
    reservoirs = [start[name] for name in names]
    return reservoirs, options, finite_time_stage(names, reservoirs, options, experiment, dataset, context)


def _add_trained(made: Made, names: Sequence[str], stage: Stage, experiment: Experiment) -> None:
    """Adds reservoirs that were trained under one head, and the head."""
    for name in names:
        path = stage.folder / f"{name}.safetensors"
        made.trained[name] = Reservoir.load(path)
        made.files[f"reservoirs/{trained_name(name, experiment.finite_time)}.safetensors"] = path
    made.heads[tuple(names)] = Readout.load(stage.folder / HEAD)
    made.histories[tuple(names)] = json.loads((stage.folder / HISTORY).read_text("utf-8"))
    made.files[f"reservoirs/{'+'.join(names)}.{HISTORY}"] = stage.folder / HISTORY


def train_finite_time(
    number: int, static: Mapping[str, Reservoir], experiment: Experiment, dataset: Dataset, context: Context
) -> Stage:
    """Trains group `number` of the reservoirs under one head, through their finite-time moments."""
    names = finite_time_groups(experiment)[number]
    reservoirs, options, stage = _finite_time(number, static, experiment, dataset, context)
    checkpoint = stage.folder.with_name(f"checkpoint-{stage.name}.safetensors")

    def report(done: int, epoch: Epoch) -> None:
        held_out = "" if epoch.validation is None else f", validation {epoch.validation:.2%}"
        context.listener(
            f"training {'+'.join(names)}, epochs", done, options.epochs, f"loss {epoch.loss:.4f}{held_out}"
        )

    def build(folder: Path) -> None:
        trained = train(
            reservoirs,
            dataset.x_train,
            dataset.y_train,
            experiment.protocol,
            options,
            image_shape=dataset.image_shape,
            checkpoint=checkpoint,
            report=report,
        )
        for name, reservoir in zip(names, trained.reservoirs, strict=True):
            reservoir.save(folder / f"{name}.safetensors")
        trained.readout.save(folder / HEAD)
        write_whole(folder / HISTORY, json.dumps([epoch._asdict() for epoch in trained.history]).encode())

    if not keep(stage, build, context.note):
        checkpoint.unlink(missing_ok=True)
    return stage
