"""Products of two nodes: those of the final states on engines that read them, refused by others; meanfield."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.analytic import Array, coupled, ornstein_uhlenbeck
from support.conformance import ENGINES, Candidate, agrees, bits, runnable
from thermoment._engines.meanfield import engine as meanfield
from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.pairs import covariances

RESERVOIR = tm.Reservoir.draw(7, 3, s_W=0.8, s_K=3.0, seed=1)
INPUTS = np.random.default_rng(0).random((3, 3))
PROTOCOL = tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=50)
PAIRS = ((0, 5), (6, 1), (5, 0), (2, 3))
LINEAR = tm.Dynamics(J2=0.8, J4=0.0, mu=1.5, kT=0.2)
READS_PAIRS = [candidate for candidate in ENGINES if candidate.label in ("reference", "xla", "xla-float64")]


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(meanfield, "_CHUNK_ON_CPU", 2**8)
        yield


@pytest.fixture(params=READS_PAIRS[:2], ids=lambda candidate: candidate.label)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return runnable(request.param)


def terms(x: Array) -> Array:
    """Of states (S, M, N) the means of x_i^a x_j^b: (S, 4, P)."""
    i, j = np.array(PAIRS).T
    powers = ((1, 1), (2, 1), (1, 2), (2, 2))
    return np.stack([(x[..., i] ** a * x[..., j] ** b).mean(axis=1) for a, b in powers], axis=1)


class TestEngines:
    @pytest.mark.parametrize("candidate", READS_PAIRS, ids=lambda candidate: candidate.label, indirect=True)
    def test_products_are_those_of_the_final_states(self, candidate: Candidate) -> None:
        found = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine, pairs=PAIRS)
        x = tm.final_states(RESERVOIR, INPUTS, PROTOCOL, engine="reference")
        assert found.products is not None
        np.testing.assert_allclose(found.products.raw, terms(x), rtol=0, atol=max(candidate.tolerance, 1e-13))
        np.testing.assert_allclose(found.joint, terms(x)[:, 0], rtol=0, atol=max(candidate.tolerance, 1e-13))
        assert np.array_equal(found.joint[:, 0], found.joint[:, 2])

    def test_moments_have_the_bits_they_have_without(self, candidate: Candidate) -> None:
        found = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine, pairs=PAIRS)
        assert bits(found) == bits(tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine))

    def test_a_sample_has_the_same_bits_in_any_batch(self, candidate: Candidate) -> None:
        whole = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine, pairs=PAIRS)
        part = tm.simulate(RESERVOIR, INPUTS[1:2], PROTOCOL, engine=candidate.engine, pairs=PAIRS, sample_ids=[1])
        assert part.products is not None
        assert whole.products is not None
        assert part.products.raw.tobytes() == whole.products.raw[1:2].tobytes()

    def test_replicas_in_several_tiles_and_blocks(self, candidate: Candidate) -> None:
        """A replica lost or counted twice would change a mean by 1e-4 of its spread."""
        protocol = tm.Protocol(dt=2e-2, t_final=0.1, n_replicas=4500)
        found = tm.simulate(RESERVOIR, INPUTS, protocol, engine=candidate.engine, pairs=PAIRS)
        x = tm.final_states(RESERVOIR, INPUTS, protocol, engine=candidate.engine)
        np.testing.assert_allclose(found.joint, terms(x)[:, 0], rtol=0, atol=1e-12)

    def test_every_reading_of_a_course(self, candidate: Candidate) -> None:
        found = tm.course(RESERVOIR, INPUTS, PROTOCOL, times=[0.1, 0.2], engine=candidate.engine, pairs=PAIRS)
        early = tm.Protocol(dt=1e-2, t_final=0.1, n_replicas=50)
        for t, protocol in ((0.1, early), (0.2, PROTOCOL)):
            alone = tm.simulate(RESERVOIR, INPUTS, protocol, engine=candidate.engine, pairs=PAIRS)
            assert found.at(t).joint.tobytes() == alone.joint.tobytes()

    def test_a_coupled_linear_pair_in_closed_form(self, candidate: Candidate) -> None:
        """Exact but for the Euler step, whose bias in a covariance of 0.04 is below 1e-3."""
        pair = coupled([[0.0, 1.0], [0.5, 0.0]], [1.0, -2.0], LINEAR)
        protocol = tm.Protocol(dt=1e-2, t_final=0.7, n_replicas=candidate.replicas)
        found = tm.simulate(pair, [[1.0]], protocol, engine=candidate.engine, pairs=[(0, 1)])
        _, covariance = ornstein_uhlenbeck(pair, 0.7)
        agrees(found.covariance, covariance[0, 1], found.covariance_error, bias=1e-3)
        with pytest.raises(AssertionError, match="standard errors off"):
            agrees(found.covariance, 0.8 * covariance[0, 1], found.covariance_error, bias=1e-3)

    @pytest.mark.parametrize("name", ["native", "cuda"])
    def test_others_refuse(self, name: str) -> None:
        other = runnable(next(one for one in ENGINES if one.label == name))
        with pytest.raises(
            ValueError, match=f"`pairs` must be empty for the {name} engine .reference and xla take them"
        ):
            tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=other.engine, pairs=PAIRS)

    def test_auto_passes_over_them(self) -> None:
        found = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, pairs=PAIRS)
        assert found.info.engine == "xla"

    @pytest.mark.parametrize("pairs", [((0, 7),), ((0, 0),), ((0, 1, 2),), ((-1, 0),), 5, (5,), ((0.5, 1),)])
    def test_what_is_no_pair_is_refused(self, pairs: Any) -> None:
        with pytest.raises(ValueError, match="Argument `pairs` must be"):
            tm.simulate(RESERVOIR, INPUTS, PROTOCOL, pairs=pairs)


class TestMeanField:
    LIMIT = tm.Protocol(dt=1e-2, t_final=0.7, n_replicas=math.inf)

    W = np.array([[0.0, 1e-3], [3e-3, 0.0]])

    def expected(self, t: float) -> float:
        """From d/dt Cov = -2 k Cov + mu (W_01 + W_10) V(t), V the variance of a node alone, k = 2 mu J2."""
        kt = 2 * LINEAR.J2 * LINEAR.mu * t
        factor = LINEAR.kT / (2 * LINEAR.J2) / (4 * LINEAR.J2)
        return float(self.W.sum() * factor * (1 - np.exp(-2 * kt) * (1 + 2 * kt)))

    def test_a_linear_pair_to_first_order(self) -> None:
        drive = np.array([[1.0, -15.0], [0.0, 0.3]])
        found = covariances(((0, 1), (1, 0)), self.W, drive, LINEAR, 0.7, 20.0, 0.0)
        np.testing.assert_allclose(found, self.expected(0.7), rtol=1e-3)

    @pytest.mark.slow
    @pytest.mark.parametrize("start", ["zero", "rest"])
    def test_a_linear_pair_by_the_engine(self, start: Any) -> None:
        t_rest = 2.0 if start == "rest" else None
        protocol = tm.Protocol(dt=1e-2, t_final=0.7, n_replicas=math.inf, start=start, t_rest=t_rest)
        small = coupled(self.W.tolist(), [1.0, -15.0], LINEAR)
        found = tm.simulate(small, [[1.0]], protocol, engine=MeanField("float64"), pairs=[(0, 1), (1, 0)])
        np.testing.assert_allclose(found.covariance, self.expected(0.7 + (t_rest or 0.0)), rtol=1e-3)
        assert not found.covariance_error.any()

    @pytest.mark.slow
    def test_a_quartic_pair_by_sampling(self) -> None:
        """What is left out is of second order: two nodes have none, and the third is a hundredth of the first."""
        pair = coupled([[0.0, 0.3], [0.1, 0.0]], [0.5, -1.0], tm.Dynamics())
        found = tm.simulate(pair, [[1.0]], self.LIMIT, engine="meanfield", pairs=[(0, 1)])
        sampled = tm.simulate(
            pair, [[1.0]], tm.Protocol(dt=1e-2, t_final=0.7, n_replicas=2**19), engine="xla", pairs=[(0, 1)]
        )
        agrees(
            found.covariance, sampled.covariance, sampled.covariance_error, bias=0.02 * float(sampled.covariance[0, 0])
        )
        assert float(found.covariance[0, 0]) > 10 * float(sampled.covariance_error[0, 0])

    def test_finitely_many_replicas_are_refused(self) -> None:
        with pytest.raises(ValueError, match="`n_replicas` must be inf for pairs with the meanfield engine"):
            tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine="meanfield", pairs=PAIRS)
