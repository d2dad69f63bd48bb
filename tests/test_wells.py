"""Wells with a cubic term: closed forms against roots and quadrature, the moved even well, rates, the stable step."""

import numpy as np
import pytest
from scipy.integrate import quad

import thermoment as tm
from thermoment._support.identity import identity

DRIVES = np.array([-100.0, -3.0, -0.5, 0.0, 0.2, 1.0, 7.0, 100.0])
WELLS = [
    (1.0, 0.7, 1.0),
    (1.0, -2.5, 1.0),
    (-1.0, 0.3, 0.5),
    (0.2, 1.0, 0.3),
    (3.0, np.sqrt(8.0), 1.0),
    (0.0, 1.0, 1.0),
]
"""J2, J3, J4; of the fifth J2' = J2 - 3 J3^2 / (8 J4) is zero but for rounding."""
wells = pytest.mark.parametrize(("J2", "J3", "J4"), WELLS)


@wells
class TestStationaryPoint:
    def test_is_the_deepest_root_of_the_force(self, J2: float, J3: float, J4: float) -> None:
        dynamics = tm.Dynamics(J2, J4, J3=J3)
        for h, found in zip(DRIVES, dynamics.stationary_point(DRIVES), strict=True):
            roots = np.roots([4 * J4, 3 * J3, 2 * J2, -h])
            real = roots[np.abs(roots.imag) < 1e-4 * (1 + np.abs(roots))].real
            assert found == pytest.approx(real[np.argmin(dynamics.potential(real, h))], abs=1e-7)
            assert abs(float(dynamics.force(found, h))) < 1e-12 * (1 + abs(h))

    def test_the_mirror_image(self, J2: float, J3: float, J4: float) -> None:
        mirror = tm.Dynamics(J2, J4, J3=-J3)
        found = tm.Dynamics(J2, J4, J3=J3).stationary_point(DRIVES)
        np.testing.assert_allclose(mirror.stationary_point(-DRIVES), -found, rtol=1e-13)

    def test_moments_against_adaptive_quadrature(self, J2: float, J3: float, J4: float) -> None:
        dynamics = tm.Dynamics(J2, J4, kT=0.2, J3=J3)
        for h in (-2.0, 0.0, 0.3, 30.0):
            lowest = float(dynamics.stationary_point(h))
            bottom = float(dynamics.potential(lowest, h))

            def weight(x: float, p: int, h: float = h, bottom: float = bottom) -> float:
                return x**p * float(np.exp(-(dynamics.potential(x, h) - bottom) / 0.2))

            breaks = [lowest, -J3 / (2 * J4) - lowest, 0.0]
            integrals = [quad(weight, -9, 9, args=(p,), points=breaks, limit=500)[0] for p in range(4)]
            expected = np.array(integrals[1:]) / integrals[0]
            np.testing.assert_allclose(dynamics.boltzmann_moments(h, (1, 2, 3)), expected, rtol=1e-7, atol=1e-9)


def test_a_far_second_well_costs_no_digits() -> None:
    """s = -4750, and x* = 0.1: a closed form that adds s and y alone would lose five digits."""
    dynamics = tm.Dynamics(J2=1.0, J4=1e-8, J3=1.9e-4)
    assert abs(float(dynamics.force(dynamics.stationary_point(0.2), 0.2))) < 1e-15


def test_force_is_minus_the_gradient_and_curvature_its_derivative() -> None:
    dynamics = tm.Dynamics(J2=-0.7, J4=0.4, J3=0.9)
    x, h, e = np.linspace(-2, 2, 41), 0.3, 1e-5
    gradient = (dynamics.potential(x + e, h) - dynamics.potential(x - e, h)) / (2 * e)
    np.testing.assert_allclose(dynamics.force(x, h), -gradient, atol=1e-8)
    np.testing.assert_allclose(dynamics.force(x, h), h + 1.4 * x - 2.7 * x**2 - 1.6 * x**3, atol=1e-12)
    second = -(dynamics.force(x + e, h) - dynamics.force(x - e, h)) / (2 * e)
    np.testing.assert_allclose(dynamics.curvature(x), second, atol=1e-8)


