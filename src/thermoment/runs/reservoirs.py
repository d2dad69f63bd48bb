"""The stage that makes reservoirs: drawn, trained by the static surrogates, trained through the finite-time moments."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import write_whole
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment, ReservoirSettings
from thermoment.experiments.toml import as_table
from thermoment.learning.finite_time.train import Epoch, TrainedReservoirs, train
from thermoment.learning.options import FiniteTime
from thermoment.learning.readout import Readout
from thermoment.learning.surrogate import train_side_by_side
from thermoment.reservoir import Reservoir
from thermoment.runs.context import Context, Files, digest
from thermoment.runs.store import damaged, keep

RESERVOIR, LOSSES, HEAD, HISTORY = "reservoir.safetensors", "losses.json", "head.safetensors", "history.json"


@dataclass(frozen=True)
class Made:
    """The reservoirs of one repeat, and the heads they were trained with."""

    reservoirs: dict[str, Reservoir]
    files: Files
    heads: dict[tuple[str, ...], Readout] = field(default_factory=dict)
    """by the reservoirs that each reads"""
    histories: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)
    """of those heads: loss, validation and strongest of every epoch"""


def make(repeats: list[Experiment], dataset: Dataset, context: Context) -> list[Made]:
    """For every repeat its reservoirs, with their streams."""
    found = _static(repeats, dataset, context)
    made = []
    for experiment, folders in zip(repeats, found, strict=True):
        reservoirs = {
            name: replace(Reservoir.load(folder / RESERVOIR), stream=stream)
            for stream, (name, folder) in enumerate(folders.items())
        }
        files = {f"reservoirs/{name}.safetensors": folder / RESERVOIR for name, folder in folders.items()}
        files |= {f"reservoirs/{name}.losses.json": folder / LOSSES for name, folder in folders.items()}
        one = Made(reservoirs, files)
        made.append(_finite_time(one, experiment, experiment.finite_time, dataset, context))
    return made


def _finite_time(
    start: Made, experiment: Experiment, options: FiniteTime | None, dataset: Dataset, context: Context
) -> Made:
    """The reservoirs after training through the finite-time moments, all under one head or each under its own."""
    if options is None:
        return start
    names = list(start.reservoirs)
    made = replace(start, reservoirs=dict(start.reservoirs), files=dict(start.files))
    for number, group in enumerate([names] if options.joint else [[name] for name in names]):
        reservoirs = [start.reservoirs[name] for name in group]
        chosen = replace(options, seed=options.seed + number)
        folder = _train_group(group, reservoirs, chosen, experiment, dataset, context)
        for name in group:
            path = folder / f"{name}.safetensors"
            made.reservoirs[name], made.files[f"reservoirs/{name}.safetensors"] = Reservoir.load(path), path
        made.heads[tuple(group)] = Readout.load(folder / HEAD)
        made.histories[tuple(group)] = json.loads((folder / HISTORY).read_text("utf-8"))
        made.files[f"reservoirs/{'+'.join(group)}.{HISTORY}"] = folder / HISTORY
    return made


def _train_group(
    names: Sequence[str],
    reservoirs: Sequence[Reservoir],
    options: FiniteTime,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
) -> Path:
    """Where the store has the trained reservoirs `names` and their head."""
    protocol = experiment.protocol
    arrays = [array for reservoir in reservoirs for array in (reservoir.W, reservoir.K, reservoir.b)]
    read_by = protocol.t_final, protocol.n_replicas, protocol.orders, protocol.clip
    data = list(dataset.image_shape), digest(dataset, "x_train", "y_train")
    streams = [reservoir.stream for reservoir in reservoirs]
    folder = context.folder(
        "finite-time", list(names), streams, *arrays, options, experiment.dynamics, list(read_by), *data
    )
    checkpoint = folder.with_name(f"checkpoint-{folder.name}.safetensors")

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
            protocol,
            options,
            image_shape=dataset.image_shape,
            checkpoint=checkpoint,
            report=report,
        )
        _save_group(names, trained, folder)

    keep(folder, build)
    checkpoint.unlink(missing_ok=True)
    return folder


def _save_group(names: Sequence[str], trained: TrainedReservoirs, folder: Path) -> None:
    for name, reservoir in zip(names, trained.reservoirs, strict=True):
        reservoir.save(folder / f"{name}.safetensors")
    trained.readout.save(folder / HEAD)
    write_whole(folder / HISTORY, json.dumps([epoch._asdict() for epoch in trained.history]).encode())


def _static(repeats: list[Experiment], dataset: Dataset, context: Context) -> list[dict[str, Path]]:
    """For every repeat where its reservoirs are, drawn and trained by the surrogates."""
    # A GPU trains the repeats of a reservoir side by side. They are named by all of them: rounding is theirs together.
    together = len(repeats) > 1 and jax.default_backend() != "cpu"
    found: list[dict[str, Path]] = [{} for _ in repeats]
    for number, plan in enumerate(repeats[0].reservoirs):
        plans = [repeat.reservoirs[number] for repeat in repeats]
        for group in [range(len(repeats))] if together else [[k] for k in range(len(repeats))]:
            folders = _train(
                [plans[k] for k in group],
                [repeats[k] for k in group],
                dataset,
                context,
            )
            for k, folder in zip(group, folders, strict=True):
                found[k][plan.name] = folder
    return found


def _train(
    plans: list[ReservoirSettings], experiments: list[Experiment], dataset: Dataset, context: Context
) -> list[Path]:
    """The same reservoir of some repeats, drawn and trained side by side."""
    draws = [_draw(plan, experiment) for plan, experiment in zip(plans, experiments, strict=True)]
    name, stages = plans[0].name, plans[0].stages
    training, dynamics = experiments[0].training, experiments[0].dynamics
    seeds = [plan.seed for plan in plans]
    facts = (
        draws,
        [as_table(stage) for stage in stages],
        seeds,
        training,
        dynamics,
        digest(dataset, "x_train", "y_train"),
    )
    folders = [context.folder("projection", number, *facts) for number in range(len(plans))]
    if not any(damaged(folder) for folder in folders):
        return folders
    total = sum(stage.epochs for stage in stages)
    trained = train_side_by_side(
        [Reservoir.draw(n_inputs=dataset.n_inputs, dynamics=dynamics, **draw) for draw in draws],
        dataset.x_train,
        dataset.y_train,
        stages,
        training,
        seeds=seeds,
        report=lambda done, _: context.listener(f"training {name}, epochs", done, total),
    )
    for folder, (reservoir, losses) in zip(folders, trained, strict=True):
        keep(folder, partial(_save_trained, reservoir, losses))
    return folders


def _draw(plan: ReservoirSettings, experiment: Experiment) -> dict[str, Any]:
    """The arguments of `Reservoir.draw`: a reservoir's own, or those of the one it starts from."""
    source = next(other for other in experiment.reservoirs if other.name == (plan.start or plan.name))
    return {name: getattr(source, name) for name in ("n_nodes", "s_W", "s_K", "s_b", "seed")}


def _save_trained(reservoir: Reservoir, losses: NDArray[np.float64], folder: Path) -> None:
    reservoir.save(folder / RESERVOIR)
    write_whole(folder / LOSSES, json.dumps(losses.tolist()).encode())
