"""Pairs of nodes as features, the distance to equilibrium beside the closed form, features that experiments share."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.runs import TINY, experiment
from support.sketches import node_of_zeros, sketch
from thermoment.data import load as load_data
from thermoment.experiments.experiment import Experiment
from thermoment.reads import partners
from thermoment.report.figures import draw
from thermoment.results.results import Results, StudyResults
from thermoment.runs import equilibrium, features, stages
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.folder import verify


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(stages, "simulate_node", node_of_zeros)


def small(folder: Path, text: str = "", **readout: Any) -> Experiment:
    """60 training and 30 test images, two replicas, few steps, K as drawn."""
    written = TINY.replace("t_final = 0.2", "t_final = 0.06")
    shorter = {"n_train = 120": "n_train = 60", "n_test = 60": "n_test = 30", "n_replicas = 6": "n_replicas = 2"}
    for old, new in shorter.items():
        written = written.replace(old, new)
    one = experiment(written + text, folder)
    plain = tuple(replace(plan, stages=()) for plan in one.reservoirs)
    return replace(one, reservoirs=plain, readout=replace(one.readout, converged=False, **readout))


def test_pairs_are_features_and_the_machine_reads_them_again(tmp_path: Path) -> None:
    one = replace(small(tmp_path, reads=("m1", "pair", "means")), engine="xla")
    results = tm.run(one, tmp_path / "run")
    assert isinstance(results, Results)
    dataset = load_data("digits").first(60, 30)
    reservoir = tm.Reservoir.load(tmp_path / "run/reservoirs/K1.safetensors")
    store = FeatureStore.open(tmp_path / "run/features.zarr/K1")
    assert (store.pairs, store.missing()) == (True, [])
    kept = store.features(slice(60, None)).reshape(30, len(store.orders) + 1, -1)
    ids = np.arange(60, 90)
    pairs = list(enumerate(partners(reservoir.W).tolist()))
    again = tm.simulate(reservoir, dataset.x_test, one.protocol, engine="xla", sample_ids=ids, pairs=pairs)
    np.testing.assert_array_equal(kept[:, -1], again.joint.astype(np.float32))
    machine = tm.load(tmp_path / "run")
    said = machine.predict(dataset.x_test, engine="xla", sample_ids=ids)
    best = next(row for row in results.accuracy if row.model.name == "K1+K2" and len(row.model.orders) == 3)
    assert (said == dataset.y_test).sum() == best.correct


def test_an_engine_that_reads_single_nodes_refuses_pairs_before_any_work(tmp_path: Path) -> None:
    one = replace(small(tmp_path, reads=("m1", "pair")), engine="native")
    with pytest.raises(ValueError, match="`pairs` must be empty for the native engine"):
        tm.run(one, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("t", [0.05, 0.4])
def test_the_distance_of_uncoupled_harmonic_nodes_is_an_exponential(t: float) -> None:
    """E[x(t)] = h / (2 J2) (1 - exp(-2 J2 mu t)).

    By sampling the tolerance is five standard errors: a replica has the variance kT / 2 J2 at most, and there are
    20 x 30 x 256 of them.
    """
    dynamics = tm.Dynamics(J2=1.0, J4=0.0, kT=0.1)
    reservoir = tm.Reservoir.draw(30, 8, s_W=0.0, s_K=2.0, seed=3, dynamics=dynamics)
    images = np.random.default_rng(1).uniform(size=(20, 8)).astype(np.float32)
    protocol = tm.Protocol(dt=1e-3, t_final=t)
    expected = math.exp(-2 * t)
    assert equilibrium.distance(reservoir, images, protocol, "native") == pytest.approx(expected, rel=1e-3)
    scale = float(np.sqrt(((reservoir.drive(images) / 2) ** 2).mean()))
    error = math.sqrt(2 * 0.05 / (20 * 30 * 256)) / scale
    found = equilibrium._sampled(reservoir, images, replace(protocol, dt=1e-2), "native")
    assert found == pytest.approx(expected, abs=5 * error + 0.02 * expected)  # steps of 0.01 change the rate by 1 %


def test_where_the_coupling_is_too_strong_the_distance_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    reservoir = tm.Reservoir.draw(24, 8, s_W=3.0, s_K=2.0, symmetric=True, seed=3)
    images = np.random.default_rng(1).uniform(size=(4, 8)).astype(np.float32)
    asked: list[str] = []
    monkeypatch.setattr(equilibrium, "_sampled", lambda *given: asked.append(given[-1]) or 0.5)
    assert equilibrium.distance(reservoir, images, tm.Protocol(), "native") == 0.5
    assert asked == ["native"]


def test_a_study_has_the_distance_and_the_engine_of_every_point(tmp_path: Path) -> None:
    text = """
[variants.early]
[variants.late]
engine = "meanfield"
[variants.late.scan]
"protocol.t_final" = [0.1, 0.6]
"""
    found = tm.run(replace(small(tmp_path, text), engine="native", equilibrium=3), tmp_path / "study")
    assert isinstance(found, StudyResults)
    assert [(point.group, point.engine) for point in found.study] == [
        ("early", "native"),
        ("late", "meanfield"),
        ("late", "meanfield"),
    ]
    early, later, latest = (point.distance for point in found.study)
    assert 1 > early > later > latest > 0  # type: ignore[operator]
    table = found.table()
    assert table["engine"].tolist()[0] == "native"
    assert table["protocol.t_final"].isna().tolist()[0]
    assert verify(tmp_path / "study") == []


@pytest.mark.parametrize("share", [False, True])
def test_shared_features_are_simulated_once(share: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two experiments that read the same features in other ways; neither keeps them."""
    simulated: list[int] = []
    simulate_chunk = features.simulate_chunk

    def counted(reservoir: Any, inputs: Any, *rest: Any) -> Any:
        simulated.append(len(inputs))
        return simulate_chunk(reservoir, inputs, *rest)

    monkeypatch.setattr(features, "simulate_chunk", counted)
    first = small(tmp_path)
    first = replace(first, features=replace(first.features, keep=False, share=share))
    second = replace(
        first, features=replace(first.features, share=False), readout=replace(first.readout, learning_rate=0.01)
    )
    for number, one in enumerate((first, second)):
        tm.run(one, tmp_path / str(number), store=tmp_path / "store")
    assert sum(simulated) == 90 * 2 * (1 if share else 2)
    assert bool(list((tmp_path / "store").glob("features-*"))) is share
