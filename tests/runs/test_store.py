"""The store: identities, folders that are whole or absent, features whose chunks are checked one by one."""

import json
import math
import os
import platform
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr

import thermoment as tm
from thermoment._support.identity import identity
from thermoment.runs import store
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.store import FACTS, Stage, Store, damaged, keep, place, write_sums

RAW = np.random.default_rng(1).random((25, 3, 8))


def filled(folder: Path) -> FeatureStore:
    features = FeatureStore(folder, 25, (1, 2, 4), 8, 10)
    features.prepare()
    for number in features.missing():
        features.write(number, RAW[features.rows(number)], number, {1: 0.1 * number, 2: 0.0, 4: 0.0})
    return features


def test_identity_tells_apart_what_differs_and_nothing_else() -> None:
    base = (tm.Dynamics(), np.arange(6.0), {"b": 1, "a": 2})
    others = [
        (tm.Dynamics(kT=0.2), *base[1:]),
        (base[0], np.arange(6.0).reshape(2, 3), base[2]),
        (base[0], np.arange(6.0).astype(np.float32), base[2]),
        (base[0], base[1], {"b": 1, "a": 3}),
        (base[0], base[2], base[1]),
        base[:2],
    ]
    assert identity(*base) == identity(tm.Dynamics(), np.arange(12.0)[:6], {"a": 2, "b": 1})
    assert len({identity(*facts) for facts in [base, *others]}) == 1 + len(others)


def test_features_come_back_and_say_what_they_are(tmp_path: Path) -> None:
    features = filled(tmp_path / "f")
    np.testing.assert_array_equal(features.features(), RAW.astype(np.float32).reshape(25, 24))
    np.testing.assert_array_equal(features.features(slice(7, 22)), RAW.astype(np.float32).reshape(25, 24)[7:22])
    assert features.clip_count() == 0 + 1 + 2
    assert features.error()[1] == pytest.approx(np.sqrt((10 * 0.0 + 10 * 0.1**2 + 5 * 0.2**2) / 25))
    opened = zarr.open_group(tmp_path / "f", mode="r")
    array = opened["moments"]
    assert isinstance(array, zarr.Array)
    assert array.metadata.dimension_names == ("sample", "order", "node")  # type: ignore[union-attr]
    assert opened.attrs["orders"] == [1, 2, 4]


def test_the_same_features_have_the_same_bytes_whatever_was_there(tmp_path: Path) -> None:
    first, second = filled(tmp_path / "a"), filled(tmp_path / "b")
    for path in second.files():
        if "/c/" in str(path):
            path.write_bytes(b"\1" * 7)
    (tmp_path / "b/moments/zarr.json").write_text("{")
    second = filled(tmp_path / "b")
    assert [p.relative_to(tmp_path / "a") for p in first.files()] == [
        p.relative_to(tmp_path / "b") for p in second.files()
    ]
    assert [p.read_bytes() for p in first.files()] == [p.read_bytes() for p in second.files()]


