"""What a person sees: progress of a run in a log, few lines with the rate and the time left, and tables."""

import pytest
from rich.console import Console

from thermoment.report import terminal as display


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("thermoment.report.terminal.time.perf_counter", lambda: now[0])
    return now


def test_a_log_has_the_start_the_end_and_every_ten_seconds(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with display.progress() as show:
        for done in range(25):
            clock[0] += 1.0
            show("training", done + 1, 25, "loss 0.5")
    assert capsys.readouterr().err.splitlines() == [
        "training: 1/25 loss 0.5",
        "training: 11/25 1.1/s, 13 s left, loss 0.5",
        "training: 21/25 1.1/s, 4 s left, loss 0.5",
        "training: 25/25 1/s, loss 0.5",
    ]


def test_the_next_repeat_has_a_clock_of_its_own(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with display.progress() as show:
        for step in (100.0, 1.0):
            for done in range(1, 12):
                clock[0] += step
                show("training", done, 11)
    assert capsys.readouterr().err.splitlines()[-2:] == ["training: 1/11", "training: 11/11 1.1/s"]


def test_a_table_shows_brackets_as_they_are_and_words_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    body = [["a", "1.5 s", "pip install 'x[cuda]'"], ["bcd", "12 s", ""]]
    Console().print(display.table("[title]", ["name", "time", "why"], body))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "[title]",
        "name   time  why",
        "a     1.5 s  pip install 'x[cuda]'",
        "bcd    12 s",
    ]
