"""The deterministic engine: against linear networks in closed form, against sampling, its gradients, its finite M.

Statistical tests have fixed seeds and state their false-alarm rate.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

import thermoment as tm
from support.analytic import Array, gaussian_moments, ornstein_uhlenbeck, uncoupled
from thermoment._engines.meanfield import engine
from thermoment._engines.meanfield import network as coupled_nodes
from thermoment._engines.meanfield.curves import compress
from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.network import NodeCurves, Solution, moments_of_drive, node_curves, solve_network
from thermoment._engines.meanfield.tables import RANGES, node_tables
from thermoment.noise import normals

ORDERS = (1, 2, 4)
LIMIT = tm.Protocol(dt=2e-3, n_replicas=math.inf)
EXACT = MeanField("float64")
PLAIN = MeanField("float64", next_order=False)


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tables in a folder of their own, and small chunks: a few samples are then solved in little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.setattr(engine, "_CHUNK_ON_CPU", 2**11)
        yield


def network(
    N: int = 64, s_W: float = 0.5, *, s_K: float = 4.0, symmetric: bool = False, dynamics: tm.Dynamics | None = None
) -> tm.Reservoir:
    drawn = tm.Reservoir.draw(N, 4, s_W=s_W, s_K=s_K, s_b=0.2, seed=3, dynamics=dynamics)
    if not symmetric:
        return drawn
    return tm.Reservoir(np.tril(drawn.W) + np.tril(drawn.W).T, drawn.K, drawn.b, drawn.dynamics)


def images(S: int) -> Array:
    return np.random.default_rng(5).random((S, 4))


@cache
def one_node() -> NodeCurves:
    """The paper's node in float64, without the engine around it."""
    with jax.enable_x64(True):
        return node_curves(node_tables(tm.Dynamics(), 1.0, RANGES[0]), ORDERS, "float64")


SOLVE = jax.jit(solve_network)


def solved(h: Any, W: Array, compiled: Any = SOLVE) -> Solution:
    """Such nodes with drives h (S, N), coupled by W."""
    with jax.enable_x64(True):
        found = compiled(jnp.asarray(h), jnp.asarray(W), one_node())
        return Solution(*jax.device_get(found))


class TestLinearNetworks:
    """J4 = 0: mean and covariance are known for any W."""

    @pytest.mark.parametrize(("symmetric", "allowed"), [(False, 0.15), (True, 0.25)])
    def test_the_next_order_gives_the_variance(self, symmetric: bool, allowed: float) -> None:
        reservoir = network(s_W=0.5, symmetric=symmetric, dynamics=tm.Dynamics(J4=0.0))
        mean, covariance = ornstein_uhlenbeck(
            tm.Reservoir(reservoir.W, reservoir.drive(images(1)).T, np.zeros(64), reservoir.dynamics), 1.0
        )
        exact = gaussian_moments(mean, np.diag(covariance), ORDERS)
        protocol = replace(LIMIT, clip=math.inf)
        full, plain = (tm.simulate(reservoir, images(1), protocol, engine=e).raw[0] for e in (EXACT, PLAIN))
        np.testing.assert_allclose(full[0], exact[0], atol=3e-4)
        missing = np.diag(covariance) - (plain[1] - plain[0] ** 2)
        left = np.diag(covariance) - (full[1] - full[0] ** 2)
        assert np.linalg.norm(left) < allowed * np.linalg.norm(missing)


