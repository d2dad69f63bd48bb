"""Tables of one node against independent solutions: equilibrium, eigenvectors, the Euler step's transfer operator, OU.

The tables' own error is to be below 1e-5 of a moment of size 1; larger moments are compared relatively.
"""

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid

import thermoment as tm
from support.analytic import Array, fokker_planck, gaussian_moments, uncoupled
from thermoment._engines.meanfield import engine as engine_module
from thermoment._engines.meanfield import tables as module
from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.grids import Grid, cell_grid, halved, noiseless_path, reach, substeps, time_grid
from thermoment._engines.meanfield.node import Expansion, Modes, densities, ending, richardson, solve
from thermoment._engines.meanfield.quantiles import NORMALS, shape_moments
from thermoment._engines.meanfield.tables import NodeTables, node_tables

ORDERS = np.arange(1, 9)
NONE = np.zeros((0, 1, 1))
LINEAR = tm.Dynamics(J2=0.8, J4=0.0, mu=1.5, kT=0.2)
RATE = 2 * LINEAR.J2 * LINEAR.mu


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tables in a folder of their own, and small chunks: a few samples are then solved in little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(engine_module, "_CHUNK_ON_CPU", 2**11)
        yield


def moments(dynamics: tm.Dynamics, h: float, t_final: float, h_max: float = 100.0) -> Array:
    """E[x^p], p = 1..8, of one node by the solver behind the tables."""
    drives = np.array([0.0, h])
    t = time_grid(dynamics, h_max, t_final)
    noiseless = noiseless_path(dynamics, drives, t)
    parts = substeps(dynamics, drives, t, noiseless)[:, 1]
    low, high = reach(dynamics, drives, noiseless)
    found = []
    for refine, t_, parts_ in ((1, t, parts), (2, halved(t), np.repeat(parts, 2))):
        cells = cell_grid(dynamics, h, low[1], high[1], t_final, refine)
        modes = Modes(np.ones((1, len(t_))), NONE, NONE)
        found.append(solve(dynamics, h, cells, t_, parts_, modes, 8).moments)
    return richardson(*found)


def close(found: Array, expected: Array, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        found / np.maximum(1, np.abs(expected)), expected / np.maximum(1, np.abs(expected)), atol=tolerance, rtol=0
    )


@pytest.mark.parametrize("h", [0.0, 0.3, 5.0, 100.0])
@pytest.mark.parametrize(("J2", "kT"), [(1.0, 0.01), (1.0, 0.1), (0.3, 1.0), (1.0, 10.0), (-0.5, 0.1), (-1.0, 10.0)])
def test_long_times_are_equilibrium(J2: float, kT: float, h: float) -> None:
    dynamics = tm.Dynamics(J2=J2, kT=kT)
    t_final = 100.0 if J2 < 0 else 20.0
    expected = dynamics.boltzmann_moments([h], ORDERS.tolist())[:, 0]
    close(moments(dynamics, h, t_final)[:4], expected[:4])
    close(moments(dynamics, h, t_final), expected, 1e-4)


@pytest.mark.parametrize(
    ("J2", "kT", "t_final", "h"),
    [(1.0, 0.1, 0.05, 0.7), (1.0, 0.1, 1.0, 0.7), (-1.0, 0.1, 0.3, 0.0), (-1.0, 0.05, 2.0, 0.7)],
)
def test_transient_against_eigenvectors(J2: float, kT: float, t_final: float, h: float) -> None:
    dynamics = tm.Dynamics(J2=J2, kT=kT)
    expected = fokker_planck(dynamics, h, t_final, (1, 2, 4))
    close(moments(dynamics, h, t_final, 20.0)[[0, 1, 3]], expected)
    assert np.abs(expected - dynamics.boltzmann_moments([h], (1, 2, 4))[:, 0]).max() > 1e-4, "no transient"


