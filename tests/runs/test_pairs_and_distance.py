"""Pairs of nodes as features, the distance to equilibrium beside the closed form, features that experiments share."""

import math
import warnings
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
from thermoment.runs import equilibrium, example_node, features
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.folder import verify


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "draw", sketch)
    monkeypatch.setattr(example_node, "simulate_node", node_of_zeros)


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
    one = replace(small(tmp_path, reads=("m1", "pair", "means")), engine="reference")
    results = tm.run(one, tmp_path / "run")
    assert isinstance(results, Results)
    dataset = load_data("digits").first(60, 30)
    reservoir = tm.Reservoir.load(tmp_path / "run/reservoirs/K1.safetensors")
    store = FeatureStore.open(tmp_path / "run/features.zarr/K1")
    assert (store.pairs, store.missing()) == (True, [])
    kept = store.features(slice(60, None)).reshape(30, len(store.orders) + 1, -1)
    ids = np.arange(60, 90)
    pairs = list(enumerate(partners(reservoir.W).tolist()))
    again = tm.simulate(reservoir, dataset.x_test, one.protocol, engine="reference", sample_ids=ids, pairs=pairs)
    np.testing.assert_array_equal(kept[:, -1], again.joint.astype(np.float32))
    machine = tm.load(tmp_path / "run")
    said = machine.predict(dataset.x_test, engine="reference", sample_ids=ids)
    best = next(row for row in results.accuracy if row.model.name == "K1+K2" and len(row.model.orders) == 3)
    assert (said == dataset.y_test).sum() == best.correct


def test_an_engine_that_reads_single_nodes_refuses_pairs_before_any_work(tmp_path: Path) -> None:
    one = replace(small(tmp_path, reads=("m1", "pair")), engine="native")
    with pytest.raises(ValueError, match="`pairs` must be empty for the native engine"):
        tm.run(one, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def harmonic() -> tuple[tm.Reservoir, np.ndarray, float]:
    """Thirty uncoupled nodes in harmonic wells, twenty images, and the rms of the stationary means h / 2 J2."""
    reservoir = tm.Reservoir.draw(30, 8, s_W=0.0, s_K=2.0, seed=3, dynamics=tm.Dynamics(J2=1.0, J4=0.0, kT=0.1))
    images = np.random.default_rng(1).uniform(size=(20, 8)).astype(np.float32)
    return reservoir, images, float(np.sqrt(((reservoir.drive(images) / 2) ** 2).mean()))


@pytest.mark.slow  # it makes tables of nodes
def test_the_distance_of_uncoupled_harmonic_nodes_is_an_exponential() -> None:
    """E[x(t)] = h / (2 J2) (1 - exp(-2 J2 mu t))."""
    reservoir, images, _ = harmonic()
    found = equilibrium.distance(reservoir, images, tm.Protocol(t_final=0.4), "native")
    assert found == pytest.approx(math.exp(-0.8), rel=1e-3)


def test_the_sampled_distance_is_that_exponential_too() -> None:
    """A mean over 256 replicas has the variance kT / 2 J2 / 256 at most, twice that the difference of two.

    Tolerances are five standard errors. Near equilibrium the noise would be taken for a distance if it were not
    taken out of the squares: there the standard error of what is left of them is that of 600 squares.
    """
    reservoir, images, scale = harmonic()
    protocol, noise = tm.Protocol(dt=1e-2, t_final=0.4), 2 * 0.05 / 256
    found = equilibrium._sampled(reservoir, images, protocol, "native")
    error = math.sqrt(noise / 600) / scale
    assert found == pytest.approx(math.exp(-0.8), abs=5 * error + 0.01)  # steps of 0.01 change the rate by 1 %
    late = equilibrium._sampled(reservoir, images, replace(protocol, t_final=6.0), "native")
    assert late < math.sqrt(5 * noise * math.sqrt(2 / 600)) / scale < 0.6 * math.sqrt(noise) / scale


@pytest.mark.parametrize("refusal", [RuntimeError, ValueError, UserWarning])
def test_where_meanfield_cannot_the_distance_is_sampled(
    refusal: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    reservoir, images, _ = harmonic()
    asked: list[str] = []

    def refused(*_: Any) -> None:
        if refusal is UserWarning:
            warnings.warn("The coupling is strong.", UserWarning, stacklevel=1)
        else:
            raise refusal("The coupling is too strong.")

    def sampled(*given: Any) -> float:
        asked.append(given[-1])
        return 0.5

    monkeypatch.setattr(equilibrium, "distance_to_equilibrium", refused)
    monkeypatch.setattr(equilibrium, "_sampled", sampled)
    for engine in ("native", "meanfield"):
        assert equilibrium.distance(reservoir, images, tm.Protocol(), engine) == 0.5
    assert asked == ["native", "auto"]


def test_a_study_has_the_distance_and_the_engine_of_every_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
[variants.early]
[variants.late]
engine = "reference"
[variants.late.scan]
"protocol.t_final" = [0.1, 0.6]
"""
    seen: list[int] = []

    def distance(_: tm.Reservoir, images: Any, protocol: tm.Protocol, _engine: str) -> float:
        seen.append(len(images))
        return math.exp(-protocol.t_final)

    monkeypatch.setattr(equilibrium, "distance", distance)
    found = tm.run(replace(small(tmp_path, text), engine="native", equilibrium=3), tmp_path / "study")
    assert seen == [3] * 2 * 3  # two reservoirs, three points
    assert isinstance(found, StudyResults)
    assert [(point.group, point.engine) for point in found.study] == [
        ("early", "native"),
        ("late", "reference"),
        ("late", "reference"),
    ]
    assert [point.distance for point in found.study] == pytest.approx(
        [math.exp(-t) for t in (0.06, 0.1, 0.6)], rel=1e-3
    )
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