class TestAgainstSampling:
    """m_p of the coupled nodes from sampling with the noise of uncoupled ones at the effective drive taken off.

    Their moments are known, so what is left has a standard error several times smaller, and hardly any Euler bias.
    """

    def sampled(self, reservoir: tm.Reservoir, M: int = 2**13) -> tuple[Array, Array]:
        protocol = replace(LIMIT, n_replicas=M, clip=math.inf)
        drive = reservoir.drive(images(1))[0]
        field = tm.simulate(reservoir, images(1), LIMIT, engine=EXACT).raw[0, 0] @ reservoir.W.T
        alone = tm.Reservoir(
            np.zeros_like(reservoir.W), (drive + field)[:, None], np.zeros(len(drive)), reservoir.dynamics
        )
        known = tm.simulate(alone, [[1.0]], LIMIT, engine=EXACT).raw[0]
        x, y = (tm.final_states(r, i, protocol)[0] for r, i in ((reservoir, images(1)), (alone, [[1.0]])))
        values, errors = [], []
        for p, m in zip(ORDERS, known, strict=True):
            a, b = x**p, y**p
            beta = ((a - a.mean(0)) * (b - b.mean(0))).sum(0) / ((b - b.mean(0)) ** 2).sum(0)
            rest = a - beta * b
            values.append(rest.mean(0) + beta * m)
            errors.append(rest.std(0) / math.sqrt(M))
        return np.array(values), np.array(errors)

    @pytest.mark.parametrize(
        ("s_W", "symmetric", "allowed"), [(0.2, False, 1e-4), (1.0, False, 6e-4), (1.0, True, 1e-3)]
    )
    def test_error_and_estimate(self, s_W: float, symmetric: bool, allowed: float) -> None:
        reservoir = network(s_W=s_W, symmetric=symmetric)
        values, errors = self.sampled(reservoir)
        moments = tm.simulate(reservoir, images(1), LIMIT, engine=EXACT)
        square = (moments.raw[0] - values) ** 2
        # The mean square over 64 nodes less that of the noise, and what chance adds to it once in 1e4 runs.
        noise = (errors**2).mean(axis=1)
        found = np.sqrt(np.maximum(square.mean(axis=1) - noise * (1 + norm.isf(1e-4) * math.sqrt(2 / 64)), 0))
        assert (found < allowed).all()
        assert moments.info.error is not None
        estimate = np.array([moments.info.error[p] for p in ORDERS])
        assert (found < 2 * estimate).all()
        assert (estimate < 3e-3).all()
        if s_W == 1.0:
            plain = tm.simulate(reservoir, images(1), LIMIT, engine=PLAIN).raw[0]
            assert (((plain - values) ** 2).mean(axis=1) > 2 * square.mean(axis=1))[:2].all()

    @pytest.mark.filterwarnings("ignore:The coupling is strong")
    def test_the_estimate_is_not_far_above_the_error(self) -> None:
        """Near the strongest coupling that converges, where the error is large enough to be seen: m2 and m4."""
        reservoir = network(s_W=2.0, s_K=1.0)
        values, errors = self.sampled(reservoir)
        moments = tm.simulate(reservoir, images(1), LIMIT, engine=EXACT)
        found = np.sqrt(((moments.raw[0] - values) ** 2).mean(axis=1))
        estimate = np.array([moments.info.error[p] for p in ORDERS])  # type: ignore[index]
        assert (found > 3 * np.sqrt((errors**2).mean(axis=1)))[1:].all(), "the error must be seen"
        assert ((estimate > 0.7 * found) & (estimate < 4 * found))[1:].all()

    def test_without_coupling_it_is_exact(self) -> None:
        reservoir = network(s_W=0.0)
        moments = tm.simulate(reservoir, images(3), LIMIT, engine=EXACT)
        table = node_tables(reservoir.dynamics, 1.0, 20.0)
        for p in ORDERS:
            known = np.interp(np.abs(reservoir.drive(images(3))), table.h, table.moments[:, p - 1])
            np.testing.assert_allclose(np.abs(moments.order(p)), known, atol=2e-3)
        assert max(moments.info.error.values()) < 2e-5  # type: ignore[union-attr]


class TestErrorEstimate:
    def test_by_hand(self) -> None:
        """1.5 k times the second order of a node, 1.5 k^2 times that of its neighbours, 0.4 % of the first order.

        The coupling is near the strongest that converges: there the neighbours' part is a fifth of the estimate.
        """
        reservoir = network(s_W=2.0, s_K=1.0)
        h, W = reservoir.drive(images(1)), reservoir.W
        found = solved(h, W)
        step = 1e-3
        # The same nodes without coupling, held at the effective drives: their moments, and slopes by differences.
        below, alone, above = (solved(found.drive + s * step, 0 * W).moments[0] for s in (-1, 0, 1))
        slope, second = (above - below) / (2 * step), found.moments[0] - alone
        first = slope * (found.drive - h)[0]
        k2 = float(((W**2) @ slope[0] ** 2).mean())
        assert 0.4 < k2 < 1
        first2, second2, slope2 = ((part**2).mean(axis=1) for part in (first, second, slope))
        of_neighbours = k2 * second2[0] * slope2 / slope2[0]
        expected = 0.004**2 * first2 + 1.5**2 * k2 * (second2 + of_neighbours)
        np.testing.assert_allclose(found.error[0], expected, rtol=0.01)
        assert expected[0] > 1.3 * (expected - 1.5**2 * k2 * of_neighbours)[0], "the neighbours must matter"


