"""The command `thermoment`: Ctrl-C is dealt with before anything else is imported."""

from typing import NoReturn

from thermoment._support.leaving import leave, leave_on_interrupt


def main() -> NoReturn:
    """Runs the command line and ends the process with its exit code."""
    leave_on_interrupt()
    from thermoment.cli import main as command

    try:
        command(prog_name="thermoment")
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)
    leave(0)


if __name__ == "__main__":
    main()
