"""Nodes that differ: arrays in the dynamics, on the engines that take them; refused by others, and in wrong length."""

import math
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from support.conformance import ENGINES, Candidate, bits, runnable
from thermoment._support.identity import identity
from thermoment.learning.finite_time.lookup import check_trainable
from thermoment.noise import normals

N = 7
RNG = np.random.default_rng(8)
FIELDS = {
    "J2": np.array([1.0, -1.0, 0.0, 0.5, 2.0, 0.3, 1.0]),
    "J3": np.array([0.0, 0.3, -0.5, 0.0, 0.0, 1.0, -2.0]),
    "J4": np.array([1.0, 0.5, 1.0, 0.7, 0.0, 1.5, 1.0]),
    "mu": 0.5 + RNG.random(N),
    "kT": np.array([0.1, 0.2, 0.0, 0.3, 0.1, 0.05, 1.0]),
}
MIXED = tm.Dynamics(**FIELDS)
DRAWN = tm.Reservoir.draw(N, 3, s_W=0.8, s_K=3.0, seed=1)
RESERVOIR = tm.Reservoir(DRAWN.W, DRAWN.K, DRAWN.b, MIXED)
INPUTS = np.random.default_rng(0).random((3, 3))
PROTOCOL = tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=20)
TAKES_ARRAYS = [candidate for candidate in ENGINES if candidate.label in ("reference", "xla", "xla-float64")]


@pytest.fixture(params=TAKES_ARRAYS, ids=lambda candidate: candidate.label)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return runnable(request.param)


class TestEngines:
    def test_every_step_is_the_equations_with_a_number_for_each_node(self, candidate: Candidate) -> None:
        J2, J3, J4, mu, kT = FIELDS.values()
        x = np.zeros((3, 20, N))
        h, W = RESERVOIR.drive(INPUTS)[:, None], RESERVOIR.W
        for n in range(20):
            xi = np.stack([normals(n, np.arange(20), N, s, PROTOCOL.seed, 0) for s in range(3)])
            force = -2 * J2 * x - 3 * J3 * x**2 - 4 * J4 * x**3 + h + np.einsum("ij,smj->smi", W, x)
            x = x + mu * 0.01 * force + np.sqrt(2 * mu * kT * 0.01) * xi
        found = tm.final_states(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine)
        np.testing.assert_allclose(found, x, rtol=0, atol=max(candidate.tolerance, 1e-12))
        moments = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine)
        np.testing.assert_allclose(moments.order(2), (x**2).mean(axis=1), rtol=0, atol=max(candidate.tolerance, 1e-12))

    def test_equal_numbers_have_the_bits_of_one(self, candidate: Candidate) -> None:
        alike = tm.Dynamics(np.full(N, 1.0), np.full(N, 1.0), np.full(N, 1.0), np.full(N, 0.1))
        found = tm.simulate(tm.Reservoir(DRAWN.W, DRAWN.K, DRAWN.b, alike), INPUTS, PROTOCOL, engine=candidate.engine)
        assert bits(found) == bits(tm.simulate(DRAWN, INPUTS, PROTOCOL, engine=candidate.engine))

    @pytest.mark.parametrize("candidate", TAKES_ARRAYS[:2], ids=lambda candidate: candidate.label, indirect=True)
    def test_heat_knows_the_force_on_each_node(self, candidate: Candidate) -> None:
        found = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine, observables=[tm.Heat()])
        _, x = tm.sample_paths(RESERVOIR, INPUTS, PROTOCOL, nodes=range(N), engine="reference")
        middle, change = (x[:, :, 1:] + x[:, :, :-1]) / 2, x[:, :, 1:] - x[:, :, :-1]
        J2, J3, J4, *_ = FIELDS.values()
        force = -2 * J2 * middle - 3 * J3 * middle**2 - 4 * J4 * middle**3 + RESERVOIR.drive(INPUTS)[:, None, None]
        force = force + np.einsum("ij,smtj->smti", RESERVOIR.W, middle)
        heat = (force * change).sum(axis=(2, 3)).mean(axis=1)
        np.testing.assert_allclose(found.observed["heat"].mean, heat, rtol=0, atol=max(20 * candidate.tolerance, 1e-11))

    @pytest.mark.parametrize("name", ["native", "cuda"])
    def test_others_refuse(self, name: str) -> None:
        other = runnable(next(one for one in ENGINES if one.label == name))
        with pytest.raises(ValueError, match=f"`dynamics` must be the same for all nodes for the {name} engine"):
            tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=other.engine)

    def test_meanfield_refuses(self) -> None:
        limit = tm.Protocol(n_replicas=math.inf)
        with pytest.raises(ValueError, match="`dynamics` must be the same for all nodes for the meanfield engine"):
            tm.simulate(RESERVOIR, INPUTS, limit, engine="meanfield")

    def test_auto_passes_over_them(self) -> None:
        assert tm.simulate(RESERVOIR, INPUTS, PROTOCOL).info.engine == "xla"

    def test_training_refuses(self) -> None:
        with pytest.raises(ValueError, match="`dynamics` must be the same for all nodes to train"):
            check_trainable((1, 2), MIXED)


