"""Every engine: the reference's numbers on the same noise, the same bits in any batch, and the known solutions.

Statistical tests compare K numbers with `agrees`, at a false-alarm rate of 1e-6 for all K together. Seeds are fixed.
"""

from functools import cache

import numpy as np
import pytest

import thermoment as tm
from support.analytic import (
    Array,
    coupled,
    euler_ornstein_uhlenbeck,
    fokker_planck,
    gaussian_moments,
    noiseless,
    ornstein_uhlenbeck,
    two_node_boltzmann,
    uncoupled,
)
from support.conformance import ENGINES, Candidate, agrees, bits, runnable
from thermoment._engines.choice import choose
from thermoment._engines.task import TracingEngine
from thermoment.noise import normals

ONE = [[1.0]]
ALL_ORDERS = tuple(range(1, 9))
slow = pytest.mark.slow


@pytest.fixture(params=ENGINES, ids=lambda candidate: candidate.label)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return runnable(request.param)


@pytest.fixture
def tracer(candidate: Candidate) -> Candidate:
    if not isinstance(choose(candidate.engine)[0], TracingEngine):
        pytest.skip(f"{candidate.label} keeps no single replicas")
    return candidate


def images(S: int, D: int = 10) -> Array:
    return np.random.default_rng(5).random((S, D))


def network(N: int, *, s_W: float = 0.5, stream: int = 0, dynamics: tm.Dynamics | None = None) -> tm.Reservoir:
    """A random reservoir, coupled five times as strongly as the paper's so that W matters."""
    return tm.Reservoir.draw(N, 10, s_W=s_W, s_K=4.0, s_b=0.2, seed=11, stream=stream, dynamics=dynamics)


@cache
def reference(N: int, M: int, S: int, protocol: tm.Protocol, first_id: int = 0, stream: int = 0) -> tm.Moments:
    assert protocol.n_replicas == M
    ids = np.arange(S, dtype=np.uint64) + np.uint64(first_id)
    return tm.simulate(network(N, stream=stream), images(S), protocol, engine="reference", sample_ids=ids)


def gaussian_errors(mean: Array, variance: Array, orders: tuple[int, ...], n: int) -> Array:
    """Standard errors of the raw moments of n draws from a Gaussian."""
    squares = gaussian_moments(mean, variance, [2 * p for p in orders])
    return np.sqrt((squares - gaussian_moments(mean, variance, orders) ** 2) / n)


