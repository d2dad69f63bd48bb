"""What a plot is given, taken apart: the well, the reservoir and the protocol of a machine, or a clear refusal."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, invalid, quoted
from thermoment.machines.classifier import Classifier
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir

Array = NDArray[np.float64]
MOST_CURVES = 6
"""Drives or inputs in one plot, each with a colour and a stroke of its own."""


def dynamics_of(machine: Any, node: int | None = None) -> Dynamics:
    """The well of a Dynamics, a Reservoir or a Classifier; where its nodes differ, that of one of them."""
    if isinstance(machine, Dynamics | Reservoir | Classifier):
        found = machine if isinstance(machine, Dynamics) else reservoir_of(machine).dynamics
        if node is None or isinstance(machine, Dynamics):
            found.check_single("this plot")
        return found if node is None else found.node(node)
    raise invalid("machine", "be a thermoment.Dynamics, Reservoir or Classifier", quoted(machine))


def reservoir_of(machine: Any, name: str | None = None) -> Reservoir:
    """A Reservoir, or that of a Classifier with this name: its first unless one is named."""
    if isinstance(machine, Reservoir):
        if name is not None:
            raise invalid("reservoir", "be left out where the machine is a single one", quoted(name))
        return machine
    if not isinstance(machine, Classifier):
        raise invalid("machine", "be a thermoment.Reservoir or Classifier", quoted(machine))
    if name is not None and name not in machine.reservoirs:
        raise invalid("reservoir", f"be one of {', '.join(machine.reservoirs)}", quoted(name))
    return machine.reservoirs[name] if name is not None else next(iter(machine.reservoirs.values()))


def protocol_of(machine: Any, protocol: Protocol | None, n_replicas: int | None = None) -> Protocol:
    """The protocol given; else the Classifier's, else the default, with `n_replicas` where that is given."""
    if protocol is None:
        found = machine.protocol if isinstance(machine, Classifier) else Protocol()
        return found if n_replicas is None else replace(found, n_replicas=n_replicas)
    if not isinstance(protocol, Protocol):
        raise invalid("protocol", "be a thermoment.Protocol", quoted(protocol))
    return protocol


def typical_drives(dynamics: Dynamics) -> tuple[float, ...]:
    """Drives that would move a harmonic node by 0, 2 and 6 thermal widths, to one digit."""
    if dynamics.kT <= 0:
        return (0.0, 1.0, 3.0)
    width = float(np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    return (0.0, *(float(f"{factor * dynamics.kT / width:.1g}") for factor in (2, 6)))


def drives_for(dynamics: Dynamics, drives: ArrayLike | None) -> Array:
    """The drives asked for, (H,) with H at most `MOST_CURVES`, or typical ones."""
    if drives is None:
        return np.array(typical_drives(dynamics))
    found = check_array("drives", np.atleast_1d(np.asarray(drives)), ("H",))
    if len(found) > MOST_CURVES:
        raise invalid("drives", f"be at most {MOST_CURVES} numbers, a curve each", f"{len(found)} of them")
    return found


def every_for(n_steps: int, records: int = 200) -> int:
    """How many steps lie between two records of a path, so that there are about `records` of them."""
    return next(every for every in range(max(1, n_steps // records), 0, -1) if n_steps % every == 0)


def uncoupled(drives: Array, dynamics: Dynamics) -> Reservoir:
    """A node by itself under each of the drives (H,), for an input of 1."""
    return Reservoir(np.zeros((len(drives), len(drives))), drives[:, None], np.zeros(len(drives)), dynamics)


def refuse(machine: Any, **given: Any) -> None:
    """Refuses arguments that mean nothing for this kind of machine."""
    for argument, value in given.items():
        if value is not None:
            raise invalid(argument, f"be left out where the machine is a {type(machine).__name__}", quoted(value))
