"""Mean work of the directed coupling, from the mean trajectories: sum_ij A_ij int <x_j> d<x_i>, A = (W - W^T) / 2.

With <x_i(t)> = sum_a a_ai phi_a(t) it is sum_ab D_ab a_a . A a_b, where D_ab = int phi_a' phi_b dt while the drive is
on. What the fluctuations of the nodes add is not in it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from thermoment._engines.meanfield.engine import MeanField, starting_ranges
from thermoment._engines.meanfield.grids import driven
from thermoment._engines.meanfield.iteration import MOST_ROUNDS
from thermoment._engines.meanfield.network import node_curves, solve_trajectories
from thermoment._engines.meanfield.tables import RANGES, node_tables
from thermoment._engines.task import Array, Task
from thermoment._support.compilation import REPRODUCIBLE

# Nodes of a chunk of samples, all of which a chunk is padded to.
_CHUNK = 2**15


class MeanWork(NamedTuple):
    """Of a task's samples, in the units of kT."""

    work: Array
    """(S,)"""
    drive: Array
    """h', the constant drive at which a node by itself has the mean that it has among the others: (S, N)"""


def mean_work(task: Task, engine: MeanField) -> MeanWork:
    """The work for every sample of a task that `engine.check` let pass. Cost: that of the moments, about."""
    work, drives = np.zeros(task.n_samples), np.zeros((task.n_samples, task.n_nodes))
    rows = max(1, _CHUNK // task.n_nodes)
    ranges = starting_ranges(task)
    for number, h_max in enumerate(RANGES):
        which = np.flatnonzero(ranges == number)
        if not which.size:
            continue
        tables = node_tables(task.dynamics, task.protocol.t_final, h_max, task.protocol.t_rest or 0.0)
        node = node_curves(tables, (1, 2), engine.dtype, engine.next_order)
        D, W = turns(tables.phi, tables.t).astype(engine.dtype), task.W.astype(engine.dtype)
        for samples in np.split(which, range(rows, len(which), rows)):
            h = np.zeros((rows, task.n_nodes), engine.dtype)
            h[: len(samples)] = task.drive[samples]
            found, drive = (np.asarray(part)[: len(samples)] for part in _solve(h, W, node, D))
            if not np.isfinite(found).all():
                raise RuntimeError(
                    "The coupling is too strong for the meanfield engine: its self-consistency did not converge in "
                    f"{MOST_ROUNDS} rounds. Sample instead, for example with engine='xla'."
                )
            work[samples], drives[samples] = found, drive
            if number + 1 < len(RANGES):
                ranges[samples[np.abs(drive).max(axis=1) > 1.02 * h_max]] += 1
    return MeanWork(work, drives)


def turns(phi: Array, t: Array) -> Array:
    """D_ab = int phi_a' phi_b dt while the drive is on, for functions (r, T + 1) that are linear between the t: (r, r).

    Only its antisymmetric part counts.
    """
    on = phi[:, driven(t) > 0]
    D = np.diff(on, axis=1) @ ((on[:, 1:] + on[:, :-1]) / 2).T
    return np.asarray((D - D.T) / 2)


def _work(h: jax.Array, W: jax.Array, node: object, D: jax.Array) -> tuple[jax.Array, jax.Array]:
    drive, a = solve_trajectories(h, W, node)  # type: ignore[arg-type]
    A = (W - W.T) / 2
    pushed = jnp.einsum("bsj,ij->bsi", a, A, precision="highest")
    return jnp.einsum("ab,asi,bsi->s", D, a, pushed, precision="highest"), drive


_solve = jax.jit(_work, compiler_options=REPRODUCIBLE)
