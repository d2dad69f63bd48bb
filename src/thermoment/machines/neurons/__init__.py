"""Thermodynamic neurons: a driven node as a neuron, layers of them as a machine, and two ways to train it.

    cosine = tm.neurons.Layered.draw((8, 8, 8, 8), 1, seed=1)
    trained = tm.neurons.learn(cosine, z, np.cos(2 * np.pi * z))
    y = trained.machine.answers(z)

The neuron and the layered machine are those of S. Whitelam and C. Casert, "Nonlinear thermodynamic computing out of
equilibrium", arXiv:2412.17183. There the machine is trained by a genetic algorithm, which is `evolve` here.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from thermoment.machines.neurons.activation import activation
from thermoment.machines.neurons.layers import Layered

__all__ = ["Evolved", "Layered", "Trained", "activation", "evolve", "learn", "learn_classes"]

# What trains is imported when it is first used: a machine answers without JAX.
if TYPE_CHECKING:
    from thermoment.machines.neurons.genetic import Evolved as Evolved
    from thermoment.machines.neurons.genetic import evolve as evolve
    from thermoment.machines.neurons.gradient import Trained as Trained
    from thermoment.machines.neurons.gradient import learn as learn
    from thermoment.machines.neurons.gradient import learn_classes as learn_classes
else:
    _PLACES = {"Evolved": "genetic", "evolve": "genetic", "Trained": "gradient"}
    _PLACES |= {"learn": "gradient", "learn_classes": "gradient"}

    def __getattr__(name: str) -> object:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
