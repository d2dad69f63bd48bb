"""Steps of `native` in large networks beside the instruction of W x alone, without the start of a call.

    python benchmarks/native_steps.py [--out benchmarks/results/native-steps-NAME.json]

A step is the time of many steps less that of few; each round has both, and the instruction alone.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from limits import cpu_product, rate

import thermoment as tm
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment._support.threads import cores

STEPS = {1024: (200, 1000), 4096: (20, 100)}
REPLICAS, ROUNDS = 128, 5


def main() -> None:
    """Measures, prints and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    multiply, found = cpu_product(), {}
    for nodes, (few, many) in STEPS.items():
        reservoir, inputs = tm.Reservoir.draw(nodes, 16, seed=1), np.random.default_rng(0).random((cores(), 16))

        def seconds(steps: int, reservoir: tm.Reservoir = reservoir, inputs: Any = inputs) -> float:
            protocol = tm.Protocol(dt=1e-3, t_final=steps * 1e-3, n_replicas=REPLICAS)
            start = time.perf_counter()
            tm.simulate(reservoir, inputs, protocol, engine="native")
            return time.perf_counter() - start

        seconds(2)
        rounds = []
        for _ in range(ROUNDS):
            short, long = seconds(few), seconds(many)
            step = (long - short) / (many - few)
            products = cores() * REPLICAS * nodes**2 / step
            alone = rate(multiply, 1.0)
            rounds.append(
                {"step": step, "start": short - few * step, "products_per_second": products, "alone": alone / products}
            )
        found[nodes] = {"rounds": rounds, "alone_is_faster_by": median(one["alone"] for one in rounds)}
        print(f"N = {nodes}: " + ", ".join(f"{one['alone']:.2f}" for one in rounds), flush=True)
    if options.out:
        write_json(options.out, {"machine": describe(checkout=Path(__file__).parent), "nodes": found})


if __name__ == "__main__":
    main()