class TestSelfConsistency:
    def test_another_round_would_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Effective drives within twice the tolerance of those iterated to 1e-11, where no prediction is believed.

        The inputs span two decades, so the first steps do too.
        """
        reservoir = network(N=32, s_W=0.2)
        h = reservoir.drive(images(40) * np.geomspace(0.01, 1, 40)[:, None])
        found = solved(h, reservoir.W)
        monkeypatch.setattr(coupled_nodes, "TOLERANCE", 1e-11)
        monkeypatch.setattr(coupled_nodes, "_SMALL_STEP", 0.0)
        exact = solved(h, reservoir.W, jax.jit(lambda *arguments: solve_network(*arguments)))
        assert np.abs(found.drive - h).max() > 0.2, "the coupling must matter"
        assert np.abs(found.drive - exact.drive).max() < 2e-5

    @pytest.mark.slow
    def test_samples_driven_beyond_the_tables_are_solved_with_wider_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A field of 5 on a drive of 19. It adds up from 100 nodes, ten times the typical sum of random signs."""
        N = 101
        W = np.full((N, N), 0.03)
        np.fill_diagonal(W, 0.0)
        reservoir = tm.Reservoir(W, np.repeat([[19.0, 3.0, -19.0]], N, axis=0), np.zeros(N))
        found = tm.simulate(reservoir, np.eye(3), LIMIT, engine="meanfield")
        weak = tm.simulate(reservoir, np.eye(3)[1:2], LIMIT, engine="meanfield").raw[0]
        monkeypatch.setattr(engine, "RANGES", RANGES[1:])
        wide = tm.simulate(reservoir, np.eye(3), LIMIT, engine="meanfield").raw
        assert (np.abs(reservoir.K.T + found.order(1) @ W.T)[[0, 2]] > 1.15 * RANGES[0]).all()
        np.testing.assert_array_equal(found.raw[[0, 2]], wide[[0, 2]])
        np.testing.assert_array_equal(found.raw[1], weak)
        assert np.abs(weak - wide[1]).max() > 1e-3, "the tables must differ"


class TestPrecisionAndSymmetry:
    def test_float32_is_float64_to_rounding(self) -> None:
        single, double = (tm.simulate(network(), images(9), LIMIT, engine=e).raw for e in ("meanfield", EXACT))
        np.testing.assert_allclose(single, double, atol=2e-5)

    @pytest.mark.parametrize("M", [math.inf, 16])
    def test_mirror_image(self, M: float) -> None:
        """With the same normals the draws of a node at -h are those at h with the other sign."""
        reservoir, protocol = network(), replace(LIMIT, n_replicas=M)
        mirrored = tm.Reservoir(reservoir.W, -reservoir.K, -reservoir.b, reservoir.dynamics)
        right, left = (tm.simulate(r, images(3), protocol, engine="meanfield") for r in (reservoir, mirrored))
        for p, sign in ((1, -1), (2, 1), (4, 1)):
            np.testing.assert_allclose(right.order(p), sign * left.order(p), atol=2e-6)

    @pytest.mark.parametrize("M", [math.inf, 16])
    def test_any_batch_any_order(self, M: float) -> None:
        protocol, ids = replace(LIMIT, n_replicas=M), 100 + np.arange(200)
        whole = tm.simulate(network(N=63), images(200), protocol, engine="meanfield", sample_ids=ids).raw
        back = tm.simulate(network(N=63), images(200)[::-1], protocol, engine="meanfield", sample_ids=ids[::-1]).raw
        assert whole.tobytes() == np.ascontiguousarray(back[::-1]).tobytes()
        part = tm.simulate(network(N=63), images(200)[150:153], protocol, engine="meanfield", sample_ids=ids[150:153])
        assert part.raw.tobytes() == whole[150:153].tobytes()


