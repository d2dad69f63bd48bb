"""What a person sees on a terminal: tables."""

import pytest
from rich.console import Console

from thermoment.report import terminal as display


def test_a_table_shows_brackets_as_they_are_and_words_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    body = [["a", "1.5 s", "pip install 'x[cuda]'"], ["bcd", "12 s", ""]]
    Console().print(display.table("[title]", ["name", "time", "why"], body))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "[title]",
        "name   time  why",
        "a     1.5 s  pip install 'x[cuda]'",
        "bcd    12 s",
    ]
