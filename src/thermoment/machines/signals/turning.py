"""A reservoir that remembers: its coupling turns the state, and the wells alone let it fade."""

from dataclasses import replace

import numpy as np

from thermoment.physics import Dynamics
from thermoment.reservoir import Reservoir


def turning(
    n_nodes: int,
    n_inputs: int = 1,
    *,
    s_W: float = 1.3,
    s_K: float = 0.3,
    s_b: float = 0.1,
    seed: int,
    stream: int = 0,
    dynamics: Dynamics | None = None,
) -> Reservoir:
    """A random reservoir with W = -W^T, which follows signals.

    Over a time t such a coupling multiplies a small state by exp(-2 mu J2 t) Q, with Q a rotation. All directions fade
    alike, at the rate 2 mu J2, whatever the strength of the coupling: what the state holds is mixed, and little of it
    is lost. In a coupling of independent numbers most directions fade much faster than the slowest.

    Euler's steps lengthen what they turn, at a rate of up to 2 (mu s_W)^2 dt. A dt at which this is well below 2 mu J2
    keeps to the equation above.

    Args:
        n_nodes: N.
        n_inputs: D.
        s_W: W_ij ~ N(0, s_W^2 / N) above the diagonal. The state is turned by up to 2 s_W mu t, in radians.
        s_K: K_ik ~ N(0, s_K^2 / D).
        s_b: b_i ~ N(0, s_b^2).
        seed: of `numpy.random.default_rng`, which gives W, K and b in this order.
        stream: as in `Reservoir`.
        dynamics: the wells; `Dynamics(J2=0.05, J4=0.1, kT=1e-6)` unless given: they fade by a tenth in a unit of time.
    """
    wells = Dynamics(J2=0.05, J4=0.1, kT=1e-6) if dynamics is None else dynamics
    drawn = Reservoir.draw(n_nodes, n_inputs, s_W=s_W, s_K=s_K, s_b=s_b, seed=seed, stream=stream, dynamics=wells)
    above = np.triu(drawn.W, 1)
    return replace(drawn, W=above - above.T)
