"""Experiments: strict reading, overrides, repeats, variants, and back to TOML."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from thermoment._support.files import write_whole
from thermoment.experiments.experiment import Experiment, read, read_any, shipped, to_toml
from thermoment.learning.options import Stage
from thermoment.results.naming import ModelKey, readout_file


@pytest.mark.parametrize("name", shipped())
def test_shipped_experiments_read_and_come_back_from_toml(name: str, tmp_path: Path) -> None:
    experiment = read_any(name)
    assert experiment.name == name
    assert len(experiment.description) > 20
    (tmp_path / "again.toml").write_text(to_toml(experiment), "utf-8")
    assert read_any(tmp_path / "again.toml") == experiment


def test_paper_is_the_papers_protocol() -> None:
    paper = read("paper")
    assert [(r.seed, r.s_W, r.n_nodes) for r in paper.reservoirs] == [
        (20260611, 0.1, 256),
        (20260612, 0.1, 256),
        (20260613, 0.2, 256),
    ]
    assert [r.stages for r in paper.reservoirs] == [
        (Stage("polynomial", 60, 1e-3),),
        (Stage("mean", 100, 3e-3), Stage("polynomial", 60, 1e-3)),
        (Stage("polynomial", 80, 1e-3),),
    ]
    protocol, readout = paper.protocol, paper.readout
    assert (protocol.n_replicas, protocol.n_steps, protocol.clip, protocol.seed) == (128, 1000, 4.0, 20260609)
    assert (readout.epochs, readout.batch_size, readout.learning_rate, readout.l2) == (150, 128, 0.05, 1e-3)
    assert (readout.seed, paper.training.batch_size, paper.training.l2) == (20260621, 128, 1e-5)


def test_overrides() -> None:
    experiment = read(
        "paper",
        [
            "reservoirs.*.n_nodes=8",
            "reservoirs.K2.start=K1",
            "protocol.n_replicas=inf",
            "data.name=digits",
            "reservoirs.2.s_W=1",
        ],
    )
    assert [r.n_nodes for r in experiment.reservoirs] == [8, 8, 8]
    assert [r.start for r in experiment.reservoirs] == [None, "K1", None]
    assert experiment.reservoirs[2].s_W == 1.0
    assert experiment.protocol.n_replicas == math.inf
    assert experiment.data.name == "digits"


def test_a_rest_is_read_and_written(tmp_path: Path) -> None:
    rested = read("paper", ["protocol.start=rest", "protocol.t_rest=2.0"])
    assert (rested.protocol.start, rested.protocol.rest_steps) == ("rest", 2000)
    (tmp_path / "again.toml").write_text(to_toml(rested), "utf-8")
    assert read(tmp_path / "again.toml") == rested
    assert "t_rest = 2.0" in to_toml(rested)
    assert "t_rest" not in to_toml(read("paper"))
    assert 'start = "zero"' not in to_toml(read("paper"))


def test_a_well_that_leans_is_read_and_written(tmp_path: Path) -> None:
    leaning = read("paper", ["dynamics.J3=-0.5"])
    assert leaning.dynamics.J3 == -0.5
    (tmp_path / "leaning.toml").write_text(to_toml(leaning), "utf-8")
    assert read(tmp_path / "leaning.toml").dynamics == leaning.dynamics
    assert "J3" not in to_toml(read("paper"))
    with pytest.raises(ValueError, match=r"Key `dynamics\.J3` must be a number"):
        read("paper", ["dynamics.J3=[1.0, 2.0]"])


def test_repeats_have_seeds_of_their_own() -> None:
    experiment = read("paper")
    assert experiment.repeat(0) == experiment
    seeds = set()
    for number in range(3):
        other = experiment.repeat(number)
        seeds |= {other.protocol.seed, other.readout.seed, *(r.seed for r in other.reservoirs)}
    assert len(seeds) == 3 * 5


def test_a_variant_changes_what_it_says(tmp_path: Path) -> None:
    text = (
        to_toml(read("digits"))
        + """
