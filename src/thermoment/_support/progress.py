"""Progress of long work, on stderr: bars on a terminal and in a notebook, a few plain lines in a log.

Whatever takes long calls a `Listener`. Two functions here make one that a person sees, `_bars` and `_lines`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

# rich is imported where it is used: most programs that import thermoment show no progress.

Progress = bool | Callable[[int, int], None]
"""Whether progress is shown on stderr, or else a function of (samples done, samples in all)."""

_SECONDS_BETWEEN_LINES = 10.0


class Listener(Protocol):
    """Called with what is being done, how much of it is done, how much there is, and how it goes."""

    def __call__(self, what: str, done: int, total: int, detail: str = "", /) -> None: ...


def silent(what: str, done: int, total: int, detail: str = "", /) -> None:
    """The listener that does nothing."""


Note = Callable[[str], None]
"""Called with a sentence a person may want to act on."""


@contextmanager
def reporter(progress: Progress, total: int) -> Iterator[Callable[[int], None]]:
    """What an engine calls with the number of samples finished so far, out of `total`."""
    if callable(progress):
        yield lambda done: progress(done, total)
    elif progress:
        with on_stderr() as listener:
            listener("samples", 0, total)
            yield lambda done: listener("samples", done, total)
    else:
        yield lambda _: None


@contextmanager
def on_stderr() -> Iterator[Listener]:
    """A listener that shows what it hears: as bars where they can be drawn over, as lines elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if _can_draw_over(console):
        with _bars(console) as listener:
            yield listener
    else:
        yield _lines()


def _can_draw_over(console: "Console") -> bool:
    if not console.is_jupyter:
        return console.is_terminal and not console.is_dumb_terminal
    try:
        import ipywidgets  # noqa: F401
    except ImportError:  # without it rich can draw nothing twice in a notebook
        return False
    return True


@dataclass(frozen=True)
class _Start:
    """When something was first heard of, and how much of it was done by then."""

    seconds: float
    done: int

    def rate(self, done: int) -> float:
        """How much is done in a second; zero while it is too early to tell."""
        elapsed = time.perf_counter() - self.seconds
        return (done - self.done) / elapsed if elapsed >= 0.5 else 0.0


def _facts(rate: float, *others: str) -> str:
    speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s" if rate else ""
    return ", ".join(filter(None, (speed, *others)))


@contextmanager
def _bars(console: "Console") -> Iterator[Listener]:
    """A bar for each thing that is under way, with its rate and the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    name, facts = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    with Progress(name, BarColumn(), MofNCompleteColumn(), facts, TimeRemainingColumn(), console=console) as bars:
        under_way: dict[str, tuple[TaskID, _Start]] = {}
        showing = Lock()

        def show(what: str, done: int, total: int, detail: str = "", /) -> None:
            with showing:
                _show(what, done, total, detail)

        def _show(what: str, done: int, total: int, detail: str) -> None:
            before = bars.tasks[under_way[what][0]] if what in under_way else None
            if before is None or before.total != total or before.completed > done:  # new, or the next of the same name
                task = bars.add_task(what, total=total, facts="")
                under_way[what] = task, _Start(time.perf_counter(), done)
            task, start = under_way[what]
            bars.update(task, completed=done, facts=_facts(start.rate(done), detail))

        try:
            yield show
        finally:
            bars.refresh()  # in a notebook, rich does not draw the end of its own accord


def _lines() -> Listener:
    """Plain lines: the start and the end of everything, and every ten seconds how far it is."""
    under_way: dict[str, _Line] = {}
    showing = Lock()

    def show(what: str, done: int, total: int, detail: str = "", /) -> None:
        with showing:  # several threads may be at work, each on something else
            now = time.perf_counter()
            line = under_way.get(what)
            if line is None or done < line.done:  # new, or the next of the same name
                line = _Line(done, now, _Start(now, done))
            elif done < total and now - line.told < _SECONDS_BETWEEN_LINES:
                under_way[what] = replace(line, done=done)
                return
            under_way[what] = replace(line, done=done, told=now)
            if done >= total:
                del under_way[what]
            rate = line.start.rate(done)
            left = f"{(total - done) / rate:.0f} s left" if rate and done < total else ""
            sys.stderr.write(f"{what}: {done}/{total} {_facts(rate, left, detail)}".rstrip() + "\n")
            sys.stderr.flush()

    return show


@dataclass(frozen=True)
class _Line:
    """What was last heard of something that is under way, and when a line last told of it."""

    done: int
    told: float
    start: _Start
