"""What runs have computed, in folders named by the SHA-256 of what they depend on: whole or absent, checked when read.

A stage is such a folder. Its facts.json says what it depends on, and its name is the SHA-256 of those facts. Its
SHA256SUMS lists every file. Whoever makes a stage claims it; others wait. Any number of processes and machines may work
on one store: a folder that they share, or object storage, of which each has a copy of what it uses.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from os import PathLike
from pathlib import Path
from typing import Any

from thermoment._support.files import cache_folder, named, write_whole
from thermoment._support.identity import identity, plain, sha256
from thermoment._support.progress import Note
from thermoment._support.threads import cores
from thermoment.runs.claims import Board, Folder, claimed, take
from thermoment.runs.remote import Remote

SUMS, FACTS = "SHA256SUMS", "facts.json"
_LOCKS = ".locks"
_HASH_LENGTH = 32


@dataclass(frozen=True)
class Store:
    """A store: a folder, and the object storage that the folder is a copy of, if it is one."""

    folder: Path
    remote: Remote | None = None

    @classmethod
    def at(cls, where: str | PathLike[str]) -> "Store":
        """The store at a path or a URL. That of a URL keeps what it uses in the user's cache."""
        text = os.fspath(where)
        if text.startswith("file://"):
            text = text.removeprefix("file://")
        elif "://" in text:
            return cls(cache_folder() / "stores" / identity(text)[:_HASH_LENGTH], Remote(text.rstrip("/")))
        return cls(Path(text))

    @cached_property
    def board(self) -> Board:
        """Where its claims are."""
        return self.remote.board if self.remote else Folder(self.folder / _LOCKS)

    def claimed(self, name: str, note: Note = lambda _: None) -> AbstractContextManager[None]:
        """Holds `name` for this process. Where another holds it this one waits, and `note` is told for whom."""
        return claimed(self.board, name, note)

    @contextmanager
    def watched(self) -> Iterator[Callable[[], None]]:
        """Says in a sentence that the store vanished: where something failed inside, or when the function is called."""
        name = f"watch-{secrets.token_hex(4)}"
        claim = take(self.board, name)

        def look(cause: Exception | None = None) -> None:
            if self.remote is None and self.board.read(name) is None:
                raise RuntimeError(
                    f"The store {self.folder} vanished in the middle of the run. What is in it is kept: bring it back, "
                    "and the same command continues."
                ) from cause

        try:
            yield look
        except Exception as error:
            look(error)
            raise
        finally:
            if claim:
                claim.release()

    def clean(self) -> None:
        """Removes what killed processes left half-written, but nothing that somebody is at work on."""
        if self.remote:  # the folder is a cache, in which others may be fetching
            return
        for partial in self.folder.glob(".*.partial"):
            name = partial.name.removeprefix(".").removeprefix("checkpoint-").split(".")[0]
            if claim := take(self.board, name):
                _remove(partial)
                claim.release()


@dataclass(frozen=True)
class Stage:
    """A part of a run: where the store has it, and the facts that it depends on."""

    store: Store
    name: str
    """of its folder: the kind of stage and the SHA-256 of its facts"""
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, store: Store, kind: str, version: int, facts: Mapping[str, Any]) -> "Stage":
        """The stage that `kind` makes of `facts`. A `version` is raised when the same facts give something else."""
        named = {"stage": kind, "version": version, **plain(facts)}
        return cls(store, f"{kind}-{identity(named)[:_HASH_LENGTH]}", named)

    @property
    def folder(self) -> Path:
        """Where it is on this machine."""
        return self.store.folder / self.name

    @property
    def facts_text(self) -> str:
        """facts.json."""
        return json.dumps(self.facts, indent=1) + "\n"


def is_kept(stage: Stage) -> bool:
    """Whether the stage is in the store, undamaged. Object storage and this machine's copy of it are made the same."""
    remote, whole = stage.store.remote, not damaged(stage.folder)
    if remote is None:
        return whole
    sums = remote.read(f"{stage.name}/{SUMS}")
    if sums is not None and ((whole and sums == (stage.folder / SUMS).read_bytes()) or _fetch(stage, remote, sums)):
        return True
    if whole:  # here but not there: an upload was cut off
        _send(stage, remote)
    return whole


