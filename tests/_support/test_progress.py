"""Progress: bars on a terminal and in a notebook, few and plain lines in a log, nothing unless asked for."""

import io
import re
import sys
from contextlib import redirect_stderr
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment._support.progress import on_stderr, reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("thermoment._support.progress.time.perf_counter", lambda: now[0])
    return now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 100 columns."""
    for name, value in {"COLUMNS": "100", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def simulate(progress: Any) -> None:
    reservoir = tm.Reservoir.draw(3, 2, seed=1)
    protocol = tm.Protocol(dt=0.1, t_final=0.2, n_replicas=2)
    tm.simulate(reservoir, np.ones((7, 2)), protocol, engine="reference", progress=progress)


class TestLog:
    def test_has_the_start_the_end_and_every_ten_seconds(
        self, clock: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with on_stderr() as show:
            for done in range(25):
                clock[0] += 1.0
                show("training", done + 1, 25, "loss 0.5")
        assert capsys.readouterr().err.splitlines() == [
            "training: 1/25 loss 0.5",
            "training: 11/25 1/s, 14 s left, loss 0.5",
            "training: 21/25 1/s, 4 s left, loss 0.5",
            "training: 25/25 1/s, loss 0.5",
        ]

    def test_the_next_of_the_same_name_has_a_clock_of_its_own(
        self, clock: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with on_stderr() as show:
            for step in (100.0, 1.0):
                for done in range(1, 12):
                    clock[0] += step
                    show("training", done, 11)
        assert capsys.readouterr().err.splitlines()[-2:] == ["training: 1/11", "training: 11/11 1/s"]

    def test_of_two_things_at_a_time_has_the_lines_of_each(
        self, clock: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with on_stderr() as show:
            for done in range(1, 12):
                clock[0] += 1.0
                show("training K1", done, 11)
                show("training K2", 2 * done, 100)
        assert capsys.readouterr().err.splitlines() == [
            "training K1: 1/11",
            "training K2: 2/100",
            "training K1: 11/11 1/s",
            "training K2: 22/100 2/s, 39 s left",
        ]

    def test_of_a_simulation(self, clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
        with reporter(True, 100) as report:
            for done in range(1, 101):
                clock[0] += 0.5
                report(done)
        assert capsys.readouterr().err.splitlines() == [
            "samples: 0/100",
            "samples: 20/100 2/s, 40 s left",
            "samples: 40/100 2/s, 30 s left",
            "samples: 60/100 2/s, 20 s left",
            "samples: 80/100 2/s, 10 s left",
            "samples: 100/100 2/s",
        ]


class TestTerminal:
    def test_gets_a_bar_for_each_thing(self, clock: list[float], terminal: Terminal) -> None:
        with redirect_stderr(terminal), on_stderr() as show:
            for what, count in (("training K1, epochs", 4), ("images [of K1]", 30)):
                for done in range(count + 1):
                    clock[0] += 1.0
                    show(what, done, count, "loss 0.25")
        last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()).split("\r")[-1]
        first, second = (line for line in last.splitlines() if line.strip())
        assert re.fullmatch(r"training K1, epochs ━+ 4/4 +1/s, loss 0.25 0:00:00 *", first)
        assert re.fullmatch(r"images \[of K1\] +━+ 30/30 1/s, loss 0.25 0:00:00 *", second)

    def test_the_next_of_the_same_name_gets_a_bar_of_its_own(self, terminal: Terminal) -> None:
        with redirect_stderr(terminal), on_stderr() as show:
            for done in (1, 2, 3, 1, 2):
                show("training", done, 3)
        last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()).split("\r")[-1]
        assert re.findall(r"training .* (\d/3)", last) == ["3/3", "2/3"]

    def test_is_left_as_it_was_when_the_work_fails(self, terminal: Terminal) -> None:
        with pytest.raises(ZeroDivisionError), redirect_stderr(terminal), reporter(True, 2) as report:
            report(1 // 0)
        hidden, shown = terminal.getvalue().rfind("\x1b[?25l"), terminal.getvalue().rfind("\x1b[?25h")
        assert 0 <= hidden < shown, "the cursor is there again"

    def test_that_cannot_draw_over_gets_lines(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        with redirect_stderr(terminal):
            simulate(True)
        assert terminal.getvalue().splitlines()[0] == "samples: 0/7"

    def test_a_simulation_has_a_bar(self, terminal: Terminal) -> None:
        with redirect_stderr(terminal):
            simulate(True)
        assert "7/7" in terminal.getvalue()
        assert "━" in terminal.getvalue()


class Widget:
    """Stands in for ipywidgets.Output."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def clear_output(self, wait: bool) -> None: ...


class TestNotebook:
    @pytest.fixture
    def displayed(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """What a notebook is given to show."""
        given: list[Any] = []
        module = ModuleType("IPython.display")
        module.display = given.append  # type: ignore[attr-defined]
        for name, stand_in in {"IPython": ModuleType("IPython"), "IPython.display": module}.items():
            monkeypatch.setitem(sys.modules, name, stand_in)
        monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
        return given

    def test_gets_a_bar(self, displayed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        widgets = ModuleType("ipywidgets")
        widgets.Output = Widget  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
        simulate(True)
        assert isinstance(displayed[0], Widget)
        texts = [shown._repr_mimebundle_([], [])["text/plain"] for shown in displayed[1:]]
        assert any("samples" in text and "━" in text and "7/7" in text for text in texts)

    def test_that_has_no_widgets_gets_lines(
        self, displayed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
        simulate(True)
        assert capsys.readouterr().err.splitlines()[0] == "samples: 0/7"
        assert displayed == []


def test_nothing_is_shown_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(False)
    assert capsys.readouterr() == ("", "")


def test_a_function_is_told_instead(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    simulate(lambda done, total: told.append((done, total)))
    assert told[-1] == (7, 7)
    assert capsys.readouterr() == ("", "")
