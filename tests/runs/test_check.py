"""What must fail is refused before any work: nothing is heard of, nothing is written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import thermoment as tm
from support.runs import TINY, experiment
from thermoment._engines.native import Native
from thermoment._support.memory import check_fits
from thermoment.experiments.experiment import Experiment
from thermoment.experiments.settings import ReservoirSettings
from thermoment.learning.options import FiniteTime
from thermoment.runs import run as runner

FINE = tm.Protocol(dt=1e-4, t_final=1e-3, n_replicas=2)
"""Steps so short that strong drives are stable."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(TINY, tmp_path_factory.mktemp("experiment"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: replace(e, engine="native-gpu"), "`engine` must be one of"),
        (
            lambda e: replace(e, protocol=replace(e.protocol, n_replicas=float("inf"))),
            "must be finite for an engine that samples",
        ),
        (lambda e: replace(e, data=replace(e.data, n_train=10**6)), "n_train"),
        (lambda e: replace(e, data=replace(e.data, name="nowhere.npz")), "nowhere.npz"),
        (lambda e: replace(e, protocol=replace(e.protocol, dt=1.0, t_final=1.0)), "`dt` must be at most"),
        (lambda e: replace(e, variants={"a": {}, "b": {"engine": "nope"}}), "`engine` must be one of"),
        (lambda e: _second(e, s_K=1000.0), "`dt` must be at most"),
        (lambda e: _second(e, s_W=1e308), "`dt` must be at most"),
        (lambda e: replace(e, finite_time=FiniteTime(validation=120)), "leave some of the 120 images"),
        (lambda e: replace(e, engine="native"), "Engine `native` cannot run here: not on this machine"),
        (lambda e: replace(e, variants={"a": {}, "b": {"engine": "native"}}), "Engine `native` cannot run here"),
        (
            lambda e: replace(e, variants={"a": {}, "b": {"protocol": {"n_replicas": float("inf")}}}),
            "must be finite for an engine that samples",
        ),
        (lambda e: _first(e, s_W=1e308), "`dt` must be at most"),
        (lambda e: _first(e, s_W=1e150), "`dt` must be at most"),
        (lambda e: replace(e, readout=replace(e.readout, l2=0.0)), "`readout.l2` must be positive, or readout.conv"),
        (lambda e: replace(e, engine="meanfield", dynamics=tm.Dynamics(kT=1e-4)), "`kT` must be at least 0.001"),
        (lambda e: replace(e, engine="meanfield", protocol=replace(e.protocol, clip=0.1)), "`clip` must be at least"),
        (lambda e: replace(_second(e, s_K=3000.0), engine="meanfield", protocol=FINE), "`drive` must be at most 1000"),
        (lambda e: replace(e, finite_time=FiniteTime(kT=1e-4)), "`kT` must be at least 0.001"),
        (
            lambda e: replace(e, protocol=replace(e.protocol, start="rest", t_rest=e.protocol.t_final)),
            "`t_rest` must be at least 1.2",
        ),
        (
            lambda e: replace(
                e,
                dynamics=tm.Dynamics(J2=-1.0, kT=2.0),
                finite_time=FiniteTime(kT=0.1),
                protocol=replace(e.protocol, start="rest", t_rest=2.0),
            ),
            "`t_rest` must be at least",
        ),
        (
            lambda e: replace(e, finite_time=FiniteTime(kT=0.1), dynamics=tm.Dynamics(kT=1e-4)),
            "`kT` must be at least 0.001",
        ),
        (
            lambda e: replace(e, finite_time=FiniteTime(), protocol=replace(e.protocol, clip=1.0)),
            "`clip` must be at least",
        ),
        (
            lambda e: replace(_second(e, s_K=200.0), finite_time=FiniteTime(), protocol=FINE),
            "`drive` must be at most 100 where",
        ),
        (
            lambda e: replace(e, finite_time=FiniteTime(), protocol=replace(e.protocol, orders=(1, 8))),
            "`orders` must be at most",
        ),
        (lambda e: _first(e, name="K" * 65), "`name` must be a name of at most 64 letters"),
        (lambda e: replace(e, reservoirs=[_named(e, k) for k in "ABC"]), "`reservoirs` must have names of at most 180"),
        (lambda e: replace(e, variants={"v" * 64: {}}), "`name` must be a name of at most 64 letters"),
    ],
)
def test_bad_experiments_stop_before_any_work(
    tiny: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Experiment], Experiment],
    message: str,
) -> None:
    def cannot(_: Native) -> str:
        raise RuntimeError("not on this machine")

    monkeypatch.setattr(Native, "status", cannot)
    heard: list[object] = []
    with pytest.raises((ValueError, RuntimeError), match=message):
        runner.run(change(tiny), tmp_path / "run", listener=lambda *what: heard.append(what))
    assert heard == []
    assert list(tmp_path.iterdir()) == []


def test_features_that_no_memory_holds_are_refused_before_any_work(
    tiny: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tight(*shape: Any, **size: Any) -> None:
        with monkeypatch.context() as patch:  # the images themselves fit
            patch.setattr("thermoment._support.memory.memory", lambda: 120 * 10 * 3 * 4 - 1.0)
            check_fits(*shape, **size)

    monkeypatch.setattr("thermoment.runs.check.check_fits", tight)
    with pytest.raises(ValueError, match=r"`n_nodes` must ask for no more than the 14.1 KiB .* 14.1 KiB: \(120, 30\)"):
        runner.run(tiny, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def _first(experiment: Experiment, **changes: Any) -> Experiment:
    """With another first reservoir, which is trained."""
    first, second = experiment.reservoirs
    return replace(experiment, reservoirs=(replace(first, **changes), second))


def _named(experiment: Experiment, letter: str) -> ReservoirSettings:
    return replace(experiment.reservoirs[1], name=letter * 63)


def _second(experiment: Experiment, **changes: Any) -> Experiment:
    """With another second reservoir, which is not trained: what is wrong with it can be known at the start."""
    first, second = experiment.reservoirs
    return replace(experiment, reservoirs=(first, replace(second, **changes)))
