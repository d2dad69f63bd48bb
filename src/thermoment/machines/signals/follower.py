"""Follower: a reservoir that follows a signal, and the ridge readout of its moments.

Every row of the signal is held for the time `hold`, at whose end moments are read. The network is not reset, so what it
knows of earlier rows is in its state.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine
from thermoment._support.checks import (
    check_array,
    check_integer,
    check_not_negative,
    check_numbers,
    check_positive,
    invalid,
)
from thermoment.phases import course
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import Start, State, check_system

Array = NDArray[np.float64]


class Followed(NamedTuple):
    """What a reservoir made of a signal."""

    prediction: Array
    """(T, C), or (T,) where the targets of the fit were so"""
    end: State
    """where the replicas are after the last row; the signal may go on from there"""


@dataclass(frozen=True, eq=False)
class Follower:
    """A reservoir that follows a signal, and the linear readout of its moments. `fit` makes one.

    Args:
        reservoir: of N nodes and D inputs.
        protocol: time step, replicas, moment orders.
        hold: how long each row of the signal is held.
        weights: of the readout, (1 + len(orders) * N, C); the first row is the constant.
        end: where the replicas were after the signal of the fit.
        engine: what simulates.
        flat: whether predictions have shape (T,).
    """

    reservoir: Reservoir
    protocol: Protocol
    hold: float
    weights: Array
    end: State
    engine: str | Engine = "auto"
    flat: bool = False

    def __repr__(self) -> str:
        return f"Follower({self.reservoir}, hold={self.hold}, orders={self.protocol.orders})"

    def follow(self, signal: ArrayLike, x0: Start = None) -> Followed:
        """The prediction at every row of a signal (T, D), or (T,) where D = 1.

        Args:
            signal: (T, D), or (T,) where D = 1.
            x0: where the replicas are before the first row: `end` of the fit or of another `follow`, from which this
                signal goes on; at rest in x = 0 unless given.
        """
        features, end = moments_along(self.reservoir, signal, self.protocol, self.hold, x0, self.engine)
        found = features @ self.weights
        return Followed(found[:, 0] if self.flat else found, end)


def fit(
    reservoir: Reservoir,
    signal: ArrayLike,
    targets: ArrayLike,
    protocol: Protocol | None = None,
    *,
    hold: float,
    washout: int = 100,
    ridge: float = 1e-6,
    engine: str | Engine = "auto",
) -> Follower:
    """Fits the readout that gives the targets from the moments of a reservoir which follows the signal.

    Args:
        reservoir: of N nodes and D inputs.
        signal: (T, D), or (T,) where D = 1.
        targets: what is wanted at every row, (T, C), or (T,).
        protocol: time step, replicas, moment orders; `Protocol()` unless given.
        hold: how long each row is held; the protocol's dt must divide it.
        washout: rows at the beginning that are left out of the fit.
        ridge: what is added to the diagonal of the covariance of the features, as a multiple of its mean.
        engine: as for `simulate`.

    Returns:
        A `Follower`, whose `end` is where the signal may go on.
    """
    protocol = check_system(reservoir, protocol)
    rows = check_signal(reservoir, signal)
    wanted = check_numbers("targets", targets)
    flat = wanted.ndim == 1
    wanted = check_array("targets", wanted, (len(rows),) if flat else (len(rows), "C")).reshape(len(rows), -1)
    washout = check_washout(washout, len(rows))
    ridge, hold = check_not_negative("ridge", ridge), check_positive("hold", hold)
    features, end = moments_along(reservoir, rows, protocol, hold, None, engine)
    weights = ridge_weights(features[washout:], wanted[washout:], ridge)
    return Follower(reservoir, protocol, hold, weights, end, engine, flat)


def moments_along(
    reservoir: Reservoir,
    signal: ArrayLike,
    protocol: Protocol | None,
    hold: float,
    x0: Start = None,
    engine: str | Engine = "auto",
) -> tuple[Array, State]:
    """1 and the moments [m1 | m2 | ...] at the end of every row, (T, 1 + len(orders) * N); and where that ends."""
    protocol = check_system(reservoir, protocol)
    rows = check_signal(reservoir, signal)
    found = course(reservoir, rows[None], protocol, hold=hold, x0=x0, keep_end=True, engine=engine)
    assert found.end is not None
    raw = found.raw[:, 0]
    return np.concatenate([np.ones((len(raw), 1)), raw.reshape(len(raw), -1)], axis=1), found.end


def ridge_weights(features: Array, targets: Array, ridge: float) -> Array:
    """Weights (F, C) that give the targets (T, C) from features (T, F) with the least squared error, and are not large.

    The features are centred and scaled for the fit, so that `ridge` weighs all alike. The first one is the constant 1.
    """
    mean, scale = features[:, 1:].mean(axis=0), features[:, 1:].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    z, level = (features[:, 1:] - mean) / scale, targets.mean(axis=0)
    gram = z.T @ z / len(z)
    # The smallest shift that keeps the solution within rounding where features are copies of one another.
    shift = max(ridge * float(np.trace(gram)) / len(gram), 1e-14 * float(np.trace(gram)))
    found = np.linalg.solve(gram + (shift or 1.0) * np.eye(len(gram)), z.T @ (targets - level) / len(z))
    found = found / scale[:, None]
    return np.concatenate([(level - mean @ found)[None], found])


def check_signal(reservoir: Reservoir, signal: ArrayLike) -> Array:
    """The signal as rows (T, D)."""
    given = check_numbers("signal", signal)
    if given.ndim == 1 and reservoir.n_inputs == 1:
        given = given[:, None]
    return check_array("signal", given, ("T", reservoir.n_inputs))


def check_washout(washout: int, n_rows: int) -> int:
    """`washout`, which leaves at least two rows."""
    if n_rows < 2:
        raise invalid("signal", "have at least two rows", f"one of {n_rows}")
    return check_integer("washout", washout, 0, n_rows - 2)
