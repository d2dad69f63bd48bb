"""What an answer of a run's machine takes, from the features that the run has anyway."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment.physics import integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.thermodynamics.account import switching_work

# Test samples over which the work of the directed coupling is averaged; it is small beside that of the drive.
_FEW = 1024


def answer_cost(
    features: NDArray[Any],
    reservoirs: Mapping[str, Reservoir],
    protocol: Protocol,
    images: NDArray[Any],
    meanfield: bool,
) -> dict[str, Any] | None:
    """The fields of `results.Cost`; None at kT = 0, or where the mean positions were not read.

    features: (S, F), all reservoirs joined, of the test images (S, D). The work of the drive is h . m1 of each. The
    work of a directed coupling is known only where `meanfield` says that tables of this machine are there.
    """
    if 1 not in protocol.orders or any(one.dynamics.kT == 0 for one in reservoirs.values()):
        return None
    symmetric = all(integrability(one.W).integrable for one in reservoirs.values())
    meanfield = meanfield and all(one.dynamics.J3 == 0 for one in reservoirs.values())
    cycles, start = {}, 0
    for name, one in reservoirs.items():
        first = start + protocol.orders.index(1) * one.n_nodes
        mean = features[:, first : first + one.n_nodes]
        work = float(switching_work(one.drive(images), mean, one.dynamics.kT).mean())
        if meanfield and not symmetric:
            work += _path(one, images[:_FEW], protocol)
        cycles[name] = _rounded(work)
        start += len(protocol.orders) * one.n_nodes
    answer = sum(cycles.values()) * protocol.n_replicas
    terms = ["work_on", "work_off"] + (["work_path"] if meanfield or symmetric else [])
    return {"answer": _rounded(answer) if np.isfinite(answer) else None, "cycles": cycles, "counted": terms}


def _path(reservoir: Reservoir, images: NDArray[Any], protocol: Protocol) -> float:
    from thermoment._engines.meanfield.engine import MeanField  # loads JAX
    from thermoment.thermodynamics.averages import path_work

    return float(path_work(reservoir, images, protocol, MeanField()).mean())


def _rounded(value: float) -> float:
    """Six digits: what is beyond them may differ from machine to machine."""
    return float(f"{value:.6g}")
