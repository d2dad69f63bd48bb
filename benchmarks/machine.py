"""What a measurement was made on: processor, cores, versions, commit."""

import platform
import subprocess
from pathlib import Path

import jax
import numpy as np

import thermoment
from thermoment.engines import cores


def describe() -> dict[str, str | int]:
    """The machine and the code, for the head of a result."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "accelerator": ", ".join(d.device_kind for d in jax.local_devices() if d.platform != "cpu") or "none",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "jax": jax.__version__,
        "thermoment": thermoment.__version__,
        "commit": _commit(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    """The commit, marked where tracked files differ from it."""
    here = Path(__file__).parent
    run = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(run, cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
