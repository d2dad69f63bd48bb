"""Segments on the cuda engine, with every product and with networks that fill its kernels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.conformance import bits
from thermoment._engines.task import Engine

cuda = pytest.importorskip("thermoment._engines.cuda", exc_type=ImportError)
cupy = pytest.importorskip("cupy")

if not tm.engines()["cuda"].can_run:
    pytest.skip(f"cuda cannot run: {tm.engines()['cuda'].note}", allow_module_level=True)

needs_hopper = pytest.mark.skipif(cupy.cuda.Device(0).compute_capability != "90", reason="needs a Hopper")
ENGINES = [
    pytest.param(("wgmma", 200), id="wgmma", marks=needs_hopper),
    pytest.param(("mma", 200), id="mma"),
    pytest.param(("mma, W in global memory", 200), id="global"),
    pytest.param((None, 600), id="wide", marks=needs_hopper),
]
# A tile to a sample: of five samples the last is alone in its multiprocessor, where two would have room.
S, M = 5, 40
PROTOCOL = tm.Protocol(dt=5e-3, t_final=0.2, n_replicas=M)
RNG = np.random.default_rng(4)
INPUTS, SIGNAL = RNG.random((S, 10)), RNG.random((S, 6, 10))


def network(N: int, s_W: float = 0.5) -> tm.Reservoir:
    return tm.Reservoir.draw(N, 10, s_W=s_W, s_K=4.0, seed=2)


@pytest.fixture(params=ENGINES)
def case(request: pytest.FixtureRequest) -> tuple[Engine, tm.Reservoir]:
    product, N = request.param
    return cuda.Cuda(product), network(N)


Case = tuple[Engine, tm.Reservoir]


def phases(reservoir: tm.Reservoir, inputs: Any = INPUTS) -> list[tm.Phase]:
    """Three couplings, the first of them twice, and a time without drive."""
    other, weaker = network(reservoir.n_nodes, s_W=1.5).W, reservoir.W / 3
    backwards = inputs[:, ::-1]
    return [
        tm.Phase(0.05, inputs),
        tm.Phase(0.1, backwards, other),
        tm.Phase(0.05, W=other),
        tm.Phase(0.03, inputs, weaker),
        tm.Phase(0.07, backwards),
    ]


def test_phases_from_a_state_of_every_replica(case: Case) -> None:
    """The reference's numbers; and without the change of W they would be others."""
    engine, reservoir = case
    x0 = RNG.uniform(-1, 1, (S, M, reservoir.n_nodes))
    found, expected = (
        tm.course(reservoir, phases(reservoir), PROTOCOL, x0=x0, keep_end=True, engine=one)
        for one in (engine, "reference")
    )
    np.testing.assert_allclose(found.raw, expected.raw, rtol=0, atol=1e-4)
    assert found.end is not None
    assert expected.end is not None
    np.testing.assert_allclose(found.end.x, expected.end.x, rtol=0, atol=1e-4)
    assert np.array_equal(found.end.x, np.float32(found.end.x)), "states are handed out in float32"
    one_W = [replace(phase, W=None) for phase in phases(reservoir)]
    assert np.abs(tm.course(reservoir, one_W, PROTOCOL, x0=x0, engine=engine).raw - expected.raw).max() > 1e-2


