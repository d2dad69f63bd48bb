"""A machine that others trained and published, thermo_gd, as a `Reservoir`.

thermo_gd (github.com/swhitelam/thermo_gd) is a network of 64 hidden and 10 output nodes, driven by the 784 pixels of an
image. It answers with the output node that is highest at t = 0.2. Its energy is

    V = sum_i (x_i^2 + x_i^4) + sum_i b_i x_i + sum over bonds J_ij x_i x_j,    kT = 1

with every bond counted once. Its parameters are a file of its authors, parameters.dat, and are not part of this
project.
"""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import thermoment as tm

Array = NDArray[np.float64]

PIXELS, HIDDEN, OUTPUT = 784, 64, 10
UNUSED, MOVING = 2 * PIXELS, HIDDEN + OUTPUT
SIZES = {
    "pixel to pixel": UNUSED,
    "pixel to hidden": PIXELS * HIDDEN,
    "hidden to hidden": HIDDEN * (HIDDEN - 1) // 2,
    "hidden to output": HIDDEN * OUTPUT,
    "output to output": OUTPUT * (OUTPUT - 1) // 2,
    "pixel to output": PIXELS * OUTPUT,
    "bias": PIXELS + MOVING,
}
"""The numbers of the file in order. Bonds between pixels and biases of pixels do nothing: pixels do not move."""


def load(path: Path) -> tm.Reservoir:
    """The machine of the file parameters.dat."""
    return reservoir_of(np.array(path.read_text("utf-8").split(), np.float64))


def reservoir_of(numbers: Array) -> tm.Reservoir:
    """The published numbers as a reservoir: the force of a bond is -J_ij x_j, so W = -J, K = -J and b = -bias."""
    parts = dict(zip(SIZES, np.split(numbers, np.cumsum(list(SIZES.values()))[:-1]), strict=True))
    J = np.zeros((MOVING, MOVING))
    J[np.tril_indices(HIDDEN, -1)] = parts["hidden to hidden"]
    within = np.zeros((OUTPUT, OUTPUT))
    within[np.tril_indices(OUTPUT, -1)] = parts["output to output"]
    J[HIDDEN:, HIDDEN:] = within
    J[HIDDEN:, :HIDDEN] = parts["hidden to output"].reshape(HIDDEN, OUTPUT).T
    to_hidden, to_output = (parts[f"pixel to {name}"].reshape(PIXELS, -1).T for name in ("hidden", "output"))
    K = np.concatenate([to_hidden, to_output])
    return tm.Reservoir(-(J + J.T), -K, -parts["bias"][PIXELS:], tm.Dynamics(kT=1.0))


def inputs_of(images: Array) -> Array:
    """Pixels (S, 784) from 0 to 1, standardised, and every image as long as the longest of its set."""
    mean, mean_square = 0.13066, 0.112003
    scaled = (images - mean) / math.sqrt(mean_square - mean**2)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled * (length.max() / length))


def protocol(trajectories: int = 1, seed: int = 1) -> tm.Protocol:
    """How it is asked: from x = 0, read at t = 0.2."""
    return tm.Protocol(dt=1e-3, t_final=0.2, n_replicas=trajectories, orders=(1,), seed=seed)


def right(machine: tm.Reservoir, inputs: Array, labels: NDArray[np.int64], asked: tm.Protocol, engine: str) -> float:
    """The share of inputs (S, 784) for which the output node of the right class is the highest."""
    found = tm.simulate(machine, inputs, asked, engine=engine)
    return float((found.mean[:, HIDDEN:].argmax(axis=1) == labels).mean())
