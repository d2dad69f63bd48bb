"""How far the means of a machine's nodes are from their stationary values when they are read: a stage of its own.

The distance is the rms over nodes and images of E[x(t_final)] - E[x(infinity)], as a share of the rms of
E[x(infinity)]: 1 at the start x = 0, 0 in equilibrium. By `meanfield` where that engine does not warn; by sampling
where the coupling is too strong for it, with what sampling noise adds to the squares taken out.
"""

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import write_whole
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.moments import Moments
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.runs.context import Context, digest
from thermoment.runs.store import keep
from thermoment.simulation import compute, prepare
from thermoment.thermodynamics.relaxation import distance_to_equilibrium

_FILE = "distance.json"
_LONG = 25.0
"""Of sampled nodes: slowest relaxation times of an undriven one until they count as stationary."""
_LATEST = 100.0
"""The longest time that is sampled for that."""
_REPLICAS = 256
"""that are sampled for it."""


def distances(
    experiment: Experiment, reservoirs: Mapping[str, Reservoir], engine: str, dataset: Dataset, context: Context
) -> dict[str, float]:
    """By the names of the reservoirs, to four digits."""
    images, protocol = dataset.x_test[: experiment.equilibrium], experiment.protocol
    found = {}
    for name, one in reservoirs.items():
        stage = context.stage(
            "equilibrium",
            reservoir=[one.W, one.K, one.b],
            dynamics=one.dynamics,
            protocol=protocol,
            engine=engine,
            images=[digest(dataset, "x_test"), len(images)],
        )

        def build(folder: Path, one: Reservoir = one) -> None:
            value = float(f"{distance(one, images, protocol, engine):.4g}")
            write_whole(folder / _FILE, json.dumps(value).encode())

        keep(stage, build, context.note)
        found[name] = float(json.loads((stage.folder / _FILE).read_text("utf-8")))
    return found


def distance(reservoir: Reservoir, images: NDArray[np.float32], protocol: Protocol, engine: str) -> float:
    """Of one reservoir, over images (S, D); `engine` is the one that samples where `meanfield` cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            found = distance_to_equilibrium(reservoir, images, replace(protocol, orders=(1,)))
        return math.sqrt(float((found.distance**2).mean() / (found.stationary**2).mean()))
    except (RuntimeError, ValueError, UserWarning):
        return _sampled(reservoir, images, protocol, "auto" if engine == "meanfield" else engine)


def _sampled(reservoir: Reservoir, images: NDArray[np.float32], protocol: Protocol, engine: str) -> float:
    """The same by sampling. The noise of the later run is another one, so that the two means are independent."""
    wait = min(_LONG / reservoir.dynamics.slowest_rate(), _LATEST)
    late = protocol.dt * math.ceil(wait / protocol.dt)
    sampled = replace(protocol, n_replicas=_REPLICAS, orders=(1, 2))
    read, later = (
        compute(prepare(reservoir, images, one), engine)
        for one in (sampled, replace(sampled, t_final=late, seed=(protocol.seed + 1) % 2**32))
    )
    noise_read, noise_later = _noise(read), _noise(later)
    apart = float(((read.mean - later.mean) ** 2).mean()) - noise_read - noise_later
    return math.sqrt(max(0.0, apart) / (float((later.mean**2).mean()) - noise_later))


def _noise(moments: Moments) -> float:
    """The mean square error of the means of finitely many replicas."""
    return float(moments.variance.mean()) / (moments.n_replicas - 1)
