"""What the experiments with the other machines do: each gives numbers with their uncertainty, curves, and a figure."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment import data, plot
from thermoment._engines.task import Engine
from thermoment._support.progress import Listener
from thermoment.experiments.machine import Generation, Neurons, Signals, Trajectories
from thermoment.machines import neurons as layers
from thermoment.machines import signals as following
from thermoment.machines.generative import train_generator
from thermoment.machines.signals.follower import ridge_weights
from thermoment.machines.teacher import Teaching, train_teacher
from thermoment.machines.trajectories import learn_paths
from thermoment.plot.neurons import draw_clock
from thermoment.plot.style import canvas
from thermoment.results.analysis import confusion_counts
from thermoment.results.machine import Number
from thermoment.results.statistics import wilson
from thermoment.simulation import simulate

Array = NDArray[np.float64]
_SHOWN = 150
"""Rows of a signal in its figure."""


class Found(NamedTuple):
    """What a run found, and the axes of its figure."""

    numbers: tuple[Number, ...]
    curves: Mapping[str, Any]
    axes: Any


def neurons(given: Neurons, engine: Engine, listener: Listener) -> Found:
    """Layers of neurons learn a cosine for t_final and are judged then and at other times.

    Two runs with independent noise have independent errors, so the mean product of the two is the squared error of
    infinitely many replicas, but for a rest of which the standard error is told.
    """
    z = np.linspace(0, 1, given.points)[:, None]
    wanted, protocol, total = np.cos(2 * np.pi * z[:, 0]), given.protocol, given.warm_up + given.steps
    trained = layers.learn(
        layers.Layered.draw(given.widths, 1, seed=given.seed, dynamics=given.dynamics), z, wanted,
        replace(protocol, dt=given.training_dt), warm_up=given.warm_up, steps=given.steps, batch_size=given.batch_size,
        n_replicas=given.paths, learning_rate=given.learning_rate, seed=given.seed,
        report=lambda done, loss: listener("training, steps", done, total, f"loss {loss:.2g}"),
    )  # fmt: skip
    half = replace(protocol, n_replicas=int(protocol.n_replicas) // 2)
    machine = trained.machine.with_readout_for(z, wanted, replace(half, seed=half.seed + 2), engine=engine)
    times = sorted({*given.times, protocol.t_final})
    runs = [replace(half, seed=half.seed + run) for run in (0, 1)]
    a, b = (machine.answers_at(z, times, run, engine=engine)[..., 0] - wanted for run in runs)
    at = times.index(protocol.t_final)
    numbers = [
        _mean("squared error of infinitely many replicas", a[at] * b[at]),
        _mean(f"squared error of {2 * int(half.n_replicas)} replicas", ((a[at] + b[at]) / 2) ** 2),
        _mean("variance of one replica's answer", (a[at] - b[at]) ** 2 * half.n_replicas / 2),
        *(_mean(f"squared error, read at t = {t:g}", a[k] * b[k]) for k, t in enumerate(times) if k != at),
    ]
    losses = np.array_split(trained.losses, min(100, total))
    with canvas(None) as axes:
        draw_clock(axes, np.array(times), {"": (a * b).mean(axis=1)}, protocol.t_final)
    return Found(tuple(numbers), {"loss of training": [float(part.mean()) for part in losses]}, axes)


def trajectories(given: Trajectories, engine: Engine, listener: Listener) -> Found:
    """A student with the fields of a teacher reads digits from single trajectories, and from the mean of several.

    W is symmetric and the drive stays, so the heat of a trajectory is the energy that the network loses.
    """
    digits = data.load("digits").first(given.n_train, given.n_test)
    x, new = (np.asarray(one, np.float64) - given.level for one in (digits.x_train, digits.x_test))
    dynamics, protocol, total = given.dynamics, given.protocol, given.n_test
    sizes = given.n_hidden, given.hidden, given.output, given.epochs, given.batch_size, given.learning_rate
    teacher = train_teacher(x, digits.y_train, dynamics, Teaching(*sizes, given.seed))
    student = learn_paths(x, teacher.fields(x), dynamics, replace(protocol, n_replicas=1))
    drive, right, heats = student.drive(new), list[int](), list[Array]()
    for noise in range(given.noises):
        listener("readings", noise, given.noises)
        one = replace(protocol, n_replicas=1, seed=protocol.seed + noise)
        end = simulate(student, new, one, engine=engine).order(1)
        taken = end[:, given.n_hidden :].argmax(axis=1)
        right.append(int((taken == digits.y_test).sum()))
        heats.append(-dynamics.global_potential(end, drive, student.W) / dynamics.kT)
    several = simulate(student, new, protocol, engine=engine).order(1)[:, given.n_hidden :].argmax(axis=1)
    listener("readings", given.noises, given.noises)
    single = _share("read right from one trajectory", round(float(np.mean(right))), total)
    numbers = (
        _share("read right by the teacher", int((teacher.predict(new) == digits.y_test).sum()), total),
        replace(single, value=float(np.mean(right)) / total),
        _share(f"read right from the mean of {protocol.n_replicas}", int((several == digits.y_test).sum()), total),
        _mean("heat of a trajectory, kT", np.mean(heats, axis=0)),
    )
    figure = plot.confusion(confusion_counts(digits.y_test, taken, 10))
    return Found(numbers, {"right with each noise": right, "test images": total}, figure)


def generation(given: Generation, engine: Engine, listener: Listener) -> Found:
    """Images of a few digits out of noise, judged by real digits that the network has not seen.

    An image is recognised where the nearest of these is of the class of the nearest learnt image, and the latter is not
    farther away than the nearest other digit is for 95 % of the test digits. The noise it came from is judged alike.
    """
    digits = data.load("digits")
    x, y, new = np.asarray(digits.x_train, np.float64), digits.y_train, np.asarray(digits.x_test, np.float64)
    learnt = np.array([int(np.flatnonzero(y == c)[0]) for c in given.digits])
    listener("images", 0, given.samples)
    machine = train_generator(x[learnt], given.dynamics, n_hidden=given.n_hidden, ridge=given.ridge, seed=given.seed)
    course: Any = {"duration": given.duration, "readings": given.readings, "contrast": given.contrast}
    made = machine.generate(given.samples, **course, seed=given.seed, engine=engine)
    listener("images", given.samples, given.samples)
    others, classes = np.delete(x, learnt, axis=0), np.delete(y, learnt)
    far = float(np.quantile(_distances(new, others).min(axis=1), 0.95))

    def recognised(images: Array) -> NDArray[np.bool_]:
        away, seen = _distances(images, x[learnt]), classes[_distances(images, others).argmin(axis=1)]
        return np.asarray((seen == y[learnt][away.argmin(axis=1)]) & (away.min(axis=1) <= far))

    away, right = _distances(made.images[-1], x[learnt]), recognised(made.images[-1])
    of_each = np.bincount(away.argmin(axis=1)[right], minlength=len(learnt))
    numbers = (
        _share("recognised", int(right.sum()), given.samples),
        _share("recognised in the noise they came from", int(recognised(made.images[0]).sum()), given.samples),
        Number("heat of a sample, kT", *made.mean_heat),
        _mean("distance from the nearest learnt image", away.min(axis=1)),
    )
    counts = dict(zip(map(str, given.digits), of_each.tolist(), strict=True))
    return Found(numbers, {"recognised of each": counts, "distance that counts": far}, plot.generation(made))


def signals(given: Signals, engine: Engine, listener: Listener) -> Found:
    """Turning reservoirs, and echo-state networks with squares of their states, each pair on a signal of its own."""
    begin = given.washout + given.train
    targets, found = list[Array](), {"moments": list[Array](), "echo states": list[Array]()}
    scales: Any = {"s_W": given.s_W, "s_K": given.s_K, "s_b": given.s_b, "dynamics": given.dynamics}
    fit: Any = {"hold": given.hold, "washout": given.washout, "ridge": given.ridge, "engine": engine}
    for number in range(given.machines):
        listener("machines", number, given.machines)
        seed = given.seed + number
        u, y = following.narma10(begin + given.test, seed=seed)
        u = (u - u[:begin].mean()) / u[:begin].std()
        reservoir = following.turning(given.n_nodes, **scales, seed=seed)
        follower = following.fit(reservoir, u[:begin], y[:begin], given.protocol, **fit)
        found["moments"].append(follower.follow(u[begin:], follower.end).prediction)
        states = echo_states(u, given, seed)
        weights = ridge_weights(states[given.washout : begin], y[given.washout : begin, None], given.ridge)
        found["echo states"].append((states[begin:] @ weights)[:, 0])
        targets.append(y[begin:])
    listener("machines", given.machines, given.machines)
    errors = {kind: [*map(following.nrmse, each, targets)] for kind, each in found.items()}
    numbers = tuple(_mean(f"error by {kind}, share of the spread", np.array(each)) for kind, each in errors.items())
    shown = {kind: each[0][:_SHOWN] for kind, each in found.items()}
    return Found(numbers, {"errors": errors}, plot.prediction(targets[0][:_SHOWN], shown))


def echo_states(signal: Array, given: Signals, seed: int) -> Array:
    """1, x and x^2 of an echo-state network, x <- (1 - leak) x + leak tanh(W x + K u + b): (T, 1 + 2 N)."""
    rng, N = np.random.default_rng(seed), given.n_nodes
    W = rng.normal(size=(N, N))
    W *= given.echo_radius / np.abs(np.linalg.eigvals(W)).max()
    K, b = rng.uniform(-given.echo_input, given.echo_input, N), rng.uniform(-given.echo_bias, given.echo_bias, N)
    x, states = np.zeros(N), np.empty((len(signal), N))
    for t, u in enumerate(signal):
        states[t] = x = (1 - given.echo_leak) * x + given.echo_leak * np.tanh(W @ x + K * u + b)
    return np.concatenate([np.ones((len(signal), 1)), states, states**2], axis=1)


def _mean(what: str, values: Array) -> Number:
    """The mean of independent values, and its standard error."""
    return Number(what, float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))


def _share(what: str, count: int, total: int) -> Number:
    return Number(what, count / total, ci95=wilson(count, total))


def _distances(a: Array, b: Array) -> Array:
    """Of every image of a (S, D) from every one of b (T, D): (S, T)."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))
