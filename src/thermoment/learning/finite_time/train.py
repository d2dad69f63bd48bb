"""Training through the finite-time moments: epochs, checkpoints, a held-out part of the images, and when to stop.

Epoch e takes its batches from NumPy's generator of (seed, e) and its noise from JAX's key of (seed, e). So what is left
to do depends on the state and on e alone: a checkpoint holds both, and a resumed training ends with the same bits.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.engine import check_limits
from thermoment._support.checks import check_array, check_choice, check_labels, invalid
from thermoment._support.compilation import REPRODUCIBLE
from thermoment._support.identity import identity
from thermoment.learning.batches import batches
from thermoment.learning.descent import shares
from thermoment.learning.finite_time import checkpoint as checkpoints
from thermoment.learning.finite_time.lookup import TrainingCurves, check_trainable, check_work, training_curves
from thermoment.learning.finite_time.loss import (
    RunningMeans,
    State,
    averaged,
    count_correct,
    coupling,
    epoch,
    features,
    shot_noise,
)
from thermoment.learning.finite_time.program import Loss, Program, Scalars, learning_rate, optimiser, program, scalars
from thermoment.learning.options import FiniteTime
from thermoment.learning.readout import Readout, Scaling
from thermoment.physics import LARGEST_DRIVE
from thermoment.protocol import Protocol, check_rest
from thermoment.reservoir import Reservoir

VERSION = 3
"""Raised whenever training gives something else for the same arguments."""
SECONDS_BETWEEN_CHECKPOINTS = 10.0
_VALIDATED_AT_ONCE = 1000
_FIRST_IMAGES = 1024
"""Number of images that the running averages start from."""


class Epoch(NamedTuple):
    """The result of an epoch."""

    loss: float
    """mean over its batches"""
    validation: float | None
    """accuracy on the images held out, with the shot noise of the replicas; None where none are held out"""
    strongest: float
    """largest effective drive"""


@dataclass(frozen=True, eq=False)
class TrainedReservoirs:
    """Reservoirs after training, the head that reads all of them, and the epochs behind them."""

    reservoirs: tuple[Reservoir, ...]
    readout: Readout
    history: tuple[Epoch, ...]


EpochReport = Callable[[int, Epoch], None]
"""Called with the number of epochs done and the result of the last one."""


class _Training(NamedTuple):
    """All that an epoch and a validation need, beside the state."""

    program: Program
    scalars: Scalars
    node: TrainingCurves
    fixed: dict[str, Any]
    """those of K, b and W that are not trained"""
    x: jax.Array
    y: jax.Array
    held_out: tuple[NDArray[np.float32], NDArray[np.int32]]
    key: jax.Array
    weights: jax.Array | None

    def epoch(self, state: State, number: int, options: FiniteTime) -> tuple[State, Epoch]:
        """The state after epoch `number`, and its result."""
        rng = np.random.default_rng([options.seed, number])
        rows = jnp.asarray(next(batches(len(self.x), options.batch_size, 1, rng)))
        key = jax.random.fold_in(self.key, number)
        state, loss, strongest = epoch(
            self.program, self.scalars, state, self.fixed, self.node, self.x, self.y, rows, key, self.weights
        )
        return state, Epoch(float(loss), self.validation(state), float(strongest))

    def validation(self, state: State) -> float | None:
        """Accuracy on the images held out, with the shot noise of the replicas."""
        x, y = self.held_out
        if not len(x):
            return None
        key, parameters, correct = jax.random.fold_in(self.key, 2**31), {**self.fixed, **state.trained}, 0
        for part, start in enumerate(range(0, len(x), _VALIDATED_AT_ONCE)):
            rows = slice(start, start + _VALIDATED_AT_ONCE)
            missing = _VALIDATED_AT_ONCE - len(y[rows])
            images, classes = np.pad(x[rows], ((0, missing), (0, 0))), np.pad(y[rows], (0, missing), constant_values=-1)
            correct += int(
                count_correct(
                    self.program.symmetric,
                    self.program.noisy,
                    self.scalars,
                    parameters,
                    state.means,
                    self.node,
                    images,
                    classes,
                    jax.random.fold_in(key, part),
                )
            )
        return correct / len(x)


def train(
    reservoirs: Sequence[Reservoir],
    inputs: NDArray[Any],
    labels: NDArray[Any],
    protocol: Protocol,
    options: FiniteTime | None = None,
    *,
    loss: Loss = "cross-entropy",
    weights: NDArray[Any] | None = None,
    image_shape: tuple[int, ...] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    report: EpochReport = lambda *_: None,
) -> TrainedReservoirs:
    """Trains K, and if asked b and W, of reservoirs under one linear head.

    Args:
        reservoirs: all with the same number of inputs D and the same dynamics
        inputs: (S, D)
        labels: (S,), class numbers from 0; for the squared error (S, C), numbers that the head should give
        protocol: how features are read after training: their orders, and where `options` does not say otherwise the
            time and the number of replicas that are trained for
        options: `FiniteTime()` unless given
        loss: "cross-entropy" of the classes, or "squared": the mean squared error
        weights: of the images in the loss, (S,), zero or positive; all the same unless given
        image_shape: (H, W) with H * W = D, the shape of the image that a row of the inputs is; needed for distortion
        checkpoint: a file to which the state is written about every ten seconds. If it holds a state of the same
            training, the training goes on from there and ends with the same bits; if it holds one of another, it is
            refused.
        report: called after every epoch

    Cost: on 2 cores about 35 us an epoch for every image and reservoir of 256 nodes.
    """
    options = options or FiniteTime()
    x, y = _checked(reservoirs, inputs, labels, options, image_shape or np.shape(inputs)[1:], loss)
    share = None if weights is None else _weights(weights, len(x), options)
    n_train = len(x) - options.validation
    dynamics = reservoirs[0].dynamics if options.kT is None else replace(reservoirs[0].dynamics, kT=options.kT)
    t_final = protocol.t_final if options.t_final is None else options.t_final
    n_replicas = protocol.n_replicas if options.n_replicas is None else options.n_replicas
    check_trainable(protocol.orders, dynamics)
    check_limits(dynamics, options.drive_limit, protocol.clip)
    check_rest(protocol, dynamics)
    check_work(options, n_replicas, protocol.orders)
    node = training_curves(dynamics, t_final, protocol.orders, t_rest=protocol.t_rest or 0.0)
    shape, n_classes = tuple(image_shape or x.shape[1:]), y.shape[1] if loss == "squared" else int(y.max()) + 1
    trained, fixed = _parameters(reservoirs, options, node.n_orders, n_classes)
    training = _Training(
        program(options, n_replicas, shape, loss),
        scalars(options, n_replicas, options.epochs * -(-n_train // options.batch_size), n_classes, dynamics.kT),
        node,
        fixed,
        jnp.asarray(x[:n_train]),
        jnp.asarray(y[:n_train]),
        (x[n_train:], y[n_train:]),
        _key(options.seed),
        None if share is None else jnp.asarray(share),
    )
    arrays = [array for reservoir in reservoirs for array in (reservoir.W, reservoir.K, reservoir.b)]
    rest = [] if protocol.t_rest is None else [protocol.t_rest]
    facts = options, shape, dynamics, [n_replicas, t_final, protocol.orders, *rest]
    mine = identity(VERSION, *facts, *arrays, x, y, *([] if share is None else [share]))
    state, entries = checkpoints.resume(checkpoint, _start(training, trained), mine)
    history = [Epoch(*entry) for entry in entries]
    saved, latest = len(history), time.monotonic()
    for number in range(len(history), options.epochs):
        state, found = training.epoch(state, number, options)
        _check_course(found, number, training, options, checkpoint, saved)
        history.append(found)
        last = len(history) == options.epochs
        if checkpoint is not None and (last or time.monotonic() - latest >= SECONDS_BETWEEN_CHECKPOINTS):
            checkpoints.save(checkpoint, state, history, mine)
            saved, latest = len(history), time.monotonic()
        report(len(history), found)
    return _finished(reservoirs, state, options, history)


def _checked(
    reservoirs: Sequence[Reservoir],
    inputs: NDArray[Any],
    labels: NDArray[Any],
    options: FiniteTime,
    image_shape: tuple[int, ...],
    loss: Loss,
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Inputs and labels; arguments that do not fit each other are refused."""
    check_choice("loss", loss, get_args(Loss))
    if not reservoirs:
        raise invalid("reservoirs", "hold at least one", "empty")
    first = reservoirs[0]
    if any((r.n_inputs, r.dynamics) != (first.n_inputs, first.dynamics) for r in reservoirs):
        raise invalid("reservoirs", "have the same inputs and dynamics", [(r.n_inputs, r.dynamics) for r in reservoirs])
    x = check_array("inputs", inputs, ("S", first.n_inputs)).astype(np.float32)
    if loss == "squared":
        y = check_array("labels", labels, (len(x), "C")).astype(np.float32)
    else:
        y = check_labels("labels", labels, len(x)).astype(np.int32)
    if options.validation and loss == "squared":
        raise invalid(
            "validation", "be 0 for the squared error: it counts images that are classified right", options.validation
        )
    if options.validation >= len(x):
        raise invalid("validation", f"leave some of the {len(x)} images to train on", options.validation)
    if math.prod(image_shape) != x.shape[1] or (options.distortion.strength and len(image_shape) != 2):
        raise invalid("image_shape", f"be the height and width of images of {x.shape[1]} pixels", image_shape)
    return x, y


