"""The deterministic engine: moments of the coupled nodes without sampling, from the tables of one node.

An approximation in the coupling, not in the noise: exact for uncoupled nodes, second order in W otherwise
(docs/theory.md), with an estimate of its error for every order. In time it is the continuous process, dt -> 0.
"""

import math
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment.engines import Array, Outcome, Report, Task, cores
from thermoment.engines.coupled import MOST_ROUNDS, Node, Solution, node, solution
from thermoment.engines.finite import fluctuation
from thermoment.engines.tables import RANGES, tables
from thermoment.noise import round_keys
from thermoment.physics import Dynamics
from thermoment.validation import invalid

# Nodes of all samples solved together: on a CPU a chunk's arrays should stay in its cache.
_CHUNK_ON_CPU, _CHUNK = 2**13, 2**20
# Of an error estimate beyond this part of the nodes' spread the user is warned: sampling 1/0.02^2 = 2500 replicas
# does as well.
_TOLERATED = 0.02
# Every node's tables resolve this temperature; below, the density of a driven node is too narrow for the cells.
_COLDEST = 1e-3
# The error of the tables themselves, in units of the moments' size.
_TABLES = 1e-5


@dataclass(frozen=True)
class MeanField:
    """Mean field with the fluctuating field and the reaction of second order, in float32 (default) or float64."""

    dtype: str = "float32"
    next_order: bool = True
    """False leaves plain mean field, to show what the rest is worth; the error estimate does not cover it."""
    name = "meanfield"

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64"):
            raise invalid("dtype", 'be "float32" or "float64"', repr(self.dtype))

    def status(self) -> str:
        return f"JAX {jax.__version__} on {jax.local_devices()[0].device_kind} in {self.dtype}"

    def check(self, task: Task) -> None:
        dynamics, clip = task.dynamics, task.protocol.clip
        if dynamics.kT < _COLDEST:
            raise invalid("kT", f"be at least {_COLDEST} for the meanfield engine", dynamics.kT)
        strongest = float(np.abs(task.drive).max())
        if strongest > RANGES[-1]:
            raise invalid("drive", f"be at most {RANGES[-1]} for the meanfield engine", f"up to {strongest:.4g}")
        outermost = _outermost(dynamics, strongest)
        if clip < outermost:
            raise invalid("clip", f"be at least {outermost:.3g}, beyond all nodes: the meanfield engine has none", clip)

    def moments(self, task: Task, report: Report) -> Outcome:
        orders = task.protocol.orders
        raw = np.empty((task.n_samples, len(orders), task.n_nodes))
        squared = np.zeros(len(orders))
        spread = 0.0
        done = 0
        for part, found in self._chunks(task):
            wanted = [_orders(task).index(p) for p in orders]
            raw[part] = found.moments[:, wanted]
            squared += found.error[:, wanted].sum(axis=0)
            spread += float((found.moments[:, 1] - found.moments[:, 0] ** 2).clip(0).mean(axis=-1).sum())
            done += len(part)
            report(done)
        size = np.sqrt((raw**2).mean(axis=(0, 2)))
        error = np.sqrt(squared / task.n_samples) + _TABLES * size
        spread = math.sqrt(spread / task.n_samples)
        if float(error[0]) > _TOLERATED * spread ** orders[0]:
            warnings.warn(
                f"The coupling is strong for the meanfield engine: its error in m_{orders[0]} is estimated at "
                f"{error[0]:.2g}, beside a spread of the nodes of {spread:.2g}. Sample instead, for example with "
                f"engine='xla'.",
                stacklevel=4,
            )
        return Outcome(raw, 0, {p: float(e) for p, e in zip(orders, error, strict=True)})

    def _chunks(self, task: Task) -> Iterator[tuple[NDArray[np.intp], Solution]]:
        """Solves the task in chunks of one shape: the samples of each, and what was found for them."""
        on_cpu = jax.local_devices()[0].platform == "cpu"
        rows = max(1, (_CHUNK_ON_CPU if on_cpu else _CHUNK) // task.n_nodes)
        ranges, orders = _ranges(task), _orders(task)
        # Everything keeps the dtype asked for, but the draws need 64-bit integers.
        with jax.enable_x64(True):
            W = jnp.asarray(task.W.astype(self.dtype))
            keys = jnp.asarray(round_keys(task.protocol.seed, task.stream))

        def one(job: tuple[NDArray[np.intp], Node]) -> tuple[NDArray[np.intp], Solution]:
            part, one_node = job
            h = np.zeros((rows, task.n_nodes), self.dtype)
            h[: len(part)] = task.drive[part]
            ids = np.zeros(rows, np.uint64)
            ids[: len(part)] = task.sample_ids[part]
            with jax.enable_x64(True):  # the setting belongs to the thread
                found = _solve(h, W, one_node)
                if task.protocol.n_replicas != math.inf:
                    found = _finite(found, one_node, ids, keys, np.uint32(task.n_replicas), orders)
                found = Solution(*(array[: len(part)] for array in jax.device_get(found)))
            _check_solution(found)
            return part, found

        jobs = []
        for h_max in np.unique(ranges):
            table = tables(task.dynamics, task.protocol.t_final, float(h_max))
            with jax.enable_x64(True):
                one_node = node(table, orders, self.dtype, self.next_order)
            which = np.flatnonzero(ranges == h_max)
            jobs += [(part, one_node) for part in np.split(which, range(rows, len(which), rows))]
        with ThreadPoolExecutor(cores() if on_cpu else 2) as pool:
            yield from pool.map(one, jobs)


def _orders(task: Task) -> tuple[int, ...]:
    """What is computed: the orders asked for, and 1 and 2, from which spread and error follow."""
    return tuple(sorted({1, 2, *task.protocol.orders}))


def _outermost(dynamics: Dynamics, h: float) -> float:
    """Where a node that is driven by h hardly ever is: six thermal widths outside its stationary point."""
    x = float(dynamics.stationary_point(h))
    stiffness = max(float(dynamics.curvature(x)), 2 * abs(dynamics.J2), math.sqrt(dynamics.J4 * dynamics.kT))
    return x + 6 * math.sqrt(dynamics.kT / stiffness)


def _ranges(task: Task) -> Array:
    """The range of tables for each sample, from its own drive alone: (S,)."""
    strongest = np.abs(task.drive).max(axis=1)
    field = np.sqrt((task.W**2).sum(axis=1).max()) * task.dynamics.stationary_point(strongest)
    found = np.searchsorted(RANGES, strongest + 2 * field)
    return np.asarray(np.array(RANGES)[np.minimum(found, len(RANGES) - 1)])


def _check_solution(found: Solution) -> None:
    if not np.isfinite(found.moments).all():
        raise RuntimeError(
            "The coupling is too strong for the meanfield engine: its self-consistency did not converge in "
            f"{MOST_ROUNDS} rounds. Sample instead, for example with engine='xla'."
        )
    if np.abs(found.drive).max() > 1.02 * RANGES[-1]:
        raise RuntimeError(
            f"The coupling drives a node to {np.abs(found.drive).max():.4g}, beyond the {RANGES[-1]} of the "
            "meanfield engine. Sample instead, for example with engine='xla'."
        )


_solve = jax.jit(solution)


@partial(jax.jit, static_argnames="orders")
def _finite(
    found: Solution, one: Node, ids: jax.Array, keys: jax.Array, n_replicas: jax.Array, orders: tuple[int, ...]
) -> Solution:
    """The solution with the fluctuation of finitely many replicas."""
    mean, second = found.moments[:, 0], found.moments[:, 1]
    noise = fluctuation(found.drive, mean, second, orders, one, ids, keys, n_replicas)
    return found._replace(moments=found.moments + noise)
