"""A classifier small enough to be asked hundreds of times: two reservoirs that see 8 x 8 pixels, three classes."""

import numpy as np

import thermoment as tm
from thermoment.learning.readout import Readout, Scaling
from thermoment.machines.classifier import Classifier


def small_machine(averaged: bool = False) -> Classifier:
    """The same every time; with one readout of all moments, or one for each reservoir."""
    rng = np.random.default_rng(11)
    reservoirs = {
        name: tm.Reservoir.draw(n, 64, s_W=0.2, s_K=2.0, s_b=0.5, seed=seed, stream=seed)
        for seed, (name, n) in enumerate((("A", 6), ("B", 8)))
    }

    def readout(n_features: int) -> Readout:
        scaling = Scaling(rng.random(n_features) * 0.2, 0.5 + rng.random(n_features))
        return Readout(rng.normal(size=(3, n_features)), rng.normal(size=3), scaling)

    readouts = (readout(12), readout(16)) if averaged else (readout(28),)
    protocol = tm.Protocol(dt=0.02, t_final=1.0, n_replicas=32, orders=(1, 2))
    return Classifier(reservoirs, protocol, readouts)
