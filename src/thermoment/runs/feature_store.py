"""Features on disk: the moments of every sample through one reservoir as a Zarr group, chunk by chunk.

Every chunk has its checksum, so that a run stopped anywhere goes on from the chunks that are there.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec
from zarr.storage import LocalStore, MemoryStore

from thermoment._support.files import write_whole
from thermoment._support.threads import in_blocks
from thermoment.protocol import check_orders
from thermoment.runs.store import FACTS

_WHOLE = google_crc32c.value(bytes(4))
"""The checksum of bytes that are followed by theirs, whatever the bytes are."""


@dataclass(frozen=True)
class FeatureStore:
    """Raw moments of one reservoir for all samples of an experiment, as a Zarr group.

    `moments` (sample, order, node) in float32, `clip_count` (chunk,), and `error` (chunk, order): the squared error
    that an engine which approximates states for the chunk, zero for one that samples. With `pairs`, E[x_i x_j] of
    every node and its partner follows the last order of `moments`.
    """

    folder: Path
    n_samples: int
    orders: tuple[int, ...]
    n_nodes: int
    chunk: int
    pairs: bool = False

    @classmethod
    def open(cls, folder: Path) -> "FeatureStore":
        """What is kept in `folder`, by its own metadata."""
        try:
            group = zarr.open_group(LocalStore(folder, read_only=True), mode="r")
            array, orders = group["moments"], group.attrs["orders"]
            n_samples, n_read, n_nodes = array.shape  # type: ignore[union-attr]
            checked = check_orders("orders", orders)  # type: ignore[arg-type]
            return cls(folder, n_samples, checked, n_nodes, array.chunks[0], n_read > len(checked))  # type: ignore[union-attr]
        except (KeyError, AttributeError, TypeError, ValueError, OSError) as error:
            raise ValueError(f"{folder} holds no features of a reservoir: {error}.") from None

    @property
    def n_read(self) -> int:
        """How many numbers are read of a node: one for every order, and one for its pair."""
        return len(self.orders) + self.pairs

    @property
    def n_chunks(self) -> int:
        return -(-self.n_samples // self.chunk)

    def rows(self, number: int) -> slice:
        """The samples of a chunk."""
        return slice(number * self.chunk, min((number + 1) * self.chunk, self.n_samples))

    def size(self, number: int) -> int:
        """How many samples a chunk has."""
        rows = self.rows(number)
        return int(rows.stop - rows.start)

    def prepare(self) -> None:
        """Writes the metadata where it is not as it should be; chunks stay."""
        for key, data in self._metadata.items():
            path = self.folder / key
            for partial in path.parent.glob(f".{path.name}.*.partial"):
                partial.unlink(missing_ok=True)
            if not path.is_file() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)

    def is_prepared(self) -> bool:
        """Whether the metadata are there as they should be, and nothing half-written beside them."""
        paths = {self.folder / key: data for key, data in self._metadata.items()}
        return all(
            path.is_file() and path.read_bytes() == data and not any(path.parent.glob(f".{path.name}.*.partial"))
            for path, data in paths.items()
        )

    @cached_property
    def _metadata(self) -> dict[str, bytes]:
        """The files that make a folder a Zarr group of these arrays."""
        memory: dict[str, Any] = {}
        group = zarr.create_group(MemoryStore(memory), attributes={"orders": list(self.orders)})
        for name, shape, chunks, kind, fill, dimensions in (
            (
                "moments",
                (self.n_samples, self.n_read, self.n_nodes),
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
        return {key: value.to_bytes() for key, value in memory.items()}

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        group = zarr.open_group(LocalStore(self.folder, read_only=True), mode="r")
        return {name: group[name] for name in ("moments", "clip_count", "error")}

    def missing(self) -> list[int]:
        """Chunks that are not there, or whose bytes do not have their checksum."""
        return [number for number in range(self.n_chunks) if not self.has(number)]

    def has(self, number: int) -> bool:
        """Whether a chunk is there with bytes that have their checksum."""
        return (self.folder / self.chunk_files(number)[-1]).is_file() and self._is_whole(number)

    @staticmethod
    def chunk_files(number: int) -> tuple[str, str, str]:
        """The files of a chunk in the order in which they are written."""
        return f"clip_count/c/{number}", f"error/c/{number}/0", f"moments/c/{number}/0/0"

    def remove_partial(self, number: int) -> None:
        """Removes what a killed process left half-written of a chunk."""
        for path in map(self.folder.joinpath, self.chunk_files(number)):
            for partial in path.parent.glob(f".{path.name}.*.partial"):
                partial.unlink(missing_ok=True)

    def write(self, number: int, raw: NDArray[Any], clip_count: int, error: dict[int, float] | None) -> None:
        """Keeps one chunk, its moments last: a chunk whose moments are there is complete."""
        if not np.isfinite(raw).all():
            rows = self.rows(number)
            raise FloatingPointError(
                f"The engine gave moments that are not finite, in samples {rows.start} to {rows.stop - 1}."
            )
        squares = [(error or {}).get(p, 0.0) ** 2 for p in self.orders]
        moments = np.full((self.chunk, self.n_read, self.n_nodes), math.nan, "<f4")
        moments[: self.size(number)] = raw
        arrays = (np.array(clip_count, "<i8"), np.array(squares, "<f8"), moments)
        for name, array in zip(self.chunk_files(number), arrays, strict=True):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Of a chunk that a loss of power cut short the checksums tell, so one wait for the disk is enough.
            write_whole(path, _encoded(array), synced=array is moments)

    def features(self, rows: slice = slice(None), into: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """[m_p | m_q | ...] of the given samples: (S, orders * N), and where pairs are read N more.

        `into`, if given, is filled with as many of the columns as it has.
        """
        start, stop, _ = rows.indices(self.n_samples)
        if into is None:
            into = np.empty((max(stop - start, 0), self.n_read * self.n_nodes), np.float32)

        def read(number: int) -> None:
            """Copies what a chunk has of these samples. Zarr would read one chunk at a time, and copy it once more."""
            own = self.rows(number)
            first, last = max(start, own.start), min(stop, own.stop)
            chunk = self._moments(number)[first - own.start : last - own.start]
            into[first - start : last - start] = chunk.reshape(len(chunk), -1)[:, : into.shape[1]]

        numbers = range(start // self.chunk, -(-stop // self.chunk)) if stop > start else range(0)
        try:
            in_blocks(lambda block: read(numbers[block.start]), len(numbers), 1)
        except (OSError, ValueError):
            raise RuntimeError(
                f"Features vanished from {self.folder} while they were read. Run the same command again."
            ) from None
        return into

    def _moments(self, number: int) -> NDArray[np.float32]:
        """The moments of a chunk (chunk, n_read, N); ValueError where its bytes do not have their checksum."""
        data = (self.folder / self.chunk_files(number)[-1]).read_bytes()
        if google_crc32c.value(data) != _WHOLE:
            raise ValueError(f"chunk {number} is damaged")
        return np.frombuffer(data, "<f4")[:-1].reshape(self.chunk, self.n_read, self.n_nodes)

    def clip_count(self) -> int:
        """Clipped updates over all samples."""
        return int(np.sum(self._arrays["clip_count"][:]))

    def error(self) -> dict[int, float]:
        """Stated error per order, rms over nodes and samples; zero for an engine that samples."""
        sizes = np.array([self.size(number) for number in range(self.n_chunks)])
        squares = sizes @ np.asarray(self._arrays["error"][:]) / self.n_samples
        return {p: math.sqrt(value) for p, value in zip(self.orders, squares, strict=True)}

    def files(self) -> list[Path]:
        """All files of the Zarr group."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != FACTS)

    def _is_whole(self, number: int) -> bool:
        try:
            moments = self._moments(number)[: self.size(number)]
            facts = [self._arrays["error"][number], self._arrays["clip_count"][number]]
        except (ValueError, RuntimeError, OSError):  # a checksum that does not match, a chunk cut short
            return False
        return bool(np.isfinite(moments).all() and np.isfinite(facts[0]).all() and facts[1] >= 0)


def _encoded(array: NDArray[Any]) -> bytes:
    """A chunk as Zarr writes it: its numbers and their checksum. Zarr itself takes several milliseconds to do so."""
    data = array.tobytes()
    return data + int(google_crc32c.value(data)).to_bytes(4, "little")