def euler_moments(dynamics: tm.Dynamics, h: float, t_final: float, n_steps: int) -> Array:
    """E[x^p] of the Euler recursion itself, by its transfer operator on an even grid, exact but for the grid.

    One step takes a density to the sum of Gaussians N(x + mu F dt, 2 mu kT dt); the trapezoid rule on a grid finer than
    their width is exact to rounding. The first step starts from the point x = 0.
    """
    dt = t_final / n_steps
    width = np.sqrt(2 * dynamics.mu * dynamics.kT * dt)
    reach_ = 8 * np.sqrt(2 * dynamics.mu * dynamics.kT * t_final)
    far = dynamics.mu * h * t_final
    x = np.arange(-reach_, max(reach_, min(far, float(dynamics.stationary_point(h))) + reach_), width / 2)
    kernel = np.exp(-((x[:, None] - x - dynamics.mu * dt * dynamics.force(x, h)) ** 2) / (2 * width**2))
    kernel /= np.sqrt(2 * np.pi) * width / (width / 2)
    density = np.exp(-((x - dynamics.mu * dt * h) ** 2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * 2)
    for _ in range(n_steps - 1):
        density = kernel @ density
    assert abs(density.sum() - 1) < 1e-10, "probability is lost"
    return np.array([(x**p * density).sum() for p in ORDERS])


@cache
def without_steps(dynamics: tm.Dynamics, h: float, t_final: float) -> Array:
    """The recursion's moments at four steps, extrapolated to dt = 0: bias a dt + b dt^2 + c dt^3. To about 1e-6."""
    rows = [euler_moments(dynamics, h, t_final, n) for n in (20, 40, 80, 160)]
    for order in (1, 2, 3):
        rows = [(2**order * fine - coarse) / (2**order - 1) for coarse, fine in pairwise(rows)]
    return rows[0]


TRANSIENTS = [(1.0, 0.1, 0.3, 0.937), (1.0, 0.01, 0.01, 93.7), (-1.0, 0.02, 0.2, 7.5)]
MORE = [(-1.0, 0.1, 0.5, 0.281), (1.0, 0.02, 0.05, 18.74), (0.3, 1.0, 0.2, 4.7)]
"""J2, kT, t_final and a drive that lies between two drives of the tables."""


@pytest.mark.parametrize(("J2", "kT", "t_final", "h"), TRANSIENTS + MORE)
def test_transient_against_the_transfer_operator_of_the_euler_step(
    J2: float, kT: float, t_final: float, h: float
) -> None:
    dynamics = tm.Dynamics(J2=J2, kT=kT)
    limit = without_steps(dynamics, h, t_final)
    close(moments(dynamics, h, t_final)[:4], limit[:4])
    assert np.abs(euler_moments(dynamics, h, t_final, 160) - limit)[:4].max() > 1e-4, "the steps must matter"


class TestWhatTheEngineReads:
    """Uncoupled nodes through the whole engine, at drives between those of the tables, by independent solutions."""

    def engine(self, dynamics: tm.Dynamics, drives: list[float], t_final: float) -> Array:
        protocol = tm.Protocol(dt=t_final / 4000, t_final=t_final, n_replicas=np.inf, clip=np.inf, orders=(1, 2, 3, 4))
        found = tm.simulate(uncoupled(drives, dynamics), [[1.0]], protocol, engine=MeanField("float64"))
        return np.asarray(found.raw[0])

    @pytest.mark.parametrize(
        ("J2", "kT", "t_final", "h"), [*TRANSIENTS, *(pytest.param(*row, marks=pytest.mark.slow) for row in MORE)]
    )
    def test_transients(self, J2: float, kT: float, t_final: float, h: float) -> None:
        dynamics, drives = tm.Dynamics(J2=J2, kT=kT), [h, -0.44 * h]
        expected = np.array([without_steps(dynamics, abs(h), t_final)[:4] for h in drives]).T
        found = self.engine(dynamics, drives, t_final) * [[1, -1], [1, 1], [1, -1], [1, 1]]
        close(found, expected)

    @pytest.mark.parametrize(
        ("J2", "kT", "t_final"),
        [
            (1.0, 0.1, 20.0),
            *(pytest.param(*row, marks=pytest.mark.slow) for row in [(0.3, 1.0, 20.0), (-0.5, 0.1, 100.0)]),
        ],
    )
    def test_equilibrium(self, J2: float, kT: float, t_final: float) -> None:
        dynamics, drives = tm.Dynamics(J2=J2, kT=kT), [0.0, 0.0123, 0.31, -1.7, 5.5, -13.1, 19.9]
        close(self.engine(dynamics, drives, t_final), dynamics.boltzmann_moments(drives, (1, 2, 3, 4)))


@pytest.mark.parametrize("t_final", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("h", [0.0, 3.0])
def test_linear_node_is_ornstein_uhlenbeck(t_final: float, h: float) -> None:
    found, expected = moments(LINEAR, h, t_final, 10.0), linear_moments(h, t_final)
    close(found[:4], expected[:4])
    close(found, expected, 1e-4)


@pytest.mark.parametrize(
    "dynamics", [tm.Dynamics(), pytest.param(tm.Dynamics(J2=-0.3), marks=pytest.mark.slow)], ids=["well", "double well"]
)
@pytest.mark.slow
def test_a_node_that_has_rested(dynamics: tm.Dynamics) -> None:
    """Against the Fokker-Planck equation by another scheme; a node from x = 0 is ruled out."""
    drives, orders, t, t_rest = [0.3, -1.0], (1, 2, 3, 4), 0.3, 8.0
    protocol = tm.Protocol(dt=1e-2, t_final=t, n_replicas=math.inf, orders=orders, start="rest", t_rest=t_rest)
    found = tm.simulate(uncoupled(drives, dynamics), [[1.0]], protocol, engine=MeanField("float64")).raw[0]
    close(found, np.stack([fokker_planck(dynamics, h, t, orders, t_rest) for h in drives], axis=1), 1e-6)
    assert np.abs(found[:, 1] - fokker_planck(dynamics, -1.0, t, orders)).max() > 5e-3


@pytest.mark.slow
def test_right_after_a_rest_a_node_is_where_it_rested() -> None:
    """After a time t so short that only h moves it: x = y + mu h t with y in equilibrium, for every h of the table."""
    t, dynamics = 1e-4, tm.Dynamics()
    rested = node_tables(dynamics, t, 100.0, 4.0)
    m2, m4 = dynamics.boltzmann_moments(0.0, (2, 4))
    way = dynamics.mu * rested.h * t
    expected = np.stack([way, m2 + way**2, m4 + 6 * m2 * way**2 + way**4], axis=1)
    close(rested.moments[:, [0, 1, 3]], expected, 1e-5)


def linear_moments(h: float, t_final: float) -> Array:
    """E[x^p], p = 1..8, of the linear node."""
    mean = np.array([h / (2 * LINEAR.J2) * -np.expm1(-RATE * t_final)])
    variance = np.array([LINEAR.kT / (2 * LINEAR.J2) * -np.expm1(-2 * RATE * t_final)])
    return gaussian_moments(mean, variance, ORDERS.tolist())[:, 0]


def test_memory_of_a_linear_node() -> None:
    """d<x(t)>/df(s) = mu exp(-2 J2 mu (t - s))."""
    t = halved(halved(time_grid(LINEAR, 10.0, 1.0)))
    memory = ending(LINEAR, 0.0, linear_cells(t), t, np.ones(len(t) - 1, np.intp)).memory
    np.testing.assert_allclose(memory, 1.5 * np.exp(-2.4 * (1 - t)), atol=2e-4)


def linear_cells(t: Array, refine: int = 1) -> Grid:
    """Cells of the undriven linear node."""
    low, high = reach(LINEAR, np.zeros(1), noiseless_path(LINEAR, np.zeros(1), t))
    return cell_grid(LINEAR, 0.0, low[0], high[0], t[-1], refine)


def linear_expansion(t: Array, refine: int) -> Expansion:
    """The undriven linear node with the kernels G = 1 and r = 1, constant in time."""
    one = np.ones((1, 1, 1))
    modes = Modes(np.ones((1, len(t))), one, one)
    return solve(LINEAR, 0.0, linear_cells(t, refine), t, np.ones(len(t) - 1, np.intp), modes, 4)


@pytest.mark.parametrize("t_final", [0.05, 1.0])
def test_second_order_of_a_linear_node(t_final: float) -> None:
    """x = y + z with y Ornstein-Uhlenbeck: z adds a variance v, so E[x^2] changes by v and E[x^4] by 6 E[y^2] v.

    A constant field of variance 1 gives v = (int R)^2 with the response R(s) = mu exp(-rate (T - s)). The force
    int_0^t y ds gives v = 2 int dt R(t) int_0^t ds Cov(y(s), y(T)).
    """
    s = np.linspace(0, t_final, 4001)
    R = LINEAR.mu * np.exp(-RATE * (t_final - s))
    with_end = LINEAR.kT / (2 * LINEAR.J2) * np.exp(-RATE * (t_final - s)) * -np.expm1(-2 * RATE * s)
    by_field = float(np.trapezoid(R, s)) ** 2
    by_reaction = 2 * float(np.trapezoid(R * cumulative_trapezoid(with_end, s, initial=0.0), s))
    t = halved(time_grid(LINEAR, 10.0, t_final))
    found = linear_expansion(t, 2)
    y2 = linear_moments(0.0, t_final)[1]
    for change, v in ((found.second[:, 0], by_field), (found.reaction[:, 0], by_reaction)):
        np.testing.assert_allclose(change, [0.0, v, 0.0, 6 * y2 * v], rtol=5e-3, atol=1e-9 * v)
    # Cov(y(s), y(s')) integrated over both times.
    both = np.exp(-RATE * np.abs(s[::10, None] - s[::10])) - np.exp(-RATE * (s[::10, None] + s[::10]))
    integral = np.trapezoid(np.trapezoid(both, s[::10]), s[::10])
    assert found.covariance[0, 0] == pytest.approx(LINEAR.kT / (2 * LINEAR.J2) * integral, rel=3e-3)


def test_the_density_is_smooth_even_where_steps_are_long_for_the_cells() -> None:
    """40 even steps, in each of which a node diffuses over nine cells: a delta not smoothed would oscillate to the end.

    The moments would not show it; the quantile function, a straight line for a Gaussian, does.
    """
    found = linear_expansion(np.linspace(0, 0.05, 41), 8)
    sigma = np.sqrt(linear_moments(0.0, 0.05)[1])
    inside = np.abs(NORMALS) < 4
    np.testing.assert_allclose(found.quantiles[inside], sigma * NORMALS[inside], atol=0.01 * sigma)


@pytest.fixture(scope="module")
def table() -> NodeTables:
    return node_tables(tm.Dynamics(), 1.0, 20.0)


def test_the_response_is_the_derivative(table: NodeTables) -> None:
    """dM_p/dh of the perturbed Fokker-Planck equation and the slope of the tabulated moments, found independently."""
    u = np.arcsinh(table.h / table.scale)
    slope = np.gradient(table.moments, u, axis=0, edge_order=2) / np.sqrt(table.h**2 + table.scale**2)[:, None]
    np.testing.assert_allclose(table.slope[5:-5, :4], slope[5:-5, :4], rtol=0.01, atol=2e-3)


def test_the_modes_hold_the_means(table: NodeTables) -> None:
    assert table.missed[table.h < 5].max() < 1e-3
    np.testing.assert_allclose((table.phi * np.gradient(table.t)) @ table.phi.T, np.eye(6), atol=0.05)


@pytest.mark.parametrize(("kT", "t_final", "h_max"), [(0.1, 1.0, 20.0), (0.01, 0.01, 100.0)])
def test_the_law_is_standardised_and_has_the_moments_skewness(kT: float, t_final: float, h_max: float) -> None:
    """Also where a cold density in full flight is too narrow for the cells."""
    table = node_tables(tm.Dynamics(kT=kT), t_final, h_max)
    m1, m2, m3 = table.moments[:, :3].T
    skewness = (m3 - 3 * m1 * m2 + 2 * m1**3) / (m2 - m1**2) ** 1.5
    of_shape = shape_moments(table.shape, 3)
    np.testing.assert_allclose(of_shape[:, :2], [[0, 1]] * len(m1), atol=1e-9)
    np.testing.assert_allclose(of_shape[:, 2], skewness, atol=0.025)
    assert (np.diff(table.shape, axis=1) > 0).all()


class TestKeptOnDisk:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: NodeTables) -> None:
        monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path))
        self.folder = tmp_path
        self.built = 0

        def count(*_: object) -> NodeTables:
            self.built += 1
            return table

        monkeypatch.setattr(module, "build", count)
        self.from_memory = cache(module._cached.__wrapped__)
        monkeypatch.setattr(module, "_cached", self.from_memory)

    def again(self) -> NodeTables:
        self.from_memory.cache_clear()
        return node_tables(tm.Dynamics(), 1.0, 20.0)

    def test_built_once(self, table: NodeTables) -> None:
        self.again()
        found = self.again()
        assert self.built == 1
        np.testing.assert_array_equal(found.by_field, table.by_field)
        assert found.shape.shape == table.shape.shape
        node_tables(tm.Dynamics(kT=0.2), 1.0, 20.0)
        assert self.built == 2, "another temperature is another table"
        node_tables(tm.Dynamics(), 1.0, 20.0, 1.5)
        self.again()
        assert self.built == 3, "a rest before it is another table, and leaves the one without in its place"

    @pytest.mark.parametrize("damage", ["emptied", "other", "cut", "a byte changed"])
    def test_rebuilt_if_damaged(self, damage: str) -> None:
        self.again()
        (file,) = self.folder.glob("node-*.safetensors")
        whole = file.read_bytes()
        changed = whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]
        damaged = {"emptied": b"", "other": b"not a table", "cut": whole[: len(whole) // 2], "a byte changed": changed}
        file.write_bytes(damaged[damage])
        self.again()
        assert self.built == 2
        self.again()
        assert self.built == 2, "what was rebuilt is whole"

    def test_a_folder_that_cannot_be_written_costs_time_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        blocked = self.folder / "file"
        blocked.write_bytes(b"")
        monkeypatch.setenv("THERMOMENT_CACHE", str(blocked))
        assert self.again().h_max == pytest.approx(20.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_density_under_a_drive_that_grows_is_that_of_the_closed_form(sign: float) -> None:
    """In a harmonic well, a = 2 mu J2, under h(t) = s t: Gaussian, <x> = mu s (t / a - (1 - e^(-a t)) / a^2)."""
    dynamics = tm.Dynamics(J2=1.5, J4=0.0, mu=0.7, kT=0.2)
    t, at = np.linspace(0.0, 1.2, 41), np.linspace(-3.0, 3.0, 1201)
    s, a = sign * 2.5, 2 * dynamics.mu * dynamics.J2
    found = densities(dynamics, s * t, t, at)
    assert not found[0].any()
    step = at[1] - at[0]
    mean = dynamics.mu * s * (t / a - (1 - np.exp(-a * t)) / a**2)
    variance = dynamics.kT / (2 * dynamics.J2) * (1 - np.exp(-2 * a * t))
    for k in (8, 20, 40):
        assert found[k].sum() * step == pytest.approx(1, abs=1e-3)
        assert (found[k] @ at) * step == pytest.approx(mean[k], abs=2e-3)
        exact = np.exp(-((at - mean[k]) ** 2) / (2 * variance[k])) / np.sqrt(2 * np.pi * variance[k])
        assert np.abs(found[k] - exact).max() < 0.01 * exact.max()


def test_the_density_at_a_constant_drive_comes_to_rest_as_boltzmann_says() -> None:
    dynamics = tm.Dynamics(J2=-0.5, J4=1.0, kT=0.3)
    t, at = np.linspace(0.0, 30.0, 61), np.linspace(-2.5, 2.5, 501)
    found = densities(dynamics, np.full(61, 0.4), t, at)[-1]
    exact = dynamics.boltzmann_density(at, 0.4)
    assert np.abs(found - exact).max() < 0.01 * exact.max()
