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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.network import MOST_ROUNDS, Solution, node, solution
from thermoment._engines.meanfield.replicas import Law, fluctuation, law
from thermoment._engines.meanfield.tables import RANGES, tables
from thermoment._engines.task import Array, Outcome, Report, Task
from thermoment._support.checks import invalid
from thermoment._support.compilation import REPRODUCIBLE
from thermoment._support.threads import cores
from thermoment.noise import round_keys
from thermoment.physics import Dynamics

# Nodes of all samples solved together: on a CPU a chunk's arrays should stay in its cache.
_CHUNK_ON_CPU, _CHUNK = 2**15, 2**20
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
    tasks_at_once = 1

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64"):
            raise invalid("dtype", 'be "float32" or "float64"', repr(self.dtype))

    def status(self) -> str:
        return f"JAX {jax.__version__} on {jax.local_devices()[0].device_kind} in {self.dtype}"

    def check(self, task: Task) -> None:
        check_limits(task.dynamics, float(np.abs(task.drive).max()), task.protocol.clip)

    def moments(self, task: Task, report: Report) -> Outcome:
        orders, S = task.protocol.orders, task.n_samples
        raw = np.empty((S, len(orders), task.n_nodes))
        solved: list[_Part] = []
        ranges = _ranges(task)
        for number, h_max in enumerate(RANGES):
            which = np.flatnonzero(ranges == number)
            for part in self._parts(task, which, h_max, raw) if which.size else ():
                # Samples whose nodes are driven beyond these tables by the others go to the next.
                ranges[part.beyond] += 1
                solved.append(part)
                report(sum(one.samples for one in solved))
        error = np.sqrt(sum(one.error for one in solved) / S) + _TABLES * np.sqrt(sum(one.square for one in solved) / S)
        spread = math.sqrt(sum(one.variance for one in solved) / S)
        if float(error[0]) > _TOLERATED * spread ** orders[0]:
            warnings.warn(
                f"The coupling is strong for the meanfield engine: its error in m_{orders[0]} is estimated at "
                f"{error[0]:.2g}, beside a spread of the nodes of {spread:.2g}. Sample instead, for example with "
                f"engine='xla'.",
                stacklevel=4,
            )
        return Outcome(raw, 0, {p: float(e) for p, e in zip(orders, error, strict=True)})

    def _parts(self, task: Task, which: NDArray[np.intp], h_max: float, raw: Array) -> Iterator["_Part"]:
        """Solves the samples `which` in chunks of one shape, with the tables up to `h_max`; moments go to `raw`."""
        on_cpu = jax.local_devices()[0].platform == "cpu"
        rows = max(1, (_CHUNK_ON_CPU if on_cpu else _CHUNK) // task.n_nodes)
        table = tables(task.dynamics, task.protocol.t_final, h_max)
        # Everything keeps the dtype asked for, but the draws need 64-bit integers.
        with jax.enable_x64(True):
            W = jnp.asarray(task.W.astype(self.dtype))
            one_node = node(table, _orders(task), self.dtype, self.next_order)
            one_law = law(table, self.dtype) if task.protocol.n_replicas != math.inf else None
            keys = jnp.asarray(round_keys(task.protocol.seed, task.stream))

        def one(samples: NDArray[np.intp]) -> _Part:
            h = np.zeros((rows, task.n_nodes), self.dtype)
            h[: len(samples)] = task.drive[samples]
            ids = np.zeros(rows, np.uint64)
            ids[: len(samples)] = task.sample_ids[samples]
            with jax.enable_x64(True):  # the setting belongs to the thread
                found = _solve(h, W, one_node)
                if one_law is not None:
                    found = _finite(found, one_node.sizes.orders, one_law, ids, keys, np.uint32(task.n_replicas))
                chunk = jax.device_get(_summed(found, one_node.sizes.orders, task.protocol.orders))
            return _keep(_Chunk(*(array[: len(samples)] for array in chunk)), samples, h_max, raw)

        chunks = np.split(which, range(rows, len(which), rows))
        # One chunk more than there are cores, which computes while another is taken in.
        with ThreadPoolExecutor(cores() + 1 if on_cpu else 2) as pool:
            yield from pool.map(one, chunks)


class _Chunk(NamedTuple):
    """What is read of a chunk's solution. Means are over its nodes."""

    moments: Any
    """(S, len(orders), N)"""
    strongest: Any
    """largest effective drive: (S,)"""
    error: Any
    """estimated mean square error: (S, len(orders))"""
    square: Any
    """mean square of the moments: (S, len(orders))"""
    variance: Any
    """mean variance of the nodes: (S,)"""


class _Part(NamedTuple):
    """What is kept of a chunk beside its moments; sums over its samples."""

    samples: int
    beyond: NDArray[np.intp]
    """samples that are left to the next tables"""
    error: Any
    square: Any
    variance: float


def _keep(chunk: _Chunk, samples: NDArray[np.intp], h_max: float, raw: Array) -> _Part:
    """Checks a chunk and writes its moments to their place."""
    if not np.isfinite(chunk.square).all():
        raise RuntimeError(
            "The coupling is too strong for the meanfield engine: its self-consistency did not converge in "
            f"{MOST_ROUNDS} rounds. Sample instead, for example with engine='xla'."
        )
    good = chunk.strongest <= 1.02 * h_max
    if h_max == RANGES[-1] and not good.all():
        raise RuntimeError(
            f"The coupling drives a node to {chunk.strongest.max():.4g}, beyond the {RANGES[-1]} of the meanfield "
            "engine. Sample instead, for example with engine='xla'."
        )
    raw[samples] = chunk.moments
    error, square, variance = (
        part[good].sum(axis=0, dtype=np.float64) for part in (chunk.error, chunk.square, chunk.variance)
    )
    return _Part(int(good.sum()), samples[~good], error, square, float(variance))


def _orders(task: Task) -> tuple[int, ...]:
    """What is computed: the orders asked for, and 1 and 2, from which spread and error follow."""
    return tuple(sorted({1, 2, *task.protocol.orders}))


def check_limits(dynamics: Dynamics, strongest: float, clip: float) -> None:
    """Refuses what the tables of a node cannot do: nodes that are too cold, driven too strongly, or clipped."""
    if dynamics.kT < _COLDEST:
        raise invalid("kT", f"be at least {_COLDEST} for the meanfield engine", dynamics.kT)
    if strongest > RANGES[-1]:
        raise invalid("drive", f"be at most {RANGES[-1]} for the meanfield engine", f"up to {strongest:.4g}")
    outermost = _outermost(dynamics, strongest)
    if clip < outermost:
        raise invalid("clip", f"be at least {outermost:.3g}, beyond all nodes: the meanfield engine has none", clip)


def _outermost(dynamics: Dynamics, h: float) -> float:
    """Where a node that is driven by h hardly ever is: six thermal widths outside its stationary point."""
    x = float(dynamics.stationary_point(h))
    stiffness = max(float(dynamics.curvature(x)), 2 * abs(dynamics.J2), math.sqrt(dynamics.J4 * dynamics.kT))
    return x + 6 * math.sqrt(dynamics.kT / stiffness)


def _ranges(task: Task) -> NDArray[np.intp]:
    """Which of `RANGES` each sample begins with, from its own drive alone: (S,)."""
    strongest = np.abs(task.drive).max(axis=1)
    field = np.sqrt((task.W**2).sum(axis=1).max()) * task.dynamics.stationary_point(strongest)
    return np.asarray(np.minimum(np.searchsorted(RANGES, strongest + 2 * field), len(RANGES) - 1))


_solve = jax.jit(solution, compiler_options=REPRODUCIBLE)


@partial(jax.jit, static_argnames="orders", compiler_options=REPRODUCIBLE)
def _finite(
    found: Solution, orders: tuple[int, ...], law: Law, ids: jax.Array, keys: jax.Array, n_replicas: jax.Array
) -> Solution:
    """The solution with the fluctuation of finitely many replicas."""
    mean, second = found.moments[:, 0], found.moments[:, 1]
    noise = fluctuation(found.drive, mean, second, orders, law, ids, keys, n_replicas)
    return found._replace(moments=found.moments + noise)


@partial(jax.jit, static_argnames=("orders", "wanted"), compiler_options=REPRODUCIBLE)
def _summed(found: Solution, orders: tuple[int, ...], wanted: tuple[int, ...]) -> _Chunk:
    """What is read of the solution, for the orders that are wanted."""
    columns = [orders.index(p) for p in wanted]
    moments, error = (jnp.stack([part[:, k] for k in columns], axis=1) for part in (found.moments, found.error))
    variance = jnp.maximum(found.moments[:, 1] - found.moments[:, 0] ** 2, 0)
    strongest = jnp.abs(found.drive).max(axis=-1)
    return _Chunk(moments, strongest, error, (moments**2).mean(axis=-1), variance.mean(axis=-1))
