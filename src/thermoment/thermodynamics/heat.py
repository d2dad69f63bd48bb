"""Heat and work along the path of a replica, as Stratonovich sums: the force at the midpoint of a step, times the step.

    heat = sum_n F(x_mid) dx              F = -dV/dx + h + W x, everything that acts on a node
    work = sum_n (h + W x_mid) dx         what drive and coupling do on the nodes in their wells
    V(x(t_final)) - V(0) = work - heat    the first law, with V = sum_i J2 x_i^2 + J4 x_i^4

Both are sums over the nodes. The first law holds on every single path: exactly for J4 = 0, otherwise up to
sum_n J4 x_mid dx^3, which is of the order of dt.
"""

from dataclasses import dataclass
from typing import Any

from thermoment._engines.task import Move
from thermoment._engines.task import PathWork as PathWork  # the native engine knows it, so it is defined below
from thermoment.physics import force


@dataclass(frozen=True)
class Heat:
    """Heat given off to the bath by all nodes of a replica, in the units of kT."""

    name = "heat"

    def increment(self, move: Move) -> Any:
        x = move.middle
        return ((force(x, move.drive, move.dynamics) + x @ move.W.T) * move.change).sum(axis=-1)


@dataclass(frozen=True)
class Work:
    """Work that drive and coupling do on all nodes of a replica, in the units of kT."""

    name = "work"

    def increment(self, move: Move) -> Any:
        return ((move.drive + move.middle @ move.W.T) * move.change).sum(axis=-1)
