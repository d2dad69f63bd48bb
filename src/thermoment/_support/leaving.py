"""How the command ends: its exit code after Ctrl-C, and the one way out of the process.

Whatever a command computes is on disk whole or not at all, and the next one removes what was half-written. So Ctrl-C
ends the process at once: threads of an engine or of a library that are in the middle of their work are not waited for,
and none can run into a Python that is being taken down. A command that is done leaves in the same way.

Nothing heavy is imported here: what is imported before Ctrl-C is dealt with can be interrupted with a traceback.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""
SENTENCE = "thermoment: Interrupted. What was computed is kept: the same command continues from here."
_SHOW_CURSOR = "\x1b[?25h"
"""For a terminal: progress bars hide the cursor."""


def leave_on_interrupt() -> None:
    """From now on Ctrl-C ends the process with one sentence; under nohup it still does nothing."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)


def leave(code: int) -> NoReturn:
    """Ends the process, whatever threads there are, after what was printed has been passed on."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read the output is gone, or the disk it goes to is full
            code = code or 1
    os._exit(code)


def _interrupted(*_: object) -> None:
    line = f"\n{_SHOW_CURSOR}{SENTENCE}\n" if os.isatty(2) else f"{SENTENCE}\n"
    with suppress(OSError):
        os.write(2, line.encode())  # not by sys.stderr, in the middle of whose work this may be
    os._exit(INTERRUPTED)
