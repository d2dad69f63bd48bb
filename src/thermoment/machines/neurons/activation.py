"""The activation of one neuron: its mean position <x> under an input I, in equilibrium or at the time it is read."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine
from thermoment._support.checks import check_array, check_numbers, invalid, quoted
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate


def activation(
    dynamics: Dynamics, drives: ArrayLike, protocol: Protocol | None = None, *, engine: str | Engine | None = None
) -> NDArray[np.float64]:
    """<x> of a node by itself under each drive: its activation function.

    Args:
        dynamics: the well, mobility and temperature of the neuron.
        drives: the inputs I, of any shape.
        protocol: when the neuron is read. Unless given, it is in equilibrium: <x> is a quadrature of Boltzmann's law.
            With n_replicas = math.inf, <x> at t_final is that of infinitely many replicas, by the engine meanfield;
            else it is the mean over the replicas.
        engine: as for `simulate`; meanfield for n_replicas = math.inf and "auto" for a finite number, unless given.

    Returns:
        <x>, of the shape of `drives`.
    """
    if not isinstance(dynamics, Dynamics):
        raise invalid("dynamics", "be a thermoment.Dynamics", quoted(dynamics))
    if not (protocol is None or isinstance(protocol, Protocol)):
        raise invalid("protocol", "be a thermoment.Protocol, or None for equilibrium", quoted(protocol))
    given = check_numbers("drives", drives)
    h = check_array("drives", given.reshape(-1), ("S",))
    if protocol is None:
        if engine is not None:
            raise invalid(
                "engine", "be left out where there is no protocol: equilibrium is not simulated", quoted(engine)
            )
        return np.reshape(dynamics.boltzmann_moments(h, (1,))[0], given.shape)
    node = Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), dynamics)
    chosen = engine or ("meanfield" if protocol.n_replicas == math.inf else "auto")
    return simulate(node, h[:, None], protocol, engine=chosen).order(1)[:, 0].reshape(given.shape)
