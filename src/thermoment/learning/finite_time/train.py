"""The course of training: epochs, checkpoints from which it goes on bit for bit, a held-out part, and when to stop.

Epoch e takes its batches from NumPy's generator of (seed, e) and its noise from the key (seed, e), so that a checkpoint
needs no generator: what is left to do depends on the parameters and on e alone.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.task import Task
from thermoment._support.checks import check_array, invalid
from thermoment._support.compilation import REPRODUCIBLE
from thermoment._support.files import read_tensors, write_tensors
from thermoment._support.identity import identity
from thermoment.learning.batches import batches, check_labels
from thermoment.learning.finite_time.lookup import Machine, machine
from thermoment.learning.finite_time.loss import (
    Plan,
    Reading,
    State,
    Statistics,
    averaged,
    coupling,
    epoch,
    judge,
    learning_rate,
    optimiser,
    shot_noise,
    show,
)
from thermoment.learning.options import FiniteTime
from thermoment.learning.readout import Readout, Scaling
from thermoment.physics import LARGEST_DRIVE
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir

VERSION = 2
"""Raised whenever training gives something else for the same arguments."""
SECONDS_BETWEEN_CHECKPOINTS = 10.0
_JUDGED_AT_ONCE = 1000
_FIRST_LOOK = 1024
"""Images from which the running averages start."""


class Epoch(NamedTuple):
    """What an epoch came to."""

    loss: float
    validation: float | None
    """accuracy on the images held out, with the shot noise of the replicas; None where none are"""
    strongest: float
    """largest effective drive"""


@dataclass(frozen=True, eq=False)
class Trained:
    """The machine after training: reservoirs, the head that reads all of them, and how it went."""

    reservoirs: tuple[Reservoir, ...]
    readout: Readout
    history: tuple[Epoch, ...]


Report = Callable[[int, Epoch], None]
"""Called with the epochs done and what the last one came to."""


def train(
    reservoirs: Sequence[Reservoir],
    inputs: NDArray[Any],
    labels: NDArray[np.integer[Any]],
    protocol: Protocol,
    options: FiniteTime | None = None,
    *,
    image_shape: tuple[int, ...] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    report: Report = lambda *_: None,
) -> Trained:
    """Trains reservoirs under one head on inputs (S, D) and labels (S,), for features read by `protocol`.

    `image_shape` is what a row of the inputs is, unrolled: distortion needs it. Where `checkpoint` is a file of the
    same training, it goes on from there, with the same bits in the end.
    Cost: on 2 cores about 35 us an epoch for every image and reservoir of 256 nodes.
    """
    options = options or FiniteTime()
    x, y = _checked(reservoirs, inputs, labels, options, image_shape or np.shape(inputs)[1:])
    n_train = len(x) - options.validation
    dynamics = reservoirs[0].dynamics if options.kT is None else replace(reservoirs[0].dynamics, kT=options.kT)
    t_final = protocol.t_final if options.t_final is None else options.t_final
    _check_machine(reservoirs[0], replace(protocol, dt=t_final, t_final=t_final), options, dynamics)
    node = machine(dynamics, t_final, protocol.orders)
    n_replicas = protocol.n_replicas if options.n_replicas is None else options.n_replicas
    plan = Plan(
        # What an epoch is not compiled for does not stand in the plan, so that repeats share one program.
        replace(options, epochs=1, validation=0, seed=0, n_replicas=None, kT=None, t_final=None),
        Reading(n_replicas, options.symmetric, options.drive_limit, options.drive_penalty),
        tuple(image_shape or x.shape[1:]),
        options.epochs * -(-n_train // options.batch_size),
    )
    key = _key(options.seed)
    state, fixed = _start(plan, reservoirs, node, x[:n_train], int(y.max()) + 1, key)
    arrays = [array for reservoir in reservoirs for array in (reservoir.W, reservoir.K, reservoir.b)]
    facts = options, plan.image_shape, dynamics, [n_replicas, t_final, protocol.orders]
    mine = identity(VERSION, *facts, *arrays, x, y)
    state, history = _resume(checkpoint, state, mine)
    saved, latest = len(history), time.monotonic()
    x_train, y_train = jnp.asarray(x[:n_train]), jnp.asarray(y[:n_train])
    for number in range(len(history), options.epochs):
        rng = np.random.default_rng([options.seed, number])
        rows = next(batches(n_train, options.batch_size, 1, rng))
        for_epoch = jax.random.fold_in(key, number)
        state, outcome = epoch(plan, state, fixed, node, x_train, y_train, jnp.asarray(rows), for_epoch)
        validation = _validate(plan, state, fixed, node, x[n_train:], y[n_train:], jax.random.fold_in(key, 2**31))
        found = Epoch(float(outcome.loss), validation, float(outcome.strongest))
        _check_course(found, number, plan, len(rows), checkpoint, saved)
        history.append(found)
        last = len(history) == options.epochs
        if checkpoint is not None and (last or time.monotonic() - latest >= SECONDS_BETWEEN_CHECKPOINTS):
            _save(checkpoint, state, history, mine)
            saved, latest = len(history), time.monotonic()
        report(len(history), found)
    return _finished(reservoirs, state, options, history)


def _checked(
    reservoirs: Sequence[Reservoir],
    inputs: NDArray[Any],
    labels: NDArray[Any],
    options: FiniteTime,
    image_shape: tuple[int, ...],
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """The arguments, refused where they do not fit each other."""
    if not reservoirs:
        raise invalid("reservoirs", "hold at least one", "empty")
    first = reservoirs[0]
    if any((r.n_inputs, r.dynamics) != (first.n_inputs, first.dynamics) for r in reservoirs):
        raise invalid("reservoirs", "have the same inputs and dynamics", [(r.n_inputs, r.dynamics) for r in reservoirs])
    x = check_array("inputs", inputs, ("S", first.n_inputs)).astype(np.float32)
    y = check_labels(labels, len(x)).astype(np.int32)
    if options.validation >= len(x):
        raise invalid("validation", f"leave some of the {len(x)} images to train on", options.validation)
    if math.prod(image_shape) != x.shape[1] or (options.distortion.strength and len(image_shape) != 2):
        raise invalid("image_shape", f"be the height and width of images of {x.shape[1]} pixels", image_shape)
    return x, y


def _check_machine(reservoir: Reservoir, protocol: Protocol, options: FiniteTime, dynamics: Any) -> None:
    """The mean field must hold as far as the drives may go."""
    drive = np.full((1, reservoir.n_nodes), options.drive_limit)
    MeanField().check(Task(drive, reservoir.W, dynamics, protocol, np.zeros(1, np.uint64), 0))


def _key(seed: int) -> jax.Array:
    """The seed's 64 bits as a key of a named generator, so that no setting of JAX's changes the noise."""
    words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    key: jax.Array = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    return key


def _start(
    plan: Plan, reservoirs: Sequence[Reservoir], node: Machine, x: NDArray[np.float32], n_classes: int, key: jax.Array
) -> tuple[State, dict[str, Any]]:
    """The state before the first epoch, and what stays as it is: the head starts from zero."""
    options = plan.options
    couplings = [jnp.asarray(reservoir.W, jnp.float32) for reservoir in reservoirs]
    if options.symmetric:
        couplings = [(W + W.T) / math.sqrt(2) for W in couplings]
    K, b = (np.concatenate([getattr(reservoir, name) for reservoir in reservoirs]) for name in "Kb")
    parameters: dict[str, Any] = {
        "K": jnp.asarray(K, jnp.float32),
        "b": jnp.asarray(b, jnp.float32),
        "W": couplings,
        "head": jnp.zeros((node.n_orders, len(K), n_classes), jnp.float32),
        "offset": jnp.zeros(n_classes, jnp.float32),
    }
    trained = {name: parameters[name] for name in ("K", "head", "offset")}
    trained |= {name: parameters[name] for name in "bW" if getattr(options, name)}
    fixed = {name: parameters[name] for name in "KbW" if name not in trained}

    few = jnp.asarray(x[:_FIRST_LOOK])
    noise = shot_noise(plan.reading, node, parameters, len(few), key)
    look = jax.jit(show, static_argnums=0, compiler_options=REPRODUCIBLE)
    shown = look(plan.reading, parameters, node, few, noise)
    nothing = jnp.zeros((node.n_orders, len(K)), jnp.float32)
    share = jnp.full(len(few), 1 / len(few), jnp.float32)
    statistics = averaged(Statistics(nothing, nothing), shown.features, share, 1.0)
    return State(trained, optimiser(plan).init(trained), statistics), fixed


def _validate(
    plan: Plan,
    state: State,
    fixed: dict[str, Any],
    node: Machine,
    x: NDArray[np.float32],
    y: NDArray[np.int32],
    key: jax.Array,
) -> float | None:
    """Accuracy on images that no epoch sees, with the shot noise of the replicas."""
    if not len(x):
        return None
    correct = 0
    for part, start in enumerate(range(0, len(x), _JUDGED_AT_ONCE)):
        rows = slice(start, start + _JUDGED_AT_ONCE)
        missing = _JUDGED_AT_ONCE - len(y[rows])
        images, classes = np.pad(x[rows], ((0, missing), (0, 0))), np.pad(y[rows], (0, missing), constant_values=-1)
        noise = jax.random.fold_in(key, part)
        right, _ = judge(plan.reading, {**fixed, **state.trained}, state.statistics, node, images, classes, noise)
        correct += int(right)
    return correct / len(x)


def _check_course(found: Epoch, number: int, plan: Plan, n_batches: int, checkpoint: Any, saved: int) -> None:
    """Stops a training that has left the machine or the numbers."""
    rate = float(learning_rate(plan)(number * n_batches))
    where = f"in epoch {number + 1} at learning rate {rate:.3g} (at most {plan.options.learning_rate:g})"
    kept = f"The last good checkpoint, {checkpoint}, has {saved} epochs." if saved else "There is no checkpoint yet."
    if not math.isfinite(found.loss):
        raise FloatingPointError(f"Training diverged {where}. {kept} Lower the learning rate.")
    if not found.strongest <= LARGEST_DRIVE:
        raise FloatingPointError(
            f"Training drove a node to {found.strongest:.4g} {where}, beyond the {LARGEST_DRIVE:g} that the "
            f"tables know. {kept} Lower the learning rate, or raise drive_penalty."
        )


def _named(state: State) -> dict[str, Any]:
    """The state's arrays by their places in it."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def _save(path: str | PathLike[str], state: State, history: list[Epoch], mine: str) -> None:
    tensors = {name: np.asarray(leaf) for name, leaf in _named(state).items()}
    facts = {"training": mine, "history": history, "digest": identity(*tensors.values())}
    write_tensors(path, "checkpoint", tensors, json.dumps(facts))


