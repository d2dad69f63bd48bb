"""The paths of all nodes behind an answer, kept for a while; and one node of them in its tilted well."""

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment.machines.classifier import Classifier
from thermoment.physics import Dynamics
from thermoment.simulation import sample_paths
from thermoment.web.answer import RECORDS, at_temperature, protocol_of, rounded
from thermoment.web.question import Question, RefusedError

SHOWN = 128
"""Replicas whose paths are simulated: the first of those that an answer is sampled from, in the same noise."""
_KEPT = 3
"""Questions whose paths are kept: 20 MB each for the machine of MNIST."""
_POINTS = 141
"""Places x at which a density is given."""

Array = NDArray[np.float64]
Paths = NDArray[np.float32]


class Recorded(NamedTuple):
    """Paths of all nodes of all reservoirs."""

    times: Array
    """(T,)"""
    x: dict[str, Paths]
    """by reservoir, (SHOWN, T, N) each"""


class Recorder:
    """Simulates the paths of a question once, and keeps those of the last few."""

    def __init__(self, machine: Classifier) -> None:
        self.machine = machine
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, Future[Recorded]] = OrderedDict()

    def of(self, question: Question) -> Recorded:
        """The paths; who asks for what is being simulated waits for it."""
        key = question.physics
        with self._lock:
            found = self._kept.get(key)
            if mine := found is None:
                found = self._kept[key] = Future()
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        assert found is not None
        if mine:
            try:
                found.set_result(_simulate(self.machine, question))
            except BaseException as error:
                found.set_exception(error)
                with self._lock:
                    self._kept.pop(key, None)
        return found.result()


def _simulate(machine: Classifier, question: Question) -> Recorded:
    protocol = protocol_of(machine, question, n_replicas=SHOWN)
    every = _every(protocol.n_steps)
    x, times = {}, np.zeros(0)
    for name, own in machine.reservoirs.items():
        reservoir = at_temperature(own, question.kT)
        try:
            times, paths = sample_paths(
                reservoir,
                question.image[None],
                protocol,
                nodes=range(reservoir.n_nodes),
                every=every,
                sample_ids=[question.sample_id],
            )
        except ValueError as error:
            raise RefusedError(422, str(error)) from None
        x[name] = paths[0].astype(np.float32)
    return Recorded(times, x)


def _every(n_steps: int) -> int:
    """Steps from one record to the next: the fewest that divide all steps into at most `RECORDS`."""
    return next(every for every in range(1, n_steps + 1) if n_steps % every == 0 and n_steps // every <= RECORDS)


def paths(recorder: Recorder, question: Question) -> dict[str, Any]:
    """What `POST /api/paths` gives: for every node x(t) of one replica, and the mean over the replicas."""
    found = recorder.of(question)
    M = min(question.n_replicas, SHOWN)
    return {
        "times": rounded(found.times, 6),
        "n_replicas": M,
        "one": {name: rounded(x[0], 3) for name, x in found.x.items()},
        "mean": {name: rounded(x[:M].mean(axis=0), 3) for name, x in found.x.items()},
    }


def node(recorder: Recorder, question: Question, name: str, number: int) -> dict[str, Any]:
    """What `POST /api/node` gives: the drive and the field of one node, its replicas, its densities.

    The field is what the other nodes push with in the mean, sum_j W_ij <x_j(t)>. The finite-time density is that of
    this node under drive and field; the Boltzmann density is where it would come to rest under those of t_final.
    """
    from thermoment._engines.meanfield.node import densities  # SciPy, for which the start of the server does not wait

    found = recorder.of(question)
    reservoir = at_temperature(recorder.machine.reservoirs[name], question.kT)
    M = min(question.n_replicas, SHOWN)
    h = float(reservoir.drive(question.image[None])[0, number])
    mean = found.x[name].mean(axis=0, dtype=np.float64)
    field = mean @ reservoir.W[number]
    x = found.x[name][:, :, number].astype(np.float64)
    at = _places(x, reservoir.dynamics, h + float(field[-1]))
    given: dict[str, Any] = {"density": None, "boltzmann": None}
    if reservoir.dynamics.kT > 0:
        given["density"] = rounded(densities(reservoir.dynamics, h + field, found.times, at), 4)
        given["boltzmann"] = rounded(reservoir.dynamics.boltzmann_density(at, h + float(field[-1])), 4)
    dynamics = reservoir.dynamics
    return {
        "reservoir": name,
        "node": number,
        "drive": round(h, 5),
        "field": rounded(field, 5),
        "times": rounded(found.times, 6),
        "paths": rounded(x[:M], 3),
        "mean": rounded(x[:M].mean(axis=0), 4),
        "x": rounded(at, 4),
        **given,
        "well": {"J2": dynamics.J2, "J3": dynamics.J3, "J4": dynamics.J4, "mu": dynamics.mu, "kT": dynamics.kT},
        "weights": rounded(reservoir.K[number], 4),
    }


def _places(x: Array, dynamics: Dynamics, drive: float) -> Array:
    """Even places over all that the replicas pass, the bottom of the well, and a fifth of it on either side."""
    bottom = float(dynamics.stationary_point(drive))
    low, high = min(float(x.min()), bottom, -0.3), max(float(x.max()), bottom, 0.3)
    return np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low), _POINTS)
