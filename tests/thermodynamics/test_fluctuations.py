"""Fluctuation theorems and the second law, of the sampled paths: each beside a control that must fail.

The averages of exp(-work / kT) have fixed seeds and allow four standard errors (false-alarm rate 6e-5 for one number).
Euler steps change them by about 0.6 dt, far below one standard error. Controls fail by more than ten.
"""

from dataclasses import replace

import numpy as np
import pytest

import thermoment as tm
from support.analytic import Array, coupled, uncoupled
from thermoment.thermodynamics.account import Account

HOT = tm.Dynamics(kT=0.5)
REST = tm.Protocol(dt=2.5e-3, t_final=0.5, n_replicas=2**15, start="rest", t_rest=3.0)
ZERO = replace(REST, start="zero", t_rest=None)
NODE = uncoupled([0.8], HOT)
SYMMETRIC = coupled([[0, 0.6, -0.4], [0.6, 0, 0.5], [-0.4, 0.5, 0]], [0.8, -0.5, 0.6], HOT)
DIRECTED = coupled([[0, 1.6, -0.4], [-1.2, 0, 1.5], [1.4, -0.5, 0]], [0.8, -0.5, 0.6], HOT)


def replicas(reservoir: tm.Reservoir, protocol: tm.Protocol, x0: tm.State | None = None) -> Account:
    found = tm.energetics(reservoir, [[1.0]], protocol, x0=x0, per_replica=True).replicas
    assert found is not None
    return found


def off_from_one(work: Array) -> float:
    """<exp(-work / kT)> - 1 in standard errors."""
    weight = np.exp(-work)
    return float((weight.mean() - 1) / (weight.std() / np.sqrt(weight.size)))


@pytest.mark.parametrize("reservoir", [NODE, SYMMETRIC], ids=["node", "network"])
def test_jarzynski_over_the_closed_cycle_from_rest(reservoir: tm.Reservoir) -> None:
    """The drive comes and goes, so the free energy is what it was: <exp(-work / kT)> = 1."""
    found = replicas(reservoir, REST)
    assert abs(off_from_one(found.cycle)) < 4
    assert found.cycle.mean() > 0.2
    # Controls: a start at x = 0 is no equilibrium, the work of switching on does not average to nothing here.
    assert off_from_one(replicas(reservoir, ZERO).cycle) < -10
    assert off_from_one(found.work_off) < -10


def test_the_integral_theorem_of_a_directed_coupling() -> None:
    """Started in the Boltzmann law of the symmetric part of W, <exp(-cycle / kT)> = 1 for any antisymmetric part."""
    W = (DIRECTED.W + DIRECTED.W.T) / 2
    more = replace(ZERO, n_replicas=2**17)
    rested = tm.course(DIRECTED, [tm.Phase(3.0, None, W)], more, keep_end=True, sample_ids=[0]).end
    found = replicas(DIRECTED, more, rested)
    assert found.work_path.mean() > 0.5
    assert abs(off_from_one(found.cycle)) < 4
    # Control: without the work along the path.
    assert off_from_one(found.work_on + found.work_off) > 10


def free_energy(h: float) -> float:
    """F(h) - F(0) of a node in units of kT: the integral of -<x> over the drive, by the trapezoid rule."""
    drives = np.linspace(0, h, 201)
    return float(-np.trapezoid(HOT.boltzmann_moments(drives, [1])[0], drives) / HOT.kT)


def test_slow_driving_takes_the_difference_in_free_energy() -> None:
    """The drive rises in 40 equal phases; work is what each rise takes where the node is. Sudden switching takes more.

    Over a time T the excess falls like 1 / T. Standard errors are those of sums of 2^14 replicas.
    """
    h, n, M = 1.5, 40, 2**14
    difference = free_energy(h)

    def excess(T: float) -> tuple[float, float]:
        drives = h * np.arange(1, n + 1) / n
        phases = [tm.Phase(T / n, [[one / 0.8]]) for one in drives]
        protocol = replace(ZERO, n_replicas=M, dt=5e-3, start="rest", t_rest=3.0)
        means = tm.course(NODE, phases, protocol).raw[:, 0, 0, 0]
        # Each rise by h / n is done where the phase before ended; the first of all at rest, where <x> = 0.
        work = -(h / n) * means[:-1].sum() / HOT.kT
        # The spread of the whole is at most that of a node that does not move in the meantime.
        return work - difference, h * np.sqrt(HOT.boltzmann_moments(0.0, [2])[0] / M) / HOT.kT

    (fast, error), (middle, _), (slow, _) = (excess(T) for T in (0.4, 2.0, 10.0))
    sudden = -difference  # at once, from rest: <x> = 0
    # 40 phases leave half a step each: the area between a staircase and the curve below it.
    staircase = h * float(HOT.boltzmann_moments(h, [1])[0]) / n / 2 / HOT.kT
    assert abs(slow) < 0.15 * sudden + staircase + 4 * error
    assert slow + 8 * error < middle < fast - 8 * error < sudden
    assert 4 * error < 0.1 * sudden


@pytest.mark.parametrize("kT", [0.1, 1.0])
def test_the_second_law_over_a_scan(kT: float) -> None:
    """The mean work of a cycle from rest is above zero for weak and strong drives, soon and late, W of any kind."""
    lowest = np.inf
    for seed, (s_W, s_K, t_final) in enumerate([(0.0, 0.05, 0.05), (0.5, 0.5, 1.0), (1.0, 4.0, 0.1), (1.5, 0.1, 2.0)]):
        reservoir = tm.Reservoir.draw(8, 4, s_W=s_W, s_K=s_K, seed=seed, dynamics=tm.Dynamics(kT=kT))
        protocol = tm.Protocol(dt=0.01, t_final=t_final, n_replicas=2**11, start="rest", t_rest=2.5)
        found = tm.energetics(reservoir, np.random.default_rng(seed).normal(size=(6, 4)), protocol)
        assert (found.cycle > -4 * found.standard_errors.cycle).all()
        lowest = min(lowest, float((found.cycle / found.standard_errors.cycle).mean()))
    assert lowest > -1  # in the mean over the inputs, too
