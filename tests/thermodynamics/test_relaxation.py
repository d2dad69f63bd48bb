"""Stationary moments and the distance to them: in the limit of long times, in closed form, by quadrature."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import thermoment as tm
from support.analytic import Array, coupled, ornstein_uhlenbeck, two_node_boltzmann, uncoupled
from thermoment._engines.meanfield import engine
from thermoment.thermodynamics import relaxation

ORDERS = (1, 2, 4)
LIMIT = tm.Protocol(dt=2e-3, n_replicas=math.inf)
COLD = tm.Dynamics(J2=-1.0, kT=0.02)
"""A double well that a node hardly ever leaves: the barrier is 12.5 kT high."""


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tables in a folder of their own, and small chunks: a few samples are then solved in little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(engine, "_CHUNK_ON_CPU", 2**11)
        yield


def network(s_W: float, dynamics: tm.Dynamics | None = None) -> tm.Reservoir:
    return tm.Reservoir.draw(64, 4, s_W=s_W, s_K=4.0, s_b=0.2, seed=3, dynamics=dynamics)


def images(S: int) -> Array:
    return np.random.default_rng(5).random((S, 4))


def rms(difference: Array) -> Array:
    """Over samples and nodes, for each order."""
    return np.asarray(np.sqrt((difference**2).mean(axis=(0, 2))))


@pytest.mark.slow
def test_it_shrinks() -> None:
    reservoir = network(s_W=0.2)
    found = tm.distance_to_equilibrium(reservoir, images(3), LIMIT)
    assert found.distance.shape == (3, 3, 64)
    assert found.second_order
    later = tm.distance_to_equilibrium(reservoir, images(3), tm.Protocol(dt=2e-3, t_final=20.0))
    np.testing.assert_array_equal(later.stationary, found.stationary)
    assert (rms(later.distance) < 3e-5).all()
    assert (rms(found.distance) > 1e-3).all()


@pytest.mark.slow
def test_uncoupled_nodes() -> None:
    """A node at rest in its well is nearly there at t = 1, one at a weak drive is 7 % away."""
    one = tm.distance_to_equilibrium(uncoupled([0.5, 4.0], tm.Dynamics()), [[1.0]], LIMIT)
    np.testing.assert_allclose(one.moments[0, 0] / one.stationary[0, 0], [0.933, 0.9999], atol=1e-3)
    expected = tm.Dynamics().boltzmann_moments([0.5, 4.0], ORDERS)
    np.testing.assert_allclose(one.stationary[0], expected, atol=2e-5)


@pytest.mark.slow
def test_a_linear_network_in_the_long_run() -> None:
    """The variance in closed form, of which plain mean field has no more than that of uncoupled nodes."""
    reservoir = network(s_W=0.5, dynamics=tm.Dynamics(J4=0.0))
    found = tm.distance_to_equilibrium(reservoir, images(1), replace(LIMIT, clip=math.inf))
    driven = tm.Reservoir(reservoir.W, reservoir.drive(images(1)).T, np.zeros(64), reservoir.dynamics)
    mean, covariance = ornstein_uhlenbeck(driven, 20.0)
    m1, m2, _ = found.stationary[0]
    np.testing.assert_allclose(m1, mean, atol=1e-3)
    left, missing = (np.linalg.norm(np.diag(covariance) - v) for v in (m2 - m1**2, np.full(64, 0.05)))
    assert left < 0.2 * missing


def test_two_nodes_by_quadrature() -> None:
    """A symmetric W has a global potential: second order gains fivefold on Boltzmann in the mean field."""
    reservoir = coupled([[0.0, 0.4], [0.4, 0.0]], [0.3, -0.2], tm.Dynamics())
    exact = two_node_boltzmann(reservoir, ORDERS)
    found = tm.distance_to_equilibrium(reservoir, [[1.0]], LIMIT).stationary[0]
    drive = relaxation.stationary_drive(reservoir.drive([[1.0]]), reservoir.W, reservoir.dynamics)
    plain = reservoir.dynamics.boltzmann_moments(drive[0], ORDERS)
    assert np.abs(found - exact).max() < 0.2 * np.abs(plain - exact).max()


def test_a_cold_double_well_is_left_at_mean_field() -> None:
    """Boltzmann's moments at the drives h_i + sum_j W_ij <x_j>, the <x_j> among them: self-consistent to rounding."""
    W, h = np.array([[0.0, 0.05], [-0.1, 0.0]]), np.array([0.02, 0.1])
    found = tm.distance_to_equilibrium(coupled(W.tolist(), h.tolist(), COLD), [[1.0]], LIMIT)
    assert not found.second_order
    mean = found.stationary[0, 0]
    np.testing.assert_allclose(found.stationary[0], COLD.boltzmann_moments(h + W @ mean, ORDERS), atol=1e-6)
    assert np.abs(mean - COLD.boltzmann_moments(h, (1,))[0]).max() > 0.1, "the coupling must matter"


def test_without_mean_field_solution() -> None:
    """Two cold nodes that push each other the opposite way round and round."""
    strong = coupled([[0.0, 3.0], [-3.0, 0.0]], [0.1, 0.1], COLD)
    with pytest.raises(RuntimeError, match="coupling is too strong"):
        tm.distance_to_equilibrium(strong, [[1.0]], LIMIT)


@pytest.mark.parametrize("drive", [-0.7, 0.7])
def test_two_leaning_wells_hold_each_other(drive: float) -> None:
    """At the drives that are found, each node's mean in equilibrium gives the other's drive."""
    dynamics = tm.Dynamics(J2=0.5, J3=0.8, kT=0.3)
    h, W = np.array([[drive, 0.1]]), np.array([[0.0, 0.4], [-0.3, 0.0]])
    found = relaxation.stationary_drive(h, W, dynamics)
    mean = dynamics.boltzmann_moments(found, [1])[0]
    np.testing.assert_allclose(found, h + mean @ W.T, atol=1e-5)
