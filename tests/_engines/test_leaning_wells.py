"""Wells with a cubic term, J3, on every engine that takes them: steps, equilibrium, refusals; and meanfield."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from support.analytic import fokker_planck, uncoupled
from support.conformance import ENGINES, Candidate, agrees, runnable
from thermoment._engines.meanfield import engine as meanfield
from thermoment._engines.meanfield import tables
from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.tables import node_tables
from thermoment.noise import normals

LEANING = tm.Dynamics(J2=0.5, J4=1.0, mu=1.3, kT=0.2, J3=-0.9)
RESERVOIR = tm.Reservoir.draw(7, 3, s_W=0.8, s_K=3.0, seed=1, dynamics=LEANING)
INPUTS = np.random.default_rng(0).random((3, 3))
PROTOCOL = tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=20)
TAKES_J3 = [candidate for candidate in ENGINES if candidate.label in ("reference", "xla")]


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(meanfield, "_CHUNK_ON_CPU", 2**9)
        yield


@pytest.fixture(params=TAKES_J3, ids=lambda candidate: candidate.label)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return runnable(request.param)


class TestEngines:
    def test_every_step_is_the_equations(self, candidate: Candidate) -> None:
        x = np.zeros((3, 20, 7))
        h, W = RESERVOIR.drive(INPUTS)[:, None], RESERVOIR.W
        for n in range(20):
            xi = np.stack([normals(n, np.arange(20), 7, s, PROTOCOL.seed, 0) for s in range(3)])
            force = -2 * 0.5 * x + 3 * 0.9 * x**2 - 4 * x**3 + h + np.einsum("ij,smj->smi", W, x)
            x = x + 1.3 * 0.01 * force + np.sqrt(2 * 1.3 * 0.2 * 0.01) * xi
        found = tm.final_states(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine)
        np.testing.assert_allclose(found, x, rtol=0, atol=max(candidate.tolerance, 1e-12))

    def test_long_time_is_equilibrium(self, candidate: Candidate) -> None:
        """The bias of the Euler step is below 4e-3 at dt = 4e-3."""
        drives = [-1.0, 0.0, 0.5]
        orders = (1, 2, 4, 8)
        protocol = tm.Protocol(dt=4e-3, t_final=3.2, n_replicas=min(candidate.replicas, 2**13) // 4, orders=orders)
        found = tm.simulate(uncoupled(drives, LEANING), [[1.0]], protocol, engine=candidate.engine)
        expected = LEANING.boltzmann_moments(np.array(drives), (1, 2, 4))
        for p, moment in zip((1, 2, 4), expected, strict=True):
            agrees(found.order(p)[0], moment, found.standard_error(p)[0], bias=4e-3)
        mirror = tm.Dynamics(0.5, 1.0, 1.3, 0.2, J3=0.9).boltzmann_moments(np.array(drives), (1,))[0]
        with pytest.raises(AssertionError, match="standard errors off"):
            agrees(found.order(1)[0], mirror, found.standard_error(1)[0], bias=4e-3)

    @pytest.mark.parametrize("name", ["native", "cuda"])
    def test_others_refuse(self, name: str) -> None:
        other = runnable(next(one for one in ENGINES if one.label == name))
        with pytest.raises(ValueError, match=f"`J3` must be zero for the {name} engine .reference, xla and meanfield"):
            tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=other.engine)

    def test_auto_passes_over_them(self) -> None:
        assert tm.simulate(RESERVOIR, INPUTS, PROTOCOL).info.engine == "xla"


def test_a_file_keeps_j3_and_is_as_before_without(tmp_path: Path) -> None:
    RESERVOIR.save(tmp_path / "leaning.safetensors")
    assert tm.Reservoir.load(tmp_path / "leaning.safetensors").dynamics == LEANING
    tm.Reservoir.draw(7, 3, seed=1).save(tmp_path / "even.safetensors")
    assert b"J3" not in (tmp_path / "even.safetensors").read_bytes()


class TestMeanField:
    LIMIT = tm.Protocol(t_final=0.5, n_replicas=math.inf)

    @pytest.mark.slow
    def test_single_nodes_roughly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In equilibrium, from tables of few drives: they are soon made, and show on which side a node is."""
        monkeypatch.setattr(tables, "_POINTS", 12)
        monkeypatch.setattr(tables, "_SCOUTS", 4)
        drives = [-3.0, 0.0, 2.0]
        found = tm.simulate(uncoupled(drives, LEANING), [[1.0]], replace(self.LIMIT, t_final=5.0), engine="meanfield")
        expected = LEANING.boltzmann_moments(drives, (1, 2, 4))
        np.testing.assert_allclose(found.raw[0], expected, rtol=0, atol=5e-3)
        assert expected[0, 1] > 0.02, "an even well would have zero"

    @pytest.mark.slow
    def test_single_nodes_by_the_fokker_planck_equation(self) -> None:
        drives = [-3.0, 0.0, 0.6]
        found = tm.simulate(uncoupled(drives, LEANING), [[1.0]], self.LIMIT, engine=MeanField("float64")).raw[0]
        expected = np.array([fokker_planck(LEANING, h, 0.5, (1, 2, 4)) for h in drives]).T
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)

    @pytest.mark.slow
    def test_the_mirror_image(self) -> None:
        """Both tables are for the same nodes, with the sign of x, h and J3 changed."""
        both_signs = node_tables(LEANING, 0.5, 20.0)
        assert both_signs.signed
        assert np.array_equal(both_signs.h, -both_signs.h[::-1])
        mirror = tm.Reservoir(RESERVOIR.W, -RESERVOIR.K, -RESERVOIR.b, tm.Dynamics(0.5, 1.0, 1.3, 0.2, J3=0.9))
        found = tm.simulate(RESERVOIR, INPUTS, self.LIMIT, engine=MeanField("float64"))
        other = tm.simulate(mirror, INPUTS, self.LIMIT, engine=MeanField("float64"))
        np.testing.assert_allclose(found.order(1), -other.order(1), atol=1e-6)
        np.testing.assert_allclose(found.order(2), other.order(2), atol=1e-6)

    @pytest.mark.slow
    def test_a_coupled_network_by_sampling(self) -> None:
        """Its error is below its own estimate, or not to be seen beside 4096 replicas."""
        found = tm.simulate(RESERVOIR, INPUTS, self.LIMIT, engine="meanfield")
        protocol = tm.Protocol(dt=2e-3, t_final=0.5, n_replicas=2**12, orders=(1, 2, 4, 8))
        sampled = tm.simulate(RESERVOIR, INPUTS, protocol, engine="xla")
        assert found.info.error is not None
        for p in (1, 2):
            agrees(found.order(p), sampled.order(p), sampled.standard_error(p), bias=3 * found.info.error[p])

    @pytest.mark.slow
    def test_finitely_many_replicas_scatter_as_sampled_ones(self) -> None:
        """Skewness of the draws: of 3 x 7 x 4096 replicas, drawn one a sample, where a node leans to one side."""
        alone = uncoupled([0.0], LEANING)
        one = tm.Protocol(t_final=0.5, n_replicas=1, orders=(1,))
        x = tm.simulate(alone, np.ones((4096, 1)), one, engine="meanfield").raw.ravel()
        m1, m2, m3 = fokker_planck(LEANING, 0.0, 0.5, (1, 2, 3))
        central = m3 - 3 * m1 * m2 + 2 * m1**3
        found = (x - m1) ** 3
        agrees(found.mean(keepdims=True), central, found.std(keepdims=True) / 64)
        assert central > 5 * found.std() / 64

    def test_training_refuses_it(self) -> None:
        from thermoment.learning.finite_time.lookup import training_curves

        with pytest.raises(ValueError, match="`J3` must be zero to train through the finite-time moments"):
            training_curves(LEANING, 0.5, (1, 2))