def test_any_flipped_byte_is_found_in_its_chunk_only(tmp_path: Path) -> None:
    features = filled(tmp_path / "f")
    chunks = [path for path in features.files() if "/c/" in str(path)]
    assert len(chunks) == 9
    for path in chunks:
        whole = path.read_bytes()
        number = int(path.relative_to(tmp_path / "f").parts[2])
        for at in {0, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert features.missing() == [number]
        for cut in (whole[:-1], b""):
            path.write_bytes(cut)
            assert features.missing() == [number]
        path.unlink()
        assert features.missing() == [number]
        path.write_bytes(whole)
    assert features.missing() == []


def test_moments_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    features = FeatureStore(tmp_path / "f", 10, (1,), 4, 10)
    features.prepare()
    with pytest.raises(FloatingPointError, match="not finite"):
        features.write(0, np.full((10, 1, 4), np.nan), 0, None)
    assert features.missing() == [0]


def test_a_kept_stage_is_whole_or_absent(tmp_path: Path) -> None:
    stage = Stage.of(Store(tmp_path), "thing", 1, {"a": 1})

    def fail(partial: Path) -> None:
        (partial / "a").write_text("half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        keep(stage, fail)
    assert [path.name for path in tmp_path.iterdir()] == [".locks"]

    built = []

    def build(partial: Path) -> None:
        built.append(partial)
        (partial / "a").write_text("all")

    assert not keep(stage, build)
    assert keep(stage, build)
    assert len(built) == 1
    (stage.folder / "a").write_text("alL")
    assert damaged(stage.folder) == ["a"]
    assert not keep(stage, build)
    assert (stage.folder / "a").read_text() == "all"


def test_a_stage_is_named_by_its_facts_and_they_lie_beside_it(tmp_path: Path) -> None:
    facts = {"protocol": tm.Protocol(clip=math.inf), "W": np.zeros(3), "orders": (1, 2)}
    stage = Stage.of(Store(tmp_path), "thing", 1, facts)
    others = [
        Stage.of(Store(tmp_path), "other", 1, facts),
        Stage.of(Store(tmp_path), "thing", 2, facts),
        Stage.of(Store(tmp_path), "thing", 1, facts | {"W": np.zeros(3, np.float32)}),
        Stage.of(Store(tmp_path), "thing", 1, facts | {"protocol": tm.Protocol(clip=3.0)}),
    ]
    assert len({one.name for one in (stage, *others)}) == 5
    keep(stage, lambda _: None)
    written = json.loads((stage.folder / FACTS).read_text())
    assert written["protocol"]["Protocol"]["clip"] == "inf"
    assert stage.name == f"thing-{identity(written)[:32]}"
    assert Stage.of(Store(tmp_path), "thing", 1, facts) == stage


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a b").write_text("x")
    (tmp_path / "c").write_text("y")
    write_sums(tmp_path, ["c", "sub/a b"])
    subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "c").write_text("z")
    assert damaged(tmp_path) == ["c"]
    (tmp_path / "SHA256SUMS").write_text("0" * 64 + "  ../outside\n" + "0" * 64 + "  /etc/passwd\n")
    assert store.read_sums(tmp_path) == {}


def test_a_list_of_sums_that_was_cut_short_is_not_taken_for_whole(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    write_sums(tmp_path, "abc")
    assert damaged(tmp_path) == []
    whole = (tmp_path / "SHA256SUMS").read_text()
    for end in range(len(whole)):
        (tmp_path / "SHA256SUMS").write_text(whole[:end])
        assert damaged(tmp_path) != [] or whole[end:] == "\n", end


def test_who_holds_a_stage_makes_it_and_the_others_wait_and_take_it(tmp_path: Path) -> None:
    stage, built, notes = Stage.of(Store(tmp_path), "thing", 1, {}), [], []
    begun, go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        begun.set()
        assert go_on.wait(60)
        (folder / "a").write_text("all")
        built.append("first")

    def note(sentence: str) -> None:
        notes.append(sentence)
        go_on.set()

    first = threading.Thread(target=keep, args=(stage, slow))
    first.start()
    assert begun.wait(60)
    assert keep(stage, lambda _: built.append("second"), note)
    first.join()
    assert built == ["first"]
    assert notes == [f"Waiting for process {os.getpid()} on {platform.node()}, which is at work on {stage.name}."]


def test_what_a_killed_process_left_is_gone_but_not_what_is_under_way(tmp_path: Path) -> None:
    own = Store(tmp_path)
    stage, busy = Stage.of(own, "thing", 1, {}), Stage.of(own, "busy", 1, {})
    left = [tmp_path / f".{one.name}.1234.partial" for one in (stage, busy)]
    checkpoint = tmp_path / f".checkpoint-{busy.name}.safetensors.1234.partial"
    for partial in left:
        partial.mkdir()
        (partial / "a").write_text("half")
    checkpoint.write_text("half")
    with own.claimed(busy.name):
        own.clean()
        assert [partial.exists() for partial in left] == [False, True]
        assert checkpoint.exists()
    own.clean()
    assert not left[1].exists()
    assert not checkpoint.exists()
    left[0].mkdir()
    keep(stage, lambda _: None)
    assert not left[0].exists()


def test_a_placed_file_is_the_same_file_or_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("x")
    place(tmp_path / "a", tmp_path / "to/b")
    place(tmp_path / "a", tmp_path / "to/b")
    assert (tmp_path / "to/b").samefile(tmp_path / "a")

    def no_links(*_: object) -> None:
        raise OSError("not on this file system")

    monkeypatch.setattr("os.link", no_links)
    place(tmp_path / "a", tmp_path / "to/c")
    assert (tmp_path / "to/c").read_text() == "x"
    assert not (tmp_path / "to/c").samefile(tmp_path / "a")


def test_another_chunk_size_holds_the_same_features(tmp_path: Path) -> None:
    features = filled(tmp_path / "f")
    other = replace(features, folder=tmp_path / "g", chunk=4)
    other.prepare()
    for number in other.missing():
        other.write(number, RAW[other.rows(number)], 0, None)
    np.testing.assert_array_equal(other.features(), features.features())