def _resume(path: str | PathLike[str] | None, state: State, mine: str) -> tuple[State, list[Epoch]]:
    """The state of the checkpoint and the epochs behind it; where there is none, as at the start."""
    if path is None or not Path(path).exists():
        return state, []
    tensors, text = read_tensors(path, "checkpoint", list(_named(state)))
    facts = json.loads(text)
    if facts["training"] != mine:
        raise ValueError(f"{path} is a checkpoint of another training: its data, settings or reservoirs differ.")
    arrays = [tensors[name].reshape(leaf.shape) for name, leaf in _named(state).items()]  # a file has no scalars
    if facts["digest"] != identity(*arrays):
        raise ValueError(f"{path} is damaged: its numbers are not those that were written. Remove it to start anew.")
    leaves = [jnp.asarray(array) for array in arrays]
    restored = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(state), leaves)
    return restored, [Epoch(*entry) for entry in facts["history"]]


def _finished(reservoirs: Sequence[Reservoir], state: State, options: FiniteTime, history: list[Epoch]) -> Trained:
    """The state as reservoirs and a readout of [phi_K1 | phi_K2 | ...], each [m1 | m2 | ...]."""
    trained, found = state.trained, []
    for number, reservoir in enumerate(reservoirs):
        nodes = _nodes(reservoirs, number)
        changed: dict[str, Any] = {
            name: np.asarray(trained[name][nodes], np.float64) for name in "Kb" if name in trained
        }
        if options.W or options.symmetric:
            start = jnp.asarray((reservoir.W + reservoir.W.T) / math.sqrt(2), jnp.float32)
            W = coupling(trained["W"][number] if options.W else start, options.symmetric)
            changed["W"] = np.asarray(W, np.float64)
        found.append(replace(reservoir, **changed))

    def ordered(array: jax.Array) -> NDArray[np.float64]:
        parts = [np.asarray(array[:, _nodes(reservoirs, number)], np.float64) for number in range(len(reservoirs))]
        return np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])

    scaling = Scaling(ordered(state.statistics.mean), ordered(state.statistics.deviation()))
    readout = Readout(ordered(trained["head"]).T.copy(), np.asarray(trained["offset"], np.float64), scaling)
    return Trained(tuple(found), readout, tuple(history))


def _nodes(reservoirs: Sequence[Reservoir], number: int) -> slice:
    """The nodes of a reservoir among those of all."""
    start = sum(reservoir.n_nodes for reservoir in reservoirs[:number])
    return slice(start, start + reservoirs[number].n_nodes)
