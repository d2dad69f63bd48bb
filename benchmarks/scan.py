"""The points of the accuracy scan: wells, temperatures, times, couplings, a random and a trained reservoir.

A reservoir sees three images, scaled so that their strongest drives are 3, 8 and 20.
"""

import itertools
import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thermoment as tm

Array = NDArray[np.float64]

NODES, STEPS = 256, 1000
ORDERS = (1, 2, 4)
STRONGEST = (3.0, 8.0, 20.0)
KINDS = ("random", "trained")
J2, KT, T_FINAL = (1.0, 0.3, -1.0), (0.1, 0.02, 1.0), (1.0, 0.2, 0.05, 3.0)
"""Those of the paper come first."""
S_W = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
EYE = np.eye(len(STRONGEST))
"""The inputs to a reservoir whose K holds a drive in each column."""
_TRAINED = Path(__file__).parent / "results" / "trained-drives.json"


@dataclass(frozen=True)
class Point:
    """A reservoir, its wells and how long it runs."""

    kind: str
    J2: float
    kT: float
    t_final: float
    s_W: float

    @property
    def key(self) -> str:
        return f"{self.kind},{self.J2},{self.kT},{self.t_final},{self.s_W}"

    @property
    def dt(self) -> float:
        return self.t_final / STEPS

    def protocol(self, n_replicas: int | float, seed: int = 0) -> tm.Protocol:
        return tm.Protocol(self.dt, self.t_final, n_replicas, math.inf, seed, ORDERS)

    def reservoir(self) -> tm.Reservoir:
        """Present it with `EYE`."""
        return self.nodes(drives(self.kind), coupling(self.s_W, self.dt))

    def nodes(self, h: Array, W: Array | None = None) -> tm.Reservoir:
        """Nodes in its wells with drives h (images, N), uncoupled unless W is given."""
        W = np.zeros((NODES, NODES)) if W is None else W
        return tm.Reservoir(W, h.T, np.zeros(NODES), tm.Dynamics(J2=self.J2, kT=self.kT))


def points() -> list[Point]:
    """All of the scan."""
    return [
        Point(kind, J2_, kT, t_final, s_W)
        for J2_, kT, t_final, s_W, kind in itertools.product(J2, KT, T_FINAL, S_W, KINDS)
    ]


@cache
def drives(kind: str) -> Any:
    """(3, N)"""
    if kind == "trained":
        found = np.array(json.loads(_TRAINED.read_text())["drives"])
    else:
        found = np.random.default_rng(1).normal(size=(len(STRONGEST), NODES))
    return found * (np.array(STRONGEST) / np.abs(found).max(axis=1))[:, None]


def coupling(s_W: float, dt: float) -> Array:
    """W_ij ~ N(0, s_W^2 / N), such that dt W is exact in half precision, in which a GPU multiplies by it."""
    W = np.random.default_rng(2).normal(0.0, s_W / math.sqrt(NODES), (NODES, NODES))
    np.fill_diagonal(W, 0.0)
    if s_W == 0:
        return W
    unit = dt * 2.0 ** round(math.log2(2.0**-10 * math.sqrt(NODES) / (dt * s_W)))
    return np.asarray((W * unit).astype(np.float16).astype(np.float64) / unit)
