"""The task that every contestant of a benchmark does: the paper's size, one random reservoir, made-up images.

The environment variable NODES asks for another number of nodes than the paper's.

A contestant is a function of (drive (S, N), n_steps) that returns moments (S, 3, N). What it takes from here are plain
numbers and arrays: how it uses them is its own affair.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thermoment as tm
from thermoment import bench as benchmark
from thermoment._engines.choice import choose

Array = NDArray[np.float64]
Contestant = Callable[[Array, int], Any]

N, M, D = int(os.environ.get("NODES", benchmark.N)), benchmark.M, benchmark.D
RESERVOIR = tm.Reservoir.draw(N, D, s_W=0.2, seed=20260611)
PROTOCOL = tm.Protocol(n_replicas=M)
W = RESERVOIR.W
DT, KT, CLIP = PROTOCOL.dt, RESERVOIR.dynamics.kT, PROTOCOL.clip
SIGMA = float(np.sqrt(2 * KT * DT))
"""of the noise of one step"""
ORDERS = PROTOCOL.orders


def drives(S: int) -> Array:
    """K I + b of S images of about MNIST's brightness: (S, N). The speed does not depend on them."""
    return RESERVOIR.drive(np.resize(np.random.default_rng(0).random((64, D)) * 0.26, (S, D)))


def engine(name: str) -> Contestant:
    """One of thermoment's engines as a contestant: it is given the drive as the input of a reservoir with K = 1."""
    choose(name)  # raises where it cannot run
    reservoir = tm.Reservoir(W, np.eye(N), np.zeros(N), RESERVOIR.dynamics)

    def run(h: Array, n_steps: int) -> Array:
        return tm.simulate(reservoir, h, tm.Protocol(n_replicas=M, t_final=n_steps * DT), engine=name).raw

    return run
