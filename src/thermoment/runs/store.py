"""What runs have computed, in folders named by the SHA-256 of what they depend on: whole or absent, checked when read.

A stage is such a folder. Its facts.json says what it depends on, and its name is the SHA-256 of those facts. Its
SHA256SUMS lists every file. Whoever makes a stage holds its lock; others wait.
"""

import errno
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from thermoment._support.files import named, write_whole
from thermoment._support.identity import identity, plain, sha256
from thermoment._support.progress import Note

SUMS, FACTS = "SHA256SUMS", "facts.json"
_LOCKS = ".locks"
_HASH_LENGTH = 32
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system without locks says."""


@dataclass(frozen=True)
class Stage:
    """A part of a run: its folder in the store, and the facts that it depends on."""

    folder: Path
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, store: Path, kind: str, version: int, facts: Mapping[str, Any]) -> "Stage":
        """The stage that `kind` makes of `facts`. A `version` is raised when the same facts give something else."""
        named = {"stage": kind, "version": version, **plain(facts)}
        return cls(store / f"{kind}-{identity(named)[:_HASH_LENGTH]}", named)

    @property
    def name(self) -> str:
        """Of its folder: the kind of stage and the SHA-256 of its facts."""
        return self.folder.name

    @property
    def facts_text(self) -> str:
        """facts.json."""
        return json.dumps(self.facts, indent=1) + "\n"


def keep(stage: Stage, build: Callable[[Path], None], note: Note = lambda _: None) -> bool:
    """Makes the stage by `build`, whole or not at all, unless it is there undamaged. Says whether it was."""
    if not damaged(stage.folder):
        return True
    with locked(stage.folder, note):
        if not damaged(stage.folder):  # another run made it while this one waited
            return True
        partial = _partial(stage.folder)
        partial.mkdir(parents=True)
        try:
            build(partial)
            write_whole(partial / FACTS, stage.facts_text.encode())
            write_sums(partial, [str(path.relative_to(partial)) for path in partial.rglob("*") if path.is_file()])
            if stage.folder.exists():
                shutil.rmtree(stage.folder)
            os.rename(partial, stage.folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return False


@contextmanager
def locked(folder: Path, note: Note = lambda _: None) -> Iterator[None]:
    """Holds `folder`, which need not exist, for this process, and removes what a killed one left half-written in it.

    Where another process holds it this one waits, and `note` is told for whom.
    """
    locks = folder.parent / _LOCKS
    locks.mkdir(parents=True, exist_ok=True)
    path, holder = locks / f"{folder.name}.lock", locks / f"{folder.name}.holder"
    lock = FileLock(path)
    try:
        with named(path):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                note(f"Waiting for {_read(holder) or 'another process'}, which is at work on {folder.name}.")
                lock.acquire()
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        raise RuntimeError(
            f"The file system of {folder.parent} has no locks, which keep two runs from writing the same files: give "
            "--store a folder on another one, such as a local disk."
        ) from None
    try:
        with named(holder):
            holder.write_text(f"process {os.getpid()} on {platform.node()}", "utf-8")
        remove_partial(folder)
        yield
    finally:
        with suppress(OSError):  # who holds the lock is only for a message
            holder.unlink(missing_ok=True)
        lock.release()


def clean(store: Path) -> None:
    """Removes what killed processes left half-written in the store, but nothing that somebody is at work on."""
    for partial in store.glob(".*.partial"):
        name = partial.name.removeprefix(".").removesuffix(".partial")
        try:
            with FileLock(store / _LOCKS / f"{name}.lock", timeout=0):
                _remove(partial)
        except (Timeout, OSError):
            continue


def remove_partial(folder: Path) -> None:
    """Removes half-written files and folders in `folder`, and the half-written one that was to become `folder`."""
    for path in [_partial(folder), *folder.rglob(".*.partial")]:
        _remove(path)


def write_sums(folder: Path, files: Iterable[str], known: Mapping[str, str] | None = None) -> None:
    """Writes SHA256SUMS of `files`, paths below `folder`, so that `sha256sum -c` passes; `known` are kept.

    Its first line, which sha256sum passes over, says how many there are: a list cut short is told from a whole one.
    """
    sums = {**(known or {}), **{name: sha256(folder / name) for name in files}}
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
    return [name for name, digest in sums.items() if _digest(folder / name) != digest]


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
    """What `path` is called until it is whole."""
    return path.with_name(f".{path.name}.partial")


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    """SHA-256 of a file; empty where it cannot be read."""
    try:
        return sha256(path) if path.is_file() else ""
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
