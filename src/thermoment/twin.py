"""How far `meanfield` is off on a given machine: sampling that needs a hundred times fewer replicas.

The coupled network is sampled beside its *twin*: the same nodes with the same noise, without coupling, each under the
constant drive h' at which a single node has the mean that `meanfield` gives it. The moments M_p(h') of the twin are
known without sampling, so

    m_p = mean(x^p) - mean(twin^p) + M_p(h')

has the expectation of mean(x^p), whatever h' is. The nearer the twin is to the network, the less of the noise is left:
this is a control variate. Sampling takes Euler steps, and M_p does not: so the error of the step, too, cancels but for
what it has to do with the coupling.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator

from thermoment._engines.choice import choose
from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.tables import RANGES
from thermoment._engines.task import Engine
from thermoment._support.checks import check_array, check_integer, invalid
from thermoment._support.memory import check_fits
from thermoment.moments import Moments
from thermoment.physics import LARGEST_DRIVE, Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import prepare, simulate

Array = NDArray[np.float64]

_BATCH_BIT = 40
"""Batch k of a sample has the sample id `id + (k << 40)`."""
_CURVE_POINTS = 2001
_MARGIN = 5.0
"""Drives of the twin may exceed 1.5 times the strongest drive of the network by so much."""


@dataclass(frozen=True, eq=False)
class Refereed:
    """What `referee` found. Arrays are (S, len(orders), N)."""

    orders: tuple[int, ...]
    moments: Array
    """without bias, and with far less noise than the same number of replicas has by itself"""
    standard_error: Array
    """of `moments`, from the spread over the batches"""
    meanfield: Moments
    """what is judged"""
    gain: dict[int, float]
    """for each order the variance of plain sampling with the same noise, as a multiple of the variance of `moments`"""

    @property
    def error(self) -> dict[int, float]:
        """For each order the rms error of `meanfield` over nodes and samples, less the noise; 0 if noise is all."""
        apart = (self.meanfield.raw - self.moments) ** 2 - self.standard_error**2
        return {p: math.sqrt(max(float(apart[:, k].mean()), 0.0)) for k, p in enumerate(self.orders)}

    @property
    def resolution(self) -> dict[int, float]:
        """For each order the rms error of `meanfield` that would be lost in the noise that is left."""
        noise = (self.standard_error**2).mean(axis=(0, 2)) * math.sqrt(2 / self.standard_error[:, 0].size)
        return {p: math.sqrt(float(noise[k])) for k, p in enumerate(self.orders)}

    def features(self) -> Array:
        """[m1 | m2 | ...] as `Moments.features` has them: (S, len(orders) * N)."""
        return self.moments.reshape(len(self.moments), -1)


def referee(
    reservoir: Reservoir,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    engine: str | Engine = "auto",
    batches: int = 16,
    sample_ids: ArrayLike | None = None,
    drives: ArrayLike | None = None,
) -> Refereed:
    """Moments by sampling with the mean-field twin as a control variate, beside those of `meanfield`.

    Args:
        reservoir: the network, of N nodes and D inputs.
        inputs: (S, D), one sample a row.
        protocol: step, time, replicas, orders; `Protocol()` unless given. Its n_replicas are those of one batch.
        engine: any that samples.
        batches: how often each sample is simulated, with independent noise; at least 2, for the standard error.
        sample_ids: (S,), integers from 0 to 2^40 - 1; 0 to S - 1 unless given.
        drives: (S, N), other drives h' of the twin. The result has the same expectation, but more noise.

    Returns:
        Refereed: `moments`, `standard_error`, `error` of meanfield by order, and the `gain` over plain sampling.

    Cost: 2 * batches times that of `simulate`.
    """
    batches = check_integer("batches", batches, 2, 2**20)
    task = prepare(reservoir, inputs, protocol, sample_ids)
    if choose(engine, task)[0].name == MeanField.name:
        raise invalid("engine", "be one that samples", MeanField.name)
    if int(task.sample_ids.max()) >> _BATCH_BIT:
        raise invalid("sample_ids", f"be below 2^{_BATCH_BIT}", int(task.sample_ids.max()))
    protocol, shape = task.protocol, (task.n_samples, len(task.protocol.orders), task.n_nodes)
    check_fits("inputs", (6, *shape))
    given = None if drives is None else check_array("drives", drives, (task.n_samples, task.n_nodes))
    limit = replace(protocol, n_replicas=math.inf)
    judged = simulate(reservoir, inputs, limit, engine="meanfield")
    if given is None:
        means = replace(limit, orders=(1,))
        mean = simulate(reservoir, inputs, means, engine="meanfield").order(1)
        h = _drives_with_means(mean, float(np.abs(task.drive).max()), reservoir.dynamics, means)
    else:
        h = given
    twin = Reservoir(np.zeros_like(reservoir.W), np.eye(task.n_nodes), np.zeros(task.n_nodes), reservoir.dynamics)
    twin = replace(twin, stream=reservoir.stream)
    known = simulate(twin, h, limit, engine="meanfield").raw
    plain, paired = _Spread(shape), _Spread(shape)
    for number in range(batches):
        ids = task.sample_ids + np.uint64(number << _BATCH_BIT)
        coupled = simulate(reservoir, inputs, protocol, engine=engine, sample_ids=ids).raw
        plain.add(coupled)
        paired.add(coupled - simulate(twin, h, protocol, engine=engine, sample_ids=ids).raw + known)
    ratio = plain.variance.mean(axis=(0, 2)) / paired.variance.mean(axis=(0, 2))
    gain = {p: float(ratio[k]) for k, p in enumerate(protocol.orders)}
    return Refereed(protocol.orders, paired.mean, np.sqrt(paired.variance / batches), judged, gain)


class _Spread:
    """Mean and variance of arrays that come one after the other (Welford's recursion)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count, self.mean, self._squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, found: Array) -> None:
        self.count += 1
        before = found - self.mean
        self.mean = self.mean + before / self.count
        self._squares = self._squares + before * (found - self.mean)

    @property
    def variance(self) -> Array:
        return self._squares / (self.count - 1)


def _drives_with_means(mean: Array, strongest: float, dynamics: Dynamics, limit: Protocol) -> Array:
    """The constant drive (S, N) under which a single node has each mean; of a mean out of reach the nearest drive."""
    node = Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), dynamics)
    largest = LARGEST_DRIVE if strongest <= LARGEST_DRIVE else RANGES[-1]
    h = np.linspace(-1, 1, _CURVE_POINTS) * min(1.5 * strongest + _MARGIN, largest)
    curve = simulate(node, h[:, None], limit, engine="meanfield").order(1)[:, 0]
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(curve)) > 0])
    inverse = PchipInterpolator(curve[rising], h[rising])
    return np.asarray(inverse(np.clip(mean, curve[rising][0], curve[rising][-1])))
