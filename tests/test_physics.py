"""Dynamics: closed forms against root finding and quadrature done another way; integrability; the stable step."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import kv

import thermoment as tm
from thermoment.physics import coupling_norm

DRIVES = np.array([-100.0, -3.0, -0.5, -1e-9, 0.0, 1e-9, 0.2, 1.0, 7.0, 100.0])
WELLS = [(1.0, 1.0), (0.3, 2.0), (1e-12, 1.0), (0.0, 1.0), (-1.0, 1.0), (-2.0, 0.1), (1.0, 1e-12), (1.0, 0.0)]


@pytest.mark.parametrize(("J2", "J4"), WELLS)
class TestStationaryPoint:
    def test_is_a_root_of_the_force(self, J2: float, J4: float) -> None:
        dynamics = tm.Dynamics(J2, J4)
        x = dynamics.stationary_point(DRIVES)
        scale = np.abs(2 * J2 * x) + np.abs(4 * J4 * x**3) + np.abs(DRIVES) + 1e-15
        assert (np.abs(dynamics.force(x, DRIVES)) / scale).max() < 1e-14 * 30

    def test_is_the_global_minimum(self, J2: float, J4: float) -> None:
        dynamics = tm.Dynamics(J2, J4)
        reach = 2 * np.abs(dynamics.stationary_point(DRIVES)) + 1
        grid = np.linspace(-1, 1, 20001)[:, None] * reach
        lowest = dynamics.potential(dynamics.stationary_point(DRIVES), DRIVES)
        assert (lowest <= dynamics.potential(grid, DRIVES).min(axis=0) + 1e-12 * (1 + np.abs(lowest))).all()

    def test_is_odd_in_the_drive(self, J2: float, J4: float) -> None:
        dynamics = tm.Dynamics(J2, J4)
        h = DRIVES[DRIVES > 0]
        assert np.array_equal(dynamics.stationary_point(-h), -dynamics.stationary_point(h))

    def test_slope_against_finite_differences(self, J2: float, J4: float) -> None:
        dynamics = tm.Dynamics(J2, J4)
        h = DRIVES[np.abs(DRIVES) > 0.1]
        step = 1e-5 * np.abs(h)
        difference = (dynamics.stationary_point(h + step) - dynamics.stationary_point(h - step)) / (2 * step)
        np.testing.assert_allclose(dynamics.stationary_slope(h), difference, rtol=1e-7)
        np.testing.assert_allclose(tm.Dynamics(J2, J4, mu=4.0).relaxation_time(h), difference / 4, rtol=1e-7)


def test_stationary_point_of_a_double_well_at_rest_is_the_positive_minimum() -> None:
    assert tm.Dynamics(J2=-1.0, J4=1.0).stationary_point(0.0) == pytest.approx(np.sqrt(0.5))


def test_slope_of_a_purely_quartic_well_at_rest_is_infinite() -> None:
    assert tm.Dynamics(J2=0.0).stationary_slope(0.0) == np.inf


def test_force_is_minus_the_gradient_and_curvature_its_derivative() -> None:
    dynamics = tm.Dynamics(J2=-0.7, J4=0.4)
    x, h, e = np.linspace(-2, 2, 41), 0.3, 1e-5
    gradient = (dynamics.potential(x + e, h) - dynamics.potential(x - e, h)) / (2 * e)
    np.testing.assert_allclose(dynamics.force(x, h), -gradient, atol=1e-8)
    second = -(dynamics.force(x + e, h) - dynamics.force(x - e, h)) / (2 * e)
    np.testing.assert_allclose(dynamics.curvature(x), second, atol=1e-8)


class TestBoltzmann:
    @pytest.mark.parametrize("kT", [0.01, 0.1, 1.0, 10.0])
    @pytest.mark.parametrize(("J2", "J4"), [(1.0, 1.0), (0.3, 2.0), (0.0, 1.0), (-1.0, 1.0), (1.0, 0.0)])
    @pytest.mark.parametrize("h", [0.0, 0.05, -1.0, 10.0, 100.0])
    def test_moments_against_adaptive_quadrature(self, kT: float, J2: float, J4: float, h: float) -> None:
        dynamics = tm.Dynamics(J2, J4, kT=kT)
        x0 = float(dynamics.stationary_point(h))
        lowest = float(dynamics.potential(x0, h))

        def weight(x: float, p: int) -> float:
            return x**p * float(np.exp(-(dynamics.potential(x, h) - lowest) / kT))

        def integral(p: int) -> float:
            width = float(np.sqrt(kT / max(float(dynamics.curvature(x0)), 1e-2)))
            breaks = sorted({-x0, 0.0, *(x0 + k * width for k in (-8, -4, -2, 0, 2, 4, 8))})
            return float(quad(weight, x0 - 60 * width - 4, x0 + 60 * width + 4, args=(p,), points=breaks, limit=500)[0])

        orders = (1, 2, 3, 4, 8)
        found = dynamics.boltzmann_moments(h, orders)
        expected = np.array([integral(p) for p in orders]) / integral(0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    def test_second_moment_of_the_quartic_well_by_bessel_functions(self) -> None:
        """E[x^2] at h = 0 from Z(J2) = sqrt(J2/(4 J4)) exp(z) K_1/4(z), z = J2^2 / (8 J4 kT): -kT d ln Z / d J2."""
        J4, kT = 0.7, 0.3

        def log_partition(J2: float) -> float:
            z = J2**2 / (8 * J4 * kT)
            return float(0.5 * np.log(J2) + z + np.log(kv(0.25, z)))

        expected = -kT * (log_partition(1.2 + 1e-5) - log_partition(1.2 - 1e-5)) / 2e-5
        found = tm.Dynamics(1.2, J4, kT=kT).boltzmann_moments(0.0, [2])[0]
        assert found == pytest.approx(expected, rel=1e-8)

    def test_equipartition(self) -> None:
        """E[x dU/dx] = kT at any drive."""
        dynamics = tm.Dynamics(J2=-0.4, J4=0.8, kT=0.25)
        m1, m2, m4 = dynamics.boltzmann_moments(DRIVES)
        np.testing.assert_allclose(2 * dynamics.J2 * m2 + 4 * dynamics.J4 * m4 - DRIVES * m1, 0.25, atol=1e-9)

    def test_cold_limit(self) -> None:
        cold, nearly = tm.Dynamics(kT=0.0), tm.Dynamics(kT=1e-9)
        np.testing.assert_allclose(cold.boltzmann_moments(DRIVES), nearly.boltzmann_moments(DRIVES), atol=1e-5)
        both = tm.Dynamics(J2=-1.0, J4=1.0, kT=0.0).boltzmann_moments(0.0, (1, 2, 3))
        np.testing.assert_allclose(both, [0, 0.5, 0], atol=1e-15)

    def test_both_wells_count_however_high_the_barrier(self) -> None:
        """At rest the two wells weigh the same; the barrier here is 250 kT."""
        m1, m2, m3 = tm.Dynamics(J2=-1.0, J4=1.0, kT=1e-3).boltzmann_moments(0.0, (1, 2, 3))
        assert (m1, m3) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12))
        assert m2 == pytest.approx(0.5, abs=1e-3)

    def test_shape_follows_the_drive(self) -> None:
        moments = tm.Dynamics().boltzmann_moments(np.ones((3, 5)), (1, 2))
        assert moments.shape == (2, 3, 5)
        assert np.ptp(moments, axis=(1, 2)).max() == 0

    def test_many_drives_in_blocks(self) -> None:
        h = np.linspace(-5, 5, 30001)
        found = tm.Dynamics(kT=0.01).boltzmann_moments(h, [2])[0]
        np.testing.assert_allclose(found[::5000], tm.Dynamics(kT=0.01).boltzmann_moments(h[::5000], [2])[0], rtol=1e-12)

    def test_density(self) -> None:
        dynamics = tm.Dynamics(J2=-1.0, J4=1.0, kT=0.2)
        x = np.linspace(-3, 3, 3001)
        density = dynamics.boltzmann_density(x, h=0.3)
        assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-12)
        assert np.trapezoid(x * density, x) == pytest.approx(dynamics.boltzmann_moments(0.3, [1])[0], abs=1e-12)
        with pytest.raises(ValueError, match="`kT` must be positive for a density, but was 0"):
            tm.Dynamics(kT=0.0).boltzmann_density(x)


def random_matrix(n: int) -> NDArray[np.float64]:
    return np.random.default_rng(4).normal(size=(n, n))


class TestIntegrability:
    def test_size_of_the_asymmetry(self) -> None:
        W = random_matrix(400)
        assert tm.integrability(W + W.T) == (True, 0.0)
        assert tm.integrability(np.zeros((3, 3))) == (True, 0.0)
        antisymmetric = tm.integrability(W - W.T)
        assert not antisymmetric.integrable
        assert antisymmetric.asymmetry == pytest.approx(1)
        assert tm.integrability(W).asymmetry == pytest.approx(np.sqrt(0.5), rel=0.02)

    def test_one_entry_in_the_last_bit_breaks_it(self) -> None:
        W = random_matrix(9)
        W = W + W.T
        W[2, 5] = np.nextafter(W[2, 5], 9)
        assert not tm.integrability(W).integrable

    def test_the_global_potential_gives_the_force(self) -> None:
        rng = np.random.default_rng(6)
        W = random_matrix(5)
        W = W + W.T
        x, h = rng.normal(size=(3, 5)), rng.normal(size=5)
        dynamics, e = tm.Dynamics(), 1e-6
        force = dynamics.force(x, h) + x @ W.T
        for i in range(5):
            shift = e * np.eye(5)[i]
            up, down = (dynamics.global_potential(x + s, h, W) for s in (shift, -shift))
            np.testing.assert_allclose(force[:, i], -(up - down) / (2 * e), atol=1e-7)

    def test_no_global_potential_without_symmetry(self) -> None:
        with pytest.raises(ValueError, match=r"`W` must be symmetric to have a global potential, but was asymmetric"):
            tm.Dynamics().global_potential(np.zeros(4), 0.0, random_matrix(4))


class TestStableStep:
    @pytest.mark.parametrize(("J2", "J4", "h"), [(1.0, 1.0, 0.0), (1.0, 1.0, 20.0), (-1.0, 1.0, 0.5), (1.0, 0.0, 3.0)])
    def test_euler_returns_below_it_and_not_above(self, J2: float, J4: float, h: float) -> None:
        dynamics = tm.Dynamics(J2, J4, mu=1.7)
        limit = dynamics.largest_stable_step(h)
        target = float(dynamics.stationary_point(h))
        for factor, returns in ((0.95, True), (1.05, False)):
            x = target + 1e-6
            for _ in range(100):
                x = x + factor * limit * 1.7 * float(dynamics.force(x, h))
            assert (abs(x - target) < 1e-6) == returns

    def test_coupling_shortens_it(self) -> None:
        """The fastest mode of a symmetric linear network decays at mu (2 J2 + |W|)."""
        W = random_matrix(30)
        W = W + W.T
        W *= 1.5 / np.linalg.norm(W, 2)
        limit = tm.Dynamics(J4=0.0).largest_stable_step(W_norm=float(np.linalg.norm(W, 2)))
        fastest = 2 - np.linalg.eigvalsh(W).min()
        assert 1 <= 2 / fastest / limit < 1.1

    @pytest.mark.parametrize("h", [0.5, 6.0])
    def test_a_coupled_quartic_pair_returns_below_it_and_not_above(self, h: float) -> None:
        """Two equal nodes push each other outwards, to where the well is stiffer: their common x solves the cubic of a
        well with J2 - w / 2. There the mode in which they move against each other decays at mu (U'' + w), the fastest.
        """
        dynamics, w = tm.Dynamics(mu=1.7), 3.0
        limit = dynamics.largest_stable_step(h, W_norm=w)
        target = float(tm.Dynamics(J2=1.0 - w / 2).stationary_point(h))
        for factor, returns in ((0.95, True), (1.05, False)):
            x = target + np.array([1e-6, -1e-6])
            for _ in range(100):
                x = x + factor * limit * 1.7 * (dynamics.force(x, h) + w * x[::-1])
            assert (np.abs(x - target).max() < 1e-6) == returns

    def test_coupling_norm(self) -> None:
        W = random_matrix(200)
        assert coupling_norm(W) == pytest.approx(np.linalg.norm(W, 2), rel=0.03)
        assert coupling_norm(np.zeros((4, 4))) == 0
