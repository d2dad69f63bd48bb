"""The energy account without sampling, beside the sampled one and closed forms."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import thermoment as tm
from support.analytic import Array, coupled
from thermoment.thermodynamics import averages
from thermoment.thermodynamics.account import Account
from thermoment.thermodynamics.pairs import Pairs, pairs

N, DT = 24, 2e-3
INPUTS = np.random.default_rng(0).normal(size=(4, 6))


def network(s_W: float, kT: float) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 6, s_W=s_W, s_K=2.0, s_b=0.3, seed=3, dynamics=tm.Dynamics(kT=kT))


def off(reservoir: tm.Reservoir, protocol: tm.Protocol) -> dict[str, Array]:
    """Of each term what sampling finds less what `meanfield` gives, in units of what chance and both errors allow.

    Euler steps raise the variance of a node by mu k dt / 2 of it, and so its energy by about kT dt.
    """
    sampled = tm.energetics(reservoir, INPUTS, protocol)
    without = tm.energetics(reservoir, INPUTS, protocol, engine="meanfield")
    assert without.engine == "meanfield"
    found = {}
    for name in Account._fields:
        chance, own = (getattr(one.standard_errors, name) for one in (sampled, without))
        bias = 2 * N * DT if name in ("heat", "energy") else 0.0
        allowed = np.maximum(np.sqrt(chance**2 + own**2 + bias**2), 1e-12)
        found[name] = (getattr(sampled, name) - getattr(without, name)) / allowed
    return found


CASES = [(0.1, 1.0, 0.5, None)]
SLOW = [
    (0.1, 1.0, 0.0, None),
    (0.1, 1.0, 0.2, 2.0),
    (0.1, 0.3, 0.5, 2.0),
    (0.1, 0.3, 0.8, None),
    (0.5, 1.0, 0.5, 2.0),
    (0.5, 0.3, 0.8, None),
    (0.02, 1.0, 0.4, None),
]


@pytest.mark.parametrize(
    ("kT", "t_final", "s_W", "t_rest"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_sampling_agrees(
    kT: float, t_final: float, s_W: float, t_rest: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within three standard errors, 24 numbers a case (one in 15 cases would be beyond by chance; seeds are fixed)."""
    protocol = tm.Protocol(dt=DT, t_final=t_final, n_replicas=2**12)
    if t_rest:
        protocol = replace(protocol, start="rest", t_rest=t_rest)
    reservoir = network(s_W, kT)
    for name, z in off(reservoir, protocol).items():
        assert np.abs(z).max() < 3, (name, z)
    if s_W >= 0.5:  # Control: without what correlated fluctuations add, the work along the path is off.
        monkeypatch.setattr(averages, "pairs", _without_work)
        assert np.abs(off(reservoir, protocol)["work_path"]).max() > 6


def _without_work(*args: Any) -> Pairs:
    found = pairs(*args)
    return replace(found, work=0 * found.work)


@pytest.mark.slow
def test_a_soft_and_a_stiff_node_that_turn_each_other() -> None:
    """The work depends on both stiffnesses: 2 kT / (k_i + k_j) and not the variance of either, which is twice as much.

    The mean of the driven node pushes the other one as well: that part of the work is in both accounts.
    """
    a, dynamics = 0.5, tm.Dynamics()
    pair = coupled([[0, a], [-a, 0]], [0.0, 5.0], dynamics)
    protocol = tm.Protocol(dt=DT, n_replicas=2**17)
    sampled = tm.energetics(pair, [[1.0]], protocol)
    without = tm.energetics(pair, [[1.0]], protocol, engine="meanfield")
    chance = float(sampled.standard_errors.work_path[0])
    apart = float(sampled.work_path[0] - without.work_path[0])
    tables = pairs(dynamics, 1.0, 0.0, 5.0)
    work = a**2 * (tables.work[0, -1] + tables.work[-1, 0]) / dynamics.kT
    assert abs(apart) < 3 * chance + 0.05 * work
    variances = a**2 * sum(_variance(h) for h in (0.0, 5.0)) / dynamics.kT
    assert variances - work > 3 * (3 * chance + 0.05 * work)


def _variance(h: float) -> float:
    """Of a node in equilibrium."""
    m1, m2 = tm.Dynamics().boltzmann_moments(h, [1, 2])
    return float(m2 - m1**2)


def test_the_energy_of_a_bond() -> None:
    """Two undriven nodes under a symmetric W: their energy is that of the wells less W E[x_1 x_2]."""
    pair = coupled([[0, 0.5], [0.5, 0]], [0.0, 0.0], tm.Dynamics())
    protocol = tm.Protocol(dt=DT, n_replicas=2**16)
    sampled = tm.energetics(pair, [[1.0]], protocol)
    without = tm.energetics(pair, [[1.0]], protocol, engine="meanfield")
    allowed = 3 * float(sampled.standard_errors.energy[0]) + 2 * DT  # of two nodes, as in `off`
    assert abs(float(sampled.energy[0] - without.energy[0])) < allowed
    # Control: the bond.
    bond = 0.5**2 * pairs(tm.Dynamics(), 1.0, 0.0, 1.0).covariance[0, 0] * 2 / 0.1
    assert bond > 1.5 * allowed


@pytest.mark.parametrize("t_rest", [0.0, 1.5])
def test_pairs_of_harmonic_nodes_are_exact_to_second_order(t_rest: float) -> None:
    """Two nodes W = e ((0, a), (b, 0)): covariance and work by matrix exponentials, their orders e and e^2."""
    dynamics, t, e = tm.Dynamics(J2=0.7, J4=0.0, mu=1.3, kT=0.2), 0.6, 1e-3
    tables = pairs(dynamics, t, t_rest, 3.0)
    W = e * np.array([[0.0, 1.0], [-0.4, 0.0]])
    A = (W - W.T) / 2
    at = partial(_covariance, 1.3 * (W - 1.4 * np.eye(2)), 2 * 1.3 * 0.2)
    np.testing.assert_allclose(at(t_rest + t)[0, 1] / e, 0.6 * tables.covariance[0, -1], rtol=2e-3)
    if t_rest:
        np.testing.assert_allclose(at(t_rest)[0, 1] / e, 0.6 * tables.at_rest, rtol=2e-3)
    assert tables.at_rest > 0 or not t_rest
    np.testing.assert_allclose(at(t_rest + t)[0, 0], tables.variance, rtol=1e-3)
    # E[(A x) . mu F] for mean zero: the trace of A^T mu (W - 2 J2) C.
    times = t_rest + (np.arange(50) + 0.5) * (t / 50)
    work = t * np.mean([np.sum((A.T @ (1.3 * (W - 1.4 * np.eye(2)))) * at(s)) for s in times])
    drive = np.array([[1.0, -2.0]])
    np.testing.assert_allclose(tables.summed(tables.work, A * W, drive), work, rtol=2e-3)
    assert work > 1e-2 * e**2


def _covariance(B: Array, noise: float, t: float) -> Array:
    """Of dx = B x dt + sqrt(noise) dB from x = 0: the block formula of Van Loan."""
    n = len(B)
    block = expm(t * np.block([[-B, noise * np.eye(n)], [np.zeros((n, n)), B.T]]))
    return np.asarray(block[n:, n:].T @ block[:n, n:])
