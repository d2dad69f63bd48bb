"""Langevin computers: simulate networks of noisy nodes, measure the moments of their positions, classify with them."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

__all__ = [
    "Course",
    "Dynamics",
    "Energetics",
    "Heat",
    "Info",
    "Moments",
    "Observed",
    "PathWork",
    "Phase",
    "Protocol",
    "Refereed",
    "Relaxation",
    "Reservoir",
    "State",
    "Work",
    "concatenate",
    "course",
    "distance_to_equilibrium",
    "energetics",
    "engines",
    "final_states",
    "integrability",
    "referee",
    "sample_paths",
    "simulate",
]

# A name is imported when it is first used: `import thermoment` waits for nothing, and the command line has dealt with
# Ctrl-C before it waits for anything. What takes long to load is not in `__all__`, since `from thermoment import *`
# would load JAX and CuPy, and fail where CuPy is not installed.
if TYPE_CHECKING:
    from thermoment import plot as plot
    from thermoment._engines.choice import engines as engines
    from thermoment._engines.cuda import Cuda as Cuda
    from thermoment._engines.meanfield.engine import MeanField as MeanField
    from thermoment._engines.native import Native as Native
    from thermoment._engines.reference import Reference as Reference
    from thermoment._engines.xla import Xla as Xla
    from thermoment.machines import neurons as neurons
    from thermoment.machines import signals as signals
    from thermoment.machines.classifier import Classifier as Classifier
    from thermoment.machines.estimators import LangevinClassifier as LangevinClassifier
    from thermoment.machines.estimators import LangevinFeatures as LangevinFeatures
    from thermoment.machines.estimators import LangevinRegressor as LangevinRegressor
    from thermoment.machines.generative import Generated as Generated
    from thermoment.machines.generative import Generator as Generator
    from thermoment.machines.generative import descend_generator as descend_generator
    from thermoment.machines.generative import train_generator as train_generator
    from thermoment.machines.noising import Noising as Noising
    from thermoment.machines.noising import node_law as node_law
    from thermoment.machines.noising import noised_paths as noised_paths
    from thermoment.machines.pathwise import Pathwise as Pathwise
    from thermoment.machines.pathwise import learn_pathwise as learn_pathwise
    from thermoment.machines.pretrained import pretrained as pretrained
    from thermoment.machines.teacher import Teacher as Teacher
    from thermoment.machines.teacher import Teaching as Teaching
    from thermoment.machines.teacher import train_teacher as train_teacher
    from thermoment.machines.trajectories import PathLikelihood as PathLikelihood
    from thermoment.machines.trajectories import PathSums as PathSums
    from thermoment.machines.trajectories import guided_paths as guided_paths
    from thermoment.machines.trajectories import learn_paths as learn_paths
    from thermoment.machines.trajectories import path_likelihood as path_likelihood
    from thermoment.moments import Info as Info
    from thermoment.moments import Moments as Moments
    from thermoment.moments import Observed as Observed
    from thermoment.moments import concatenate as concatenate
    from thermoment.phases import Course as Course
    from thermoment.phases import Phase as Phase
    from thermoment.phases import course as course
    from thermoment.physics import Dynamics as Dynamics
    from thermoment.physics import integrability as integrability
    from thermoment.protocol import Protocol as Protocol
    from thermoment.reservoir import Reservoir as Reservoir
    from thermoment.runs.load import load as load
    from thermoment.runs.run import run as run
    from thermoment.simulation import State as State
    from thermoment.simulation import final_states as final_states
    from thermoment.simulation import sample_paths as sample_paths
    from thermoment.simulation import simulate as simulate
    from thermoment.thermodynamics.energetics import Energetics as Energetics
    from thermoment.thermodynamics.energetics import energetics as energetics
    from thermoment.thermodynamics.heat import Heat as Heat
    from thermoment.thermodynamics.heat import PathWork as PathWork
    from thermoment.thermodynamics.heat import Work as Work
    from thermoment.thermodynamics.relaxation import Relaxation as Relaxation
    from thermoment.thermodynamics.relaxation import distance_to_equilibrium as distance_to_equilibrium
    from thermoment.twin import Refereed as Refereed
    from thermoment.twin import referee as referee
else:
    _MODULES = {
        "_engines.choice": "engines",
        "moments": "Info Moments Observed concatenate",
        "phases": "Course Phase course",
        "physics": "Dynamics integrability",
        "protocol": "Protocol",
        "reservoir": "Reservoir",
        "simulation": "State final_states sample_paths simulate",
        "thermodynamics.energetics": "Energetics energetics",
        "thermodynamics.heat": "Heat PathWork Work",
        "twin": "Refereed referee",
        "thermodynamics.relaxation": "Relaxation distance_to_equilibrium",
        "_engines.cuda": "Cuda",
        "_engines.meanfield.engine": "MeanField",
        "_engines.native": "Native",
        "_engines.reference": "Reference",
        "_engines.xla": "Xla",
        "machines.classifier": "Classifier",
        "machines.estimators": "LangevinClassifier LangevinFeatures LangevinRegressor",
        "machines.generative": "Generated Generator descend_generator train_generator",
        "machines.noising": "Noising node_law noised_paths",
        "machines.pathwise": "Pathwise learn_pathwise",
        "machines.pretrained": "pretrained",
        "machines.teacher": "Teacher Teaching train_teacher",
        "machines.trajectories": "PathLikelihood PathSums guided_paths learn_paths path_likelihood",
        "runs.load": "load",
        "runs.run": "run",
    }
    _PLACES = {name: f"thermoment.{module}" for module, names in _MODULES.items() for name in names.split()}

    # Modules of functions. They take as long to load as matplotlib or JAX.
    _WHOLE = {"plot": "plot", "neurons": "machines.neurons", "signals": "machines.signals"}

    def __getattr__(name: str) -> object:
        if name in _WHOLE:
            return import_module(f"thermoment.{_WHOLE[name]}")
        if name not in _PLACES:
            raise AttributeError(f"module 'thermoment' has no attribute {name!r}")
        try:
            found = getattr(import_module(_PLACES[name]), name)
        except ImportError as error:
            raise AttributeError(f"thermoment.{name} cannot be used here: {error}") from error
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES, *_WHOLE})