def _weights(weights: NDArray[Any], n_samples: int, options: FiniteTime) -> NDArray[np.float32]:
    """The weights of the images, if the loss can take them."""
    found = check_array("weights", weights, (n_samples,)).astype(np.float32)
    if options.validation:
        raise invalid("validation", "be 0 where images have weights", options.validation)
    if found.min() < 0 or not found[:_FIRST_IMAGES].any():
        raise invalid("weights", f"be zero or positive, and not all zero in the first {_FIRST_IMAGES}", found)
    return found


def _key(seed: int) -> jax.Array:
    """The seed's 64 bits as a key of a named generator, so that no setting of JAX changes the noise."""
    words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    key: jax.Array = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    return key


def _parameters(
    reservoirs: Sequence[Reservoir], options: FiniteTime, n_orders: int, n_classes: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters that are trained, as they start, and those that are not. The head starts from zero."""
    couplings = [jnp.asarray(reservoir.W, jnp.float32) for reservoir in reservoirs]
    if options.symmetric:
        couplings = [(W + W.T) / math.sqrt(2) for W in couplings]
    K, b = (np.concatenate([getattr(reservoir, name) for reservoir in reservoirs]) for name in "Kb")
    parameters: dict[str, Any] = {
        "K": jnp.asarray(K, jnp.float32),
        "b": jnp.asarray(b, jnp.float32),
        "W": couplings,
        "head": jnp.zeros((n_orders, len(K), n_classes), jnp.float32),
        "offset": jnp.zeros(n_classes, jnp.float32),
    }
    fixed = {name: parameters.pop(name) for name in "bW" if not getattr(options, name)}
    return parameters, fixed


_features = jax.jit(features, static_argnums=0, compiler_options=REPRODUCIBLE)


def _start(training: _Training, trained: dict[str, Any]) -> State:
    """The state before the first epoch: the running averages are means over the first images."""
    few = training.x[:_FIRST_IMAGES]
    parameters = {**training.fixed, **trained}
    noise = shot_noise(training.node, parameters, len(few), training.key) if training.program.noisy else None
    found = _features(training.program.symmetric, training.scalars, parameters, training.node, few, noise)
    nothing = jnp.zeros((training.node.n_orders, len(parameters["K"])), jnp.float32)
    if training.weights is None:
        share = jnp.full(len(few), 1 / len(few), jnp.float32)
    else:
        share = shares(jnp.arange(len(few)), training.weights)
    means = averaged(RunningMeans(nothing, nothing), found.moments, share, 1.0)
    return State(trained, optimiser(training.program, training.scalars).init(trained), means)


def _check_course(
    found: Epoch, number: int, training: _Training, options: FiniteTime, checkpoint: Any, saved: int
) -> None:
    """Stops a training whose loss is not a number, or whose drives lie beyond the tables."""
    if math.isfinite(found.loss) and found.strongest <= LARGEST_DRIVE:
        return
    steps = number * -(-len(training.x) // options.batch_size)
    rate = float(learning_rate(options.schedule, training.scalars, steps))
    where = f"in epoch {number + 1} at learning rate {rate:.3g} (at most {options.learning_rate:g})"
    kept = f"The last good checkpoint, {checkpoint}, has {saved} epochs." if saved else "There is no checkpoint yet."
    if not math.isfinite(found.loss):
        raise FloatingPointError(f"Training diverged {where}. {kept} Lower the learning rate.")
    raise FloatingPointError(
        f"Training drove a node to {found.strongest:.4g} {where}, beyond the {LARGEST_DRIVE:g} that the "
        f"tables know. {kept} Lower the learning rate, or raise drive_penalty."
    )


def _finished(
    reservoirs: Sequence[Reservoir], state: State, options: FiniteTime, history: list[Epoch]
) -> TrainedReservoirs:
    """The state as reservoirs and as a readout of features [phi_K1 | phi_K2 | ...], each phi being [m1 | m2 | ...]."""
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

    scaling = Scaling(ordered(state.means.mean), ordered(state.means.deviation()))
    readout = Readout(ordered(trained["head"]).T.copy(), np.asarray(trained["offset"], np.float64), scaling)
    return TrainedReservoirs(tuple(found), readout, tuple(history))


def _nodes(reservoirs: Sequence[Reservoir], number: int) -> slice:
    """Where the nodes of reservoir `number` stand among those of all reservoirs."""
    start = sum(reservoir.n_nodes for reservoir in reservoirs[:number])
    return slice(start, start + reservoirs[number].n_nodes)
