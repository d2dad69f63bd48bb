"""What a measurement was made on: processor, cores, accelerator, versions."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from thermoment import __version__
from thermoment._support.threads import cores


def describe(*packages: str) -> dict[str, str | int]:
    """The machine and the software, for the head of a result; with the versions of `packages` that are installed."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "accelerator": ", ".join(d.device_kind for d in jax.local_devices() if d.platform != "cpu") or "none",
        "python": platform.python_version(),
        "thermoment": __version__,
        **{name: found for name in ("numpy", "jax", *packages) if (found := _version(name))},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if sys.platform == "linux" else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


_PACKAGES = ("jax", "jaxlib", "matplotlib", "numpy", "optax", "scikit-learn", "scipy", "zarr")


def environment(engine: str) -> dict[str, Any]:
    """What numbers may depend on beside the experiment: versions and the machine."""

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    return {
        "thermoment": __version__,
        "engine": engine,
        "python": platform.python_version(),
        "packages": {name: installed(name) for name in _PACKAGES},
        "machine": platform.machine(),
        "system": platform.platform(),
    }
