"""Plots of one's own machine: each draws on the axes that it is given, or makes some, and returns them.

    ax = tm.plot.well(tm.Dynamics())
    ax.figure.savefig("well.svg")

`machine` is a Dynamics, a Reservoir, Moments or a Classifier, such as `tm.load(run)` gives; every function says which
of them it takes. Nothing is changed in matplotlib's settings, and no figure is left open.
"""

from thermoment.plot.generation import generation
from thermoment.plot.images import misread, weights
from thermoment.plot.learning import confusion, training
from thermoment.plot.network import moments, nodes
from thermoment.plot.neurons import activation, clock
from thermoment.plot.node import density, paths, well
from thermoment.plot.signals import memory, prediction

__all__ = [
    "activation",
    "clock",
    "confusion",
    "density",
    "generation",
    "memory",
    "misread",
    "moments",
    "nodes",
    "paths",
    "prediction",
    "training",
    "weights",
    "well",
]
