"""How the time of an engine grows with samples, replicas, nodes and steps: one of them varied at a time.

    python benchmarks/scaling.py native [--rounds 3] [--out benchmarks/results/scaling-NAME.json]

The others stay at the paper's size; samples at a number that keeps the engine busy. Rounds go through all points in
turn, and a point's time is the median over rounds.
"""

import argparse
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

import thermoment as tm
from thermoment._support.files import write_json
from thermoment._support.host import describe

HERE = Path(__file__).parent

DT = 1e-3


@dataclass(frozen=True)
class Point:
    """The size of a task."""

    samples: int
    replicas: int = 128
    nodes: int = 256
    steps: int = 1000

    @property
    def node_steps(self) -> int:
        return self.samples * self.replicas * self.nodes * self.steps


BUSY = {"reference": 1, "xla": 8, "native": 8, "cuda": 5280}
"""Samples at which an engine is busy for a fraction of a second."""


def scans(engine: str) -> dict[str, list[Point]]:
    """The points of each scan, by what is varied; the middle of each is the same point."""
    base = Point(BUSY[engine])
    return {
        "samples": [replace(base, samples=S) for S in sorted({max(1, base.samples * 2**k // 64) for k in range(10)})],
        "replicas": [replace(base, replicas=128 * 2**k // 16) for k in range(8)],
        "nodes": [replace(base, nodes=n) for n in (4, 16, 32, 64, 128, 192, 256, 384, 512, 1024)],
        "steps": [replace(base, steps=1000 * 2**k // 16) for k in range(8)],
    }


def seconds(engine: str, point: Point) -> float:
    """From inputs to moments."""
    reservoir = tm.Reservoir.draw(point.nodes, 16, seed=1)
    inputs = np.random.default_rng(0).random((point.samples, 16))
    protocol = tm.Protocol(dt=DT, t_final=point.steps * DT, n_replicas=point.replicas)
    start = time.perf_counter()
    tm.simulate(reservoir, inputs, protocol, engine=engine)
    return time.perf_counter() - start


def main() -> None:
    """Warms every point up, measures all in turn, prints them, writes the JSON after every round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("engine", choices=BUSY)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    points = scans(options.engine)
    different = {point for scan in points.values() for point in scan}
    times: dict[Point, list[float]] = {point: [] for point in different}
    for point in sorted(different, key=lambda point: point.node_steps):
        seconds(options.engine, replace(point, steps=2))
    for _ in range(options.rounds):
        for point in different:
            times[point].append(seconds(options.engine, point))
        result = {
            "machine": describe("cupy-cuda13x", checkout=HERE),
            "engine": options.engine,
            "runs_on": tm.engines()[options.engine].note,
            "scans": {
                varied: [asdict(point) | {"seconds": median(times[point]), "rounds": times[point]} for point in scan]
                for varied, scan in points.items()
            },
        }
        if options.out:
            write_json(options.out, result)
    for varied, scan in points.items():
        for point in scan:
            taken = median(times[point])
            print(f"{varied} {getattr(point, varied):6}: {taken:8.4f} s, {point.node_steps / taken:.3g} node-steps/s")


if __name__ == "__main__":
    main()
