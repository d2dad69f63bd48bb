"""A machine that others trained and published, thermo_gd, reads MNIST here as well as it does with them.

thermo_gd (github.com/swhitelam/thermo_gd) is a network of 64 hidden and 10 output nodes, driven by the 784 pixels of an
image. It answers with the output node that is highest at t = 0.2. Its energy is

    V = sum_i (x_i^2 + x_i^4) + sum_i b_i x_i + sum over bonds J_ij x_i x_j,    kT = 1

with every bond counted once. Published are 91.7 % of the test images right from one trajectory and 92.0 % from the mean
of ten; its own program gives 91.9 % from one.

Its parameters are not part of this project. The tests that need them are skipped unless $THERMOMENT_THERMO_GD names the
file parameters.dat, and $THERMOMENT_DATA a folder with MNIST.
"""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import thermoment as tm
from support.conformance import ENGINES, runnable
from thermoment import data

Array = NDArray[np.float64]
# Read here: during the tests no folder is set from outside.
PARAMETERS, MNIST = os.environ.get("THERMOMENT_THERMO_GD"), os.environ.get("THERMOMENT_DATA")

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


def energy(numbers: Array, pixels: Array, x: Array) -> float:
    """V of the whole network as its authors write it, bond by bond."""
    values, V = iter(numbers[UNUSED:]), float((x**2 + x**4).sum())
    hidden, output = x[:HIDDEN], x[HIDDEN:]
    V += sum(next(values) * p * y for p in pixels for y in hidden)
    V += sum(next(values) * hidden[i] * hidden[j] for i in range(HIDDEN) for j in range(i))
    V += sum(next(values) * y * z for y in hidden for z in output)
    V += sum(next(values) * output[i] * output[j] for i in range(OUTPUT) for j in range(i))
    V += sum(next(values) * p * z for p in pixels for z in output)
    return float(V + sum(next(values) * y for y in (*pixels, *x)))


def inputs_of(images: Array) -> Array:
    """Pixels (S, 784) from 0 to 1, standardised, and every image as long as the longest of its set."""
    mean, mean_square = 0.13066, 0.112003
    scaled = (images - mean) / math.sqrt(mean_square - mean**2)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled * (length.max() / length))


def test_the_reservoir_has_the_force_of_the_published_energy() -> None:
    """For made-up numbers: the force on every moving node is minus the derivative of V."""
    rng = np.random.default_rng(6)
    numbers = rng.normal(size=sum(SIZES.values()))
    pixels, x = rng.normal(size=PIXELS), rng.normal(size=MOVING)
    reservoir = reservoir_of(numbers)
    force = reservoir.dynamics.force(x, reservoir.drive(pixels[None])[0]) + reservoir.W @ x
    for node in (0, 5, 63, 64, 73):
        up, down = (x + step * (np.arange(MOVING) == node) for step in (1e-4, -1e-4))
        slope = (energy(numbers, pixels, up) - energy(numbers, pixels, down)) / 2e-4
        assert force[node] == pytest.approx(-slope, abs=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(PARAMETERS is None, reason="$THERMOMENT_THERMO_GD does not name the parameters of thermo_gd")
@pytest.mark.skipif(MNIST is None, reason="$THERMOMENT_DATA does not name a folder with MNIST")
@pytest.mark.parametrize("engine", ["native", "xla", "cuda"])
@pytest.mark.parametrize(("trajectories", "percent"), [(1, 91.9), (10, 92.0)])
def test_it_reads_mnist_as_published(engine: str, trajectories: int, percent: float) -> None:
    """Seeds scatter by 0.1 points from one trajectory and by 0.06 from ten."""
    runnable(next(one for one in ENGINES if one.label == engine))
    assert PARAMETERS is not None
    reservoir = reservoir_of(np.array(Path(PARAMETERS).read_text("utf-8").split(), np.float64))
    mnist = data.load("mnist", MNIST)
    protocol = tm.Protocol(dt=1e-3, t_final=0.2, n_replicas=trajectories, orders=(1,), seed=1)
    found = tm.simulate(reservoir, inputs_of(np.asarray(mnist.x_test, np.float64)), protocol, engine=engine)
    right = found.mean[:, HIDDEN:].argmax(axis=1) == mnist.y_test
    assert 100 * right.mean() == pytest.approx(percent, abs=0.3)
