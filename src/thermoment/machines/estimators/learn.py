"""Draws the reservoirs of an estimator and trains them on the rows of a data set. Nothing here knows scikit-learn."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.choice import choose
from thermoment._support.checks import check_choice, check_integer, check_positive, invalid, is_infinite, quoted
from thermoment.learning.finite_time.program import Loss
from thermoment.learning.finite_time.train import train
from thermoment.learning.options import FiniteTime, Stage, Training
from thermoment.learning.readout import Readout, Scaling
from thermoment.learning.surrogate import train_side_by_side
from thermoment.machines.estimators.inputs import REACH, InputScaling, Padded, Scale, fit_scaling, padded
from thermoment.machines.estimators.row_noise import distinct
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import prepare

Array = NDArray[np.float64]
HowTrained = Literal["finite-time", "static"]

EPOCHS, STEPS = 40, 200
"""Where no number of epochs is given: this many epochs, and more of a small set until there are this many steps."""
LABEL_SMOOTHING, WEIGHT_DECAY = 0.1, 0.1
"""Of a training through finite-time moments; see docs/estimators.md for what they bring."""


class Settings(Interface):
    """The parameters of an estimator that make its machine; its docstring explains each."""

    n_reservoirs: int
    n_nodes: int
    s_W: float
    s_K: float
    s_b: float
    J2: float
    J4: float
    mu: float
    kT: float
    t_final: float
    dt: float
    orders: Sequence[int]
    n_replicas: float
    engine: str
    scale: Scale | None
    training: HowTrained | None
    epochs: int | None
    batch_size: int
    learning_rate: float
    training_replicas: float


class Learnt(NamedTuple):
    """The machine, and what its readout is fitted to."""

    reservoirs: Sequence[Reservoir]
    scaling: InputScaling
    losses: Array
    """mean loss of every epoch of the training, (epochs,)"""
    inputs: Array
    """the different rows, scaled: (S, D)"""
    targets: NDArray[Any]
    """(S, C); standardised for the squared error"""
    target_scaling: Scaling
    """what targets were standardised by; 0 and 1 for classes"""
    weights: Array
    """(S,)"""
    head: Readout | None
    """of a training through finite-time moments"""


def learn(
    settings: Settings, rows: Array, targets: NDArray[Any], weights: Array, loss: Loss, seeds: Sequence[int]
) -> Learnt:
    """Reservoirs for rows (S, D), trained to targets (S, C) if asked.

    targets: class numbers from 0, (S, 1), for the cross-entropy; any numbers for the squared error
    weights: (S,), zero or positive
    seeds: of the noise, of the training, and of each reservoir

    Every setting is checked before the work starts.
    """
    noise_seed, training_seed, *drawn = seeds
    if settings.scale is not None:
        check_choice("scale", settings.scale, list(REACH))
    if settings.training is not None:
        known = ["finite-time"] if loss == "squared" else ["finite-time", "static"]
        check_choice("training", settings.training, known)
    rows, targets, weights = distinct(rows, targets, weights)
    scaling = fit_scaling(settings.scale, rows, weights)
    inputs = scaling.apply(rows)
    target_scaling = Scaling(np.zeros(1), np.ones(1))
    if loss == "squared":
        target_scaling = Scaling.fit(targets, weights)
        targets = (targets - target_scaling.mean) / target_scaling.scale
    reservoirs = [
        Reservoir.draw(
            settings.n_nodes,
            inputs.shape[1],
            s_W=settings.s_W,
            s_K=settings.s_K,
            s_b=settings.s_b,
            seed=seed,
            stream=stream,
            dynamics=dynamics_of(settings),
        )
        for stream, seed in enumerate(drawn)
    ]
    if not isinstance(settings.engine, str):  # its name alone goes into a pickle
        raise invalid("engine", "be the name of an engine", quoted(settings.engine))
    task = prepare(reservoirs[0], inputs[:1], protocol_of(settings, noise_seed))
    choose(settings.engine, task)[0].check(task)
    losses, head = np.zeros(0), None
    if settings.training is not None:
        whole = padded(inputs, targets, weights, check_integer("batch_size", settings.batch_size, 1, 10**6))
        columns = whole.inputs.shape[1] - inputs.shape[1]
        wide = [replace(one, K=np.pad(one.K, ((0, 0), (0, columns)))) for one in reservoirs]
        if settings.training == "static":
            found, losses = _static(settings, wide, whole, training_seed)
        else:
            found, losses, head = _finite_time(settings, wide, whole, loss, training_seed)
        reservoirs = [replace(one, K=one.K[:, : inputs.shape[1]]) for one in found]
    return Learnt(reservoirs, scaling, losses, inputs, targets, target_scaling, weights, head)


def protocol_of(settings: Settings, seed: int) -> Protocol:
    """How the machine is read; without clipping."""
    return Protocol(settings.dt, settings.t_final, settings.n_replicas, math.inf, seed, tuple(settings.orders))


def dynamics_of(settings: Settings) -> Dynamics:
    """The well, the mobility and the temperature of a node."""
    return Dynamics(settings.J2, settings.J4, settings.mu, settings.kT)


def _static(
    settings: Settings, reservoirs: Sequence[Reservoir], whole: Padded, seed: int
) -> tuple[Sequence[Reservoir], Array]:
    """K trained through the powers 1, 2, 4 of the stationary points, each reservoir under a head of its own."""
    done = train_side_by_side(
        reservoirs,
        whole.inputs,
        whole.targets[:, 0],
        (Stage("polynomial", _epochs(settings, whole), settings.learning_rate),),
        Training("adam", "normal", batch_size=settings.batch_size),
        seeds=[seed + number for number in range(len(reservoirs))],
        weights=whole.weights,
    )
    return [one.reservoir for one in done], np.mean([one.losses for one in done], axis=0)


def _finite_time(
    settings: Settings, reservoirs: Sequence[Reservoir], whole: Padded, loss: Loss, seed: int
) -> tuple[Sequence[Reservoir], Array, Readout]:
    """K and b trained through the moments at t_final, all reservoirs under one head."""
    replicas = settings.training_replicas
    if not is_infinite(replicas) and check_positive("training_replicas", replicas) < 1:
        raise invalid("training_replicas", "be at least 1", replicas)
    options = FiniteTime(
        _epochs(settings, whole),
        settings.batch_size,
        settings.learning_rate,
        weight_decay=WEIGHT_DECAY,
        label_smoothing=LABEL_SMOOTHING,
        n_replicas=replicas,
        seed=seed,
    )
    y = whole.targets if loss == "squared" else whole.targets[:, 0]
    found = train(reservoirs, whole.inputs, y, protocol_of(settings, 0), options, loss=loss, weights=whole.weights)
    return found.reservoirs, np.array([epoch.loss for epoch in found.history]), found.readout


def _epochs(settings: Settings, whole: Padded) -> int:
    if settings.epochs is not None:
        return settings.epochs
    return max(EPOCHS, math.ceil(STEPS * settings.batch_size / len(whole.weights)))