class TestGradients:
    @pytest.fixture(autouse=True)
    def _double(self) -> Iterator[None]:
        with jax.enable_x64(True):
            yield

    def loss(self, K: jax.Array, b: jax.Array, W: jax.Array, one: NodeCurves) -> jax.Array:
        """A weighted sum of all moments, the weights fixed and uneven."""
        h = jnp.asarray(images(2)) @ K.T + b
        m = moments_of_drive(h, W, one)
        return (m * jnp.cos(jnp.arange(m.size, dtype=m.dtype)).reshape(m.shape)).sum()

    @pytest.mark.slow
    def test_against_finite_differences(self) -> None:
        reservoir, one = network(N=8, s_W=1.0), one_node()
        arguments = [jnp.asarray(a) for a in (reservoir.K, reservoir.b, reservoir.W)]
        both = jax.jit(jax.value_and_grad(self.loss, argnums=(0, 1, 2)))
        gradients = both(*arguments, one)[1]
        rng = np.random.default_rng(0)
        for k, gradient in enumerate(gradients):
            direction = rng.normal(size=gradient.shape)
            if k == 2:
                np.fill_diagonal(direction, 0.0)
            step = 1e-3
            plus, minus = (
                [a + (s * step * direction if j == k else 0) for j, a in enumerate(arguments)] for s in (1, -1)
            )
            difference = float(both(*plus, one)[0] - both(*minus, one)[0]) / (2 * step)
            # The self-consistency is solved to 1e-5, so a difference over 2e-3 is good to about 1e-2.
            assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-3, abs=5e-3)
            assert abs(difference) > 0.1, "the argument must matter"


@cache
def many_ids(M: int, S: int = 4000) -> tuple[Array, Array]:
    """One input with S sample ids: moments of M replicas by `meanfield` and, with other ids, by sampling."""
    reservoir, inputs = network(N=4, s_W=0.5), np.repeat(images(1), S, axis=0)
    protocol = tm.Protocol(dt=5e-3, n_replicas=M)
    return tuple(  # type: ignore[return-value]
        tm.simulate(reservoir, inputs, protocol, engine=e, sample_ids=np.arange(S) + shift).raw
        for e, shift in (("meanfield", 0), ("xla", 10**6))
    )


