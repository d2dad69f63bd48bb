"""What an answer cost: the work of the drive, in units of kT."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def work_of_drive(drive: NDArray[Any], mean: NDArray[Any], kT: float) -> float | None:
    """Work in kT that it takes, in the mean over replicas, to switch the drive on at x = 0 and off at t_final.

    drive, mean: h and <x(t_final)>, (N,). The energy of a node is V(x) - h x. Switching h on at x = 0 takes nothing;
    switching it off where the node is takes h x. What the coupling does on its way is not in it. None at kT = 0.
    """
    return float(np.dot(drive, mean)) / kT if kT > 0 else None
