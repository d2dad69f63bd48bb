"""Progress lines: rewritten in place on a terminal, few and plain in a log."""

import io
import sys

import pytest

from thermoment._support.progress import reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("thermoment._support.progress.time.perf_counter", lambda: now[0])
    return now


def run(stream: io.StringIO, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> str:
    """A hundred samples, one a second."""
    monkeypatch.setattr(sys, "stderr", stream)
    show = reporter(True, 100)
    for done in range(1, 101):
        clock[0] += 1.0
        show(done)
    return stream.getvalue()


def test_a_log_gets_a_line_every_ten_seconds(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run(io.StringIO(), clock, monkeypatch).splitlines()
    assert lines[0] == "10/100 samples, 10 s, 90 s left"
    assert lines[-1] == "100/100 samples, 100 s, 0 s left"
    assert len(lines) == 10


def test_a_terminal_gets_one_line_rewritten(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(Terminal(), clock, monkeypatch)
    assert text.count("\n") == 1
    assert text.count("\r") == 100
    assert "\r50/100 samples, 50 s, 50 s left\x1b[K" in text


def test_nothing_is_shown_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    reporter(False, 3)(3)
    assert capsys.readouterr() == ("", "")
