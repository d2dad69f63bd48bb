"""Files written whole or not at all, and where thermoment keeps its own; the tests keep theirs elsewhere."""

import errno
import os
import sys
from pathlib import Path

import pytest

from thermoment._support.files import cache_folder, write_whole


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
