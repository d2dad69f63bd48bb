"""The deterministic engine: against linear networks in closed form, against sampling, its gradients, its finite M.

Statistical tests have fixed seeds and state their false-alarm rate.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

import thermoment as tm
from support.analytic import Array, coupled, gaussian_moments, ornstein_uhlenbeck, two_node_boltzmann, uncoupled
from thermoment._engines.meanfield.engine import MeanField
from thermoment._engines.meanfield.network import NodeCurves, moments_of_drive, node_curves
from thermoment._engines.meanfield.tables import node_tables
from thermoment.thermodynamics import relaxation

ORDERS = (1, 2, 4)
LIMIT = tm.Protocol(dt=2e-3, n_replicas=math.inf)
EXACT = MeanField("float64")
PLAIN = MeanField("float64", next_order=False)


@pytest.fixture(autouse=True, scope="module")
def _own_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(tmp_path_factory.mktemp("tables")))
        yield


def network(
    N: int = 64, s_W: float = 0.5, *, symmetric: bool = False, dynamics: tm.Dynamics | None = None
) -> tm.Reservoir:
    drawn = tm.Reservoir.draw(N, 4, s_W=s_W, s_K=4.0, s_b=0.2, seed=3, dynamics=dynamics)
    if not symmetric:
        return drawn
    return tm.Reservoir(np.tril(drawn.W) + np.tril(drawn.W).T, drawn.K, drawn.b, drawn.dynamics)


def images(S: int) -> Array:
    return np.random.default_rng(5).random((S, 4))


def rms(difference: Array) -> Array:
    """Over samples and nodes, for each order."""
    return np.asarray(np.sqrt((difference**2).mean(axis=(0, 2))))


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

    def test_without_coupling_it_is_exact(self) -> None:
        reservoir = network(s_W=0.0)
        moments = tm.simulate(reservoir, images(3), LIMIT, engine=EXACT)
        table = node_tables(reservoir.dynamics, 1.0, 20.0)
        for p in ORDERS:
            known = np.interp(np.abs(reservoir.drive(images(3))), table.h, table.moments[:, p - 1])
            np.testing.assert_allclose(np.abs(moments.order(p)), known, atol=2e-3)
        assert max(moments.info.error.values()) < 2e-5  # type: ignore[union-attr]


class TestPrecisionAndSymmetry:
    def test_float32_is_float64_to_rounding(self) -> None:
        single, double = (tm.simulate(network(), images(9), LIMIT, engine=e).raw for e in ("meanfield", EXACT))
        np.testing.assert_allclose(single, double, atol=2e-5)

    def test_mirror_image(self) -> None:
        reservoir = network()
        mirrored = tm.Reservoir(reservoir.W, -reservoir.K, -reservoir.b, reservoir.dynamics)
        right, left = (tm.simulate(r, images(3), LIMIT, engine="meanfield") for r in (reservoir, mirrored))
        for p, sign in ((1, -1), (2, 1), (4, 1)):
            np.testing.assert_allclose(right.order(p), sign * left.order(p), atol=1e-6)

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

    def test_against_finite_differences(self) -> None:
        reservoir = network(N=8, s_W=1.0)
        one = node_curves(node_tables(reservoir.dynamics, 1.0, 20.0), ORDERS, "float64")
        arguments = [jnp.asarray(a) for a in (reservoir.K, reservoir.b, reservoir.W)]
        gradients = jax.jit(jax.grad(self.loss, argnums=(0, 1, 2)))(*arguments, one)
        loss = jax.jit(self.loss)
        rng = np.random.default_rng(0)
        for k, gradient in enumerate(gradients):
            direction = rng.normal(size=gradient.shape)
            if k == 2:
                np.fill_diagonal(direction, 0.0)
            step = 1e-3
            plus, minus = (
                [a + (s * step * direction if j == k else 0) for j, a in enumerate(arguments)] for s in (1, -1)
            )
            difference = float(loss(*plus, one) - loss(*minus, one)) / (2 * step)
            # The self-consistency is solved to 1e-5, so a difference over 2e-3 is good to about 1e-2.
            assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-3, abs=5e-3)
            assert abs(difference) > 0.1, "the argument must matter"


class TestFiniteM:
    """One input, many sample ids: the distribution over them of the moments of M replicas, beside the sampler's."""

    S = 4000

    def both(self, M: int) -> tuple[Array, Array]:
        reservoir, inputs = network(N=4, s_W=0.5), np.repeat(images(1), self.S, axis=0)
        protocol = tm.Protocol(dt=5e-3, n_replicas=M)
        return tuple(  # type: ignore[return-value]
            tm.simulate(reservoir, inputs, protocol, engine=e, sample_ids=np.arange(self.S) + shift).raw
            for e, shift in (("meanfield", 0), ("xla", 10**6))
        )

    @pytest.mark.parametrize("M", [16, 128])
    def test_the_distribution_is_that_of_sampling(self, M: int) -> None:
        """Two-sample Kolmogorov-Smirnov on every moment of every node: false alarm 1e-5 for all together.

        A Gaussian of the right mean and variance is caught at M = 16.
        """
        mine, theirs = self.both(M)
        n = mine[0].size
        p_values = [ks_2samp(mine[:, p, i], theirs[:, p, i]).pvalue for p in range(3) for i in range(4)]
        assert min(p_values) > 1e-5 / n
        if M == 16:
            m4 = theirs[:, 2]
            gauss = np.random.default_rng(0).normal(m4.mean(axis=0), m4.std(axis=0), m4.shape)
            assert min(ks_2samp(gauss[:, i], m4[:, i]).pvalue for i in range(4)) < 1e-5 / n

    def test_covariance_between_orders(self) -> None:
        """All 6 entries of the covariance for each of 4 nodes, to 5.5 standard errors: false alarm 1e-6."""
        mine, theirs = self.both(128)
        for i in range(4):
            a, b = (x[:, :, i] - x[:, :, i].mean(axis=0) for x in (mine, theirs))
            products = [np.einsum("sp,sq->spq", x, x) for x in (a, b)]
            error = np.sqrt(sum(x.var(axis=0) / self.S for x in products))
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
        mine, _ = self.both(16)
        limit = tm.simulate(network(N=4, s_W=0.5), images(1), LIMIT, engine="meanfield").raw[0]
        off = (mine.mean(axis=0) - limit) / (mine.std(axis=0) / math.sqrt(self.S))
        assert np.abs(off).max() < 5