class TestIdentity:
    def test_equal_numbers_are_equal_dynamics(self) -> None:
        again = tm.Dynamics(**{name: value.copy() for name, value in FIELDS.items()})
        assert again == MIXED
        assert hash(again) == hash(MIXED)
        assert identity(again) == identity(MIXED)

    @pytest.mark.parametrize("name", FIELDS)
    def test_one_number_makes_another(self, name: str) -> None:
        changed = FIELDS[name].copy()
        changed[3] += 1e-3
        other = tm.Dynamics(**(FIELDS | {name: changed}))
        assert other != MIXED
        assert identity(other) != identity(MIXED)

    def test_arrays_are_own_and_read_only(self) -> None:
        kT = np.full(3, 0.1)
        dynamics = tm.Dynamics(kT=kT)
        kT[0] = 5.0
        assert np.array_equal(dynamics.kT, np.full(3, 0.1))
        with pytest.raises(ValueError, match="read-only"):
            dynamics.kT[0] = 1.0  # type: ignore[index]

    def test_a_file_keeps_them_to_the_last_bit(self, tmp_path: Path) -> None:
        RESERVOIR.save(tmp_path / "mixed.safetensors")
        assert tm.Reservoir.load(tmp_path / "mixed.safetensors").dynamics == MIXED

    def test_it_prints_as_one_line_without_arrays(self) -> None:
        assert repr(tm.Dynamics(kT=[0.1, 0.2])) == "Dynamics(J2=1.0, J4=1.0, mu=1.0, kT=of 2 nodes)"


class TestPhysics:
    h = RNG.normal(0, 2, (4, N))

    def test_functions_are_those_of_each_node(self) -> None:
        warm = tm.Dynamics(**(FIELDS | {"kT": 0.2}))
        x = RNG.normal(0, 1, (4, N))
        found = {
            "potential": MIXED.potential(x, self.h),
            "force": MIXED.force(x, self.h),
            "curvature": MIXED.curvature(x),
            "stationary_point": MIXED.stationary_point(self.h),
            "relaxation_time": MIXED.relaxation_time(self.h),
        }
        moments = warm.boltzmann_moments(self.h, (1, 2))
        for i in range(N):
            node = MIXED.node(i)
            assert node == tm.Dynamics(**{name: float(value[i]) for name, value in FIELDS.items()})
            np.testing.assert_allclose(found["potential"][:, i], node.potential(x[:, i], self.h[:, i]), atol=1e-12)
            np.testing.assert_allclose(found["force"][:, i], node.force(x[:, i], self.h[:, i]), atol=1e-12)
            np.testing.assert_allclose(found["curvature"][:, i], node.curvature(x[:, i]), atol=1e-12)
            np.testing.assert_allclose(found["stationary_point"][:, i], node.stationary_point(self.h[:, i]), atol=1e-12)
            np.testing.assert_allclose(found["relaxation_time"][:, i], node.relaxation_time(self.h[:, i]), rtol=1e-9)
            np.testing.assert_allclose(
                moments[..., i], warm.node(i).boltzmann_moments(self.h[:, i], (1, 2)), rtol=1e-12
            )

    def test_the_stable_step_is_that_of_the_stiffest_and_the_rate_that_of_the_slowest(self) -> None:
        each = [MIXED.node(i) for i in range(N)]
        assert MIXED.largest_stable_step(3.0, 0.5) == pytest.approx(
            min(one.largest_stable_step(3.0, 0.5) for one in each)
        )
        assert MIXED.slowest_rate() == min(one.slowest_rate() for one in each)
        stiff = tm.Reservoir(DRAWN.W, DRAWN.K, DRAWN.b, tm.Dynamics(J2=np.where(np.arange(N) == 4, 500.0, 1.0)))
        with pytest.raises(ValueError, match=r"`dt` must be at most 0\.00"):
            tm.simulate(stiff, INPUTS, PROTOCOL)

    def test_a_density_is_of_one_node(self) -> None:
        with pytest.raises(ValueError, match=r"`dynamics` must be of a single node for a density, as Dynamics.node"):
            MIXED.boltzmann_density(0.0)
        assert MIXED.node(0).boltzmann_density(0.0) > 0

    def test_wells_are_drawn_one_at_a_time(self) -> None:
        with pytest.raises(ValueError, match="`dynamics` must be of a single node for this plot"):
            tm.plot.well(RESERVOIR)


class TestRefused:
    def test_another_number_of_nodes_than_the_reservoir(self) -> None:
        with pytest.raises(ValueError, match="`dynamics` must be of 7 nodes, as W is, but is of 5"):
            tm.Reservoir(DRAWN.W, DRAWN.K, DRAWN.b, tm.Dynamics(kT=np.full(5, 0.1)))

    def test_arrays_of_different_lengths(self) -> None:
        with pytest.raises(ValueError, match=r"`kT` must have shape \(3,\), but has shape \(2,\)"):
            tm.Dynamics(J2=[1, 2, 3], kT=[0.1, 0.2])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"mu": [1.0, 0.0]}, "`mu` must be positive"),
            ({"kT": [[0.1]]}, r"`kT` must have shape \(N,\)"),
            ({"kT": [0.1, math.nan]}, "`kT` must be finite"),
            ({"kT": []}, "`kT` must have shape"),
            ({"kT": ["a", "b"]}, "`kT` must be a real array"),
            ({"J2": [1.0, -1.0], "J4": 0.0}, r"`J2` must be positive where J4 = 0, .* -1.0 at index \(1,\)"),
            ({"J4": [1.0, 0.0], "J3": 0.5}, r"`J3` must be at most 1e\+06 J4"),
            ({"J2": [1.0, 1e40]}, r"`J2` must be at most 1e\+30 in magnitude, but was 1e\+40 at index \(1,\)"),
        ],
    )
    def test_numbers_that_no_node_can_have(self, arguments: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            tm.Dynamics(**arguments)  # type: ignore[arg-type]

    def test_positions_of_another_number_of_nodes(self) -> None:
        with pytest.raises(ValueError, match=r"`x` must have shape \(..., 7\), but has shape \(2, 3\)"):
            MIXED.force(np.zeros((2, 3)))
