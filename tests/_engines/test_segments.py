"""Segments in a row on every engine that runs them: the reference's numbers, the same bits however a run is cut.

Statistical tests have fixed seeds and a false-alarm rate of 1e-6.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.analytic import uncoupled
from support.conformance import ENGINES, Candidate, agrees, bits, runnable
from thermoment._engines.choice import choose
from thermoment._engines.task import TracingEngine
from thermoment.simulation import ClipWarning

S, M, N = 3, 7, 9
PROTOCOL = tm.Protocol(dt=1e-2, n_replicas=M)
RESTED = replace(PROTOCOL, start="rest", t_rest=1.5)
RESERVOIR = tm.Reservoir.draw(N, 10, s_W=0.5, s_K=4.0, s_b=0.2, seed=11, stream=3)
OTHER_W = tm.Reservoir.draw(N, 10, s_W=1.5, seed=12).W
RNG = np.random.default_rng(5)
INPUTS, SIGNAL, STATES = RNG.random((S, 10)), RNG.random((S, 6, 10)), RNG.normal(size=(S, M, N))


# xla in float64 is the same program as in float32.
CANDIDATES = [
    pytest.param(one, id=one.label, marks=pytest.mark.slow if one.label == "xla-float64" else ()) for one in ENGINES
]


@pytest.fixture(params=CANDIDATES)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return runnable(request.param)


def course(candidate: Candidate, inputs: Any, protocol: tm.Protocol = PROTOCOL, **options: Any) -> tm.Course:
    return tm.course(RESERVOIR, inputs, protocol, engine=candidate.engine, **options)


class TestBits:
    @pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
    @pytest.mark.parametrize("protocol", [replace(PROTOCOL, clip=0.6), RESTED], ids=["zero", "rest"])
    def test_several_times_in_one_pass_are_separate_runs(self, candidate: Candidate, protocol: tm.Protocol) -> None:
        several = course(candidate, INPUTS, protocol, times=(0.05, 0.3, 1.0))
        for t in several.times:
            alone = tm.simulate(RESERVOIR, INPUTS, replace(protocol, t_final=t), engine=candidate.engine)
            assert bits(several.at(t)) == bits(alone)
            assert several.at(t).info.clip_count == alone.info.clip_count
            assert several.at(t).info.n_steps == alone.info.n_steps
        assert (several.at(1.0).info.clip_count > 0) == (protocol.start == "zero")

    def test_a_single_time_is_a_run_that_ends_there(self, candidate: Candidate) -> None:
        """Whatever t_final is."""
        alone = tm.simulate(RESERVOIR, INPUTS, replace(PROTOCOL, t_final=0.3), engine=candidate.engine)
        assert bits(course(candidate, INPUTS, times=(0.3,)).at(0.3)) == bits(alone)

    @pytest.mark.parametrize("protocol", [PROTOCOL, RESTED], ids=["zero", "rest"])
    def test_a_signal_cut_in_two_is_the_whole(self, candidate: Candidate, protocol: tm.Protocol) -> None:
        whole = course(candidate, SIGNAL, protocol, hold=0.1, keep_end=True)
        first = course(candidate, SIGNAL[:, :1], protocol, hold=0.1, keep_end=True)
        second = course(candidate, SIGNAL[:, 1:], protocol, hold=0.1, keep_end=True, x0=first.end)
        assert whole.raw.shape == (6, S, 3, N)
        assert whole.times == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
        assert np.array_equal(np.concatenate([first.raw, second.raw]), whole.raw)
        assert first.end is not None
        assert second.end is not None
        assert whole.end is not None
        assert np.array_equal(second.end.x, whole.end.x)
        assert second.end.n_steps == whole.end.n_steps == 60 + protocol.rest_steps
        np.testing.assert_allclose(whole.at(0.6).order(1), whole.end.x.mean(axis=1), rtol=0, atol=candidate.sums)
        # Without the number of its step the second part has the noise of the first.
        again = course(candidate, SIGNAL[:, 1:], protocol, hold=0.1, x0=first.end.x)
        assert np.abs(again.raw - whole.raw[1:]).max() > 0.05

    def test_a_run_can_be_cut_anywhere(self, candidate: Candidate) -> None:
        whole = course(candidate, INPUTS, times=(0.2, 0.37), keep_end=True)
        first = course(candidate, INPUTS, times=(0.2,), keep_end=True)
        second = course(candidate, INPUTS, times=(0.17,), keep_end=True, x0=first.end)
        assert np.array_equal([first.raw[0], second.raw[0]], whole.raw)
        later = tm.simulate(RESERVOIR, INPUTS, replace(PROTOCOL, t_final=0.17), engine=candidate.engine, x0=first.end)
        assert bits(later) == np.ascontiguousarray(whole.raw[1]).tobytes()

    def test_any_batch(self, candidate: Candidate) -> None:
        """Samples of a signal and their states do not depend on the others."""
        whole = course(candidate, SIGNAL, hold=0.1, x0=STATES)
        for part in (slice(0, 1), slice(1, 3)):
            ids = np.arange(S)[part]
            some = course(candidate, SIGNAL[part], hold=0.1, x0=STATES[part], sample_ids=ids)
            assert np.array_equal(some.raw, whole.raw[:, part])

    def test_shapes_of_x0_that_say_the_same(self, candidate: Candidate) -> None:
        x = STATES[0, 0]
        found = [
            tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=candidate.engine, x0=x0)
            for x0 in (x, np.tile(x, (S, 1)), np.tile(x, (S, M, 1)))
        ]
        assert bits(found[0]) == bits(found[1]) == bits(found[2])

    def test_a_rest_is_a_phase_without_drive(self, candidate: Candidate) -> None:
        by_protocol = course(candidate, INPUTS, RESTED, times=(1.0,), keep_end=True)
        by_phases = course(candidate, [tm.Phase(1.5), tm.Phase(1.0, INPUTS)], times=(2.5,))
        assert np.array_equal(by_protocol.raw, by_phases.raw)


class TestAgainstReference:
    """The same noise, so differences are rounding only."""

    def same(self, candidate: Candidate, found: tm.Course, **options: Any) -> None:
        expected = course(Candidate("reference", "reference", 0.0, 1), **options)
        np.testing.assert_allclose(found.raw, expected.raw, rtol=0, atol=candidate.tolerance)
        for one, other in zip(found.moments, expected.moments, strict=True):
            assert abs(one.info.clip_count - other.info.clip_count) <= candidate.miscounts

    @pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
    def test_phases_with_drive_and_coupling_switched(self, candidate: Candidate) -> None:
        phases = [
            tm.Phase(0.3, INPUTS),
            tm.Phase(0.2),
            tm.Phase(0.31, INPUTS[::-1], OTHER_W),
            tm.Phase(0.19, W=OTHER_W),
            tm.Phase(0.1, INPUTS),
        ]
        options: dict[str, Any] = {
            "inputs": phases,
            "times": (0.1, 0.3, 0.81, 0.9, 1.1),
            "x0": np.clip(STATES, -1, 1),
            "protocol": replace(PROTOCOL, clip=1.0),
        }
        found = course(candidate, **options)
        assert found.moments[-1].info.clip_count > 0
        self.same(candidate, found, **options)

    def test_more_replicas_than_a_block(self, candidate: Candidate) -> None:
        """Every replica starts at its own x0, wherever the engine puts it; and ends in its own place."""
        x0 = np.random.default_rng(1).normal(size=(2, 2049, N))
        options: dict[str, Any] = {
            "inputs": SIGNAL[:2, :2],
            "hold": 0.02,
            "protocol": replace(PROTOCOL, n_replicas=2049),
            "x0": x0,
            "keep_end": True,
        }
        found, expected = (course(one, **options) for one in (candidate, ENGINES[0]))
        assert found.end is not None
        assert expected.end is not None
        np.testing.assert_allclose(found.end.x, expected.end.x, rtol=0, atol=max(candidate.tolerance, 1e-15))


class TestKnownSolutions:
    def test_x0_is_where_it_starts(self, candidate: Candidate) -> None:
        """A linear node without noise and drive decays by 1 - 2 mu J2 dt in each step."""
        dynamics = tm.Dynamics(J2=0.7, J4=0.0, mu=1.3, kT=0.0)
        reservoir = uncoupled([0.0] * N, dynamics)
        protocol = tm.Protocol(dt=1e-2, n_replicas=M, orders=(1, 2))
        for x0 in (STATES[0, 0], STATES[:, 0], STATES):
            found = tm.simulate(reservoir, np.ones((S, 1)), protocol, engine=candidate.engine, x0=x0)
            x = np.broadcast_to(x0[:, None] if x0.ndim == 2 else x0, STATES.shape) * (1 - 2 * 1.3 * 0.7 * 0.01) ** 100
            np.testing.assert_allclose(found.order(1), x.mean(axis=1), rtol=0, atol=1e-6)
            np.testing.assert_allclose(found.order(2), (x**2).mean(axis=1), rtol=0, atol=1e-6)

    def test_a_rest_ends_in_the_equilibrium_of_the_undriven_node(self, candidate: Candidate) -> None:
        """One step after the rest a node has moved by mu dt h, and else has Boltzmann's moments without drive.

        K I and b are large, and must not act before. A node at zero is ruled out; so is one driven all the time.
        """
        n, h, dt = 32, 3.0, 5e-3
        dynamics = tm.Dynamics()
        reservoir = tm.Reservoir(np.zeros((n, n)), np.full((n, 1), 1.0), np.full(n, h - 1.0), dynamics)
        rested = tm.Protocol(
            dt=dt, t_final=dt, n_replicas=candidate.replicas // 128, orders=(1, 2, 4, 8), start="rest", t_rest=3.0
        )

        def check(protocol: tm.Protocol) -> None:
            moments = tm.simulate(reservoir, [[1.0]], protocol, engine=candidate.engine)
            expected = np.add(dynamics.boltzmann_moments(0.0, (1, 2, 4)), [dt * h, 0, 0])
            errors = np.stack([moments.standard_error(p)[0] for p in (1, 2, 4)]) / np.sqrt(n)
            agrees(moments.raw[0, :3].mean(axis=1), expected, errors.mean(axis=1), bias=1.5e-3)

        check(rested)
        unrested = replace(rested, start="zero", t_rest=None)
        for wrong in (unrested, replace(unrested, t_final=3.0)):
            with pytest.raises(AssertionError, match="standard errors off"):
                check(wrong)


class TestSingleReplicas:
    @pytest.fixture
    def tracer(self, candidate: Candidate) -> Candidate:
        if not isinstance(choose(candidate.engine)[0], TracingEngine):
            pytest.skip(f"{candidate.label} keeps no single replicas")
        return candidate

    def test_paths_begin_with_the_rest(self, tracer: Candidate) -> None:
        times, paths = tm.sample_paths(RESERVOIR, INPUTS, RESTED, nodes=range(N), every=50, engine=tracer.engine)
        np.testing.assert_allclose(times, [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0], atol=1e-12)
        assert not paths[:, :, 0].any()
        phases = course(tracer, [tm.Phase(1.5), tm.Phase(1.0, INPUTS)], keep_end=True)
        assert phases.end is not None
        assert np.array_equal(paths[:, :, -1], phases.end.x)
        np.testing.assert_allclose(paths[:, :, 3].mean(axis=1), phases.at(1.5).order(1), rtol=0, atol=1e-12)
        final = tm.final_states(RESERVOIR, INPUTS, RESTED, engine=tracer.engine)
        assert np.array_equal(final, phases.end.x)

    def test_paths_begin_at_x0(self, tracer: Candidate) -> None:
        x0 = np.asarray(STATES, np.float32)
        options: dict[str, Any] = {"engine": tracer.engine, "x0": x0}
        _, paths = tm.sample_paths(RESERVOIR, INPUTS, PROTOCOL, nodes=(4, 1), every=20, **options)
        assert np.array_equal(paths[:, :, 0], x0[..., [4, 1]])
        assert np.array_equal(paths[:, :, -1], tm.final_states(RESERVOIR, INPUTS, PROTOCOL, **options)[..., [4, 1]])

    def test_observables_add_up_over_segments(self, tracer: Candidate) -> None:
        """Each reading has what a run that ends there has; and the drive of each segment counts in it."""
        options: dict[str, Any] = {"engine": tracer.engine, "observables": (tm.Heat(), tm.Work())}
        several = tm.course(RESERVOIR, INPUTS, RESTED, times=(0.1, 0.3), **options)
        for t in several.times:
            alone = tm.simulate(RESERVOIR, INPUTS, replace(RESTED, t_final=t), **options)
            for name in ("heat", "work"):
                assert np.array_equal(several.at(t).observed[name].mean, alone.observed[name].mean)
        phases = [tm.Phase(0.5, INPUTS), tm.Phase(0.5, INPUTS[::-1], np.zeros((N, N)))]
        linear = replace(RESERVOIR, dynamics=tm.Dynamics(J4=0.0))
        found = tm.course(linear, phases, PROTOCOL, keep_end=True, x0=STATES, **options)
        assert found.end is not None
        energy = [linear.dynamics.potential(x).sum(axis=2).mean(axis=1) for x in (STATES, found.end.x)]
        work, heat = (found.moments[-1].observed[name].mean for name in ("work", "heat"))
        # The first law is exact where J4 = 0: change of energy = work - heat.
        np.testing.assert_allclose(energy[1] - energy[0], work - heat, atol=1e-3)
        assert np.abs(work).min() > 1


class TestCourse:
    def test_what_it_says(self) -> None:
        found = course(ENGINES[0], SIGNAL, times=(0.05, 0.1), hold=0.1)
        assert repr(found).startswith("Course(2 times from 0.05 to 0.1, Moments(S=3")
        assert found.end is None
        assert found.at(0.1) is found.moments[1]
        with pytest.raises(ValueError, match=r"`t` must be one of the times 0.05, 0.1 at which .* but was 0.3"):
            found.at(0.3)

    def test_unless_told_otherwise(self) -> None:
        """An input is read at t_final; each row of a signal is held for t_final and read then."""
        short = replace(PROTOCOL, t_final=0.05)
        constant = course(ENGINES[0], INPUTS, short)
        assert constant.times == (0.05,)
        assert bits(constant.at(0.05)) == bits(tm.simulate(RESERVOIR, INPUTS, short, engine="reference"))
        signal = course(ENGINES[0], SIGNAL, short)
        assert signal.times == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.25, 0.3])
        assert np.array_equal(signal.raw[0], course(ENGINES[0], SIGNAL[:, 0], short).raw[0])

    def test_it_stops_at_the_last_time_unless_the_end_is_wanted(self) -> None:
        early = course(ENGINES[0], SIGNAL, times=(0.1,), hold=0.1)
        assert early.at(0.1).info.n_steps == 10
        to_end = course(ENGINES[0], SIGNAL, times=(0.1,), hold=0.1, keep_end=True)
        assert to_end.end is not None
        assert to_end.end.n_steps == 60
        assert np.array_equal(early.raw, to_end.raw)

    def test_who_is_clipped_is_told(self) -> None:
        with pytest.warns(ClipWarning, match="went beyond clip = 0.2") as seen:
            tm.course(RESERVOIR, INPUTS, replace(PROTOCOL, clip=0.2), times=(0.1,), engine="reference")
        assert seen[0].filename == __file__