def test_slope_against_finite_differences() -> None:
    dynamics, h = tm.Dynamics(1.0, 1.0, J3=0.8), np.array([-3.0, -0.2, 0.0, 0.4, 5.0])
    difference = (dynamics.stationary_point(h + 1e-5) - dynamics.stationary_point(h - 1e-5)) / 2e-5
    np.testing.assert_allclose(dynamics.stationary_slope(h), difference, rtol=1e-7)


def test_two_equal_wells_share_a_cold_node() -> None:
    """x^2 (x - 1)^2 has its minima at 0 and 1."""
    even = tm.Dynamics(J2=1.0, J4=1.0, kT=0.0, J3=-2.0)
    np.testing.assert_allclose(even.boltzmann_moments(0.0, (1, 2, 3)), [0.5, 0.5, 0.5], atol=1e-12)
    assert even.stationary_point(0.0) == pytest.approx(1.0, abs=1e-12)


def test_the_slowest_rate_is_that_of_the_same_well_moved() -> None:
    """x = s + y: a well that leans with no drive is an even well under a drive; x^2 (x - 1)^2 is even about 1/2."""
    even = tm.Dynamics(J2=-0.5, J4=1.0, kT=0.05)
    leaning = tm.Dynamics(J2=1.0, J4=1.0, kT=0.05, J3=-2.0)
    assert leaning.slowest_rate() == pytest.approx(even.slowest_rate(), rel=2e-3)
    assert leaning.slowest_rate() < 0.2 * tm.Dynamics(J2=1.0, J4=1.0, kT=0.05, J3=-1.5).slowest_rate()
    assert tm.Dynamics(J2=1.0, J4=1.0, kT=0.0, J3=1.0).slowest_rate() == 2.0
    assert tm.Dynamics(J2=1.0, J4=1.0, kT=0.0, J3=2.0).slowest_rate() == 0.0  # there are two minima


@pytest.mark.parametrize(("J2", "J3", "J4"), [(1.0, 0.7, 1.0), (1.0, -2.5, 1.0), (-1.0, 0.3, 0.5)])
@pytest.mark.parametrize("h", [0.5, 20.0])
def test_the_stable_step_holds_for_drives_of_both_signs(J2: float, J3: float, J4: float, h: float) -> None:
    dynamics = tm.Dynamics(J2, J4, mu=1.7, J3=J3)
    limit = dynamics.largest_stable_step(h)
    stiffest = max(float(dynamics.curvature(dynamics.stationary_point(drive))) for drive in (h, -h, 0.0))
    assert limit == pytest.approx(2 / 1.7 / max(stiffest, 2 * J2), rel=1e-9)
    for drive in (h, -h):
        target = float(dynamics.stationary_point(drive))
        x = target + 1e-6
        for _ in range(200):
            x = x + 0.95 * limit * 1.7 * float(dynamics.force(x, drive))
        assert abs(x - target) < 1e-6


class TestWhatItIsCalled:
    def test_without_j3_nothing_has_changed(self) -> None:
        assert repr(tm.Dynamics()) == "Dynamics(J2=1.0, J4=1.0, mu=1.0, kT=0.1)"
        assert identity(tm.Dynamics(J3=0)) == identity(tm.Dynamics()) != identity(tm.Dynamics(J3=0.1))
        assert tm.Dynamics(1.0, 2.0, 3.0, 4.0) == tm.Dynamics(J2=1.0, J4=2.0, mu=3.0, kT=4.0)
        assert repr(tm.Dynamics(J3=-0.5)).endswith("kT=0.1, J3=-0.5)")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"J3": 1.0, "J4": 0.0}, "`J3` must be at most 1e\\+06 J4 in magnitude"),
            ({"J3": float("nan")}, "`J3` must be finite"),
            ({"J3": 1e-200}, "`J3` must be zero, or at least 1e-100"),
            ({"J3": "1"}, "`J3` must be a real number"),
        ],
    )
    def test_refused(self, arguments: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            tm.Dynamics(**arguments)