[variants.once]
description = "standardised"
training.standardise = "once"
reservoirs.K2.start = "K1"
reservoirs."*".stages = []
"""
    )
    (tmp_path / "study.toml").write_text(text, "utf-8")
    study = read(tmp_path / "study.toml")
    variant = study.variant("once")
    assert (variant.name, variant.description) == ("digits-once", "standardised")
    assert variant.training.standardise == "once"
    assert variant.reservoirs[1].start == "K1"
    assert all(r.stages == () for r in variant.reservoirs)
    assert study.training.standardise == "none"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("protocl.dt=1", "Unknown key `protocl`: did you mean `protocol`?"),
        ("protocol.n_replica=1", "Unknown key `protocol.n_replica`: did you mean `protocol.n_replicas`?"),
        ("reservoirs.K1.sW=1", r"Unknown key `reservoirs\[0\].sW`: did you mean `reservoirs\[0\].s_W`?"),
        ("protocol.dt=fast", "Key `protocol.dt` must be a number, but was 'fast'"),
        ("protocol.dt=-1", "Argument `dt` must be positive, but was -1.0. .in `protocol`."),
        ("protocol.dt=3e-3", "Argument `dt` must divide t_final"),
        ("data.n_train=1.5", "Key `data.n_train` must be an integer, but was 1.5"),
        ("data.n_train=0", "Argument `n_train` must be an integer from 2"),
        ("readout.converged=1", "Key `readout.converged` must be true or false"),
        ("training.optimiser=adm", "`optimiser` must be one of sgd, momentum, adam"),
        ("reservoirs.K9.seed=1", "name of K1, K2, K3"),
        ("reservoirs.K1.start=K1", "`start` must be another reservoir of 256 nodes for K1"),
        (
            "reservoirs=[{name='A',seed=1,n_nodes=2},{name='B',seed=1,start='A'}]",
            "another reservoir of 256 nodes for B",
        ),
        ("reservoirs.K1.name=K2", "each with a name of its own"),
        ("reservoirs.K1.name=../x", "`name` must be a name of at most 64 letters"),
        ("reservoirs=[]", "at least one"),
        (
            "reservoirs.K1.stages=[{surrogate='mean', epochs=1}]",
            r"Key `reservoirs\[0\].stages\[0\].learning_rate` is missing",
        ),
        ("name.x=1", "name is a value, not a table"),
        ("name=a/b", "`name` must be a name"),
        ("repeats=0", "`repeats`"),
        ("features.chunk=0", "`chunk`"),
        ("variants.x.protocol.dtt=1", "Unknown key `protocol.dtt`"),
        ("nonsense", "must have the form key=value"),
    ],
)
def test_mistakes_are_named(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read("paper", [override])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("variants.x=3", "Argument `variants.x` must be a table of what it changes, but was 3."),
        ("variants.x=[1, 2]", "Argument `variants.x` must be a table of what it changes, but was [1, 2]."),
        ("variants.x='y'", "Argument `variants.x` must be a table of what it changes, but was 'y'."),
        ("variants=[1]", "Key `variants` must be a table, but was [1]."),
        ("variants.figures={}", "`variants` must have names that no other folder of a run has, but was 'figures'."),
        ("variants.Figures={}", "`variants` must have names that no other folder of a run has, but was 'Figures'."),
        ("variants.repeat-1={}", "`variants` must have names that no other folder of a run has, but was 'repeat-1'."),
        ("variants.reservoirs.repeats=2", "names that no other folder of a run has, but was 'reservoirs'."),
        ("variants.readouts.repeats=2", "names that no other folder of a run has, but was 'readouts'."),
        ("description=" + "[" * 5000 + "]" * 5000, "paper.toml: Tables or lists are nested too deeply."),
        ("variants.x=" + "{a=" * 400 + "1" + "}" * 400, "nested too deeply."),
        (".".join("a" * 3000) + "=1", "paper.toml: Tables or lists are nested too deeply."),
        ("dynamics.J2=1e300", "Key `dynamics.J2` must be at most 1e+30 in magnitude, but was 1e+300."),
        ("dynamics.J2=-1e31", "Key `dynamics.J2` must be at most 1e+30 in magnitude, but was -1e+31."),
        ("dynamics.J2=" + "9" * 400, "Key `dynamics.J2` must be at most 1e+30 in magnitude, but was about 10^400."),
        ("reservoirs.*.s_W=1e308", "Key `reservoirs[0].s_W` must be at most 1e+30 in magnitude, but was 1e+308."),
        ("dynamics.J2=" + "9" * 5000, "Key `dynamics.J2` must be a number, but was '9999"),
        ("protocol.seed=" + "9" * 400, "`seed` must be an integer from 0 to 4294967295, but was about 10^400."),
        ("protocol.orders=" + "9" * 400, "Key `protocol.orders` must be a list, but was about 10^400."),
        ("name=" + "x" * 65, "`name` must be a name of at most 64 letters, digits, - and _, but was 'xxxx"),
        ("reservoirs.K1.name=" + "x" * 65, "`name` must be a name of at most 64 letters"),
        ("variants." + "x" * 65 + "={}", "`variants` must be a name of at most 64 letters"),
        (
            "variants." + "x" * 60 + "={}",
            "`name` must be a name of at most 64 letters, digits, - and _, but was 'paper-x",
        ),
        (
            "reservoirs=[" + ",".join(f"{{name='{c * 64}', seed=1}}" for c in "abc") + "]",
            "`reservoirs` must have names of at most 180 characters together, but was aaaa",
        ),
    ],
)
def test_what_no_run_could_do_is_one_short_sentence(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read("paper", [override])
    assert type(caught.value) is ValueError
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_the_longest_names_fit_the_longest_file(tmp_path: Path) -> None:
    names = ("a" * 64, "b" * 64, "c" * 50)
    experiment = read("paper", [f"reservoirs.{number}.name={name}" for number, name in enumerate(names)])
    joined = ModelKey(tuple(plan.name for plan in experiment.reservoirs), tuple(range(1, 9)), readout="converged")
    write_whole(tmp_path / readout_file(joined), b"")


@pytest.mark.parametrize("text", ["\x7f", "\0\t\n\r\\", "\"quoted\" 'twice'", "é 雪 \U0001f600", "[a]\n b = 1 # c", ""])
def test_any_description_comes_back_from_toml(text: str, tmp_path: Path) -> None:
    experiment = replace(read("best-digits"), description=text, variants={"one": {"description": text, "repeats": 2}})
    (tmp_path / "again.toml").write_bytes(to_toml(experiment).encode())
    assert read(tmp_path / "again.toml") == experiment


@pytest.mark.parametrize(
    ("name", "content"), [("wine.txt", b"14.23,1.71\n"), ("wine.npz", b"PK\x03\x04\xff"), ("a", b"x")]
)
def test_a_file_that_is_no_experiment_is_told_what_one_is(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        ValueError, match=f"{name} is not an experiment. An experiment is one of adam, .* or a TOML file"
    ):
        read(tmp_path / name)


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no experiment 'papr'.*Did you mean paper\?"):
        read("papr")
    with pytest.raises(ValueError, match="cannot be read as an experiment"):
        read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = ", "utf-8")
    with pytest.raises(ValueError, match="is not TOML"):
        read(tmp_path / "bad.toml")
    (tmp_path / "long.toml").write_text(f"repeats = {'9' * 5000}", "utf-8")
    with pytest.raises(ValueError, match=r"long.toml: An integer has too many digits\.$"):
        read(tmp_path / "long.toml")


def test_the_name_is_the_files_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[reservoirs]]\nname = "A"\nseed = 1\n', "utf-8")
    experiment = read(tmp_path / "mine.toml")
    assert isinstance(experiment, Experiment)
    assert experiment.name == "mine"


def test_a_csv_file_stands_for_the_experiment_table(tmp_path: Path) -> None:
    found = read(tmp_path / "my wine.csv", ["data.label=kind", "data.test_share=0.5", "reservoirs.*.n_nodes=8"])
    assert (found.name, found.data.name, found.data.label) == ("my-wine", str(tmp_path / "my wine.csv"), "kind")
    assert found.data.split is not None
    assert (found.data.split.test_share, found.data.split.scaling) == (0.5, "range")
    assert [one.n_nodes for one in found.reservoirs] == [8, 8, 8]
    with pytest.raises(ValueError, match="Which column holds the classes"):
        read(tmp_path / "my wine.csv")
    with pytest.raises(ValueError, match="`scaling` must be one of range, standard, none, but was 'max'"):
        read(tmp_path / "my wine.csv", ["data.label=kind", "data.scaling=max"])
