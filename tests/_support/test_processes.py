"""Processes that call functions: what they answer, what is known of one that died, and that none stays behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from thermoment._support.processes import Processes


@pytest.fixture
def pair() -> Iterator[Processes]:
    started = Processes(2, "support.called")
    yield started
    started.end()


def test_answers_come_in_the_order_of_the_calls(pair: Processes) -> None:
    for value in (0.1, 1.0, -0.0):
        pair.ask(0, "doubled", value)
    pair.ask(1, "doubled", 5)
    assert pair.answer(1) == 10
    assert [repr(pair.answer(0)) for _ in range(3)] == ["0.2", "2.0", "-0.0"]


def test_it_imports_the_module_and_nothing_of_the_program_that_started_it(pair: Processes) -> None:
    pair.ask(0, "modules")
    found = pair.answer(0)
    assert "support.called" in found
    assert not {"pytest", "numpy", "jax"} & set(found)


def test_one_that_failed_has_no_answers_any_more_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    pair = Processes(2, "support.called")
    pair.ask(0, "fail")
    assert pair.answer(0) is None
    pair._started[0].wait()
    pair.ask(0, "doubled", 1)
    assert pair.answer(0) is None
    pair.ask(1, "doubled", 1)
    assert pair.answer(1) == 2
    pair.end()
    assert len(pair) == 0
    assert capfd.readouterr() == ("", "")


def test_there_are_none_where_python_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert len(Processes(2, "support.called")) == 0
    monkeypatch.setattr(sys, "executable", "/bin/cat")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert len(Processes(2, "support.called")) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="pipes with names")
@pytest.mark.parametrize("how", ["end", "kill"])
def test_none_stays_behind_in_the_middle_of_a_call(how: str, tmp_path: Path) -> None:
    """The pipe ends when the last process that holds it does. The program has no guard against being imported."""
    os.mkfifo(tmp_path / "pipe")
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}; from thermoment._support.processes import Processes\n"
        f"started = Processes(1, 'support.called'); started.ask(0, 'hold', {str(tmp_path / 'pipe')!r})\n"
        "input(); started.end(); input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as parent:
        with open(tmp_path / "pipe", "rb", buffering=0) as pipe:
            assert pipe.read(4) == b"held"
            if how == "kill":
                parent.kill()
            else:
                assert parent.stdin is not None
                parent.stdin.write(b"\n")
                parent.stdin.flush()
            assert pipe.read() == b""
        parent.kill()
