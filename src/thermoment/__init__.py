"""Langevin computers: simulate networks of noisy nodes, measure the moments of their positions, classify with them."""

from importlib import import_module
from typing import TYPE_CHECKING

from thermoment._engines.choice import MODULES, engines
from thermoment.moments import Info, Moments, Observed, concatenate
from thermoment.physics import Dynamics, integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import final_states, sample_paths, simulate
from thermoment.thermodynamics.heat import Heat, Work
from thermoment.thermodynamics.relaxation import Relaxation, distance_to_equilibrium

__version__ = "0.2.0"

__all__ = [
    "Dynamics",
    "Heat",
    "Info",
    "Moments",
    "Observed",
    "Protocol",
    "Relaxation",
    "Reservoir",
    "Work",
    "concatenate",
    "distance_to_equilibrium",
    "engines",
    "final_states",
    "integrability",
    "sample_paths",
    "simulate",
]

# These are imported when they are first used: JAX, CuPy and Zarr take seconds to load. They are not in `__all__`, since
# `from thermoment import *` would load them all, and fail where CuPy is not installed.
if TYPE_CHECKING:
    from thermoment._engines.cuda import Cuda as Cuda
    from thermoment._engines.meanfield.engine import MeanField as MeanField
    from thermoment._engines.native import Native as Native
    from thermoment._engines.reference import Reference as Reference
    from thermoment._engines.xla import Xla as Xla
    from thermoment.machines.classifier import Classifier as Classifier
    from thermoment.machines.pretrained import pretrained as pretrained
    from thermoment.runs.load import load as load
else:
    _LATER = {cls: module for module, _, cls in (place.partition(":") for place in MODULES.values())}
    _LATER |= {
        "Classifier": "thermoment.machines.classifier",
        "load": "thermoment.runs.load",
        "pretrained": "thermoment.machines.pretrained",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module 'thermoment' has no attribute {name!r}")
        try:
            return getattr(import_module(_LATER[name]), name)
        except ImportError as error:
            raise AttributeError(f"thermoment.{name} cannot be used here: {error}") from error

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