class TestFiniteM:
    """The distribution over sample ids of the moments of M replicas, beside the sampler's."""

    @pytest.mark.parametrize("M", [16, 128])
    def test_the_distribution_is_that_of_sampling(self, M: int) -> None:
        """Two-sample Kolmogorov-Smirnov on every moment of every node: false alarm 1e-5 for all together.

        A Gaussian of the right mean and variance is caught at M = 16.
        """
        mine, theirs = many_ids(M)
        n = mine[0].size
        p_values = [ks_2samp(mine[:, p, i], theirs[:, p, i]).pvalue for p in range(3) for i in range(4)]
        assert min(p_values) > 1e-5 / n
        if M == 16:
            m4 = theirs[:, 2]
            gauss = np.random.default_rng(0).normal(m4.mean(axis=0), m4.std(axis=0), m4.shape)
            assert min(ks_2samp(gauss[:, i], m4[:, i]).pvalue for i in range(4)) < 1e-5 / n

    def test_covariance_between_orders(self) -> None:
        """All 6 entries of the covariance for each of 4 nodes, to 5.5 standard errors: false alarm 1e-6."""
        mine, theirs = many_ids(128)
        for i in range(4):
            a, b = (x[:, :, i] - x[:, :, i].mean(axis=0) for x in (mine, theirs))
            products = [np.einsum("sp,sq->spq", x, x) for x in (a, b)]
            error = np.sqrt(sum(x.var(axis=0) / len(mine) for x in products))
            # The law is that of a node at a constant drive: 2 % for what the coupling does to its shape.
            slack = 0.02 * np.abs(products[1].mean(axis=0))
            assert (np.abs(products[0].mean(axis=0) - products[1].mean(axis=0)) < 5.5 * error + slack).all()

    def test_many_replicas_fluctuate_as_they_should(self) -> None:
        """Beyond 1024 replicas the variance still falls as 1/M; 5 standard errors, false alarm 1e-6."""
        reservoir, inputs = network(N=4, s_W=0.5), np.repeat(images(1), 1000, axis=0)
        few, many = (
            tm.simulate(reservoir, inputs, tm.Protocol(dt=5e-3, n_replicas=M), engine="meanfield").raw.var(axis=0)
            for M in (64, 64 * 256)
        )
        np.testing.assert_allclose(few / many, 256, rtol=5 * math.sqrt(4 / 1000))

    def test_the_mean_is_the_limit(self) -> None:
        """Every node and order within 5 standard errors of the limit: false alarm 1e-5."""
        mine, _ = many_ids(16)
        limit = tm.simulate(network(N=4, s_W=0.5), images(1), LIMIT, engine="meanfield").raw[0]
        off = (mine.mean(axis=0) - limit) / (mine.std(axis=0) / math.sqrt(len(mine)))
        assert np.abs(off).max() < 5

    @pytest.mark.parametrize(("h", "skewness"), [(0.26, -0.123), (1.02, -0.343)])
    def test_the_law_is_that_of_the_nodes_own_drive(self, h: float, skewness: float) -> None:
        """The skewness of 256000 draws, to 5 standard errors, false alarm 1e-6, and 0.01 for taking the nearest law."""
        nodes, inputs = uncoupled(64 * [h], tm.Dynamics()), np.ones((4000, 1))
        m1, m2, m3 = tm.simulate(nodes, inputs[:1], replace(LIMIT, orders=(1, 2, 3)), engine=EXACT).raw[0, :, 0]
        expected = (m3 - 3 * m1 * m2 + 2 * m1**3) / (m2 - m1**2) ** 1.5
        assert expected == pytest.approx(skewness, abs=0.005)
        x = tm.simulate(nodes, inputs, replace(LIMIT, n_replicas=1), engine="meanfield").order(1)
        found = ((x - m1) ** 3).mean() / (m2 - m1**2) ** 1.5
        assert abs(found - expected) < 5 * math.sqrt(15 / x.size) + 0.01

    def test_the_draws_share_no_noise_with_a_simulation(self) -> None:
        """A replica drawn and one sampled in 10 steps, same seed and ids: correlation 0 to 5 standard errors.

        False alarm 1e-6. The noise of the first step still has a correlation of 0.06 with what is sampled.
        """
        nodes, protocol = uncoupled(64 * [0.0], tm.Dynamics()), tm.Protocol(dt=0.1, n_replicas=1)
        engines = ("meanfield", "reference")
        drawn, sampled = (tm.simulate(nodes, np.ones((1000, 1)), protocol, engine=e).order(1) for e in engines)
        first = np.concatenate([normals(0, np.arange(1), 64, sample, protocol.seed) for sample in range(1000)])
        correlations = [abs((x * sampled).mean()) / x.std() / sampled.std() for x in (drawn, first)]
        assert correlations[0] < 5 / math.sqrt(sampled.size) < 0.04 < correlations[1]


RESTED = replace(LIMIT, start="rest", t_rest=2.0)


class TestAfterARest:
    """Coupled nodes that were without drive for a time: their fluctuations are then those of the undriven network."""

    @pytest.mark.slow
    def test_linear_networks(self) -> None:
        """J4 = 0: the covariance does not know the drive, and the mean starts at zero when the drive comes."""
        reservoir, t = network(s_W=0.5, s_K=20.0, dynamics=tm.Dynamics(J4=0.0)), 0.1
        driven = tm.Reservoir(reservoir.W, reservoir.drive(images(1)).T, np.zeros(64), reservoir.dynamics)
        mean, covariance = ornstein_uhlenbeck(driven, t)[0], ornstein_uhlenbeck(driven, t + 2.0)[1]
        without_rest = np.diag(ornstein_uhlenbeck(driven, t)[1])
        protocol = replace(RESTED, t_final=t)
        full, plain = (tm.simulate(reservoir, images(1), protocol, engine=e).raw[0] for e in (EXACT, PLAIN))
        np.testing.assert_allclose(full[0], mean, atol=3e-4)
        variance, of_plain = (one[1] - one[0] ** 2 for one in (full, plain))
        exact = np.diag(covariance)
        assert np.linalg.norm(variance - exact) < 0.15 * np.linalg.norm(of_plain - exact)
        assert np.linalg.norm(variance - exact) < 0.02 * np.linalg.norm(without_rest - exact)

    @pytest.mark.slow
    def test_sampling(self) -> None:
        """Within chance (once in 1e6), its own error, and the Euler bias; a start at zero is ruled out."""
        reservoir, protocol = network(), replace(RESTED, t_final=0.1, dt=5e-3)
        few = replace(protocol, n_replicas=2**13, orders=(1, 2, 4, 8))
        sampled = tm.simulate(reservoir, images(1), few)
        errors = np.stack([sampled.standard_error(p)[0] for p in ORDERS])
        threshold = norm.isf(1e-6 / 2 / errors.size)

        def off(protocol: tm.Protocol) -> Array:
            found = tm.simulate(reservoir, images(1), protocol, engine="meanfield")
            assert found.info.error is not None
            own = np.array([found.info.error[p] for p in ORDERS])[:, None]
            return np.asarray(np.abs(sampled.raw[0, :3] - found.raw[0]) / (errors + (4 * own + 5e-4) / threshold))

        assert off(protocol).max() < threshold
        assert off(replace(protocol, start="zero", t_rest=None)).max() > 3 * threshold

    def test_several_times_are_separate_runs(self) -> None:
        several = tm.course(network(), images(2), LIMIT, times=(0.1, 1.0), engine="meanfield")
        for t in several.times:
            alone = tm.simulate(network(), images(2), replace(LIMIT, t_final=t), engine="meanfield")
            assert np.array_equal(several.at(t).raw, alone.raw)
            assert several.at(t).info.error == alone.info.error


