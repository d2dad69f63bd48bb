"""The energy account without sampling: means from the moments of the `meanfield` engine, with estimates of their error.

Work of switching and the energy of single nodes are sums of moments. The coupling adds products of means, x . S x and
int (A x) dx over the mean trajectories, and what correlated fluctuations give (pairs.py).
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.network import ERROR_OF_SECOND
from thermoment._engines.meanfield.work import mean_work
from thermoment._engines.task import Task
from thermoment._support.checks import invalid
from thermoment.physics import integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import prepare, readings
from thermoment.thermodynamics.account import Account, Array, Found, account_of, symmetric_part
from thermoment.thermodynamics.pairs import pairs

_ORDERS = (1, 2, 4)


class _Coupled(NamedTuple):
    """What the coupling adds on average, in the units of kT: (S,) each."""

    path: Array
    """work of the antisymmetric part of W"""
    turned: Array
    """that part of it which is of second order in the fluctuations"""
    held: Array
    """<x . S x> / 2 of correlated fluctuations at t_final, less the same when the drive comes"""
    closure: Array
    """rms relative error of the closure in the nodes' variance, from their true variance where it is given"""


def path_work(reservoir: Reservoir, inputs: ArrayLike, protocol: Protocol, engine: MeanField) -> Array:
    """work_path of inputs (S, D) on average, in units of kT: (S,)."""
    if integrability(reservoir.W).integrable:
        return np.zeros(len(np.asarray(inputs)))
    task = prepare(reservoir, inputs, replace(protocol, n_replicas=math.inf))
    engine.check(task)
    return _coupled(task, engine).path / reservoir.dynamics.kT


def _coupled(task: Task, engine: MeanField, variance: Array | None = None) -> _Coupled:
    W, S, protocol = task.W, symmetric_part(task.W), task.protocol
    mean = mean_work(task, engine)
    tables = pairs(task.dynamics, protocol.t_final, protocol.t_rest or 0.0, float(np.abs(mean.drive).max()))
    held = tables.summed(tables.covariance, S * W, mean.drive) - tables.at_rest * float((S * W).sum())
    turned = tables.summed(tables.work, (W - S) * W, mean.drive)
    off = np.zeros_like(mean.drive) if variance is None else tables.variances(mean.drive) / variance - 1
    return _Coupled(mean.work + turned, turned, held, np.sqrt((off**2).mean(axis=1)))


def averages(reservoir: Reservoir, inputs: ArrayLike, protocol: Protocol, engine: MeanField) -> Found:
    """The account of inputs (S, D): everything in the limit dt -> 0 and M -> infinity.

    The mean of x(0) is zero at either start, so switching the drive on takes nothing on average.
    """
    dynamics, kT = reservoir.dynamics, reservoir.dynamics.kT
    task = prepare(reservoir, inputs, replace(protocol, n_replicas=math.inf, orders=_ORDERS))
    if dynamics.J3 != 0 or dynamics.n_nodes is not None:
        must = "have J3 = 0 and nodes that are alike for an account without sampling; xla and reference sample any"
        raise invalid("dynamics", must, dynamics)
    (moments,), _ = readings(task, engine)
    h, W, S = task.drive, task.W, symmetric_part(task.W)
    m1, m2, m4 = (moments.order(p) for p in _ORDERS)
    off, none = (h * m1).sum(axis=1), np.zeros(len(h))
    variance = m2 - m1**2
    coupled = _coupled(task, engine, variance)
    before = 0.0 if protocol.t_rest is None else _energy_at_rest(reservoir, protocol, engine)
    wells = (dynamics.J2 * m2 + dynamics.J4 * m4).sum(axis=1) - before
    energy = wells - off - 0.5 * ((m1 @ S) * m1).sum(axis=1) - coupled.held
    found = account_of(none, off, coupled.path, energy, kT)

    # Errors of m1 differ in sign from node to node; those of m2 and m4 pull all wells the same way. What is left out of
    # the second order is about k^2 of it (`solve_network` says what k is; terms of third order differ in sign from pair
    # to pair), and what the closure makes of the variance.
    e1, e2, e4 = ((moments.info.error or {})[p] for p in _ORDERS)
    k2 = (W**2).sum() / len(W) * ((variance / kT) ** 2).mean(axis=1)
    second = ERROR_OF_SECOND * k2 + coupled.closure
    off_error = e1 * np.linalg.norm(h, axis=1)
    path_error = np.hypot(2 * e1 * np.linalg.norm(m1 @ (W - S).T, axis=1), second * coupled.turned)
    n_nodes = len(W)
    wells_error = n_nodes * (abs(dynamics.J2) * e2 + dynamics.J4 * e4)
    energy_error = np.sqrt(
        wells_error**2 + off_error**2 + (e1 * np.linalg.norm(m1 @ S, axis=1)) ** 2 + (second * coupled.held) ** 2
    )
    errors = (none, off_error, path_error, np.hypot(energy_error, path_error), energy_error)
    cycle_error = np.hypot(off_error, path_error)
    estimate = Account(*(part / kT for part in (*errors, cycle_error)))
    return Found(found, estimate, None, engine.name)


def _energy_at_rest(reservoir: Reservoir, protocol: Protocol, engine: MeanField) -> float:
    """sum_i <J2 x_i^2 + J4 x_i^4> when the drive comes."""
    N, dynamics = reservoir.n_nodes, reservoir.dynamics
    undriven = replace(reservoir, K=np.zeros((N, 1)), b=np.zeros(N))
    assert protocol.t_rest is not None
    rest = replace(protocol, t_final=protocol.t_rest, start="zero", t_rest=None, n_replicas=math.inf, orders=_ORDERS)
    (moments,), _ = readings(prepare(undriven, np.zeros((1, 1)), rest), engine)
    return float((dynamics.J2 * moments.order(2) + dynamics.J4 * moments.order(4)).sum())
