"""The stages that make reservoirs: drawn, trained by the static surrogates, trained through the finite-time moments."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from thermoment._support.files import write_whole
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.toml import as_table
from thermoment.learning.finite_time.train import Epoch, train
from thermoment.learning.options import FiniteTime
from thermoment.learning.readout import Readout
from thermoment.learning.surrogate import train_side_by_side
from thermoment.reservoir import Reservoir
from thermoment.runs.context import Context, Files, digest
from thermoment.runs.store import Stage, keep

HEAD, HISTORY = "head.safetensors", "history.json"


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
    settings = {one.name: one for one in experiment.reservoirs}
    found = {}
    for stream, (name, own) in enumerate(settings.items()):
        source = settings[own.start or name]
        found[name] = Reservoir.draw(
            source.n_nodes,
            n_inputs,
            s_W=source.s_W,
            s_K=source.s_K,
            s_b=source.s_b,
            seed=source.seed,
            stream=stream,
            dynamics=experiment.dynamics,
        )
    return found


def make(repeats: Sequence[Experiment], dataset: Dataset, context: Context) -> list[Made]:
    """For every repeat its reservoirs, drawn and trained."""
    made = [Made({}, {}) for _ in repeats]
    drawn = [draw(repeat, dataset.n_inputs) for repeat in repeats]
    # A GPU trains the repeats of a reservoir side by side. That changes their rounding, so they are one stage together.
    together = len(repeats) > 1 and jax.default_backend() != "cpu"
    groups = [list(range(len(repeats)))] if together else [[k] for k in range(len(repeats))]
    for number, settings in enumerate(repeats[0].reservoirs):
        for group in groups:
            seeds = [repeats[k].reservoirs[number].seed for k in group]
            starts = [drawn[k][settings.name] for k in group]
            stage = _train_static(number, starts, seeds, repeats[group[0]], dataset, context)
            for place, k in enumerate(group):
                path, losses = (stage.folder / f"{place}.{ending}" for ending in ("safetensors", "losses.json"))
                made[k].reservoirs[settings.name] = Reservoir.load(path)
                made[k].files[f"reservoirs/{settings.name}.safetensors"] = path
                made[k].files[f"reservoirs/{settings.name}.losses.json"] = losses
    for one, experiment in zip(made, repeats, strict=True):
        if experiment.finite_time is not None:
            start = draw(experiment, dataset.n_inputs) if experiment.finite_time.beside else one.reservoirs
            _finite_time(one, start, experiment, experiment.finite_time, dataset, context)
    return made


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
        stages=[as_table(one) for one in experiment.reservoirs[number].stages],
        training=experiment.training,
        seeds=list(seeds),
        images=digest(dataset, "x_train", "y_train"),
    )


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


def _train_static(
    number: int,
    drawn: Sequence[Reservoir],
    seeds: Sequence[int],
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> Stage:
    """Trains reservoir `number` of some repeats: 0.safetensors, 1.safetensors, ..., and their losses."""
    settings = experiment.reservoirs[number]
    stage = static_stage(number, drawn, seeds, experiment, dataset, context)
    total = sum(one.epochs for one in settings.stages)

    def build(folder: Path) -> None:
        trained = train_side_by_side(
            drawn,
            dataset.x_train,
            dataset.y_train,
            settings.stages,
            experiment.training,
            seeds=seeds,
            report=lambda done, _: context.listener(f"training {settings.name}, epochs", done, total),
        )
        for place, (reservoir, losses) in enumerate(trained):
            reservoir.save(folder / f"{place}.safetensors")
            write_whole(folder / f"{place}.losses.json", json.dumps(losses.tolist()).encode())

    keep(stage, build, context.note)
    return stage


def _finite_time(
    made: Made,
    start: Mapping[str, Reservoir],
    experiment: Experiment,
    options: FiniteTime,
    dataset: Dataset,
    context: Context,
) -> None:
    """Trains reservoirs through their finite-time moments, all under one head or each under its own."""
    names = list(start)
    for number, group in enumerate([names] if options.joint else [[name] for name in names]):
        reservoirs = [start[name] for name in group]
        chosen = replace(options, seed=options.seed + number)
        folder = _train_group(group, reservoirs, chosen, experiment, dataset, context).folder
        for name in group:
            path = folder / f"{name}.safetensors"
            made.trained[name] = Reservoir.load(path)
            made.files[f"reservoirs/{trained_name(name, options)}.safetensors"] = path
        made.heads[tuple(group)] = Readout.load(folder / HEAD)
        made.histories[tuple(group)] = json.loads((folder / HISTORY).read_text("utf-8"))
        made.files[f"reservoirs/{'+'.join(group)}.{HISTORY}"] = folder / HISTORY
    if not options.beside:
        made.reservoirs.update(made.trained)


def trained_name(name: str, options: FiniteTime | None) -> str:
    """What the files of a reservoir trained through its finite-time moments are called."""
    return f"{name}-trained" if options is not None and options.beside else name


def _train_group(
    names: Sequence[str],
    reservoirs: Sequence[Reservoir],
    options: FiniteTime,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> Stage:
    """The reservoirs `names`, trained under one head."""
    stage = finite_time_stage(names, reservoirs, options, experiment, dataset, context)
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
