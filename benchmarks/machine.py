"""What a measurement was made on: the machine, the versions and the commit."""

import subprocess
from pathlib import Path

from thermoment._support import host


def describe(*packages: str) -> dict[str, str | int]:
    """The machine and the code, for the head of a result; with the versions of `packages` that are installed."""
    return {**host.describe(*packages), "commit": _commit()}


def _commit() -> str:
    """The commit, marked where tracked files differ from it."""
    run = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(run, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
