"""The deterministic engine: moments of the coupled nodes without sampling, from the tables of one node.

The noise is treated exactly, the coupling approximately: uncoupled nodes are exact, coupled nodes are right to second
order in W (docs/theory.md), with an estimate of the error for every order. Time is continuous: the limit dt -> 0.
"""

import math
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.grids import farthest
from thermoment._engines.meanfield.iteration import MOST_ROUNDS
from thermoment._engines.meanfield.network import NodeCurves, Solution, node_curves, solve_network
from thermoment._engines.meanfield.pairs import covariances
from thermoment._engines.meanfield.replicas import Quantiles, fluctuation, quantiles
from thermoment._engines.meanfield.tables import RANGES, node_tables
from thermoment._engines.task import Array, Outcome, Report, Task, check_alike, check_no_observables, outcome_of
from thermoment._support.checks import invalid, quoted
from thermoment._support.compilation import REPRODUCIBLE
from thermoment._support.threads import cores
from thermoment.noise import round_keys
from thermoment.physics import Dynamics

# Samples are solved in chunks of about this many nodes: on a CPU the arrays of a chunk should stay in the cache.
_CHUNK_ON_CPU, _CHUNK = 2**15, 2**20
# Warn when the estimated error exceeds 2 % of the nodes' standard deviation: sampling 1 / 0.02^2 = 2500 replicas would
# be as accurate.
_TOLERATED = 0.02
# The tables resolve temperatures down to this one; below it the density of a driven node is too narrow for the cells.
_COLDEST = 1e-3
# The error of the tables themselves, relative to the rms of the moments.
_TABLES = 1e-5