@pytest.mark.parametrize("candidate", ENGINES[1:], ids=lambda candidate: candidate.label, indirect=True)
class TestAgainstReference:
    """The same noise, so differences are rounding only."""

    @pytest.mark.parametrize(
        ("N", "M", "S"),
        [
            (1, 1, 1),
            (1, 128, 13),
            (3, 7, 13),
            (5, 128, 1),
            (5, 1, 13),
            (63, 7, 1),
            (63, 128, 13),
            (256, 7, 13),
            (256, 128, 1),
        ],
    )
    def test_odd_sizes(self, candidate: Candidate, N: int, M: int, S: int) -> None:
        # The largest network is there for its size: 50 steps show that, 250 those of the others.
        protocol = tm.Protocol(dt=4e-3, t_final=0.2 if N == 256 else 1.0, n_replicas=M)
        moments = tm.simulate(network(N), images(S), protocol, engine=candidate.engine)
        expected = reference(N, M, 13, protocol).raw[:S]
        np.testing.assert_allclose(moments.raw, expected, rtol=0, atol=candidate.tolerance_at(N))

    def test_the_papers_size_and_protocol(self, candidate: Candidate) -> None:
        moments = tm.simulate(network(256), images(1), tm.Protocol(), engine=candidate.engine)
        expected = reference(256, 128, 1, tm.Protocol())
        np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=candidate.tolerance_at(256))
        assert moments.info.clip_count == expected.info.clip_count == 0
        assert moments.info.n_steps == 1000

    @pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
    def test_more_replicas_than_a_block(self, candidate: Candidate) -> None:
        protocol = tm.Protocol(dt=2e-2, t_final=0.2, n_replicas=9001, clip=0.5)
        moments = tm.simulate(network(5), images(2), protocol, engine=candidate.engine)
        expected = reference(5, 9001, 2, protocol)
        np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=candidate.tolerance)
        assert abs(moments.info.clip_count - expected.info.clip_count) <= candidate.miscounts
        assert expected.info.clip_count > 5000

    def test_sample_ids_of_64_bits_and_a_stream(self, candidate: Candidate) -> None:
        protocol = tm.Protocol(dt=1e-2, n_replicas=7)
        first, stream = 2**63 + 2**40 + 3, 2**32 - 1
        ids = np.arange(3, dtype=np.uint64) + np.uint64(first)
        moments = tm.simulate(network(9, stream=stream), images(3), protocol, engine=candidate.engine, sample_ids=ids)
        expected = reference(9, 7, 3, protocol, first, stream)
        np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=candidate.tolerance)
        for other in (reference(9, 7, 3, protocol, 3, stream), reference(9, 7, 3, protocol, first, 0)):
            assert np.abs(moments.raw - other.raw).max() > 0.1

    def test_all_orders(self, candidate: Candidate) -> None:
        protocol = tm.Protocol(dt=1e-2, n_replicas=7, orders=ALL_ORDERS)
        moments = tm.simulate(network(9), images(3), protocol, engine=candidate.engine)
        expected = reference(9, 7, 3, protocol)
        scale = np.maximum(1, np.abs(expected.raw))
        np.testing.assert_allclose(moments.raw / scale, expected.raw / scale, rtol=0, atol=8 * candidate.tolerance)

    @pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
    def test_every_clipped_update_is_counted(self, candidate: Candidate) -> None:
        # 64000 updates, an eighth of them clipped. Float32 rounding (1e-7) would move one across the clip in one of a
        # hundred such runs, and does not in this one; half precision (1e-5) may move one or two.
        protocol = tm.Protocol(dt=1e-2, n_replicas=128, clip=0.3)
        moments = tm.simulate(network(5), images(1), protocol, engine=candidate.engine)
        expected = reference(5, 128, 1, protocol)
        assert abs(moments.info.clip_count - expected.info.clip_count) <= candidate.miscounts
        assert expected.info.clip_count > 5000
        np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=candidate.tolerance)

    def test_no_clip(self, candidate: Candidate) -> None:
        protocol = tm.Protocol(dt=1e-2, n_replicas=7, clip=np.inf)
        moments = tm.simulate(network(5), images(3), protocol, engine=candidate.engine)
        expected = reference(5, 7, 3, protocol)
        np.testing.assert_allclose(moments.raw, expected.raw, rtol=0, atol=candidate.tolerance)
        assert moments.info.clip_count == 0


# The reference has one loop for any size and is slow: it is examined at the small ones. xla in float64 has the tiles of
# xla in float32.
BATCHES = [
    pytest.param(one, N, M, id=f"{one.label}-{N}-{M}", marks=slow if N == 256 and one.label == "xla-float64" else ())
    for one in ENGINES
    for N, M in ((256, 128), (63, 7), (5, 1), (256, 200))
    if N < 256 or one.engine != "reference"
]


