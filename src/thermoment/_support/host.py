"""What a result was made on: the machine and the versions of the software."""

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from thermoment import __version__
from thermoment._support.threads import cores

_PACKAGES = ("jax", "jaxlib", "matplotlib", "numpy", "optax", "scikit-learn", "scipy", "zarr")


def environment(engine: str) -> dict[str, Any]:
    """What the numbers of a run may depend on beside its experiment: versions, architecture, operating system."""
    return {
        "thermoment": __version__,
        "engine": engine,
        "python": platform.python_version(),
        "packages": versions(*_PACKAGES),
        "machine": platform.machine(),
        "system": platform.platform(),
    }


def describe(*packages: str, checkout: Path | None = None) -> dict[str, str | int]:
    """The machine and the software, for the head of a measurement; with the versions of `packages` that are installed.

    Asks JAX for the accelerator, and so starts it. `checkout` is a folder whose commit is told as well.
    """
    found = versions("numpy", "jax", *packages)
    return {
        "processor": _processor(),
        "cores": cores(),
        "accelerator": accelerator(),
        "python": platform.python_version(),
        "thermoment": __version__,
        **{name: number for name, number in found.items() if number is not None},
        **({"commit": commit(checkout)} if checkout else {}),
    }


def commit(checkout: Path) -> str:
    """The commit that a folder of a git checkout is at, marked where tracked files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def versions(*packages: str) -> dict[str, str | None]:
    """The version of each package, None where it is not installed."""

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    return {name: installed(name) for name in packages}


def accelerator() -> str:
    """The kind of each device that JAX has beside the processor, or "none". Starts JAX."""
    import jax

    return ", ".join(device.device_kind for device in jax.local_devices() if device.platform != "cpu") or "none"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if sys.platform == "linux" else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
