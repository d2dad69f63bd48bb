"""What a run has computed, on disk under the SHA-256 of what it depends on: whole or absent, checked when read.

Small results are folders that appear complete, with a SHA256SUMS of their own. Features are Zarr arrays whose chunks
appear one by one, each with its checksum, so that a run stopped anywhere goes on from there.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from thermoment._support.files import write_whole
from thermoment._support.identity import sha256

SUMS = "SHA256SUMS"


def write_sums(folder: Path, files: Iterable[str], known: Mapping[str, str] | None = None) -> None:
    """Writes SHA256SUMS of `files`, paths below `folder`, so that `sha256sum -c` passes; `known` are kept."""
    sums = {**(known or {}), **{name: sha256(folder / name) for name in files}}
    write_whole(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())


def read_sums(folder: Path) -> dict[str, str]:
    """File name to SHA-256, from SHA256SUMS; empty where there is none."""
    try:
        lines = (folder / SUMS).read_text("utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    pairs = [line.partition("  ") for line in lines]
    return {
        name: digest
        for digest, _, name in pairs
        if name and not Path(name).is_absolute() and ".." not in Path(name).parts
    }


def damaged(folder: Path) -> list[str]:
    """Files of SHA256SUMS that are missing or have other bytes; SHA256SUMS itself where it is missing."""
    sums = read_sums(folder)
    if not sums:
        return [SUMS]
    return [name for name, digest in sums.items() if not (folder / name).is_file() or sha256(folder / name) != digest]


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds `folder` for this process, and removes what a killed one left half-written in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as lock:
        try:
            import fcntl
        except ImportError:  # Windows: two runs must not share a store there
            pass
        else:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(
                    f"{folder} is in use by another run. Wait for it, or give --store a folder."
                ) from None
        remove_partial(folder)
        yield


def remove_partial(folder: Path) -> None:
    """Removes half-written files and folders below `folder`."""
    for path in folder.rglob(".*.partial"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def keep(folder: Path, build: Callable[[Path], None]) -> bool:
    """Makes `folder` by `build`, whole or not at all, unless it is there undamaged. Says whether it was."""
    if folder.is_dir() and not damaged(folder):
        return True
    partial = folder.with_name(f".{folder.name}.partial")
    partial.mkdir(parents=True)
    try:
        build(partial)
        write_sums(partial, [str(path.relative_to(partial)) for path in partial.rglob("*") if path.is_file()])
        if folder.exists():
            shutil.rmtree(folder)
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return False


def place(source: Path, target: Path) -> None:
    """Puts a file of the store into a run: the same bytes on disk where the file system can, else a copy."""
    if target.is_file() and os.path.samefile(source, target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        os.link(source, partial)
    except OSError:
        shutil.copyfile(source, partial)
    os.replace(partial, target)
