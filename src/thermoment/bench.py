"""How fast the engines are here: node-steps per second at the paper's size, and the time for its whole experiment.

The paper's size: N = 256 nodes, M = 128 replicas, 1000 steps. Its whole experiment is 70000 images through three
reservoirs, 6.88e12 node-steps.
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from thermoment._engines.choice import engines
from thermoment._support.checks import check_integer, check_positive, invalid
from thermoment._support.host import describe
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

N, M, D = 256, 128, 784
PROTOCOL = Protocol(n_replicas=M)
PAPER_IMAGES = 70_000 * 3
"""Images times reservoirs of the paper's experiment."""
IMAGE_NODE_STEPS = N * M * PROTOCOL.n_steps
_MOST_SAMPLES = PAPER_IMAGES // 3


def measure(
    names: Sequence[str] | None = None,
    *,
    seconds: float = 2.0,
    rounds: int = 3,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measures the named engines, or all that can run here. The result is one JSON object.

    Each engine is warmed up, then does as many samples as take it about `seconds`, `rounds` times, in turn with the
    others. `report` is told what is being measured. `speeds` of the result has a row for each engine that ran, fastest
    first, and `absent` says why the others did not.
    """
    seconds, rounds = check_positive("seconds", seconds), check_integer("rounds", rounds, 1, 1000)
    found = engines()
    names = tuple(found) if names is None else tuple(names)
    for name in names:
        if name not in found:
            raise invalid("names", f"be among {', '.join(found)}", repr(name))
    samples: dict[str, int] = {}
    for name in names:
        if found[name].can_run:
            report(f"{name}: warming up")
            samples[name] = _samples_in(name, seconds)
    taken: dict[str, list[float]] = {name: [] for name in samples}
    for number in range(rounds):
        for name in samples:
            report(f"{name}: round {number + 1} of {rounds}")
            taken[name].append(_time(name, samples[name]))
    speeds = [speed(name, found[name].note, samples[name], taken[name]) for name in samples]
    return {
        "machine": describe(),
        "size": {"N": N, "M": M, "n_steps": PROTOCOL.n_steps, "paper_images": PAPER_IMAGES},
        "speeds": sorted(speeds, key=lambda row: row["paper_seconds"]),
        "absent": {name: found[name].note for name in names if not found[name].can_run},
    }


def speed(engine: str, runs_on: str, samples: int, seconds: Sequence[float]) -> dict[str, Any]:
    """An engine's row: what was measured in each round, and what follows from the median.

    An image is one sample through one reservoir, from input to moments. The meanfield engine takes no steps.
    """
    images = samples / median(seconds)
    return {
        "engine": engine,
        "runs_on": runs_on,
        "samples": samples,
        "seconds": list(seconds),
        "images_per_second": images,
        "node_steps_per_second": None if engine == "meanfield" else images * IMAGE_NODE_STEPS,
        "paper_seconds": PAPER_IMAGES / images,
    }


def _time(name: str, samples: int) -> float:
    """Seconds from inputs to moments."""
    reservoir = Reservoir.draw(N, D, seed=20260611)
    # The speed does not depend on what is in the images: some of about MNIST's brightness, over and over.
    inputs = np.resize(np.random.default_rng(0).random((256, D)) * 0.26, (samples, D))
    protocol = Protocol(n_replicas=math.inf) if name == "meanfield" else PROTOCOL
    start = time.perf_counter()
    simulate(reservoir, inputs, protocol, engine=name)
    return time.perf_counter() - start


def _samples_in(name: str, seconds: float) -> int:
    """Samples that take about `seconds`. The first run also compiles, so it does not count."""
    _time(name, 1)
    samples = 1
    while (elapsed := _time(name, samples)) < seconds / 4 and samples < _MOST_SAMPLES:
        samples = min(samples * 4, _MOST_SAMPLES)
    return max(1, min(round(samples * seconds / elapsed), _MOST_SAMPLES))
