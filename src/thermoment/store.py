"""What a run has computed, on disk under the SHA-256 of what it depends on: whole or absent, checked when read.

Small results are folders that appear complete, with a SHA256SUMS of their own. Features are Zarr arrays whose chunks
appear one by one, each with its checksum, so that a run stopped anywhere goes on from there.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec
from zarr.storage import LocalStore, MemoryStore

from thermoment.files import write_whole
from thermoment.reservoir import check_orders

SUMS = "SHA256SUMS"


def identity(*facts: Any) -> str:
    """SHA-256 of dataclasses, arrays and plain values: equal where, and only where, all of them are."""
    digest = hashlib.sha256()
    for fact in facts:
        if isinstance(fact, np.ndarray):
            digest.update(f"{fact.dtype.str}{fact.shape}".encode())
            digest.update(np.ascontiguousarray(fact).data)
        else:
            plain = [type(fact).__name__, asdict(fact)] if is_dataclass(fact) and not isinstance(fact, type) else fact
            digest.update(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


class _Folder(LocalStore):
    """Zarr's folder store, with every write atomic and on disk before it counts."""

    async def set(self, key: str, value: Any, byte_range: Any = None) -> None:  # noqa: ARG002
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, value.to_bytes())


@dataclass(frozen=True)
class FeatureStore:
    """Raw moments of one reservoir for all samples of an experiment, as a Zarr group.

    `moments` (sample, order, node) in float32, `clip_count` (chunk,), and `error` (chunk, order): the squared error
    that an engine which approximates states for the chunk, zero for one that samples.
    """

    folder: Path
    n_samples: int
    orders: tuple[int, ...]
    n_nodes: int
    chunk: int

    @classmethod
    def open(cls, folder: Path) -> "FeatureStore":
        """What is kept in `folder`, by its own metadata."""
        try:
            group = zarr.open_group(LocalStore(folder, read_only=True), mode="r")
            array, orders = group["moments"], group.attrs["orders"]
            n_samples, _, n_nodes = array.shape  # type: ignore[union-attr]
            return cls(folder, n_samples, check_orders("orders", orders), n_nodes, array.chunks[0])  # type: ignore[arg-type, union-attr]
        except (KeyError, AttributeError, TypeError, ValueError, OSError) as error:
            raise ValueError(f"{folder} holds no features of a reservoir: {error}.") from None

    @property
    def n_chunks(self) -> int:
        return -(-self.n_samples // self.chunk)

    @property
    def n_bytes(self) -> int:
        """On disk, about."""
        return 4 * self.n_samples * len(self.orders) * self.n_nodes

    def rows(self, number: int) -> slice:
        """The samples of a chunk."""
        return slice(number * self.chunk, min((number + 1) * self.chunk, self.n_samples))

    def size(self, number: int) -> int:
        """How many samples a chunk has."""
        rows = self.rows(number)
        return int(rows.stop - rows.start)

    def prepare(self) -> None:
        """Writes the metadata where it is not as it should be; chunks stay."""
        memory: dict[str, Any] = {}
        group = zarr.create_group(MemoryStore(memory), attributes={"orders": list(self.orders)})
        for name, shape, chunks, kind, fill, dimensions in (
            (
                "moments",
                (self.n_samples, len(self.orders), self.n_nodes),
                self.chunk,
                "<f4",
                math.nan,
                "sample order node",
            ),
            ("clip_count", (self.n_chunks,), 1, "<i8", -1, "chunk"),
            ("error", (self.n_chunks, len(self.orders)), 1, "<f8", math.nan, "chunk order"),
        ):
            group.create_array(
                name,
                shape=shape,
                chunks=(chunks, *shape[1:]),
                dtype=kind,
                fill_value=fill,
                compressors=(Crc32cCodec(),),
                dimension_names=dimensions.split(),
                config={"write_empty_chunks": True},
            )
        for key, value in memory.items():
            path = self.folder / key
            if not path.is_file() or path.read_bytes() != value.to_bytes():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, value.to_bytes())

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        group = zarr.open_group(_Folder(self.folder), mode="r+")
        return {name: group[name] for name in ("moments", "clip_count", "error")}

    def missing(self) -> list[int]:
        """Chunks that are not there, or whose bytes do not have their checksum."""
        return [number for number in range(self.n_chunks) if not self._is_whole(number)]

    def write(self, number: int, raw: NDArray[Any], clip_count: int, error: dict[int, float] | None) -> None:
        """Keeps one chunk, its moments last: a chunk whose moments are there is complete."""
        if not np.isfinite(raw).all():
            raise FloatingPointError(f"The engine gave moments that are not finite, in samples {self.rows(number)}.")
        self._arrays["clip_count"][number] = clip_count
        self._arrays["error"][number] = [(error or {}).get(p, 0.0) ** 2 for p in self.orders]
        self._arrays["moments"][self.rows(number)] = raw.astype(np.float32)

    def features(self, rows: slice = slice(None)) -> NDArray[np.float32]:
        """[m_p | m_q | ...] of the given samples: (S, orders * N)."""
        raw = np.asarray(self._arrays["moments"][rows])
        return raw.reshape(len(raw), -1)

    def clip_count(self) -> int:
        """Clipped updates over all samples."""
        return int(np.sum(self._arrays["clip_count"][:]))

    def error(self) -> dict[int, float]:
        """Stated error per order, rms over nodes and samples; zero for an engine that samples."""
        sizes = np.array([self.size(number) for number in range(self.n_chunks)])
        squares = sizes @ np.asarray(self._arrays["error"][:]) / self.n_samples
        return {p: math.sqrt(value) for p, value in zip(self.orders, squares, strict=True)}

    def files(self) -> list[Path]:
        """All files of the group."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def _is_whole(self, number: int) -> bool:
        try:
            moments = self._arrays["moments"][self.rows(number)]
            facts = [self._arrays["error"][number], self._arrays["clip_count"][number]]
        except (ValueError, RuntimeError, OSError):  # a checksum that does not match, a chunk cut short
            return False
        return bool(np.isfinite(moments).all() and np.isfinite(facts[0]).all() and facts[1] >= 0)
