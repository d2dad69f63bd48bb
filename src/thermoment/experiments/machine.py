"""Experiments with one of the other machines: layers of neurons, trajectories, generation, signals.

Such an experiment has the name of a `machine` and a table of its `settings`, all of which are written in its TOML file:
the shipped ones say what each of them is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from thermoment._support.checks import (
    check_choice,
    check_integer,
    check_integers,
    check_not_negative,
    check_positive,
    invalid,
    quoted,
)
from thermoment.experiments.settings import check_name
from thermoment.experiments.toml import build
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol, whole_steps

ENGINES = ("auto", "reference", "xla", "native", "cuda")
"""Engines that sample. These machines are read from sampled paths."""
_MANY = 10**6
_FEWEST = {"seed": 0, "warm_up": 0, "washout": 0, "paths": 4, "samples": 2, "machines": 2, "points": 2}
_MOST = {"n_train": 1297, "n_test": 500, "readings": 40, "seed": 2**31, "n_hidden": 10**4, "n_nodes": 10**4}
_MAY_BE_ZERO = ("level", "ridge", "s_W", "s_K", "s_b", "echo_input", "echo_bias")


@dataclass(frozen=True)
class Settings:
    """What all settings obey: integers from 1 to a million and positive numbers, with the exceptions above."""

    dynamics: Dynamics
    seed: int

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if isinstance(value, int):
                check_integer(name, value, _FEWEST.get(name, 1), _MOST.get(name, _MANY))
            elif isinstance(value, float):
                (check_not_negative if name in _MAY_BE_ZERO else check_positive)(name, value)
            elif isinstance(value, Protocol) and not 2 <= value.n_replicas <= _MANY:
                raise invalid("protocol.n_replicas", f"be an integer from 2 to {_MANY}", value.n_replicas)


@dataclass(frozen=True)
class Neurons(Settings):
    """Layers of neurons learn cos(2 pi z) by gradients through their means at t_final, and are read at other times."""

    protocol: Protocol
    widths: tuple[int, ...]
    points: int
    warm_up: int
    steps: int
    batch_size: int
    paths: int
    learning_rate: float
    training_dt: float
    times: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers("widths", self.widths, 1, _MOST["n_nodes"])
        _check_steps("t_final", self.protocol.t_final, self.training_dt)
        for time in self.times:
            _check_steps("times", time, self.protocol.dt)


@dataclass(frozen=True)
class Trajectories(Settings):
    """A student is fitted by a linear solve to the fields that a teacher wants for the 8x8 digits."""

    protocol: Protocol
    n_hidden: int
    hidden: float
    output: float
    epochs: int
    batch_size: int
    learning_rate: float
    level: float
    n_train: int
    n_test: int
    noises: int


@dataclass(frozen=True)
class Generation(Settings):
    """A network makes images of a few of the 8x8 digits out of thermal noise."""

    digits: tuple[int, ...]
    n_hidden: int
    ridge: float
    duration: float
    readings: int
    contrast: float
    samples: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.digits or len(set(check_integers("digits", self.digits, 0, 9))) < len(self.digits):
            raise invalid("digits", "name at least one class, each once", list(self.digits))


@dataclass(frozen=True)
class Signals(Settings):
    """Reservoirs follow NARMA-10, read by a ridge readout of their moments, beside echo-state networks."""

    protocol: Protocol
    n_nodes: int
    s_W: float
    s_K: float
    s_b: float
    hold: float
    washout: int
    train: int
    test: int
    ridge: float
    machines: int
    echo_radius: float
    echo_leak: float
    echo_input: float
    echo_bias: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_steps("hold", self.hold, self.protocol.dt)


KINDS: Mapping[str, type[Settings]] = {
    "neurons": Neurons,
    "trajectories": Trajectories,
    "generation": Generation,
    "signals": Signals,
}
"""The settings of each machine."""


@dataclass(frozen=True)
class MachineExperiment:
    """Everything that a run of one of these machines depends on, except the engine's device."""

    name: str
    machine: str
    settings: Any
    """of the class in KINDS"""
    description: str = ""
    engine: str = "auto"

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_choice("engine", self.engine, ENGINES)
        if not isinstance(self.settings, KINDS[check_choice("machine", self.machine, tuple(KINDS))]):
            raise invalid("settings", f"be those of the machine {self.machine}", quoted(self.settings))

    def refuse(self, **given: Any) -> None:
        """Refuses what only an experiment with reservoirs and readouts can be given."""
        for argument, value in given.items():
            if value not in (None, ()):
                must = f"be left out for {self.name}, which is one task of this process on data that is built in"
                raise invalid(argument, must, quoted(value))


def from_table(table: Mapping[str, Any]) -> MachineExperiment:
    """The experiment in a parsed TOML table."""
    machine = check_choice("machine", table["machine"], tuple(KINDS))
    settings = build(KINDS[machine], table.get("settings", {}), "settings")
    built = build(MachineExperiment, {**table, "settings": settings})
    assert isinstance(built, MachineExperiment)
    return built


def _check_steps(argument: str, time: float, dt: float) -> None:
    if whole_steps(check_positive(argument, time), dt) is None:
        raise invalid(argument, f"be a whole number of steps of {dt:g}", time)