class TestBits:
    """A sample's bits depend on its own input and id, and on nothing else."""

    @pytest.mark.parametrize(("candidate", "N", "M"), BATCHES, indirect=["candidate"])
    def test_any_batch_any_order(self, candidate: Candidate, N: int, M: int) -> None:
        S = 13
        protocol = tm.Protocol(dt=2e-2, n_replicas=M)
        inputs, ids = images(S), 100 + np.arange(S)
        whole = tm.simulate(network(N), inputs, protocol, engine=candidate.engine, sample_ids=ids)
        backwards = tm.simulate(network(N), inputs[::-1], protocol, engine=candidate.engine, sample_ids=ids[::-1])
        assert whole.raw.tobytes() == np.ascontiguousarray(backwards.raw[::-1]).tobytes()
        for start, stop in ((0, 1), (1, 8), (8, 13), (4, 5)):
            part = tm.simulate(
                network(N), inputs[start:stop], protocol, engine=candidate.engine, sample_ids=ids[start:stop]
            )
            assert bits(part) == np.ascontiguousarray(whole.raw[start:stop]).tobytes()
        shifted = tm.simulate(network(N), inputs, protocol, engine=candidate.engine, sample_ids=ids + 1)
        assert not np.any(shifted.raw == whole.raw), "the ids must matter"

    def test_the_same_id_is_the_same_noise(self, candidate: Candidate) -> None:
        protocol = tm.Protocol(dt=2e-2, n_replicas=7)
        twice = np.repeat(images(1), 2, axis=0)
        moments = tm.simulate(network(9), twice, protocol, engine=candidate.engine, sample_ids=[4, 4])
        assert np.array_equal(moments.raw[0], moments.raw[1])

    def test_a_second_run(self, candidate: Candidate) -> None:
        protocol = tm.Protocol(dt=2e-2, n_replicas=7)
        first, second = (tm.simulate(network(9), images(3), protocol, engine=candidate.engine) for _ in range(2))
        assert bits(first) == bits(second)

    def test_the_sign_of_the_drive(self, candidate: Candidate) -> None:
        """Without noise x(-h) = -x(h) to the last bit."""
        cold = network(9, dynamics=tm.Dynamics(kT=0.0))
        mirrored = tm.Reservoir(cold.W, -cold.K, -cold.b, cold.dynamics)
        protocol = tm.Protocol(dt=2e-2, n_replicas=3, orders=(1, 2, 3))
        right, left = (tm.simulate(r, images(3), protocol, engine=candidate.engine).raw for r in (cold, mirrored))
        assert np.array_equal(right * [[-1], [1], [-1]], left)


