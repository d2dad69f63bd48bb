"""What each stage depends on: one setting is changed, and exactly the stages that it enters get another name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from support.runs import experiment
from thermoment._engines.choice import choose
from thermoment.data import load
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment, read
from thermoment.learning.readout import Readout, Scaling
from thermoment.runs.context import Context
from thermoment.runs.features import features_stage
from thermoment.runs.readouts import readouts_stage
from thermoment.runs.reservoirs import Made, draw, finite_time_stage, projection_stage, static_stage
from thermoment.runs.store import Store

TEXT = """
engine = "reference"
[data]
name = "digits"
[finite_time]
epochs = 3
[[reservoirs]]
name = "K1"
seed = 1
n_nodes = 6
stages = [{ surrogate = "polynomial", epochs = 2, learning_rate = 0.01 }]
"""
DATA = load("digits").first(20, 10)
HEAD = Readout(np.ones((10, 18)), np.zeros(10), Scaling(np.zeros(18), np.ones(18)))
ALL = {"projection", "static", "finite-time", "features", "readouts"}
SAMPLED = {"features", "readouts"}
TRAINED = {"projection", "static"}
NOT_SEEN_BY_SURROGATES = ALL - {"projection"}


def names(one: Experiment, dataset: Dataset, folder: Path, head: Readout = HEAD) -> dict[str, str]:
    """The names of all stages of an experiment with one reservoir, which is taken as drawn."""
    context, reservoirs = Context(Store(folder)), draw(one, dataset.n_inputs)
    assert one.finite_time is not None
    features = features_stage(reservoirs["K1"], choose(one.engine)[0].name, one, dataset, context)
    seeds = [settings.training_seed for settings in one.reservoirs]
    made = Made(reservoirs, {}, heads={("K1",): head})
    return {
        "projection": projection_stage(0, [reservoirs["K1"]], seeds, one, dataset, context).name,
        "static": static_stage(0, [reservoirs["K1"]], seeds, one, dataset, context).name,
        "finite-time": finite_time_stage(["K1"], [reservoirs["K1"]], one.finite_time, one, dataset, context).name,
        "features": features.name,
        "readouts": readouts_stage({"K1": features}, made, one, dataset, context).name,
    }


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("name=other", set()),
        ("description=other", set()),
        ("repeats=3", set()),
        ("features.keep=false", set()),
        ("engine=xla", SAMPLED),
        ("features.chunk=7", SAMPLED),
        ("protocol.dt=0.01", SAMPLED),
        ("protocol.seed=5", SAMPLED),
        ("protocol.t_final=0.5", SAMPLED | {"finite-time"}),
        ("protocol.n_replicas=6", SAMPLED | {"finite-time"}),
        ("protocol.n_replicas=inf", SAMPLED | {"finite-time"}),
        ("protocol.clip=3.0", SAMPLED | {"finite-time"}),
        ("protocol.orders=[1, 2]", SAMPLED | {"finite-time"}),
        *((f"dynamics.{name}=0.7", ALL) for name in ("J2", "J3", "J4")),
        *((f"dynamics.{name}=0.7", NOT_SEEN_BY_SURROGATES) for name in ("mu", "kT")),
        *((f"reservoirs.K1.{name}=0.7", ALL) for name in ("s_K", "s_b")),
        ("reservoirs.K1.s_W=0.7", NOT_SEEN_BY_SURROGATES),
        ("reservoirs.K1.seed=7", ALL),
        ("reservoirs.K1.n_nodes=7", ALL),
        ('reservoirs.K1.stages=[{surrogate="mean", epochs=2, learning_rate=0.01}]', TRAINED),
        ('reservoirs.K1.stages=[{surrogate="polynomial", epochs=3, learning_rate=0.01}]', TRAINED),
        ('reservoirs.K1.stages=[{surrogate="polynomial", epochs=2, learning_rate=0.02}]', TRAINED),
        ("training.optimiser=adam", TRAINED),
        ("training.head=normal", TRAINED),
        ("training.standardise=once", TRAINED),
        ("training.batch_size=7", TRAINED),
        ("training.l2=0.1", TRAINED),
        ("finite_time.epochs=4", {"finite-time"}),
        ("finite_time.seed=4", {"finite-time"}),
        ("finite_time.kT=0.3", {"finite-time"}),
        ("finite_time.n_replicas=inf", {"finite-time"}),
        ("finite_time.distortion.shift=0.5", {"finite-time"}),
        *((f"readout.{name}=3", {"readouts"}) for name in ("epochs", "batch_size", "seed")),
        *((f"readout.{name}=0.3", {"readouts"}) for name in ("learning_rate", "l2")),
        ("readout.converged=false", {"readouts"}),
        ("readout.subsets=false", {"readouts"}),
        ("readout.fusions=[]", {"readouts"}),
        ("baselines.names=['pca-3']", {"readouts"}),
        ("reservoirs.K1.symmetric=true", NOT_SEEN_BY_SURROGATES),
        ("reservoirs.K1.batch_seed=7", TRAINED),
        ("vary=['readout']", set()),
    ],
)
def test_a_setting_names_the_stages_it_enters(tmp_path: Path, override: str, changed: set[str]) -> None:
    plain = experiment(TEXT, tmp_path)
    before, after = names(plain, DATA, tmp_path), names(read(tmp_path / "tiny.toml", [override]), DATA, tmp_path)
    assert {kind for kind in ALL if before[kind] != after[kind]} == changed


@pytest.mark.parametrize(
    ("array", "changed"),
    [
        ("x_train", ALL),
        ("y_train", TRAINED | {"finite-time", "readouts"}),
        ("x_test", SAMPLED),
        ("y_test", {"readouts"}),
    ],
)
def test_the_data_name_the_stages_they_enter(tmp_path: Path, array: str, changed: set[str]) -> None:
    plain = experiment(TEXT, tmp_path)
    other: dict[str, Any] = {array: getattr(DATA, array)[::-1].copy()}
    before, after = names(plain, DATA, tmp_path), names(plain, replace(DATA, **other), tmp_path)
    assert {kind for kind in ALL if before[kind] != after[kind]} == changed


def test_a_rest_names_the_stages_it_enters(tmp_path: Path) -> None:
    plain = experiment(TEXT, tmp_path)
    rested = read(tmp_path / "tiny.toml", ["protocol.start=rest", "protocol.t_rest=2.0"])
    longer = read(tmp_path / "tiny.toml", ["protocol.start=rest", "protocol.t_rest=3.0"])
    before, after, later = (names(one, DATA, tmp_path) for one in (plain, rested, longer))
    for one, other in ((before, after), (after, later)):
        assert {kind for kind in ALL if one[kind] != other[kind]} == SAMPLED | {"finite-time"}


def test_heads_and_streams_count_too(tmp_path: Path) -> None:
    plain = experiment(TEXT, tmp_path)
    before = names(plain, DATA, tmp_path)
    other = names(plain, DATA, tmp_path, replace(HEAD, bias=np.ones(10)))
    assert {kind for kind in ALL if before[kind] != other[kind]} == {"readouts"}
    one = draw(plain, 64)["K1"]
    context, engine = Context(Store(tmp_path)), choose("reference")[0].name
    first, second = (
        features_stage(replace(one, stream=stream), engine, plain, DATA, context).name for stream in (0, 1)
    )
    assert first != second


def test_a_reservoir_counts_by_its_numbers(tmp_path: Path) -> None:
    plain = experiment(TEXT, tmp_path)
    one = draw(plain, 64)["K1"]
    context, engine = Context(Store(tmp_path)), choose("reference")[0].name
    found = {features_stage(one, engine, plain, DATA, context).name}
    for name in ("W", "K", "b"):
        moved: dict[str, Any] = {name: getattr(one, name) * 1.5}
        found.add(features_stage(replace(one, **moved), engine, plain, DATA, context).name)
    assert len(found) == 4
    assert isinstance(one, tm.Reservoir)
