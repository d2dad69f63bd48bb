"""Claims: held by one process at a time, taken over from one that ended or that gives no sign of life."""

import errno
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from thermoment.runs import claims
from thermoment.runs.claims import Folder, claimed, is_live, take, wait_for

HOLDER = """
import sys, time
from pathlib import Path
from thermoment.runs.claims import Folder, take
claim = take(Folder(Path(sys.argv[1])), "a")
print("held" if claim else "not held", flush=True)
sys.stdin.read()
if claim:
    claim.release()
"""


def holder(folder: Path, silence: float = 60) -> subprocess.Popen[str]:
    """Another process, which holds the claim "a" until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    environment = {**os.environ, claims.SILENCE: str(silence)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_claim_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    board = Folder(tmp_path)
    claim = take(board, "a")
    assert claim is not None
    assert take(board, "a") is None
    assert take(board, "b") is not None
    claim.release()
    claim.release()
    assert board.names() == ["b"]
    with claimed(board, "a"):
        assert is_live(board, "a")
    assert not is_live(board, "a")


def test_a_killed_holders_claim_is_taken_over_at_once(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        assert take(Folder(tmp_path), "a") is None
        other.kill()
        other.wait()
        assert not is_live(Folder(tmp_path), "a")
        assert take(Folder(tmp_path), "a") is not None


def test_of_those_who_take_over_one_has_it(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        other.kill()
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    many = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.stdout.readline() for process in many if process.stdout]
    for process in many:
        process.communicate()
    assert sorted(said) == ["held\n", *3 * ["not held\n"]]


def test_a_stopped_holders_claim_is_taken_over_after_its_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(claims.SILENCE, "1")
    notes: list[str] = []
    with holder(tmp_path, silence=1) as other:
        os.kill(other.pid, signal.SIGSTOP)
        claim = wait_for(Folder(tmp_path), "a", notes.append)
        assert notes == [f"Waiting for process {other.pid} on {platform.node()}, which is at work on a."]
        os.kill(other.pid, signal.SIGCONT)
        other.communicate("")
        assert is_live(Folder(tmp_path), "a")  # who wakes up does not give back what is no longer its own
        claim.release()


def test_a_holder_gives_signs_of_life(tmp_path: Path) -> None:
    with holder(tmp_path, silence=0.3) as other:
        seen = {Folder(tmp_path).read("a")}
        while len(seen) < 4:
            seen.add(Folder(tmp_path).read("a"))
        other.communicate("")


def test_signs_of_life_keep_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, clock, looks = Folder(tmp_path), 0.0, 0
    claim = take(board, "a")

    def look(_: float) -> None:
        nonlocal clock, looks
        clock, looks = clock + 40, looks + 1
        os.utime(tmp_path / "a", (looks, looks))
        if looks == 8 and claim:
            claim.release()

    monkeypatch.setattr(claims, "time", SimpleNamespace(monotonic=lambda: clock, sleep=look))
    assert wait_for(board, "a") is not None
    assert looks == 8


@pytest.mark.parametrize("facts", [{"host": "elsewhere"}, {"system": "another start"}])
def test_of_another_machine_only_silence_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, str]
) -> None:
    gone = {**claims._process(os.getpid()), "process": 2**22 + 1, "began": 1}
    (tmp_path / "here").write_text(json.dumps(gone))
    (tmp_path / "there").write_text(json.dumps({**gone, **facts}))
    assert take(Folder(tmp_path), "here") is not None
    assert take(Folder(tmp_path), "there") is None
    monkeypatch.setenv(claims.SILENCE, "0.1")
    assert wait_for(Folder(tmp_path), "there") is not None


def test_another_process_of_the_same_number_is_not_the_holder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps({**claims._process(os.getpid()), "began": 1}))
    assert take(Folder(tmp_path), "a") is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "7\n"])
def test_a_claim_that_cannot_be_read_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "a").write_text(text)
    assert take(Folder(tmp_path), "a") is None
    monkeypatch.setenv(claims.SILENCE, "0.1")
    notes: list[str] = []
    wait_for(Folder(tmp_path), "a", notes.append)
    assert notes == ["Waiting for another process, which is at work on a."]


def failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_without_locks_and_without_links_there_are_claims_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("fcntl.flock", failing(number))
    monkeypatch.setattr("os.link", failing(number))
    assert take(Folder(tmp_path), "a") is not None
    assert take(Folder(tmp_path), "a") is None
    (tmp_path / "b").write_text(json.dumps({**claims._process(os.getpid()), "began": 1}))
    assert take(Folder(tmp_path), "b") is not None


def test_a_lock_that_fails_for_another_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", failing(errno.EIO))
    (tmp_path / "b").write_text(json.dumps({**claims._process(os.getpid()), "began": 1}))
    with pytest.raises(OSError, match="Input/output error"):
        take(Folder(tmp_path), "b")


def test_claims_are_taken_over_by_one_at_a_time(tmp_path: Path) -> None:
    with open(tmp_path / ".taking-over", "a") as other:
        with Folder(tmp_path).alone(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_failing_disk_is_told_with_the_claims_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match=f"Input/output error: '{tmp_path}/a'"), claimed(Folder(tmp_path), "a"):
        raise AssertionError("not claimed, and yet at work")