class TestKnownSolutions:
    def test_ornstein_uhlenbeck(self, candidate: Candidate) -> None:
        reservoir = uncoupled([0.0, 0.5, -1.0, 2.0], tm.Dynamics(J2=0.7, J4=0.0, mu=1.3, kT=0.2))
        self.check_linear(candidate, reservoir)

    def test_coupled_ornstein_uhlenbeck(self, candidate: Candidate) -> None:
        W = [[0.0, 0.8, -0.3], [-0.5, 0.0, 0.6], [0.2, 0.9, 0.0]]
        reservoir = coupled(W, [1.0, -0.5, 0.3], tm.Dynamics(J2=0.7, J4=0.0, mu=1.3, kT=0.2))
        transposed = coupled(np.transpose(W).tolist(), [1.0, -0.5, 0.3], reservoir.dynamics)
        self.check_linear(candidate, reservoir)
        with pytest.raises(AssertionError, match="standard errors off"):
            self.check_linear(candidate, reservoir, expect=transposed)

    def check_linear(self, candidate: Candidate, reservoir: tm.Reservoir, expect: tm.Reservoir | None = None) -> None:
        """Against the Euler recursion without bias, and against the SDE within the recursion's own distance to it."""
        protocol = tm.Protocol(dt=0.02, n_replicas=candidate.replicas)
        moments = tm.simulate(reservoir, ONE, protocol, engine=candidate.engine).raw[0]
        recursion = euler_ornstein_uhlenbeck(expect or reservoir, protocol.dt, protocol.n_steps)
        process = ornstein_uhlenbeck(expect or reservoir, protocol.t_final)
        exact, limit = (
            gaussian_moments(mean, np.diag(covariance), protocol.orders) for mean, covariance in (recursion, process)
        )
        errors = gaussian_errors(recursion[0], np.diag(recursion[1]), protocol.orders, candidate.replicas)
        agrees(moments, exact, errors)
        agrees(moments, limit, errors, bias=float(np.abs(exact - limit).max()))
        np.testing.assert_allclose(exact, limit, rtol=3 * protocol.dt)

    def test_free_diffusion(self, candidate: Candidate) -> None:
        """A well too flat to matter: mean mu h t, variance 2 mu kT t, at any step."""
        mu, kT, t = 1.5, 0.3, 0.5
        drives = np.array([0.0, 1.0, -2.0])
        reservoir = uncoupled(drives.tolist(), tm.Dynamics(J2=1e-9, J4=0.0, mu=mu, kT=kT))
        protocol = tm.Protocol(dt=0.05, t_final=t, n_replicas=candidate.replicas, clip=np.inf)
        moments = tm.simulate(reservoir, ONE, protocol, engine=candidate.engine).raw[0]
        mean, variance = mu * drives * t, np.full(3, 2 * mu * kT * t)
        expected = gaussian_moments(mean, variance, protocol.orders)
        agrees(moments, expected, gaussian_errors(mean, variance, protocol.orders, candidate.replicas))

    def test_no_noise(self, candidate: Candidate) -> None:
        """At kT = 0 the distance to the ODE's solution halves with the step."""
        W = [[0.0, 0.8, -0.3], [-0.5, 0.0, 0.6], [0.2, 0.9, 0.0]]
        reservoir = coupled(W, [1.0, -2.5, 0.3], tm.Dynamics(mu=1.3, kT=0.0))
        exact = noiseless(reservoir, 1.0)
        distances = []
        for dt in (2e-2, 1e-2, 5e-3):
            protocol = tm.Protocol(dt=dt, n_replicas=1)
            x = tm.simulate(reservoir, ONE, protocol, engine=candidate.engine).raw[0, 0]
            distances.append(np.abs(x - exact).max())
        assert distances[-1] < 2e-3
        rounding = 2 * candidate.tolerance / distances[-1]
        np.testing.assert_allclose(np.divide(distances[:-1], distances[1:]), 2, atol=0.15 + rounding)

    def test_long_time_is_equilibrium(self, candidate: Candidate) -> None:
        drives = [0.0, 0.7, -1.5, 3.0]
        for dynamics in (tm.Dynamics(), tm.Dynamics(J2=-0.3, J4=1.0, kT=0.3)):
            reservoir = uncoupled(drives, dynamics)
            protocol = tm.Protocol(dt=5e-3, t_final=5.0, n_replicas=candidate.replicas // 8, orders=(1, 2, 4, 8))
            moments = tm.simulate(reservoir, ONE, protocol, engine=candidate.engine)
            expected = dynamics.boltzmann_moments(drives, (1, 2, 4))
            errors = np.stack([moments.standard_error(p)[0] for p in (1, 2, 4)])
            # The Euler bias at this step is at most 1.1e-4 * 5 (docs/log.md).
            agrees(moments.raw[0, :3], expected, errors, bias=1e-3)

    def test_two_symmetric_nodes_reach_their_joint_equilibrium(self, candidate: Candidate) -> None:
        reservoir = coupled([[0.0, 1.5], [1.5, 0.0]], [0.5, 0.4], tm.Dynamics(kT=0.3))
        alone = coupled([[0.0, 0.0], [0.0, 0.0]], [0.5, 0.4], tm.Dynamics(kT=0.3))
        protocol = tm.Protocol(dt=5e-3, t_final=5.0, n_replicas=candidate.replicas // 8, orders=(1, 2, 4, 8))
        moments = tm.simulate(reservoir, ONE, protocol, engine=candidate.engine)
        errors = np.stack([moments.standard_error(p)[0] for p in (1, 2, 4)])
        agrees(moments.raw[0, :3], two_node_boltzmann(reservoir, (1, 2, 4)), errors, bias=1e-3)
        with pytest.raises(AssertionError, match="standard errors off"):
            agrees(moments.raw[0, :3], two_node_boltzmann(alone, (1, 2, 4)), errors, bias=1e-3)

    def test_transient(self, candidate: Candidate) -> None:
        """One node before equilibrium against the Fokker-Planck equation; equilibrium is ruled out."""
        drives, t, orders = [0.0, 0.7, -1.5], 0.3, (1, 2, 4)
        dynamics = tm.Dynamics()
        protocol = tm.Protocol(dt=1e-3, t_final=t, n_replicas=candidate.replicas // 4, orders=(1, 2, 4, 8))
        moments = tm.simulate(uncoupled(drives, dynamics), ONE, protocol, engine=candidate.engine)
        expected = np.stack([fokker_planck(dynamics, h, t, orders) for h in drives], axis=1)
        errors = np.stack([moments.standard_error(p)[0] for p in orders])
        agrees(moments.raw[0, :3], expected, errors, bias=3e-4)
        with pytest.raises(AssertionError, match="standard errors off"):
            agrees(moments.raw[0, :3], dynamics.boltzmann_moments(drives, orders), errors, bias=3e-4)

    def test_weak_order_one(self, candidate: Candidate) -> None:
        """The bias of a moment is proportional to the step: bias / dt is the same at every step of the table."""
        n = 64
        dynamics, h, t = tm.Dynamics(kT=0.5), 1.0, 0.8
        exact = fokker_planck(dynamics, h, t, (2,))[0]
        reservoir = uncoupled([h] * n, dynamics)
        table = []
        for dt in (0.1, 0.05, 0.025):
            protocol = tm.Protocol(dt=dt, t_final=t, n_replicas=candidate.replicas // 4, orders=(2, 4))
            moments = tm.simulate(reservoir, ONE, protocol, engine=candidate.engine)
            m2, m4 = moments.raw[0].mean(axis=1)
            error = np.sqrt((m4 - m2**2) / (n * candidate.replicas // 4))
            table.append((dt, (m2 - exact) / dt, error / dt))
        _, slopes, errors = np.array(table).T
        assert abs(slopes[0]) > 20 * errors[0], "there must be a bias to see"
        # The second-order term changes bias / dt by C dt between rows; C is of the order of the slope itself.
        agrees(slopes[1:], slopes[0], np.hypot(errors[1:], errors[0]), bias=3 * abs(slopes[0]) * 0.1)


class TestSymmetry:
    def test_the_distribution_is_mirrored_with_the_drive(self, candidate: Candidate) -> None:
        drives = [0.3, 1.0, 2.5]
        protocol = tm.Protocol(dt=1e-2, n_replicas=candidate.replicas // 4, orders=(1, 2, 4, 8))
        right, left = (
            tm.simulate(uncoupled(d, tm.Dynamics()), ONE, protocol, engine=candidate.engine, sample_ids=[k])
            for k, d in enumerate((drives, [-h for h in drives]))
        )
        for p, sign in ((1, -1), (2, 1), (4, 1)):
            errors = np.hypot(right.standard_error(p), left.standard_error(p))
            agrees(right.order(p), sign * left.order(p), errors)


class TestSingleReplicas:
    def test_moments_are_those_of_the_final_states(self, tracer: Candidate) -> None:
        """m2 = variance + mean^2 and m4 = mu4 + 4 mean mu3 + 6 mean^2 variance + mean^4, from the states themselves."""
        protocol = tm.Protocol(dt=1e-2, n_replicas=300, orders=(1, 2, 3, 4))
        moments = tm.simulate(network(9), images(3), protocol, engine=tracer.engine)
        x = tm.final_states(network(9), images(3), protocol, engine=tracer.engine)
        assert x.shape == (3, 300, 9)
        mean = x.mean(axis=1)
        centred = x - mean[:, None]
        mu2, mu3, mu4 = ((centred**q).mean(axis=1) for q in (2, 3, 4))
        np.testing.assert_allclose(moments.order(2), mu2 + mean**2, rtol=1e-12)
        np.testing.assert_allclose(moments.order(4), mu4 + 4 * mean * mu3 + 6 * mean**2 * mu2 + mean**4, rtol=1e-12)
        np.testing.assert_allclose(moments.central(2), mu2, rtol=1e-9)
        np.testing.assert_allclose(moments.central(4), mu4, rtol=1e-9)

    def test_paths_start_at_zero_and_end_in_the_final_states(self, tracer: Candidate) -> None:
        protocol = tm.Protocol(dt=1e-2, n_replicas=130)
        times, paths = tm.sample_paths(network(9), images(2), protocol, nodes=(8, 0), every=5, engine=tracer.engine)
        x = tm.final_states(network(9), images(2), protocol, engine=tracer.engine)
        assert paths.shape == (2, 130, 21, 2)
        np.testing.assert_allclose(times, np.linspace(0, 1, 21), atol=1e-12)
        assert not paths[:, :, 0].any()
        assert np.array_equal(paths[:, :, -1], x[:, :, [8, 0]])

    def test_every_step_follows_from_the_one_before(self, tracer: Candidate) -> None:
        """The recorded path is the recursion with the contract's noise, written out here by hand."""
        reservoir, protocol = network(6), tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=4)
        _, paths = tm.sample_paths(reservoir, images(1), protocol, nodes=range(6), engine=tracer.engine)
        x = np.zeros((4, 6))
        h = images(1)[0] @ reservoir.K.T + reservoir.b
        for n in range(20):
            xi = normals(n, np.arange(4), 6, 0, protocol.seed, reservoir.stream)
            x = x + 0.01 * (-2 * x - 4 * x**3 + h + np.einsum("ij,mj->mi", reservoir.W, x)) + np.sqrt(0.002) * xi
            np.testing.assert_allclose(paths[0, :, n + 1], x, atol=max(tracer.tolerance, 1e-12))

    def test_only_asymmetric_coupling_drives_a_current(self, tracer: Candidate) -> None:
        """In the steady state E[x1 dx2 - x2 dx1] = 0 if and only if W is symmetric: no current, detailed balance.

        For the linear pair W = ((0, a), (-a, 0)) it is mu (E[x1 F2] - E[x2 F1]) = -a mu (E[x1^2] + E[x2^2]).
        """
        a, dynamics = 0.8, tm.Dynamics(J2=1.0, J4=0.0, kT=0.5)
        protocol = tm.Protocol(dt=1e-2, t_final=4.0, n_replicas=tracer.replicas // 16)
        for W, expected in (([[0, a], [-a, 0]], -a * 2 * 0.25), ([[0, a], [a, 0]], 0.0)):
            pair = coupled(W, [0.0, 0.0], dynamics)
            _, x = tm.sample_paths(pair, ONE, protocol, nodes=(0, 1), engine=tracer.engine)
            steady = x[0, :, 200:]
            x1, x2 = steady[..., 0], steady[..., 1]
            rotation = (x1[:, :-1] * np.diff(x2) - x2[:, :-1] * np.diff(x1)).mean(axis=1) / protocol.dt
            error = rotation.std(ddof=1) / np.sqrt(len(rotation))
            # The recursion's own stationary variance, kT / 2 J2 / (1 - J2 dt + ...), is 1.01 of the process's.
            agrees(rotation.mean(), np.array(expected), error, bias=0.02 * abs(expected))
            assert expected == 0 or abs(rotation.mean()) > 10 * error


class TestManners:
    def test_progress_counts_up_to_the_number_of_samples(self, candidate: Candidate) -> None:
        calls: list[tuple[int, int]] = []
        protocol = tm.Protocol(dt=5e-2, n_replicas=300)
        tm.simulate(
            network(256),
            images(13),
            protocol,
            engine=candidate.engine,
            progress=lambda done, total: calls.append((done, total)),
        )
        done = [call[0] for call in calls]
        assert done == sorted(set(done))
        assert calls[-1] == (13, 13)

    def test_an_error_in_the_progress_function_stops_the_run(self, candidate: Candidate) -> None:
        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(f"{done} of {total}")

        with pytest.raises(KeyboardInterrupt):
            tm.simulate(network(256), images(13), tm.Protocol(dt=5e-2), engine=candidate.engine, progress=stop)

    def test_infinitely_many_replicas_are_refused(self, candidate: Candidate) -> None:
        with pytest.raises(ValueError, match=r"`n_replicas` must be finite for an engine that samples, but was inf"):
            tm.simulate(network(9), images(1), tm.Protocol(n_replicas=np.inf), engine=candidate.engine)
