"""Thermodynamic neurons: a driven node as a neuron, layers of them as a machine, and two ways to train it.

    cosine = tm.neurons.Layered.draw((8, 8, 8, 8), 1, seed=1)
    trained = tm.neurons.learn(cosine, z, np.cos(2 * np.pi * z))
    y = trained.machine.answers(z)

The neuron and the layered machine are those of S. Whitelam and C. Casert, "Nonlinear thermodynamic computing out of
equilibrium", arXiv:2412.17183. There the machine is trained by a genetic algorithm, which is `evolve` here.
"""

from thermoment.machines.neurons.activation import activation
from thermoment.machines.neurons.genetic import Evolved, evolve
from thermoment.machines.neurons.gradient import Trained, learn, learn_classes
from thermoment.machines.neurons.layers import Layered

__all__ = ["Evolved", "Layered", "Trained", "activation", "evolve", "learn", "learn_classes"]
