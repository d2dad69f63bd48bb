"""A machine that others trained and published, thermo_gd, reads MNIST here as well as it does with them.

studies/thermo_gd.py makes a `Reservoir` of its parameters. Published are 91.7 % of the test images right from one
trajectory and 92.0 % from the mean of ten; its own program gives 91.9 % from one.

The parameters are not part of this project. The tests that need them are skipped unless $THERMOMENT_THERMO_GD names the
file parameters.dat, and $THERMOMENT_DATA a folder with MNIST.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import thermo_gd
from numpy.typing import NDArray
from thermo_gd import HIDDEN, MOVING, OUTPUT, PIXELS, SIZES, UNUSED

from support.conformance import ENGINES, runnable
from thermoment import data

Array = NDArray[np.float64]
# Read here: during the tests no folder is set from outside.
PARAMETERS, MNIST = os.environ.get("THERMOMENT_THERMO_GD"), os.environ.get("THERMOMENT_DATA")


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


def test_the_reservoir_has_the_force_of_the_published_energy() -> None:
    """For made-up numbers: the force on every moving node is minus the derivative of V."""
    rng = np.random.default_rng(6)
    numbers = rng.normal(size=sum(SIZES.values()))
    pixels, x = rng.normal(size=PIXELS), rng.normal(size=MOVING)
    reservoir = thermo_gd.reservoir_of(numbers)
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
    mnist = data.load("mnist", MNIST)
    inputs = thermo_gd.inputs_of(np.asarray(mnist.x_test, np.float64))
    machine, asked = thermo_gd.load(Path(PARAMETERS)), thermo_gd.protocol(trajectories)
    found = thermo_gd.right(machine, inputs, mnist.y_test, asked, engine)
    assert 100 * found == pytest.approx(percent, abs=0.3)
