"""The terms of the energy account of one input, each in units of kT.

    E(x; h) = sum_i J2 x_i^2 + J4 x_i^4 - h_i x_i - x . S x / 2          S = (W + W^T) / 2
    F = -dE/dx + A x                                                     A = (W - W^T) / 2

S has a potential and is part of the energy; A has none, and what it does on the nodes is work.

    work_on   = -h . x(0)               the drive comes where the nodes are
    work_off  = h . x(t_final)          and goes
    work_path = int (A x) o dx          the directed part of the coupling, while the drive is on
    energy    = E(x(t_final); h) - E(x(0); h)
    heat      = work_path - energy      the first law: what the bath gets while the drive is on
    cycle     = work_on + work_off + work_path
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment.physics import Dynamics

Array = NDArray[np.float64]


class Account(NamedTuple):
    """The terms of the account, in units of kT: (S,) each, or (S, M) for single replicas."""

    work_on: Array
    """work that it takes to switch the drive on"""
    work_off: Array
    """work that it takes to switch the drive off at t_final"""
    work_path: Array
    """work of the antisymmetric part of W on the nodes while the drive is on"""
    heat: Array
    """heat given off to the bath while the drive is on"""
    energy: Array
    """change of the energy E while the drive is on"""
    cycle: Array
    """work_on + work_off + work_path: what a whole cycle takes"""

    @property
    def entropy(self) -> Array:
        """Entropy that the bath gains while the drive is on, in units of k: the heat over kT."""
        return self.heat


class Found(NamedTuple):
    """The account of a reservoir's inputs, as an engine found it."""

    mean: Account
    """over the replicas: (S,)"""
    error: Account
    """standard error of the mean; without sampling an estimate of its error: (S,)"""
    replicas: Account | None
    """of every replica, (S, M), where it was asked for"""
    engine: str


def account_of(work_on: Array, work_off: Array, work_path: Array, energy: Array, kT: float) -> Account:
    """The account from terms in the units of kT."""
    on, off, path, rise = (term / kT for term in (work_on, work_off, work_path, energy))
    return Account(on, off, path, path - rise, rise, on + off + path)


def switching_work(drive: NDArray[Any], mean: NDArray[Any], kT: float) -> Array:
    """work_on + work_off on average, in units of kT: (...), from h and <x(t_final)>, (..., N) each.

    Switching on takes nothing on average, at either start of a protocol: there <x(0)> = 0.
    """
    return np.asarray((np.asarray(drive, np.float64) * mean).sum(axis=-1) / kT)


def symmetric_part(W: Array) -> Array:
    """S = (W + W^T) / 2: (N, N)."""
    return (W + W.T) / 2


def energy_of(x: Array, h: Array, S: Array, dynamics: Dynamics) -> Array:
    """E(x; h) for x (..., N), h that broadcasts with it, and a symmetric coupling S (N, N): (...)."""
    return np.asarray(dynamics.potential(x, h).sum(axis=-1) - 0.5 * ((x @ S) * x).sum(axis=-1))
