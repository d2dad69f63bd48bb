"""How far every node is from its stationary moments when it is read at t_final."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import invalid, quoted
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

Array = NDArray[np.float64]

# The mean field in equilibrium is iterated until no drive moves by more than this; and at most how often.
_TOLERANCE, _MOST_ROUNDS = 1e-9, 1000
# Drives at which <x> in equilibrium is tabulated.
_POINTS = 2001
# _LONG: wait 25 slowest relaxation times; what is left is exp(-25) = 1e-11. _MOST: give up if that wait exceeds 50
# diffusion times (a harmonic well needs 25): the node then hops between wells too rarely.
_LONG, _MOST = 25.0, 50.0


class Relaxation(NamedTuple):
    """Moments at t_final beside the stationary ones."""

    orders: tuple[int, ...]
    """the orders p of the moments E[x^p]"""
    moments: Array
    """at t_final: (S, len(orders), N)"""
    stationary: Array
    """in the long run: (S, len(orders), N)"""
    second_order: bool
    """whether `stationary` includes what is of second order in W, as `moments` do"""

    @property
    def distance(self) -> Array:
        """moments - stationary: (S, len(orders), N)."""
        return self.moments - self.stationary


def distance_to_equilibrium(reservoir: Reservoir, inputs: ArrayLike, protocol: Protocol | None = None) -> Relaxation:
    """E[x^p] of every node at t_final and in the long run, both in the limit of many replicas.

    Args:
        reservoir: N nodes with D inputs.
        inputs: (S, D).
        protocol: t_final and the orders p; the default is `Protocol()`. Its n_replicas is not used.

    Returns moments, stationary moments and their difference, (S, len(orders), N) each.

    Both are computed by the `meanfield` engine, the stationary moments at a time when every node has forgotten its
    start. In a cold double well that takes too long: there the stationary moments are those of Boltzmann's law of each
    node in the mean field of the others, h_i + sum_j W_ij <x_j>, which lacks what is of second order in W
    (`second_order` is False). A coupling too strong for either is an error.
    """
    protocol = Protocol() if protocol is None else protocol
    if not isinstance(protocol, Protocol):
        raise invalid("protocol", "be a thermoment.Protocol", quoted(protocol))
    protocol = replace(protocol, n_replicas=math.inf)
    moments = simulate(reservoir, inputs, protocol, engine="meanfield").raw
    wait = _LONG / reservoir.dynamics.slowest_rate()
    if wait <= _MOST * _diffusion_time(reservoir.dynamics):
        steps = math.ceil(wait / protocol.dt)
        late = replace(protocol, t_final=wait, dt=wait / steps, start="zero", t_rest=None)
        stationary = simulate(reservoir, inputs, late, engine="meanfield").raw
        return Relaxation(protocol.orders, moments, stationary, True)
    drive = stationary_drive(reservoir.drive(inputs), reservoir.W, reservoir.dynamics)
    stationary = np.moveaxis(reservoir.dynamics.boltzmann_moments(drive, protocol.orders), 0, 1)
    return Relaxation(protocol.orders, moments, stationary, False)


def _diffusion_time(dynamics: Dynamics) -> float:
    """spread^2 / (mu kT) of an undriven node in equilibrium."""
    return float(dynamics.boltzmann_moments(0.0, [2])[0]) / (dynamics.mu * dynamics.kT)


def stationary_drive(h: Array, W: Array, dynamics: Dynamics) -> Array:
    """The self-consistent drives h_i + sum_j W_ij <x_j>, <x_j> in equilibrium at the drive of node j: (S, N)."""
    if not W.any():
        return h
    strongest = float(np.abs(h).max())
    farthest = float(np.abs(dynamics.stationary_point(np.array([-strongest, strongest]))).max())
    largest = strongest + float(np.abs(W).sum(axis=1).max()) * (farthest + 1)
    scale = float(dynamics.kT / np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    # The mean of a well that does not lean is odd in the drive, so drives of one sign are enough.
    end = np.arcsinh(2 * largest / scale)
    u = np.linspace(-end, end, 2 * _POINTS - 1) if dynamics.J3 else np.linspace(0, end, _POINTS)
    mean = dynamics.boltzmann_moments(scale * np.sinh(u), [1])[0]
    drive = h
    for _ in range(_MOST_ROUNDS):
        sign = 1.0 if dynamics.J3 else np.sign(drive)
        x = sign * np.interp(np.arcsinh(sign * drive / scale), u, mean)
        new = h + x @ W.T
        if np.abs(new - drive).max() < _TOLERANCE:
            return np.asarray(new)
        drive = new
    raise RuntimeError("The coupling is too strong: the mean field in equilibrium is not self-consistent.")
