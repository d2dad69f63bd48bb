"""How a training of layers goes, by gradients or by a genetic algorithm: rounds without noise, then rounds with it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from thermoment._support.checks import check_function, check_integer, invalid, quoted
from thermoment.machines.neurons.layers import Array, Layered, first_moments
from thermoment.machines.neurons.sampled import Clock
from thermoment.protocol import Protocol
from thermoment.simulation import check_stable

Report = Callable[[int, float], None]
"""Called with the number of rounds done and the loss of the last one."""


@dataclass(frozen=True)
class Schedule:
    """What all trainings of layers are told, checked. A round is a step of the descent, or a generation.

    Args:
        protocol: when the machine is read; `Protocol(dt=0.02)` of infinitely many replicas for None.
        calm: rounds without noise, which come first.
        noisy: rounds with the noise of the machine's kT.
        n_replicas: P, of the estimate of a noisy round; even.
        seed: of the noise and all else.
        report: called after rounds, unless None.
        name: of the argument that `noisy` comes from, for errors.
        fewest: replicas, at least.
    """

    protocol: Protocol | None
    calm: int
    noisy: int
    n_replicas: int
    seed: int
    report: Report | None
    name: str = "steps"
    fewest: int = 4

    def __post_init__(self) -> None:
        check_integer("warm_up", self.calm, 0, 2**31)
        check_integer(self.name, self.noisy, 0, 2**31)
        check_integer("n_replicas", self.n_replicas, self.fewest, 2**20)
        if self.n_replicas % 2:
            raise invalid("n_replicas", "be even, since the replicas of a training come in pairs", self.n_replicas)
        check_integer("seed", self.seed, 0, 2**31)
        if self.report is not None:
            check_function("report", self.report, 0, 0.0)
        if self.reading.start != "zero":
            raise invalid("start", 'be "zero" for a training of layers', quoted(self.reading.start))

    @property
    def reading(self) -> Protocol:
        """The protocol, with the mean alone."""
        return first_moments(Protocol(dt=0.02, n_replicas=math.inf) if self.protocol is None else self.protocol)

    def phases(self, machine: Layered, inputs: Array) -> Iterator[tuple[Clock, int]]:
        """How paths are made, and for how many rounds: without noise, then with it.

        A step that is too long for the machine as it is under the inputs (S, D) is refused before the first of them.
        """
        check_stable(machine.reservoir, machine.reservoir.driven(inputs).strongest, self.reading)
        yield self.clock(machine, 1, noisy=False), self.calm
        yield self.clock(machine, self.n_replicas), self.noisy

    def clock(self, machine: Layered, n_replicas: int, noisy: bool = True) -> Clock:
        """The paths of P = n_replicas replicas; one without noise unless `noisy`."""
        dynamics, reading = machine.reservoir.dynamics, self.reading
        if not noisy or dynamics.kT == 0:
            dynamics, n_replicas = machine.at_temperature(0.0).reservoir.dynamics, 1
        return Clock(dynamics, reading.dt, reading.n_steps, n_replicas, float(reading.n_replicas))