@dataclass(frozen=True)
class MeanField:
    """The `meanfield` engine: moments without sampling, deterministic, with an estimate of its error.

    Args:
        dtype: "float32" (default) or "float64".
        next_order: whether the fluctuation of the neighbours' field and the node's own reaction through its neighbours
            are included, which are of second order in W. False leaves plain mean field, to compare with; the error
            estimate then does not cover what is missing.

    `simulate` with this engine returns moments (S, len(orders), N) of infinitely many replicas where the protocol's
    n_replicas is inf, and otherwise with the fluctuation of n_replicas replicas added. `moments.info.error` estimates,
    for each order, the rms error over samples and nodes. dt is not used: the engine solves the limit dt -> 0.

    Refused: kT below 0.001, |drive| above 1000, a clip that nodes would reach, and a coupling so strong that the mean
    field has no self-consistent solution; arrays in the dynamics, x0, and inputs that change in time. Cost: seconds
    once for the tables of (dynamics, t_final, t_rest), which are kept on disk; a course has tables for each of its
    times. Then about 0.1 ms for an image of 256 nodes on two cores.
    """

    dtype: str = "float32"
    next_order: bool = True
    name = "meanfield"
    tasks_at_once = 2

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or self.dtype not in ("float32", "float64"):
            raise invalid("dtype", 'be "float32" or "float64"', quoted(self.dtype))

    def status(self) -> str:
        return f"JAX {jax.__version__} on {jax.local_devices()[0].device_kind} in {self.dtype}"

    def check(self, task: Task) -> None:
        check_no_observables(task, self.name)
        check_alike(task, self.name)
        if task.pairs and task.protocol.n_replicas != math.inf:
            must = "be inf for pairs with the meanfield engine, which draws the replicas of each node by themselves"
            raise invalid("n_replicas", must, task.protocol.n_replicas)
        _check_constant(task)
        check_limits(task.dynamics, float(np.abs(task.drive).max()), task.protocol.clip)

    def moments(self, task: Task, report: Report) -> Outcome:
        *earlier, last = _times(task)
        found = [self._at(t, task, lambda _: None) for t in earlier]
        return outcome_of([*found, self._at(last, task, report)])

    def _at(self, t_final: float, task: Task, report: Report) -> Outcome:
        """Moments at one time."""
        orders, S = task.protocol.orders, task.n_samples
        raw = np.empty((S, len(orders), task.n_nodes))
        solved: list[_Totals] = []
        products = np.empty((S, 1, len(task.pairs))) if task.pairs else None
        ranges = starting_ranges(task)
        for number, h_max in enumerate(RANGES):
            which = np.flatnonzero(ranges == number)
            for chunk in self._chunks(t_final, task, which, h_max, raw, products) if which.size else ():
                # A sample in which the coupling drives a node beyond these tables is solved again with the next ones.
                ranges[chunk.beyond] += 1
                solved.append(chunk)
                report(sum(one.samples for one in solved))
        error = np.sqrt(sum(one.error for one in solved) / S) + _TABLES * np.sqrt(sum(one.square for one in solved) / S)
        spread = math.sqrt(sum(one.variance for one in solved) / S)
        if float(error[0]) > _TOLERATED * spread ** orders[0]:
            warnings.warn(
                f"The coupling is strong for the meanfield engine: its error in m_{orders[0]} is estimated at "
                f"{error[0]:.2g}, beside a spread of the nodes of {spread:.2g}. Sample instead, for example with "
                f"engine='xla'.",
                stacklevel=6,
            )
        return Outcome(raw, 0, {p: float(e) for p, e in zip(orders, error, strict=True)}, products=products)

    def _chunks(
        self,
        t_final: float,
        task: Task,
        which: NDArray[np.intp],
        h_max: float,
        raw: Array,
        products: Array | None,
    ) -> Iterator["_Totals"]:
        """Solves the samples `which` in chunks of one shape, with the tables up to `h_max`.

        Moments are written to `raw`, and E[x_i x_j] of the task's pairs to `products`.
        """
        on_cpu = jax.local_devices()[0].platform == "cpu"
        rows = max(1, (_CHUNK_ON_CPU if on_cpu else _CHUNK) // task.n_nodes)
        tables = node_tables(task.dynamics, t_final, h_max, task.protocol.t_rest or 0.0)
        # 64-bit mode is for the integers of the draws; all floating-point arrays have the dtype asked for.
        with jax.enable_x64(True):
            W = jnp.asarray(task.W.astype(self.dtype))
            node = _curves(tables, _orders(task), self.dtype, self.next_order, in_cpp=True)
            law = _law(tables, self.dtype) if task.protocol.n_replicas != math.inf else None
            keys = jnp.asarray(round_keys(task.protocol.seed, task.stream))

        def one(samples: NDArray[np.intp]) -> _Totals:
            h = np.zeros((rows, task.n_nodes), self.dtype)
            h[: len(samples)] = task.drive[samples]
            ids = np.zeros(rows, np.uint64)
            ids[: len(samples)] = task.sample_ids[samples]
            with jax.enable_x64(True):  # the setting belongs to the thread
                found = limit = _mended(_solve(h, W, node), h, W, node)
                if law is not None:
                    found = _with_fluctuation(limit, node.sizes.orders, law, ids, keys, np.uint32(task.n_replicas))
                chunk = jax.device_get(_chunk_of(found, limit, node.sizes.orders, task.protocol.orders))
            if products is not None:
                n, rest = len(samples), task.protocol.t_rest or 0.0
                drive, mean = (np.asarray(part, np.float64)[:n] for part in (limit.drive, limit.moments[:, 0]))
                i, j = np.array(task.pairs).T
                found_pairs = covariances(task.pairs, task.W, drive, task.dynamics, t_final, h_max, rest)
                products[samples, 0] = found_pairs + mean[:, i] * mean[:, j]
            return _accept(_Chunk(*(array[: len(samples)] for array in chunk)), samples, h_max, raw)

        chunks = np.split(which, range(rows, len(which), rows))
        # One thread more than there are cores: it computes while another thread copies its result.
        with ThreadPoolExecutor(cores() + 1 if on_cpu else 2) as pool:
            yield from pool.map(one, chunks)


class _Chunk(NamedTuple):
    """What is read of the solution of a chunk of samples. Means are over nodes."""

    moments: Any
    """(S, len(orders), N)"""
    strongest: Any
    """largest effective drive: (S,)"""
    error: Any
    """estimated mean square error: (S, len(orders))"""
    square: Any
    """mean square of the moments: (S, len(orders))"""
    variance: Any
    """mean variance of the nodes in the limit of many replicas: (S,)"""


class _Totals(NamedTuple):
    """What is kept of a chunk beside its moments: sums over the samples that are within the tables."""

    samples: int
    """how many are within the tables"""
    beyond: NDArray[np.intp]
    """samples that need the next tables"""
    error: Any
    """(len(orders),)"""
    square: Any
    """(len(orders),)"""
    variance: float


def _accept(chunk: _Chunk, samples: NDArray[np.intp], h_max: float, raw: Array) -> _Totals:
    """Checks a chunk and writes its moments to the rows `samples` of `raw`."""
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
    return _Totals(int(good.sum()), samples[~good], error, square, float(variance))


def _check_constant(task: Task) -> None:
    """Refuses what tables of a constant drive cannot do: another start than the protocol's, inputs that change."""
    if task.start is not None:
        raise invalid("x0", "be left out for the meanfield engine, whose nodes start at zero or at rest", "given")
    if task.keep_states:
        raise invalid("keep_end", "be False for the meanfield engine, which has no single replicas", True)
    after_rest = task.segments[1:] if task.protocol.rest_steps else task.segments
    if any(one.drive is not task.drive or one.W is not task.W for one in after_rest):
        raise invalid("inputs", "be constant in time for the meanfield engine (xla takes signals and phases)", "not so")


def _times(task: Task) -> list[float]:
    """When moments are read, counted from when the drive comes."""
    protocol = task.protocol
    ends = accumulate(one.n_steps for one in task.segments)
    steps = [end - protocol.rest_steps for end, one in zip(ends, task.segments, strict=True) if one.read]
    # Of a time that is the same number of steps the same float, so that the same tables are found.
    return [protocol.t_final if n == protocol.n_steps else float(f"{n * protocol.dt:.12g}") for n in steps]


def _orders(task: Task) -> tuple[int, ...]:
    """The orders that are computed: those asked for, and 1 and 2, from which spread and error follow."""
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
    """A point beyond which a node driven by h hardly ever is: six thermal widths outside its stationary point."""
    x = float(farthest(dynamics, h))
    stiffness = max(float(dynamics.curvature(x)), 2 * abs(dynamics.J2), math.sqrt(dynamics.J4 * dynamics.kT))
    return x + 6 * math.sqrt(dynamics.kT / stiffness)


def starting_ranges(task: Task) -> NDArray[np.intp]:
    """Which of `RANGES` to try first for each sample, from its drive and the typical size of the field: (S,)."""
    strongest = np.abs(task.drive).max(axis=1)
    field = np.sqrt((task.W**2).sum(axis=1).max()) * farthest(task.dynamics, strongest)
    # The widest tables are for drives that need them: the field is only a guess.
    widest = np.where(strongest <= RANGES[-2], len(RANGES) - 2, len(RANGES) - 1)
    return np.asarray(np.minimum(np.searchsorted(RANGES, strongest + 2 * field), widest))


# A run asks for the same ones with every chunk of its features.
_curves, _law = lru_cache(maxsize=16)(node_curves), lru_cache(maxsize=16)(quantiles)
_solve = jax.jit(solve_network, static_argnames="damped", compiler_options=REPRODUCIBLE)


def _mended(found: Solution, h: NDArray[Any], W: jax.Array, node: NodeCurves) -> Solution:
    """The solution, where it did not converge under drives above `LARGEST_DRIVE` by damped rounds."""
    if not node.sizes.wide:
        return found
    failed = ~np.isfinite(np.asarray(found.drive)).all(axis=1)
    if not failed.any():
        return found
    slow = _solve(h, W, node, damped=True)
    return Solution(
        *(jnp.where(failed.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(found, slow, strict=True))
    )


@partial(jax.jit, static_argnames="orders", compiler_options=REPRODUCIBLE)
def _with_fluctuation(
    found: Solution, orders: tuple[int, ...], law: Quantiles, ids: jax.Array, keys: jax.Array, n_replicas: jax.Array
) -> Solution:
    """The solution with the fluctuation of finitely many replicas."""
    mean, second = found.moments[:, 0], found.moments[:, 1]
    noise = fluctuation(found.drive, mean, second, orders, law, ids, keys, n_replicas)
    return found._replace(moments=found.moments + noise)


@partial(jax.jit, static_argnames=("orders", "wanted"), compiler_options=REPRODUCIBLE)
def _chunk_of(found: Solution, limit: Solution, orders: tuple[int, ...], wanted: tuple[int, ...]) -> _Chunk:
    """What is read of the solution, with the fluctuation of its replicas and without: see `_Chunk`."""
    columns = [orders.index(p) for p in wanted]
    moments, error = (jnp.stack([part[:, k] for k in columns], axis=1) for part in (found.moments, found.error))
    variance = jnp.maximum(limit.moments[:, 1] - limit.moments[:, 0] ** 2, 0)
    strongest = jnp.abs(found.drive).max(axis=-1)
    return _Chunk(moments, strongest, error, (moments**2).mean(axis=-1), variance.mean(axis=-1))
