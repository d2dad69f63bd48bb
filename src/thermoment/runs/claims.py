"""Claims: who is at work on what in a store, on this machine or on another one.

A claim is a small file that says which process holds it. While it is held, its holder gives a sign of life every few
seconds. A claim is taken over at once where its process is known to have ended, which can be seen on its own machine
only, and after a minute without a sign of life elsewhere: the machine is gone, or the process was stopped.

A holder that was only stopped may wake up after that. So a claim saves work, and nothing more is built on it: whatever
is written to a store is written whole and has the same bytes whoever writes it.
"""

import errno
import json
import os
import platform
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from thermoment._support.files import named
from thermoment._support.progress import Note

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

SILENCE = "THERMOMENT_SILENCE"
"""The environment variable with the seconds after which a claim without a sign of life is taken over; 60 unless set."""
_BEATS = 6
"""Signs of life in that time."""
_FIRST_LOOK, _LAST_LOOK = 0.02, 1.0
"""Seconds until a process that waits looks again: at first, and at the most."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a file system without locks says."""


class Board(Protocol):
    """Where the claims of a store are."""

    def create(self, name: str, text: str) -> bool:
        """Puts a claim up; says whether it did, which it does not where there is one of this name."""

    def read(self, name: str) -> str | None:
        """The claim as it is now, with something that changes at every sign of life; None where there is none."""

    def beat(self, name: str, text: str) -> None:
        """Gives a sign of life."""

    def remove(self, name: str) -> None:
        """Takes a claim down, if it is there."""

    def names(self) -> list[str]:
        """All claims."""

    def alone(self) -> AbstractContextManager[Any]:
        """Keeps others from taking claims over meanwhile, where the file system can do that."""


@dataclass(frozen=True)
class Folder:
    """Claims as files in a folder, of a local disk or of one that machines share."""

    path: Path

    def create(self, name: str, text: str) -> bool:
        self.path.mkdir(parents=True, exist_ok=True)
        own = self.path / f".{name}.{secrets.token_hex(4)}.partial"
        with named(self.path / name):
            try:
                own.write_text(text, "utf-8")
                try:
                    os.link(own, self.path / name)  # there with its text or not at all, over a network too
                except FileExistsError:
                    return False
                except OSError:  # a file system without hard links
                    try:
                        with open(self.path / name, "x", encoding="utf-8") as file:
                            file.write(text)
                    except FileExistsError:
                        return False
                return True
            finally:
                with suppress(OSError):
                    own.unlink(missing_ok=True)

    def read(self, name: str) -> str | None:
        try:
            with open(self.path / name, encoding="utf-8") as file:  # opened, as NFS looks at the file anew only then
                return f"{file.read()}\n{os.fstat(file.fileno()).st_mtime_ns}"
        except FileNotFoundError:
            return None

    def beat(self, name: str, text: str) -> None:  # noqa: ARG002
        os.utime(self.path / name)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        return [path.name for path in self.path.glob("[!.]*")] if self.path.is_dir() else []

    @contextmanager
    def alone(self) -> Iterator[None]:
        with open(self.path / ".taking-over", "a", encoding="utf-8") as file:
            try:
                if fcntl:
                    fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                # Where a file system has no locks two may take a claim over in the same instant, and do the same work.
                if error.errno not in _NO_LOCKS:
                    raise
            yield


@dataclass(frozen=True)
class Claim:
    """A claim that this process holds."""

    board: Board
    name: str
    text: str

    def release(self) -> None:
        """Gives the claim back, once; later calls do nothing."""
        if _heart().forget(self):
            with suppress(OSError):  # a disk that fails is noticed by what is written to it
                if _text(self.board.read(self.name)) == self.text:
                    self.board.remove(self.name)


def take(board: Board, name: str) -> Claim | None:
    """The claim `name`, without waiting. None where a process holds it that is not known to have ended."""
    text = json.dumps({**_process(os.getpid()), "token": secrets.token_hex(8)})
    while not board.create(name, text):
        found = board.read(name)
        if found is not None and not _has_ended(found):
            return None
        if found is not None:
            _take_down(board, name, found)
    claim = Claim(board, name, text)
    _heart().keep(claim)
    return claim