def keep(stage: Stage, build: Callable[[Path], None], note: Note = lambda _: None) -> bool:
    """Makes the stage by `build`, whole or not at all, unless it is there undamaged. Says whether it was."""
    if is_kept(stage):
        return True
    with stage.store.claimed(stage.name, note):
        if is_kept(stage):  # another process made it while this one waited
            return True
        remove_partial(stage.folder)
        partial = _partial(stage.folder)
        partial.mkdir(parents=True)
        try:
            build(partial)
            write_whole(partial / FACTS, stage.facts_text.encode())
            write_sums(partial, [str(path.relative_to(partial)) for path in partial.rglob("*") if path.is_file()])
            _put(partial, stage)
        except OSError:
            if damaged(stage.folder):
                raise
            return True  # this process was stopped for so long that another took over and made it
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        if stage.store.remote:
            _send(stage, stage.store.remote)
    return False


def _put(partial: Path, stage: Stage) -> None:
    """Makes a whole folder that of the stage."""
    if not damaged(stage.folder):
        return
    if stage.folder.exists():
        shutil.rmtree(stage.folder)
    os.rename(partial, stage.folder)


def _fetch(stage: Stage, remote: Remote, sums: bytes) -> bool:
    """Fetches a stage from object storage; says whether it came undamaged."""
    partial = _partial(stage.folder)
    try:
        partial.mkdir(parents=True)
        (partial / SUMS).write_bytes(sums)
        for name in read_sums(partial):
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_bytes(remote.read(f"{stage.name}/{name}") or b"")
        if damaged(partial):
            return False
        if stage.folder.exists():
            shutil.rmtree(stage.folder)
        _put(partial, stage)
        return True
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _send(stage: Stage, remote: Remote) -> None:
    """Sends a whole stage to object storage, its list of checksums last: without it the stage is not there."""
    for name in [*read_sums(stage.folder), SUMS]:
        remote.write(f"{stage.name}/{name}", (stage.folder / name).read_bytes())


def remove_partial(folder: Path) -> None:
    """Removes half-written files and folders in `folder`, and the half-written ones that were to become `folder`."""
    for path in [*folder.parent.glob(f".{escape(folder.name)}.*partial"), *folder.rglob(".*.partial")]:
        _remove(path)


def write_sums(folder: Path, files: Iterable[str], known: Mapping[str, str] | None = None) -> None:
    """Writes SHA256SUMS of `files`, paths below `folder`, so that `sha256sum -c` passes; `known` are kept.

    Its first line, which sha256sum passes over, says how many there are: a list cut short is told from a whole one.
    """
    names = list(files)
    sums = {**(known or {}), **dict(zip(names, _in_threads(sha256, [folder / name for name in names]), strict=True))}
    lines = [f"# {len(sums)} files", *(f"{sums[name]}  {name}" for name in sorted(sums))]
    write_whole(folder / SUMS, ("\n".join(lines) + "\n").encode())


def read_sums(folder: Path) -> dict[str, str]:
    """File name to SHA-256, from SHA256SUMS; empty where there is none, or not a whole one."""
    try:
        first, *lines = (folder / SUMS).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError):
        return {}
    pairs = [line.partition("  ") for line in lines]
    found = {
        name: digest
        for digest, _, name in pairs
        if name and not Path(name).is_absolute() and ".." not in Path(name).parts
    }
    return found if first == f"# {len(found)} files" else {}


def damaged(folder: Path) -> list[str]:
    """Files of SHA256SUMS that are missing or have other bytes; SHA256SUMS itself where it is missing or cut short."""
    sums = read_sums(folder)
    if not sums:
        return [SUMS]
    found = _in_threads(_digest, [folder / name for name in sums])
    return [name for name, digest in zip(sums, found, strict=True) if digest != sums[name]]


def place(source: Path, target: Path) -> None:
    """Puts a file of the store into a run: the same bytes on disk where the file system can, else a copy."""
    if target.is_file() and os.path.samefile(source, target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    partial.unlink(missing_ok=True)
    try:
        os.link(source, partial)
    except OSError:
        with named(target):
            shutil.copyfile(source, partial)
    os.replace(partial, target)


def _partial(path: Path) -> Path:
    """What `path` is called by this process until it is whole."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _in_threads(digest: Callable[[Path], str], paths: Sequence[Path]) -> list[str]:
    """`digest` of every file, on all cores: the features of a run are hundreds of megabytes."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(digest, paths))


def _digest(path: Path) -> str:
    """SHA-256 of a file; empty where it cannot be read."""
    try:
        return sha256(path) if path.is_file() else ""
    except OSError:
        return ""
