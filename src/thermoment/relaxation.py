"""How far every node still is from equilibrium when it is read."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment.physics import Dynamics
from thermoment.reservoir import Protocol, Reservoir
from thermoment.simulation import simulate

Array = NDArray[np.float64]

_TOLERANCE, _MOST_ROUNDS = 1e-9, 1000
# Drives at which <x> in equilibrium is tabulated, in units of kT over the thermal spread.
_POINTS = 2001


class Relaxation(NamedTuple):
    """Moments at t_final beside those of equilibrium: (S, len(orders), N) each."""

    orders: tuple[int, ...]
    moments: Array
    stationary: Array

    @property
    def distance(self) -> Array:
        """moments - stationary."""
        return self.moments - self.stationary


def distance_to_equilibrium(reservoir: Reservoir, inputs: ArrayLike, protocol: Protocol | None = None) -> Relaxation:
    """E[x^p] of every node at t_final and in equilibrium, for inputs (S, D), both in the limit of many replicas.

    The moments are those of the `meanfield` engine. The stationary ones are Boltzmann's for the node in the mean field
    of the others, h_i + sum_j W_ij <x_j>, self-consistently: exact without coupling, up to second order in W with it.
    A coupling too strong for either is an error.
    """
    protocol = replace(protocol or Protocol(), n_replicas=math.inf)
    moments = simulate(reservoir, inputs, protocol, engine="meanfield").raw
    drive = _stationary_drive(reservoir.drive(inputs), reservoir.W, reservoir.dynamics)
    stationary = reservoir.dynamics.boltzmann_moments(drive, protocol.orders)
    return Relaxation(protocol.orders, moments, np.moveaxis(stationary, 0, 1))


def _stationary_drive(h: Array, W: Array, dynamics: Dynamics) -> Array:
    """h_i + sum_j W_ij <x_j> with <x_j> in equilibrium at its own such drive: (S, N)."""
    if not W.any():
        return h
    largest = float(
        np.abs(h).max() + np.abs(W).sum(axis=1).max() * (abs(dynamics.stationary_point(np.abs(h).max())) + 1)
    )
    scale = float(dynamics.kT / np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    u = np.linspace(0, np.arcsinh(2 * largest / scale), _POINTS)
    mean = dynamics.boltzmann_moments(scale * np.sinh(u), [1])[0]
    drive = h
    for _ in range(_MOST_ROUNDS):
        x = np.sign(drive) * np.interp(np.arcsinh(np.abs(drive) / scale), u, mean)
        new = h + x @ W.T
        if np.abs(new - drive).max() < _TOLERANCE:
            return np.asarray(new)
        drive = new
    raise RuntimeError("The coupling is too strong: the mean field in equilibrium is not self-consistent.")
