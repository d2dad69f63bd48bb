"""Progress of a long computation: a line that rewrites itself on a terminal, a few plain lines in a log."""

import sys
import time
from collections.abc import Callable
from typing import Protocol

Progress = bool | Callable[[int, int], None]
"""True for lines on stderr, or a function of (samples done, samples in all)."""

_SECONDS_BETWEEN_UPDATES = {True: 0.2, False: 10.0}
"""On a terminal, and elsewhere."""


def reporter(progress: Progress, total: int) -> Callable[[int], None]:
    """What an engine calls with the number of samples finished so far."""
    if callable(progress):
        return lambda done: progress(done, total)
    if not progress:
        return lambda _: None
    terminal = sys.stderr.isatty()
    start = latest = time.perf_counter()

    def show(done: int) -> None:
        nonlocal latest
        now = time.perf_counter()
        if done < total and now - latest < _SECONDS_BETWEEN_UPDATES[terminal]:
            return
        latest = now
        left = (now - start) * (total - done) / done
        line = f"{done}/{total} samples, {now - start:.0f} s, {left:.0f} s left"
        # The escape sequence clears what a longer line left behind.
        ending = "\n" if done == total or not terminal else ""
        sys.stderr.write(f"\r{line}\x1b[K{ending}" if terminal else f"{line}{ending}")
        sys.stderr.flush()

    return show


class Listener(Protocol):
    """Called with what is being done, how much of it is done, how much there is, and how it goes."""

    def __call__(self, what: str, done: int, total: int, detail: str = "", /) -> None: ...


Note = Callable[[str], None]
"""Called with a sentence a person may want to act on."""
