"""Functions for other processes to call."""

import os
import sys
from threading import Event


def doubled(value: float) -> float:
    return 2 * value


def modules() -> list[str]:
    return sorted(sys.modules)


def fail() -> None:
    raise ValueError("This process is not to say so.")


def hold(path: str) -> None:
    """Holds the pipe at `path` open, for ever."""
    os.write(os.open(path, os.O_WRONLY), b"held")
    Event().wait()
