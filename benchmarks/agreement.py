"""Whether a contestant computes the right thing: its moments beside those of many replicas, in standard errors.

A contestant is given the same drive many times, and the means over all its replicas are compared with a run of 16384
replicas: every node and order by itself, and per order all nodes together, in the direction of the expected moment. A
right contestant is refused less than once in 10000 times: on resampled replicas of the reference the largest of its 768
distances was above 4.9 once in 300 (4.6 if the moments were normal; x^4 is skewed), and 6.5 are allowed.
"""

from dataclasses import dataclass, replace

import numpy as np
from problem import PROTOCOL, RESERVOIR, Array, Contestant, N, W, drives

import thermoment as tm


class DisagreementError(Exception):
    """Moments that are not the right ones."""


_REPLICAS = 2**14
_COPIES = 8


@dataclass(frozen=True, eq=False)
class Agreement:
    """Moments of one drive from many replicas, with the variance of one replica's powers: (3, N) each."""

    engine: str
    expected: Array
    variance: Array
    limit: float = 6.5

    @classmethod
    def with_engine(cls, name: str) -> "Agreement":
        """Sampled by this engine, with noise that no contestant has."""
        protocol = tm.Protocol(n_replicas=_REPLICAS, seed=4, orders=(1, 2, 4, 8))
        raw = tm.simulate(_network(RESERVOIR.dynamics), drives(1), protocol, engine=name).raw[0]
        m1, m2, m4, m8 = raw
        return cls(name, raw[:3], np.stack([m2 - m1**2, m4 - m2**2, m8 - m4**2]))

    def distance(self, moments: Array) -> float:
        """Of moments (copies, 3, N) of one drive, each of the paper's number of replicas: the largest distance."""
        replicas = len(moments) * PROTOCOL.n_replicas
        error = np.sqrt(self.variance * (1 / replicas + 1 / _REPLICAS))
        off = (moments.mean(axis=0) - self.expected) / error
        together = (off * np.sign(self.expected)).sum(axis=1) / np.sqrt(N)
        return float(max(np.abs(off).max(), np.abs(together).max()))

    def check(self, name: str, run: Contestant) -> float:
        """The distance of a contestant; raises where it is too far."""
        moments = np.asarray(run(np.repeat(drives(1), _COPIES, axis=0), PROTOCOL.n_steps), np.float64)
        off = self.distance(moments)
        if not off < self.limit:
            raise DisagreementError(f"{name} is {off:.1f} standard errors off, {self.limit} are allowed.")
        return off

    def control(self) -> float:
        """The distance of a network that is 5 % too hot, which must be refused."""
        hot = replace(RESERVOIR.dynamics, kT=1.05 * RESERVOIR.dynamics.kT)
        raw = tm.simulate(_network(hot), np.repeat(drives(1), _COPIES, axis=0), PROTOCOL, engine=self.engine).raw
        off = self.distance(raw)
        if off < self.limit:
            raise DisagreementError(f"A network that is 5 % too hot passes, {off:.1f} standard errors off.")
        return off

    def facts(self) -> dict[str, float]:
        """For the record."""
        return {"replicas": _REPLICAS, "allowed": self.limit, "false_alarm_rate_below": 1e-4}


def _network(dynamics: tm.Dynamics) -> tm.Reservoir:
    return tm.Reservoir(W, np.eye(N), np.zeros(N), dynamics, stream=1)
