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
"""The values of the paper come first."""
S_W = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
EYE = np.eye(len(STRONGEST))
"""The inputs of the three images: K holds the drive of each image in a column."""
_TRAINED = Path(__file__).parent / "results" / "trained-drives.json"


@dataclass(frozen=True)
class Point:
    """One point of the scan: the drives and the coupling of a reservoir, its wells, and t_final."""

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
        """The reservoir, to be driven by the inputs `EYE`."""
        return self.nodes(drives(self.kind), coupling(self.s_W, self.dt))

    def nodes(self, h: Array, W: Array | None = None) -> tm.Reservoir:
        """Nodes in the wells of this point with drives h (images, N), uncoupled unless W is given."""
        W = np.zeros((NODES, NODES)) if W is None else W
        return tm.Reservoir(W, h.T, np.zeros(NODES), tm.Dynamics(J2=self.J2, kT=self.kT))


def points() -> list[Point]:
    """All points of the scan."""
    return [
        Point(kind, J2_, kT, t_final, s_W)
        for J2_, kT, t_final, s_W, kind in itertools.product(J2, KT, T_FINAL, S_W, KINDS)
    ]


@cache
def drives(kind: str) -> Any:
    """Drives of the three images, scaled to `STRONGEST`: (3, N)."""
    if kind == "trained":
        found = np.array(json.loads(_TRAINED.read_text())["drives"])
    else:
        found = np.random.default_rng(1).normal(size=(len(STRONGEST), NODES))
    return found * (np.array(STRONGEST) / np.abs(found).max(axis=1))[:, None]


def coupling(s_W: float, dt: float) -> Array:
    """W_ij ~ N(0, s_W^2 / N), rounded so that dt W is exact in half precision, the precision of the GPU's product."""
    W = np.random.default_rng(2).normal(0.0, s_W / math.sqrt(NODES), (NODES, NODES))
    np.fill_diagonal(W, 0.0)
    if s_W == 0:
        return W
    unit = dt * 2.0 ** round(math.log2(2.0**-10 * math.sqrt(NODES) / (dt * s_W)))
    return np.asarray((W * unit).astype(np.float16).astype(np.float64) / unit)
