"""How a command fails: one line on stderr, and an exit code."""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import click

from thermoment._support.leaving import INTERRUPTED, SENTENCE


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose failures are one line on stderr and exit code 1, or 130 after Ctrl-C."""

    @wraps(command)
    def wrapped(**arguments: Any) -> None:
        try:
            command(**arguments)
        except KeyboardInterrupt:  # where this is called as a function, without __main__.py
            click.echo(SENTENCE, err=True)
            sys.exit(INTERRUPTED)
        except (click.ClickException, BrokenPipeError):  # click tells of the one, and of the other there is no need to
            raise
        except Exception as error:
            if os.environ.get("THERMOMENT_DEBUG"):
                traceback.print_exc()
            fail(_sentence(error))

    return wrapped


def _sentence(error: Exception) -> str:
    """What went wrong, for a person. What nobody thought of has its type as well, and how to see where it was."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" to write {error.filename}" if error.filename else ""
        return f"No space left on the disk{where}. What was computed is kept: make room and run this again."
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.strerror}: {error.filename}."
    if isinstance(error, MemoryError):
        return str(error) or "There is not enough memory here."
    expected = isinstance(error, ValueError | RuntimeError | ArithmeticError | OSError)
    if expected and not isinstance(error, RecursionError) and str(error):
        return str(error)
    said = f"{type(error).__name__}: {error}".rstrip(": ").rstrip(".")
    return f"{said}. This is a mistake of thermoment itself; THERMOMENT_DEBUG=1 in the environment shows where."


def fail(message: str) -> NoReturn:
    """Ends the command with one line on stderr."""
    click.echo(f"thermoment: {message}", err=True)
    sys.exit(1)
