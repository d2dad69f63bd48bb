"""Heat and work: the first law on every path, and mean heat in closed form where the dynamics are linear.

Statistical tests allow five standard errors (false-alarm rate 6e-7 for one number). Seeds are fixed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.analytic import Array, coupled, euler_ornstein_uhlenbeck, uncoupled
from thermoment._engines.task import Move, Observable
from thermoment.physics import force
from thermoment.thermodynamics.heat import Heat, Work

ONE = [[1.0]]
W = [[0.0, 0.8, -0.3], [-0.5, 0.0, 0.6], [0.2, 0.9, 0.0]]
DRIVES = [1.0, -0.5, 0.3]


@dataclass(frozen=True)
class Imbalance:
    """dV - work + heat of a step. `third` adds what the midpoint leaves out of dV: J4 x_mid dx^3."""

    third: bool = False
    name = "imbalance"

    def increment(self, move: Move) -> Any:
        J2, J4 = move.dynamics.J2, move.dynamics.J4
        rise = (J2 * (move.after**2 - move.before**2) + J4 * (move.after**4 - move.before**4)).sum(axis=-1)
        left_out = (J4 * move.middle * move.change**3).sum(axis=-1) if self.third else 0.0
        return rise - left_out - Work().increment(move) + Heat().increment(move)


@dataclass(frozen=True)
class ItoHeat:
    """The wrong sum: the force before the step."""

    name = "heat"

    def increment(self, move: Move) -> Any:
        x = move.before
        return ((force(x, move.drive, move.dynamics) + x @ move.W.T) * move.change).sum(axis=-1)


def observe(reservoir: tm.Reservoir, observable: Observable, M: int, dt: float = 0.01, t: float = 1.0) -> Any:
    """Mean, standard deviation and standard error of the only sample."""
    protocol = tm.Protocol(dt=dt, t_final=t, n_replicas=M)
    found = tm.simulate(reservoir, ONE, protocol, engine="xla", observables=(observable,)).observed[observable.name]
    return found.mean[0], np.sqrt(found.variance[0]), found.standard_error[0]


def test_the_first_law_is_exact_on_every_path_of_a_linear_network() -> None:
    reservoir = coupled(W, DRIVES, tm.Dynamics(J2=0.7, J4=0.0, mu=1.3, kT=0.2))
    mean, deviation, _ = observe(reservoir, Imbalance(), 64)
    assert abs(mean) < 1e-13
    assert deviation < 1e-13


@pytest.mark.slow
def test_the_first_law_of_a_quartic_node_holds_to_the_order_of_dt() -> None:
    """What is left on a path is sum_n J4 x_mid dx^3; its size halves with the step."""
    node = uncoupled([0.7], tm.Dynamics(kT=0.2))
    mean, deviation, _ = observe(node, Imbalance(third=True), 64)
    assert max(abs(mean), deviation) < 1e-13
    size = [np.hypot(*observe(node, Imbalance(), 4096, dt)[:2]) for dt in (0.02, 0.01, 0.005)]
    # The size of a spread from 4096 replicas is known to about 2 %, so a ratio to 3 %; and there are terms in dt^2.
    np.testing.assert_allclose(np.divide(size[:-1], size[1:]), 2, rtol=0.15)


def test_heat_of_a_harmonic_node_in_closed_form() -> None:
    """By the first law heat = h x - J2 x^2 at the end, and x is Gaussian with the recursion's mean and variance."""
    for h, J2 in ((0.0, 0.7), (1.5, 0.4), (-2.0, 1.0)):
        node = uncoupled([h], tm.Dynamics(J2=J2, J4=0.0, mu=1.3, kT=0.2))
        (m,), ((v,),) = euler_ornstein_uhlenbeck(node, 0.01, 100)
        mean, deviation, error = observe(node, Heat(), 2**14)
        assert abs(mean - (h * m - J2 * (m**2 + v))) < 5 * error
        spread = np.sqrt((h - 2 * J2 * m) ** 2 * v + 2 * J2**2 * v**2)
        # A spread from M replicas errs by at most sqrt((kurtosis - 1) / 4 M), with a kurtosis of 15 for x^2.
        assert deviation == pytest.approx(spread, rel=5 * np.sqrt(14 / 4 / 2**14))


def mean_heat(reservoir: tm.Reservoir, dt: float, n_steps: int) -> float:
    """Mean heat of the Euler recursion of a linear network, exact at any dt.

    F = B x + g, and a midpoint takes (F(x) + F(x')) / 2 = F(x) + B dx / 2. With E[dx dx^T] = mu^2 dt^2 E[F F^T] + 2 mu
    kT dt a step adds mu dt E[|F|^2] + tr(B E[dx dx^T]) / 2.
    """
    dynamics, g = reservoir.dynamics, reservoir.K[:, 0]
    B = reservoir.W - 2 * dynamics.J2 * np.eye(len(g))
    heat, eye = 0.0, np.eye(len(g))
    for n in range(n_steps):
        mean, covariance = euler_ornstein_uhlenbeck(reservoir, dt, n)
        F = B @ mean + g
        FF: Array = np.outer(F, F) + B @ covariance @ B.T
        moved = (dynamics.mu * dt) ** 2 * FF + 2 * dynamics.mu * dynamics.kT * dt * eye
        heat += dynamics.mu * dt * np.trace(FF) + np.trace(B @ moved) / 2
    return float(heat)


def test_heat_of_a_directed_linear_network_in_closed_form() -> None:
    """A directed W does work for ever, so heat is no function of the last state; the sum of Ito is caught."""
    reservoir = coupled(W, DRIVES, tm.Dynamics(J2=0.7, J4=0.0, mu=1.3, kT=0.2))
    expected = mean_heat(reservoir, 0.02, 100)
    mean, _, error = observe(reservoir, Heat(), 2**14, 0.02, 2.0)
    assert abs(mean - expected) < 5 * error
    wrong, _, error = observe(reservoir, ItoHeat(), 2**14, 0.02, 2.0)
    assert abs(wrong - expected) > 20 * error


def test_a_rotating_pair_gives_off_heat_at_a_steady_rate() -> None:
    """W = ((0, a), (-a, 0)) leaves the equilibrium of two harmonic nodes as it is and turns it: mu a^2 kT / J2."""
    a, dynamics = 0.8, tm.Dynamics(J2=1.0, J4=0.0, kT=0.5)
    pair = coupled([[0, a], [-a, 0]], [0.0, 0.0], dynamics)
    (late, _, e1), (early, _, e2) = (observe(pair, Heat(), 2**13, 0.01, t) for t in (4.0, 2.0))
    # The recursion's own stationary variance is 1.01 of the process's.
    expected = a**2 * 0.5 * 2.0
    assert abs(late - early - expected) < 5 * np.hypot(e1, e2) + 0.02 * expected