class TestWhatItRefuses:
    def test_a_coupling_without_self_consistency(self) -> None:
        strong = network(s_W=60.0)
        with pytest.raises(RuntimeError, match="coupling is too strong"):
            tm.simulate(strong, images(1), tm.Protocol(dt=1e-3, n_replicas=math.inf), engine="meanfield")

    def test_a_strong_coupling_warns(self) -> None:
        with pytest.warns(UserWarning, match=r"estimated at .* Sample instead"):
            tm.simulate(network(s_W=3.0), images(1), LIMIT, engine="meanfield")

    @pytest.mark.parametrize(
        ("reservoir", "protocol", "message"),
        [
            (network(dynamics=tm.Dynamics(kT=0.0)), LIMIT, "`kT` must be at least 0.001"),
            (network(), replace(LIMIT, clip=1.0), "`clip` must be at least"),
            (
                tm.Reservoir(np.zeros((1, 1)), np.full((1, 4), 1e3), np.zeros(1)),
                replace(LIMIT, dt=1e-4),
                "`drive` must be at most 100",
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


class TestDistanceToEquilibrium:
    def test_it_shrinks(self) -> None:
        reservoir = network(s_W=0.2)
        found = tm.distance_to_equilibrium(reservoir, images(3), LIMIT)
        assert found.distance.shape == (3, 3, 64)
        assert found.second_order
        later = tm.distance_to_equilibrium(reservoir, images(3), tm.Protocol(dt=2e-3, t_final=6.0))
        np.testing.assert_array_equal(later.stationary, found.stationary)
        assert (rms(later.distance) < 3e-5).all()
        assert (rms(found.distance) > 1e-3).all()

    def test_one_node(self) -> None:
        """A node at rest in its well is nearly there at t = 1, one at a weak drive is 7 % away."""
        one = tm.distance_to_equilibrium(
            tm.Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1)), [[0.5], [4.0]], LIMIT
        )
        ratio = one.moments[:, 0, 0] / one.stationary[:, 0, 0]
        np.testing.assert_allclose(ratio, [0.933, 0.9999], atol=1e-3)
        expected = tm.Dynamics().boltzmann_moments([0.5, 4.0], ORDERS)
        np.testing.assert_allclose(one.stationary[:, :, 0].T, expected, atol=2e-5)

    def test_a_linear_network_in_the_long_run(self) -> None:
        """The variance in closed form, of which plain mean field has no more than that of uncoupled nodes."""
        reservoir = network(s_W=0.5, dynamics=tm.Dynamics(J4=0.0))
        found = tm.distance_to_equilibrium(reservoir, images(1), replace(LIMIT, clip=math.inf))
        driven = tm.Reservoir(reservoir.W, reservoir.drive(images(1)).T, np.zeros(64), reservoir.dynamics)
        mean, covariance = ornstein_uhlenbeck(driven, 20.0)
        m1, m2, _ = found.stationary[0]
        np.testing.assert_allclose(m1, mean, atol=1e-3)
        left, missing = (np.linalg.norm(np.diag(covariance) - v) for v in (m2 - m1**2, np.full(64, 0.05)))
        assert left < 0.2 * missing

    def test_two_nodes_by_quadrature(self) -> None:
        """A symmetric W has a global potential: second order gains fivefold on Boltzmann in the mean field."""
        reservoir = coupled([[0.0, 0.4], [0.4, 0.0]], [0.3, -0.2], tm.Dynamics())
        exact = two_node_boltzmann(reservoir, ORDERS)
        found = tm.distance_to_equilibrium(reservoir, [[1.0]], LIMIT).stationary[0]
        drive = relaxation._stationary_drive(reservoir.drive([[1.0]]), reservoir.W, reservoir.dynamics)
        plain = reservoir.dynamics.boltzmann_moments(drive[0], ORDERS)
        assert np.abs(found - exact).max() < 0.2 * np.abs(plain - exact).max()

    def test_a_cold_double_well_is_left_at_mean_field(self) -> None:
        cold = tm.Dynamics(J2=-1.0, kT=0.02)
        found = tm.distance_to_equilibrium(uncoupled([0.0, 0.1], cold), [[1.0]], LIMIT)
        assert not found.second_order
        np.testing.assert_allclose(found.stationary[0], cold.boltzmann_moments([0.0, 0.1], ORDERS), atol=1e-9)
