"""Observables: what engines sum along the paths is what a path written out by hand adds up to, in any batch."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment._engines.choice import choose
from thermoment._engines.task import Engine, Move, PathWork
from thermoment._engines.xla import Xla
from thermoment.simulation import prepare
from thermoment.thermodynamics.heat import Heat, Work

RESERVOIR = tm.Reservoir.draw(7, 3, s_W=0.8, s_K=3.0, seed=1, dynamics=tm.Dynamics(J2=0.8, J4=1.2, mu=1.3, kT=0.2))
INPUTS = np.random.default_rng(0).random((3, 3))
PROTOCOL = tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=50)
ENGINES = ["reference", "xla", Xla("float64")]
TOLERANCE = {"reference": 1e-12, "xla": 1e-5, Xla("float64"): 1e-11}


@dataclass(frozen=True)
class Seen:
    """Everything that a step shows, weighed so that nothing of it can be exchanged or left out."""

    power: int = 1
    name = "seen"

    def increment(self, move: Move) -> Any:
        weight = np.arange(1.0, 8.0)
        local = move.dynamics.J4 * move.dt * move.before**2 + move.drive * move.change
        return ((local + (move.middle @ move.W.T) * move.after) ** self.power * weight).sum(axis=-1)


def by_hand(power: int = 1) -> Any:
    """`Seen` of every replica (S, M), from recorded paths."""
    _, x = tm.sample_paths(RESERVOIR, INPUTS, PROTOCOL, nodes=range(7), engine="reference")
    before, after = x[:, :, :-1], x[:, :, 1:]
    local = 1.2 * 0.01 * before**2 + RESERVOIR.drive(INPUTS)[:, None, None] * (after - before)
    pushed = np.einsum("ij,smtj->smti", RESERVOIR.W, (before + after) / 2) * after
    return ((local + pushed) ** power * np.arange(1, 8)).sum(axis=(2, 3))


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_mean_and_variance_are_those_of_the_paths(engine: str | Engine) -> None:
    found = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=engine, observables=[Seen()]).observed["seen"]
    expected = by_hand()
    np.testing.assert_allclose(found.mean, expected.mean(axis=1), atol=TOLERANCE[engine])
    np.testing.assert_allclose(found.variance, expected.var(axis=1, ddof=1), atol=TOLERANCE[engine])
    np.testing.assert_allclose(found.standard_error, expected.std(axis=1, ddof=1) / np.sqrt(50), atol=TOLERANCE[engine])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(found.mean, by_hand(power=2).mean(axis=1), atol=TOLERANCE[engine])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_replicas_in_several_tiles_and_blocks(dtype: str) -> None:
    """More replicas than the reference has in a block and xla in a tile: none is lost or counted twice."""
    protocol = tm.Protocol(dt=2e-2, t_final=0.1, n_replicas=4500)
    observables = (Heat(), Work())
    expected = tm.simulate(RESERVOIR, INPUTS, protocol, engine="reference", observables=observables).observed
    found = tm.simulate(RESERVOIR, INPUTS, protocol, engine=Xla(dtype), observables=observables).observed
    assert list(found) == ["heat", "work"]
    for name in found:
        # A replica more or less would change the mean by its spread over 4500: 1e-4.
        np.testing.assert_allclose(found[name].mean, expected[name].mean, atol=1e-6)
        np.testing.assert_allclose(found[name].variance, expected[name].variance, atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_sample_has_the_same_bits_in_any_batch_and_the_moments_they_have_without(engine: str | Engine) -> None:
    options: dict[str, Any] = {"engine": engine, "observables": (Heat(),)}
    whole = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, **options)
    part = tm.simulate(RESERVOIR, INPUTS[1:2], PROTOCOL, sample_ids=[1], **options)
    assert part.observed["heat"].mean.tobytes() == whole.observed["heat"].mean[1:2].tobytes()
    assert part.observed["heat"].variance.tobytes() == whole.observed["heat"].variance[1:2].tobytes()
    without = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=engine)
    assert without.observed == {}
    np.testing.assert_allclose(whole.raw, without.raw, rtol=0, atol=TOLERANCE[engine])


def test_one_replica_has_a_mean_and_no_variance() -> None:
    protocol = tm.Protocol(dt=1e-2, t_final=0.2, n_replicas=1)
    found = tm.simulate(RESERVOIR, INPUTS, protocol, engine="reference", observables=[Heat()]).observed["heat"]
    assert np.isfinite(found.mean).all()
    assert np.isnan(found.variance).all()
    assert np.isnan(found.standard_error).all()


def test_native_takes_the_work_along_the_path_alone() -> None:
    if not tm.engines()["native"].can_run:
        pytest.skip(tm.engines()["native"].note)
    expected = "`observables` must be PathWork alone for the native engine .reference and xla take any., but was heat"
    with pytest.raises(ValueError, match=expected):
        tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine="native", observables=(PathWork(), Heat()))


@pytest.mark.parametrize("engine", ["native", "xla", Xla("float64")], ids=str)
def test_work_along_the_path_is_that_of_the_reference_in_every_replica(engine: str | Engine) -> None:
    """Through a rest, with a clip, in tiles that are full and tiles that are not; by hand from the paths, too."""
    protocol = replace(PROTOCOL, n_replicas=77, start="rest", t_rest=3.0, clip=0.8)

    def totals(engine: str | Engine) -> Any:
        task = replace(prepare(RESERVOIR, INPUTS, protocol), observables=(PathWork(),), keep_totals=True)
        found, _ = choose(engine, task)
        outcome = found.moments(task, lambda _: None)
        assert outcome.totals is not None
        seen = outcome.observed["path_work"]
        np.testing.assert_allclose(seen.mean, outcome.totals[0].mean(axis=1), rtol=1e-12)
        np.testing.assert_allclose(seen.variance, outcome.totals[0].var(axis=1, ddof=1), rtol=1e-12)
        return outcome.totals[0]

    if engine == "native" and not tm.engines()["native"].can_run:
        pytest.skip(tm.engines()["native"].note)
    _, x = tm.sample_paths(RESERVOIR, INPUTS, protocol, nodes=range(7), engine="reference")
    A = (RESERVOIR.W - RESERVOIR.W.T) / 2
    middle, change = (x[:, :, 1:] + x[:, :, :-1]) / 2, np.diff(x, axis=2)
    expected = np.einsum("smti,ij,smtj->sm", change, A, middle)
    np.testing.assert_allclose(totals("reference"), expected, atol=1e-12)
    np.testing.assert_allclose(totals(engine), expected, atol=1e-11 if engine == Xla("float64") else 2e-5)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "plain"])
def test_every_kernel_of_native_sums_it_at_every_reading(isa: str) -> None:
    """Over phases of different couplings; what was summed is counted on from one reading to the next."""
    try:
        engine = tm.Native(isa)
        engine.status()
    except (AttributeError, RuntimeError, ValueError) as why:
        pytest.skip(str(why))
    other = tm.Reservoir.draw(7, 3, s_W=1.5, seed=2).W
    phases = [tm.Phase(0.1, INPUTS), tm.Phase(0.01, -INPUTS, other), tm.Phase(0.2, None)]
    both = [
        tm.course(RESERVOIR, phases, PROTOCOL, engine=one, observables=[PathWork()]) for one in (engine, "reference")
    ]
    found, expected = ([m.observed["path_work"].mean for m in one.moments] for one in both)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.abs(np.diff(expected, axis=0)).min() > 1e-4


def test_to_account_for_work_changes_no_moment_of_native() -> None:
    """Where the product is float32 with and without: the same bits."""
    if not tm.engines()["native"].can_run:
        pytest.skip(tm.engines()["native"].note)
    x0 = np.full(7, 0.3)  # a run from x0 is done in float32
    with_, without = (
        tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine="native", x0=x0, observables=observables)
        for observables in ([PathWork()], [])
    )
    assert with_.raw.tobytes() == without.raw.tobytes()


@pytest.mark.parametrize("name", ["cuda", "meanfield"])
def test_engines_that_take_no_observables_say_so(name: str) -> None:
    if not tm.engines()[name].can_run:
        pytest.skip(tm.engines()[name].note)
    expected = f"`observables` must be empty for the {name} engine .reference and xla take them., but was heat, work"
    with pytest.raises(ValueError, match=expected):
        tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=name, observables=(Heat(), Work()))


def test_auto_passes_over_them() -> None:
    info = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, observables=(Heat(),)).info
    assert info.engine == "xla"
    if tm.engines()["native"].can_run:
        assert "native cannot: Argument `observables` must be PathWork alone for the native engine" in info.choice


def test_files_keep_them(tmp_path: Path) -> None:
    saved = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine="reference", observables=(Heat(), Work()))
    saved.save(tmp_path / "m.safetensors")
    loaded = tm.Moments.load(tmp_path / "m.safetensors")
    assert loaded.raw.tobytes() == saved.raw.tobytes()
    assert list(loaded.observed) == ["heat", "work"]
    for name, one in saved.observed.items():
        again = loaded.observed[name]
        assert (again.mean.tobytes(), again.variance.tobytes()) == (one.mean.tobytes(), one.variance.tobytes())
        assert again.n_replicas == one.n_replicas == 50


def test_a_file_without_them_is_what_it_was(tmp_path: Path) -> None:
    plain = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine="reference")
    plain.save(tmp_path / "m.safetensors")
    assert b"observed" not in (tmp_path / "m.safetensors").read_bytes()
    assert tm.Moments.load(tmp_path / "m.safetensors").observed == {}
