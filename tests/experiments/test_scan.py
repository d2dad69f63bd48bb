"""Scans: which points they have and what these are called, seeds that are varied one kind at a time, bad scans."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from thermoment.experiments.experiment import Experiment, read, to_toml

SCAN = """
[scan]
dynamics.kT = [0.01, 0.1]
"protocol.orders" = [[1], [1, 2, 4]]
[scan.paired]
"protocol.n_replicas" = [64, inf]
"reservoirs.*.n_nodes" = [32, 16]
"""


def scanned(text: str, folder: Path) -> Experiment:
    (folder / "study.toml").write_text(to_toml(read("best-digits")) + text, "utf-8")
    return read(folder / "study.toml")


def test_factors_are_crossed_and_pairs_go_together(tmp_path: Path) -> None:
    study = scanned(SCAN, tmp_path)
    found = [
        (one.dynamics.kT, one.protocol.orders, one.protocol.n_replicas, one.reservoirs[2].n_nodes)
        for one in map(study.variant, study.points)
    ]
    pairs = ((64, 32), (math.inf, 16))
    assert found == [(kT, orders, *pair) for kT in (0.01, 0.1) for orders in ((1,), (1, 2, 4)) for pair in pairs]
    first = study.variant(next(iter(study.points)))
    assert first.description == "kT = 0.01, orders = 1, n_replicas = 64, n_nodes = 32"
    assert (first.scan, first.points) == (None, {})
    (tmp_path / "again.toml").write_text(to_toml(study), "utf-8")
    assert read(tmp_path / "again.toml") == study


def test_variants_and_factors_are_crossed(tmp_path: Path) -> None:
    study = scanned('[variants.a]\n[variants.b]\nfinite_time.epochs = 3\n[scan]\n"dynamics.kT" = [0.05, 1.0]', tmp_path)
    assert list(study.points) == ["a_kT-0p05", "a_kT-1p0", "b_kT-0p05", "b_kT-1p0"]
    last = study.variant("b_kT-1p0")
    assert last.finite_time is not None
    assert (last.finite_time.epochs, last.dynamics.kT, last.name) == (3, 1.0, "best-digits-b_kT-1p0")


OWN = """
repeats = 4
[variants.plain]
[variants.hot]
description = "hot"
engine = "meanfield"
repeats = 2
dynamics.kT = 1.0
[variants.hot.scan]
"protocol.t_final" = [0.5, 2.0]
[variants.hot.scan.paired]
"dynamics.J2" = [0.5, 1.0, 2.0]
"readout.seed" = [1, 2, 3]
"""


def with_own_scan(folder: Path, *overrides: str) -> Experiment:
    text = to_toml(read("best-digits")).replace("repeats = 1\n", "")
    (folder / "own.toml").write_text(text.replace("[data]", OWN.split("[variants")[0] + "[data]", 1)
                                     + OWN[OWN.index("[variants"):], "utf-8")  # fmt: skip
    return read(folder / "own.toml", overrides)


def test_a_variant_has_a_scan_an_engine_and_repeats_of_its_own(tmp_path: Path) -> None:
    study = with_own_scan(tmp_path)
    first, *others = study.points
    assert (first, len(others)) == ("plain", 2 * 3)
    last = study.variant(others[-1])
    assert (last.dynamics.kT, last.protocol.t_final, last.dynamics.J2, last.readout.seed) == (1.0, 2.0, 2.0, 3)
    assert (last.engine, last.repeats) == ("meanfield", 2)
    assert last.description == "hot: t_final = 2.0, J2 = 2.0, seed = 3"
    assert {point.variant for point in study.points.values()} == {"plain", "hot"}
    plain = study.variant("plain")
    assert (plain.engine, plain.repeats, plain.dynamics.kT) == ("auto", 4, 0.1)
    assert read(tmp_path / "own.toml") == study
    (tmp_path / "again.toml").write_text(to_toml(study), "utf-8")
    assert read(tmp_path / "again.toml").points == study.points


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["variants.hot.scan.protocol.kT=[1.0]"], "Unknown key `protocol.kT`"),
        (["variants.hot.scan.dynamics.kT=['hot']"], "Key `dynamics.kT` must be a number, but was 'hot'."),
        (["variants.hot.scan=3"], "`variants.hot.scan` must be a table of settings with lists of values, but was 3."),
        (["variants.hot.scan.dynamics.kT=2.0"], "`variants.hot.scan.dynamics.kT` must be a list of at least one value"),
        (["variants.hot.scan.data.n_train=[10]"], "`variants.hot.scan` must change none of name, data, scan, variants"),
        (["scan.dynamics.J2=[1.0]"], "`variants.hot.scan` must name a setting once, but was dynamics.J2."),
        (["variants.hot.engine=3"], "Key `engine` must be a string, but was 3."),
        (["variants.hot.repeats='many'"], "Key `repeats` must be an integer, but was 'many'."),
        (["variants.hot.repeats=1001"], "`repeats` must be an integer from 1 to 1000, but was 1001."),
        (["variants.hot.readout.reads=['m1', 'pears']"], "such as m1, m2"),
        (["equilibrium=-1"], "`equilibrium` must be"),
        (
            [f"variants.hot.scan.protocol.seed={list(range(200_000))}"],
            "`scan` must be a study of at most 1000000 runs, repeats counted, but was one of 2400004.",
        ),
        (
            ["variants.hot.scan.repeats=[1000, 500]", f"variants.hot.scan.protocol.seed={list(range(1000))}"],
            "but was one of 9000004.",
        ),
    ],
)
def test_bad_scans_of_a_variant_are_refused(overrides: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        with_own_scan(tmp_path, *overrides)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"engine" = ["native", "xla"]', ["engine-native", "engine-xla"]),
        ('"reservoirs.K2.s_W" = [0, 1e-3]', ["K2-s_W-0", "K2-s_W-0p001"]),
        (
            '"reservoirs.*.stages" = [[], [{surrogate = "mean", epochs = 1, learning_rate = 1.0}]]',
            ["stages-0", "stages-1"],
        ),
        ('"dynamics.kT" = [0.1, 0.1]', ["kT-0p1", "point-1"]),
        (
            '"dynamics.kT" = [0.1]\n"finite_time.learning_rate" = [1e-3]\n"finite_time.weight_decay" = [1e-4]',
            ["point-0"],
        ),
    ],
)
def test_a_point_is_called_by_its_values_where_that_is_short(text: str, names: list[str], tmp_path: Path) -> None:
    assert list(scanned(f"[scan]\n{text}", tmp_path).points) == names


def seeds(one: Experiment) -> dict[str, Any]:
    assert one.finite_time is not None
    return {
        "reservoirs": [plan.seed for plan in one.reservoirs],
        "batches": [one.finite_time.seed, *(plan.training_seed for plan in one.reservoirs)],
        "trajectories": one.protocol.seed,
        "readout": one.readout.seed,
    }


@pytest.mark.parametrize("kinds", [("reservoirs",), ("batches",), ("trajectories",), ("readout", "batches")])
def test_a_repeat_has_other_seeds_of_the_kinds_asked_for_alone(kinds: tuple[str, ...]) -> None:
    one = read("best-digits", [f"vary={list(kinds)}"])
    base = seeds(one)
    for number in (1, 2):
        found = seeds(one.repeat(number))
        assert {kind for kind in found if found[kind] != base[kind]} == set(kinds)
    assert one.repeat(0) == one


def test_all_seeds_are_varied_as_ever() -> None:
    assert read("paper").repeat(3).reservoirs[0].batch_seed is None
    assert "vary" not in to_toml(read("paper"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["scan.protocol.kT=[1.0]"], "Unknown key `protocol.kT`"),
        (["scan.dynamcs.kT=[1.0]"], "Unknown key `dynamcs`: did you mean `dynamics`?"),
        (["scan.dynamics.kT=['hot']"], "Key `dynamics.kT` must be a number, but was 'hot'."),
        (["scan.dynamics.kT=[-1.0]"], "Argument `kT` must be zero or positive, but was -1.0."),
        (["scan.dynamics.kT=0.1"], "Argument `scan.dynamics.kT` must be a list of at least one value, but was 0.1."),
        (["scan.dynamics.kT=[]"], "Argument `scan.dynamics.kT` must be a list of at least one value, but was []."),
        (["scan.reservoirs.K9.seed=[1]"], "name of K1, K2, K3"),
        (["scan.data.n_train=[10]"], "`scan` must change none of name, data, scan, variants"),
        (["variants.x.data.n_train=10"], "`variants.x` must change none of name, data, scan, variants"),
        (["scan.paired=3"], "`scan.paired` must be a table of settings"),
        (["scan.paired.dynamics={kT=[1.0, 2.0], mu=[1.0]}"], "`scan.paired` must have lists of one length"),
        (["scan.dynamics.kT=[1.0]", "scan.paired.dynamics.kT=[1.0]"], "`scan` must name a setting once"),
        (["scan=3"], "Key `scan` must be a table, but was 3."),
        (["vary=['weather']"], "`vary` must be one of reservoirs, batches, trajectories, readout"),
        (["vary=[]"], "`vary` must name some of reservoirs, batches, trajectories, readout, each once"),
        (
            [f"scan.readout.seed={list(range(1000))}", f"scan.protocol.seed={list(range(500))}", "repeats=3"],
            "`scan` must be a study of at most 1000000 runs, repeats counted, but was one of 1500000.",
        ),
        (
            [f"scan.readout.seed={list(range(10**4))}", f"scan.protocol.seed={list(range(10**4))}"],
            "but was one of 100000000.",
        ),
    ],
)
def test_a_bad_scan_is_refused_when_it_is_read(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read("paper", overrides)