@pytest.mark.parametrize("many", [21, 301])
def test_a_sample_has_the_same_bits_in_any_batch(case: Case, many: int) -> None:
    """Fewer samples than run at a time, and more: then W changes back for the second round."""
    engine, reservoir = case
    inputs, x0 = RNG.random((many, 10)), RNG.uniform(-1, 1, (many, reservoir.n_nodes))
    protocol = replace(PROTOCOL, n_replicas=70)
    whole = tm.course(reservoir, phases(reservoir, inputs), protocol, x0=x0, engine=engine).raw
    for part in ([0], [many - 1], [many // 2, 1]):
        alone = tm.course(
            reservoir, phases(reservoir, inputs[part]), protocol, x0=x0[part], engine=engine, sample_ids=part
        ).raw
        assert np.array_equal(alone, whole[:, part]), part


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
@pytest.mark.parametrize("clip", [1.0, 4.0])
def test_a_signal_cut_anywhere_is_the_whole(case: Case, clip: float) -> None:
    """Also where updates are clipped, which happens in the second part alone for some samples."""
    engine, reservoir = case
    protocol = replace(PROTOCOL, clip=clip, t_rest=1.5, start="rest")
    options: dict[str, Any] = {"engine": engine, "hold": 0.05, "keep_end": True}
    whole = tm.course(reservoir, SIGNAL, protocol, **options)
    first = tm.course(reservoir, SIGNAL[:, :2], protocol, **options)
    second = tm.course(reservoir, SIGNAL[:, 2:], protocol, x0=first.end, **options)
    assert np.array_equal(np.concatenate([first.raw, second.raw]), whole.raw)
    assert whole.end is not None
    assert second.end is not None
    assert np.array_equal(second.end.x, whole.end.x)
    counts = [one.moments[-1].info.clip_count for one in (whole, first, second)]
    assert counts[0] == counts[1] + counts[2]
    assert (counts[2] > 0) == (clip == 1.0)


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
@pytest.mark.parametrize("start", ["zero", "rest"])
def test_several_times_are_separate_runs(case: Case, start: Any) -> None:
    """Three samples are loud and are clipped, one of them only late; the others are not."""
    engine, reservoir = case
    inputs = INPUTS * np.array([1, 1, 2, 3, 9])[:, None] / 3
    protocol = replace(PROTOCOL, clip=1.3, start=start, t_rest=1.5 if start == "rest" else None)
    several = tm.course(reservoir, inputs, protocol, times=(0.05, 0.1, 0.2), engine=engine)
    counts = []
    for t in several.times:
        alone = tm.simulate(reservoir, inputs, replace(protocol, t_final=t), engine=engine)
        assert bits(several.at(t)) == bits(alone)
        assert several.at(t).info.clip_count == alone.info.clip_count
        counts.append(alone.info.clip_count)
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
def test_one_time_of_a_course_is_a_run_that_ends_there(case: Case) -> None:
    engine, reservoir = case
    one = tm.course(reservoir, INPUTS, PROTOCOL, times=(0.05,), engine=engine).at(0.05)
    assert bits(one) == bits(tm.simulate(reservoir, INPUTS, replace(PROTOCOL, t_final=0.05), engine=engine))


@pytest.mark.filterwarnings("ignore::thermoment.simulation.ClipWarning")
def test_clipped_updates_are_those_of_the_reference(case: Case) -> None:
    engine, reservoir = case
    protocol = replace(PROTOCOL, clip=1.0)
    found, expected = (
        tm.course(reservoir, SIGNAL, protocol, hold=0.05, engine=one, x0=np.zeros(reservoir.n_nodes))
        for one in (engine, "reference")
    )
    np.testing.assert_allclose(found.raw, expected.raw, rtol=0, atol=2e-4)
    for one, other in zip(found.moments, expected.moments, strict=True):
        assert one.info.clip_count == pytest.approx(other.info.clip_count, rel=2e-3, abs=3)
    assert found.moments[-1].info.clip_count > 1000


@pytest.mark.parametrize("shape", ["(N,)", "(S, N)", "(S, M, N)"])
def test_x0_of_every_shape(case: Case, shape: str) -> None:
    engine, reservoir = case
    full = {"(N,)": (), "(S, N)": (S,), "(S, M, N)": (S, M)}[shape]
    x0 = RNG.uniform(-1, 1, (*full, reservoir.n_nodes))
    short = replace(PROTOCOL, t_final=0.01)
    found, expected = (tm.simulate(reservoir, INPUTS, short, x0=x0, engine=one).raw for one in (engine, "reference"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-5)


def test_many_readings_of_a_long_signal() -> None:
    """A thousand rows in one launch: each reading has its own place in the answer."""
    reservoir, signal = network(50), RNG.random((2, 1000, 10))
    protocol = replace(PROTOCOL, n_replicas=70, orders=(1, 3))
    found = tm.course(reservoir, signal, protocol, hold=0.01, engine="cuda")
    some = tm.course(reservoir, signal, protocol, hold=0.01, times=(0.5, 7.0, 10.0), engine="cuda")
    assert found.raw.shape == (1000, 2, 2, 50)
    assert np.array_equal(found.raw[[49, 699, 999]], some.raw)
    expected = tm.course(reservoir, signal[:, :50], protocol, hold=0.01, engine="reference")
    np.testing.assert_allclose(found.raw[:50], expected.raw, rtol=0, atol=1e-4)


def test_auto_takes_it() -> None:
    """From rest, and along a signal."""
    rested = replace(PROTOCOL, start="rest", t_rest=1.5)
    assert tm.simulate(network(20), INPUTS, rested).info.engine == "cuda"
    assert tm.course(network(20), SIGNAL, PROTOCOL, hold=0.01).moments[-1].info.engine == "cuda"
