"""Files written whole or not at all, and where thermoment keeps its own; the tests keep theirs elsewhere."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from thermoment._support.files import cache_folder, read_facts, read_tensors, write_json, write_tensors, write_whole
from thermoment._support.identity import sha256


def test_the_tests_have_a_cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = tmp_path_factory.getbasetemp()
    assert cache_folder().parent in (run, run.parent)
    assert not cache_folder().is_relative_to(Path.home() / ".cache")
    assert not {"THERMOMENT_DATA", "THERMOMENT_STORE"} & os.environ.keys()


def test_the_variable_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("THERMOMENT_CACHE", "/own")
    assert cache_folder() == Path("/own")


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_the_folder_of_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THERMOMENT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/thermoment")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/thermoment")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failing_disk_leaves_the_old_file_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    write_whole(tmp_path / "kept", b"old")
    monkeypatch.setattr("thermoment._support.files.os.fsync", fail)
    with pytest.raises(OSError, match=f"{os.strerror(number)}: '{tmp_path}/kept'"):
        write_whole(tmp_path / "kept", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"kept": b"old"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "a").write_text("x")
    monkeypatch.setattr("hashlib.file_digest", fail)
    with pytest.raises(OSError, match=f"Input/output error: '{tmp_path}/a'"):
        sha256(tmp_path / "a")


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`path` must be a file in a folder that exists"):
        write_tensors(tmp_path, "thing", {}, "")
    with pytest.raises(ValueError, match="`path` must be a file in a folder that exists"):
        write_tensors(tmp_path / "none/a", "thing", {}, "")
    with pytest.raises(ValueError, match="`path` must be a file, but was the folder"):
        read_tensors(tmp_path, "thing", None)
    with pytest.raises(FileNotFoundError, match="none"):
        read_tensors(tmp_path / "none", "thing", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("facts", ["", "[1]", '{"stream": 0}', '{"dynamics": 1, "stream": 0}'])
def test_facts_that_are_not_whole_are_refused_by_name(tmp_path: Path, facts: str) -> None:
    one = tm.Reservoir.draw(2, 3, seed=0)
    write_tensors(tmp_path / "r", "reservoir", {"W": one.W, "K": one.K, "b": one.b}, facts)
    with pytest.raises(ValueError, match=f"{tmp_path}/r (is damaged|holds no reservoir)"):
        tm.Reservoir.load(tmp_path / "r")
    if facts.endswith("1]"):
        with pytest.raises(ValueError, match="it does not say its a, b"):
            read_facts(facts, "r", "a", "b")


def test_moments_of_the_wrong_shape_are_refused(tmp_path: Path) -> None:
    facts = '{"orders": [1, 2], "n_replicas": 3, "info": {}}'
    tensors = {"raw": np.zeros((2, 3, 4)), "sample_ids": np.zeros(2, np.uint64)}
    write_tensors(tmp_path / "m", "moments", tensors, facts)
    with pytest.raises(ValueError, match=r"/m holds no moments: Argument `raw` must have shape \(S, 2, N\)"):
        tm.Moments.load(tmp_path / "m")


def test_json_is_a_text_with_a_line_for_every_number(tmp_path: Path) -> None:
    write_json(tmp_path / "found.json", {"right": [3, 4]})
    assert (tmp_path / "found.json").read_bytes() == b'{\n "right": [\n  3,\n  4\n ]\n}\n'
