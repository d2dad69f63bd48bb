"""Memory capacity: how much of an earlier input can be read from a reservoir that follows a signal."""

from typing import NamedTuple

import numpy as np

from thermoment._engines.task import Engine
from thermoment._support.checks import check_integer, check_not_negative, check_positive, invalid
from thermoment.machines.signals.follower import Array, moments_along, ridge_weights
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import check_system


class Memory(NamedTuple):
    """What is left of earlier rows of a signal."""

    by_delay: Array
    """the squared correlation of u(t - k) with its best linear estimate, on rows kept for the test: (longest,)"""
    total: float
    """their sum, at most the number of features"""


def memory_capacity(
    reservoir: Reservoir,
    protocol: Protocol | None = None,
    *,
    hold: float,
    longest: int = 40,
    length: int = 3000,
    seed: int = 0,
    ridge: float = 1e-6,
    engine: str | Engine = "auto",
) -> Memory:
    """How much of an input that came k rows ago can be read from the moments, for k = 1 to `longest`.

    Args:
        reservoir: of one input, which is uniform on [-1, 1] and independent from row to row.
        protocol: time step, replicas, moment orders; `Protocol()` unless given.
        hold: how long each row is held.
        longest: the largest delay.
        length: rows of the signal; the first half is for the fit, the second for the test.
        seed: of the signal.
        ridge: as for `fit`.
        engine: as for `simulate`.
    """
    protocol = check_system(reservoir, protocol)
    longest = check_integer("longest", longest, 1, 10**6)
    T = check_integer("length", length, 4 * longest, 10**8)
    if reservoir.n_inputs != 1:
        raise invalid("reservoir", "have one input", f"one of {reservoir.n_inputs}")
    u = np.random.default_rng(check_integer("seed", seed, 0, 2**128)).uniform(-1, 1, T)
    features, _ = moments_along(reservoir, u, protocol, check_positive("hold", hold), None, engine)
    delayed = np.stack([np.roll(u, k) for k in range(1, longest + 1)], axis=1)
    half = T // 2
    weights = ridge_weights(features[longest:half], delayed[longest:half], check_not_negative("ridge", ridge))
    guess, truth = features[half:] @ weights, delayed[half:]
    guess, truth = guess - guess.mean(axis=0), truth - truth.mean(axis=0)
    spread = np.maximum((guess**2).sum(axis=0) * (truth**2).sum(axis=0), np.finfo(float).tiny)
    found = (guess * truth).sum(axis=0) ** 2 / spread
    return Memory(found, float(found.sum()))