class TestWhatItRefuses:
    @pytest.mark.parametrize(
        ("inputs", "options", "message"),
        [
            (images(1), {"x0": np.zeros(64)}, "`x0` must be left out for the meanfield engine"),
            (images(1), {"keep_end": True}, "`keep_end` must be False for the meanfield engine"),
            (np.ones((1, 3, 4)), {}, "`inputs` must be constant in time for the meanfield engine"),
            ([tm.Phase(1.0, images(1), np.zeros((64, 64))), tm.Phase(1.0, images(1))], {}, "`inputs` must be constant"),
        ],
    )
    def test_a_course_it_cannot_do(self, inputs: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            tm.course(network(), inputs, LIMIT, engine="meanfield", **options)

    def test_a_coupling_without_self_consistency(self) -> None:
        strong = network(s_W=60.0)
        with pytest.raises(RuntimeError, match="coupling is too strong"):
            tm.simulate(strong, images(1), tm.Protocol(dt=1e-3, n_replicas=math.inf), engine="meanfield")

    def test_a_strong_coupling_warns(self) -> None:
        with pytest.warns(UserWarning, match=r"estimated at .* Sample instead") as seen:
            tm.simulate(network(s_W=3.0), images(1), LIMIT, engine="meanfield")
        assert seen[0].filename == __file__

    @pytest.mark.parametrize(
        ("reservoir", "protocol", "message"),
        [
            (network(dynamics=tm.Dynamics(kT=0.0)), LIMIT, "`kT` must be at least 0.001"),
            (network(), replace(LIMIT, clip=1.0), "`clip` must be at least"),
            (
                tm.Reservoir(np.zeros((1, 1)), np.full((1, 4), 1e4), np.zeros(1)),
                replace(LIMIT, dt=1e-4),
                "`drive` must be at most 1000",
            ),
        ],
    )
    def test_a_task_it_cannot_do(self, reservoir: tm.Reservoir, protocol: tm.Protocol, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            tm.simulate(reservoir, images(1), protocol, engine="meanfield")

    def test_auto_never_takes_it(self) -> None:
        assert tm.simulate(network(N=2), images(1), tm.Protocol(dt=0.01, n_replicas=2)).info.engine != "meanfield"
        assert tm.engines()["meanfield"].can_run


def test_the_estimate_is_kept_with_the_moments(tmp_path: Path) -> None:
    moments = tm.simulate(network(), images(2), LIMIT, engine="meanfield")
    moments.save(tmp_path / "m.safetensors")
    assert tm.Moments.load(tmp_path / "m.safetensors").info.error == moments.info.error
    assert list(moments.info.error or {}) == [1, 2, 4]


def test_curves_are_made_once_for_all_chunks_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(*what: Any) -> Any:
        made.append(what)
        return compress(*what)

    monkeypatch.setattr(coupled_nodes, "compress", counted)
    engine._curves.cache_clear()  # other tests may have made some of them
    reservoir, inputs = tm.Reservoir.draw(4, 3, seed=8), np.ones((2, 3))
    for orders in ((3,), (3,), (1, 5), (3,)):
        tm.simulate(reservoir, inputs, tm.Protocol(n_replicas=math.inf, orders=orders), engine="meanfield")
    assert len(made) == 2
