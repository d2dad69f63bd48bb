"""A store on object storage: any URL that fsspec knows, such as s3://bucket/path.

An object is written whole or not at all. A stage is there when its list of checksums is, which is written last; a chunk
of features is there when its moments are, which are written last. What comes back with other bytes is made again.
"""

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_CLAIMS = ".locks"


@dataclass(frozen=True)
class Remote:
    """Object storage under a URL."""

    url: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        """fsspec's file system, and the path in it."""
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError:
            raise RuntimeError(
                f"A store at a URL such as {self.url} needs the extra `cluster`: pip install 'thermoment[cluster]'."
            ) from None
        with self._reached():
            system, path = url_to_fs(self.url, use_listings_cache=False)
            return system, path.rstrip("/")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Whatever a library says of a storage that cannot be reached becomes one sentence."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except Exception as error:
            said = str(error).rstrip(".") or type(error).__name__
            raise RuntimeError(
                f"The store {self.url} cannot be used: {said}. What is in it stays: the same command continues."
            ) from error

    def check(self) -> None:
        """Refuses a storage that cannot be written to, before any work."""
        probe = f".probe-{secrets.token_hex(4)}"
        try:
            self.write(probe, b"")
            self.remove(probe)
        except FileNotFoundError as error:
            raise RuntimeError(f"The store {self.url} cannot be used: there is no {error}.") from None

    def read(self, name: str) -> bytes | None:
        """The bytes of an object; None where there is none."""
        system, path = self._place
        try:
            with self._reached():
                return bytes(system.cat_file(f"{path}/{name}"))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Writes an object, whole or not at all."""
        system, path = self._place
        with self._reached():
            system.pipe_file(f"{path}/{name}", data)

    def create(self, name: str, data: bytes) -> bool:
        """Writes an object unless there is one; says whether it did. Two may, where the storage knows no condition."""
        system, path = self._place
        try:
            with self._reached():
                system.pipe_file(f"{path}/{name}", data, mode="create")
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Removes an object, or all below a name, if there is any."""
        system, path = self._place
        try:
            with self._reached():
                system.rm(f"{path}/{name}", recursive=True)
        except FileNotFoundError:
            pass

    def sizes(self, name: str) -> dict[str, int]:
        """The objects below a name and how many bytes each has."""
        system, path = self._place
        root = f"{path}/{name}".rstrip("/") + "/"
        try:
            with self._reached():
                found = system.find(root, detail=True)
        except FileNotFoundError:
            return {}
        start = root.lstrip("/")
        return {key.lstrip("/").removeprefix(start): int(info["size"]) for key, info in found.items()}

    @property
    def board(self) -> "RemoteBoard":
        """Where its claims are."""
        return RemoteBoard(self)


@dataclass(frozen=True)
class RemoteBoard:
    """Claims as objects. A sign of life is the same object written again with a higher count."""

    remote: Remote

    def create(self, name: str, text: str) -> bool:
        made = self.remote.create(f"{_CLAIMS}/{name}", f"{text}\n0".encode())
        return made and (self.read(name) or "").startswith(text)

    def read(self, name: str) -> str | None:
        found = self.remote.read(f"{_CLAIMS}/{name}")
        return None if found is None else found.decode("utf-8", "replace")

    def beat(self, name: str, text: str) -> None:
        found = self.read(name) or ""
        if found.startswith(text):
            count = int(found.rpartition("\n")[2]) + 1
            self.remote.write(f"{_CLAIMS}/{name}", f"{text}\n{count}".encode())

    def remove(self, name: str) -> None:
        self.remote.remove(f"{_CLAIMS}/{name}")

    def names(self) -> list[str]:
        return list(self.remote.sizes(_CLAIMS))

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()