def wait_for(board: Board, name: str, note: Note = lambda _: None) -> Claim:
    """The claim `name`, after whoever holds it. `note` is told for whom this process waits."""
    seen, since, look, told = None, 0.0, _FIRST_LOOK, False
    while (claim := take(board, name)) is None:
        found = board.read(name)
        if found != seen:
            seen, since = found, time.monotonic()
        elif found is not None and time.monotonic() - since > _silence():
            _take_down(board, name, found)
            continue
        if not told:
            note(f"Waiting for {holder(found)}, which is at work on {name}.")
            told = True
        time.sleep(look)
        look = min(2 * look, _LAST_LOOK)
    return claim


@contextmanager
def claimed(board: Board, name: str, note: Note = lambda _: None) -> Iterator[None]:
    """Holds the claim `name`; waits for it."""
    claim = wait_for(board, name, note)
    try:
        yield
    finally:
        claim.release()


def holder(found: str | None) -> str:
    """Who holds a claim, for a person."""
    facts = _facts(found)
    return f"process {facts['process']} on {facts['host']}" if facts else "another process"


def is_live(board: Board, name: str) -> bool:
    """Whether a claim is there whose process is not known to have ended."""
    found = board.read(name)
    return found is not None and not _has_ended(found)


def _take_down(board: Board, name: str, found: str) -> None:
    """Removes a claim that nobody stands behind any more, unless it has changed since it was read."""
    with board.alone():
        if board.read(name) == found:
            board.remove(name)


def _silence() -> float:
    return float(os.environ.get(SILENCE) or 60.0)


def _text(found: str | None) -> str | None:
    return None if found is None else found.partition("\n")[0]


def _facts(found: str | None) -> dict[str, Any]:
    try:
        facts = json.loads(_text(found) or "")
        return facts if isinstance(facts, dict) and facts.keys() >= {"process", "host"} else {}
    except ValueError:
        return {}


@lru_cache(maxsize=1)
def _process(number: int) -> dict[str, Any]:
    """What the claims of this process say of it. Its number is an argument since a forked child has another."""
    return {"process": number, "host": platform.node(), "system": _system(), "began": _began(number)}


def _has_ended(found: str) -> bool:
    """Whether the process that holds a claim is known to have ended: only of a process of this machine."""
    facts = _facts(found)
    if not facts or (facts["host"], facts.get("system")) != (platform.node(), _system()):
        return False
    if sys.platform == "linux":
        return _began(facts["process"]) != facts.get("began")
    if sys.platform == "win32":
        return False
    try:
        os.kill(facts["process"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


@cache
def _system() -> str:
    """Which numbering of processes this is: containers of one machine, and its next start, have others."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    return ""


def _began(process: int) -> int | None:
    """When a process of this machine began, in ticks of its clock, on Linux; None where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class _Heart:
    """Gives the signs of life of all claims that this process holds."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._claims: set[Claim] = set()
        self._changing = threading.Lock()
        threading.Thread(target=self._beat, name="thermoment-claims", daemon=True).start()

    def keep(self, claim: Claim) -> None:
        with self._changing:
            self._claims.add(claim)

    def forget(self, claim: Claim) -> bool:
        with self._changing:
            known = claim in self._claims
            self._claims.discard(claim)
            return known

    def _beat(self) -> None:
        while True:
            time.sleep(_silence() / _BEATS)
            with self._changing:
                claims = list(self._claims)
            for claim in claims:
                with suppress(Exception):  # taken over, or a disk that fails: the work itself will notice
                    claim.board.beat(claim.name, claim.text)


_hearts: list[_Heart] = []
_starting = threading.Lock()


def _heart() -> _Heart:
    """The one of this process; a forked child starts its own."""
    with _starting:
        if not _hearts or _hearts[0].process != os.getpid():
            _hearts[:] = [_Heart()]
        return _hearts[0]
