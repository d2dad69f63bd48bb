"""Langevin computers: simulate them, read the moments of where they end up, classify with those."""

from thermoment._engines.choice import engines
from thermoment.moments import Info, Moments, concatenate
from thermoment.physics import Dynamics, integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import final_states, sample_paths, simulate
from thermoment.thermodynamics.relaxation import Relaxation, distance_to_equilibrium

__version__ = "0.1.0"

__all__ = [
    "Dynamics",
    "Info",
    "Moments",
    "Protocol",
    "Relaxation",
    "Reservoir",
    "concatenate",
    "distance_to_equilibrium",
    "engines",
    "final_states",
    "integrability",
    "sample_paths",
    "simulate",
]
