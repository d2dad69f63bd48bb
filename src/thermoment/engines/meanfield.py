"""The deterministic engine: moments of the coupled nodes without sampling, from the tables of one node.

An approximation in the coupling, not in the noise: exact for uncoupled nodes, second order in W otherwise
(docs/theory.md), with an estimate of its error for every order. In time it is the continuous process, dt -> 0.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from thermoment.engines import Array, Outcome, Report, Task
from thermoment.engines.coupled import MOST_ROUNDS, Node, _at_end, effective_drive, node
from thermoment.engines.tables import RANGES, tables
from thermoment.validation import invalid

# Nodes of all samples solved together: a chunk's arrays stay in the cache of a CPU, or fill a GPU.
_CHUNK = {"cpu": 2**14}
_LARGEST_CHUNK = 2**20


@dataclass(frozen=True)
class MeanField:
    """Mean field with the fluctuating field and the reaction of second order, in float32 (default) or float64."""

    dtype: str = "float32"
    next_order: bool = True
    """False leaves plain mean field."""
    name = "meanfield"

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64"):
            raise invalid("dtype", 'be "float32" or "float64"', repr(self.dtype))

    def status(self) -> str:
        devices = jax.local_devices()
        return f"JAX {jax.__version__} on {devices[0].device_kind} in {self.dtype}"

    def check(self, task: Task) -> None:
        if task.dynamics.kT == 0:
            raise invalid("kT", "be positive for the meanfield engine", task.dynamics.kT)
        strongest = float(np.abs(task.drive).max())
        if strongest > RANGES[-1]:
            raise invalid("inputs", f"give drives up to {RANGES[-1]} for the meanfield engine", f"driving to {strongest:.4g}")

    def moments(self, task: Task, report: Report) -> Outcome:
        raw = np.empty((task.n_samples, len(task.protocol.orders), task.n_nodes))
        done = 0
        ranges = _ranges(task)
        for h_max in np.unique(ranges):
            which = np.flatnonzero(ranges == h_max)
            one = node(tables(task.dynamics, task.protocol.t_final, float(h_max)), task.protocol.orders, self.dtype, self.next_order)
            for part, found in self._chunks(task, which, one):
                raw[part] = found
                done += len(part)
                report(done)
        return Outcome(raw, 0)

    def _chunks(self, task: Task, which: NDArray[np.intp], one: Node) -> Any:
        rows = max(1, _CHUNK.get(jax.default_backend(), _LARGEST_CHUNK) // task.n_nodes)
        with jax.enable_x64(self.dtype == "float64"):
            W = jax.device_put(task.W.astype(self.dtype))
            for start in range(0, len(which), rows):
                part = which[start : start + rows]
                h = np.zeros((rows, task.n_nodes), self.dtype)
                h[: len(part)] = task.drive[part]
                found = np.asarray(_solve(h, W, one))[: len(part)]
                if not np.isfinite(found).all():
                    raise RuntimeError(
                        f"The coupling is too strong for the meanfield engine: its self-consistency did not converge "
                        f"in {MOST_ROUNDS} rounds. Sample instead, for example with engine='xla'."
                    )
                yield part, found


def _ranges(task: Task) -> Array:
    """The range of tables for each sample, from its own drive alone: (S,)."""
    strongest = np.abs(task.drive).max(axis=1)
    field = np.sqrt((task.W**2).sum(axis=1).max()) * task.dynamics.stationary_point(strongest)
    return np.asarray(RANGES)[np.minimum(np.searchsorted(RANGES, strongest + 2 * field), len(RANGES) - 1)]


@jax.jit
def _solve(h: jax.Array, W: jax.Array, one: Node) -> jax.Array:
    return _at_end(h, W, one, effective_drive(h, W, one))
