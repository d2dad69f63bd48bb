"""Drives above 100 in `meanfield`: single nodes by sampling and in equilibrium, and an honest estimate in a network."""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import thermoment as tm
from support.analytic import Array, uncoupled
from support.conformance import agrees
from thermoment._engines.meanfield import engine as meanfield
from thermoment._engines.meanfield.engine import MeanField, check_limits
from thermoment._engines.meanfield.grids import NodeGrids, halved
from thermoment._engines.meanfield.network import is_wide
from thermoment._engines.meanfield.node import Modes, richardson, solve
from thermoment._engines.meanfield.tables import RANGES, drives_of

HOT = tm.Dynamics(kT=1.0)
DRIVES = (150.0, 300.0, 592.0)
LIMIT = tm.Protocol(t_final=0.2, n_replicas=math.inf)


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(meanfield, "_CHUNK_ON_CPU", 2**11)
        yield


@cache
def on_the_grids_of_the_widest_table(t_final: float) -> Array:
    """E[x^p], p = 1..4, of a node at each of `DRIVES`, by the solver and on the grids behind the tables: (3, 4)."""
    _, of_table = drives_of(HOT, t_final, RANGES[-1])
    grids = NodeGrids.of(HOT, np.array([0.0, *DRIVES, of_table[-1]]), t_final, 0.0)
    none = np.zeros((0, 1, 1))

    def moments(k: int, refine: int, t: Array, n_substeps: NDArray[np.intp]) -> Array:
        modes = Modes(np.ones((1, len(t))), none, none)
        return solve(HOT, float(grids.h[k]), grids.cells(k, refine), t, n_substeps, modes, 4).moments

    found = []
    for k in (1, 2, 3):
        steps = grids.n_substeps[:, k]
        found.append(richardson(moments(k, 1, grids.t, steps), moments(k, 2, halved(grids.t), np.repeat(steps, 2))))
    return np.array(found)


def test_at_rest_a_node_is_in_equilibrium() -> None:
    """A time of 0.2 is more than twenty relaxation times at the weakest of these drives."""
    expected = HOT.boltzmann_moments(np.array(DRIVES), (1, 2, 3, 4)).T
    np.testing.assert_allclose(on_the_grids_of_the_widest_table(0.2), expected, rtol=1e-6)
    m1, m2 = on_the_grids_of_the_widest_table(0.2)[:, :2].T
    np.testing.assert_allclose(m2 - m1**2, expected[:, 1] - expected[:, 0] ** 2, rtol=1e-4)


def test_on_its_way_a_node_is_where_sampling_finds_it() -> None:
    """At t = 0.004 these nodes are under way. The bias of an Euler step of 1e-5 is below 1e-3 of the way."""
    protocol = tm.Protocol(dt=1e-5, t_final=4e-3, n_replicas=4096, orders=(1, 2, 4))
    sampled = tm.simulate(uncoupled(DRIVES, HOT), [[1.0]], protocol, engine="reference")
    m1, m2, _, m4 = on_the_grids_of_the_widest_table(4e-3).T
    assert (m1 < 0.95 * HOT.stationary_point(np.array(DRIVES))).all(), "none has arrived"
    for p, expected in ((1, m1), (2, m2)):
        agrees(sampled.order(p)[0], expected, sampled.standard_error(p)[0], bias=1e-3 * float(expected.max()))
    # The fourth moment of so narrow a law scatters as 4 m1^3 times the mean does.
    scatter = 4 * np.abs(m1) ** 3 * sampled.standard_error(1)[0]
    agrees(sampled.order(4)[0], m4, scatter, bias=4e-3 * float(m4.max()))


def test_what_is_in_range_and_what_is_not() -> None:
    check_limits(HOT, 592.0, math.inf)
    with pytest.raises(ValueError, match="`drive` must be at most 1000"):
        check_limits(HOT, 1001.0, math.inf)


@pytest.mark.parametrize(("h_max", "wide"), [(20.0, False), (100.0, False), (1000.0, True)])
def test_only_the_widest_table_counts_as_wide(h_max: float, wide: bool) -> None:
    """The last drive of a table is its range but for rounding: 100.00000000000001 of the second."""
    _, h = drives_of(tm.Dynamics(), 0.5, h_max)
    assert is_wide(float(h[-1])) == wide


@pytest.mark.slow
class TestTables:
    @pytest.mark.parametrize("engine", ["meanfield", MeanField("float64")], ids=str)
    def test_between_the_drives_of_the_table(self, engine: str | MeanField) -> None:
        drives = [*DRIVES, -437.0, 999.0]
        found = tm.simulate(uncoupled(drives, HOT), [[1.0]], LIMIT, engine=engine)
        expected = HOT.boltzmann_moments(np.array(drives), (1, 2, 4))
        np.testing.assert_allclose(found.raw[0], expected, rtol=2e-5)

    def test_a_strong_network_says_that_it_is_doubtful(self) -> None:
        """As strongly driven and coupled as a published machine, in which the fields turn some nodes round."""
        rng = np.random.default_rng(2)
        N, S = 40, 12
        upper = np.triu(rng.normal(0, 2.5, (N, N)), 1)
        reservoir = tm.Reservoir(upper + upper.T, np.eye(N), np.zeros(N), HOT)
        drives = rng.normal(0, 130, (S, N))
        with pytest.warns(UserWarning, match="coupling is strong for the meanfield engine"):
            found = tm.simulate(reservoir, drives, LIMIT, engine="meanfield")
        sampled = tm.simulate(reservoir, drives, tm.Protocol(dt=2e-4, t_final=0.2, n_replicas=256), engine="xla")
        assert found.info.error is not None
        for p in (1, 2, 4):
            error = math.sqrt(float(((found.order(p) - sampled.order(p)) ** 2).mean()))
            assert 0.5 * error < found.info.error[p] < 20 * error

    def test_a_sample_has_the_same_bits_in_any_batch(self) -> None:
        """Some of these samples converge by whole rounds, some by half ones."""
        rng = np.random.default_rng(2)
        upper = np.triu(rng.normal(0, 4.0, (30, 30)), 1)
        reservoir = tm.Reservoir(upper + upper.T, np.eye(30), np.zeros(30), HOT)
        drives = rng.normal(0, 130, (12, 30))
        with pytest.warns(UserWarning, match="coupling is strong"):
            whole = tm.simulate(reservoir, drives, LIMIT, engine="meanfield").raw
        with pytest.warns(UserWarning, match="coupling is strong"):
            back = tm.simulate(reservoir, drives[::-1], LIMIT, engine="meanfield").raw
        assert whole.tobytes() == np.ascontiguousarray(back[::-1]).tobytes()
