"""The referee at the paper's size: its gain over plain sampling, and whether it is right at strong coupling.

    python studies/referee.py --out studies/results/referee.json [--engine cuda] [--samples 2]

For every strength of the coupling: the variance of plain sampling as a multiple of the referee's, the error of
`meanfield` that it finds, and the difference from plain sampling with 131072 replicas in standard errors.
"""

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import thermoment as tm
from thermoment._support.host import environment

ORDERS = (1, 2, 4)
PLAIN_REPLICAS = 131072


def point(s_W: float, n_samples: int, engine: str) -> dict[str, Any]:
    """One strength of the coupling, on random images of 784 pixels a fifth of which are bright."""
    rng = np.random.default_rng(7)
    inputs = rng.uniform(0, 1, (n_samples, 784)) * (rng.uniform(0, 1, (n_samples, 784)) < 0.2)
    reservoir = tm.Reservoir.draw(256, 784, s_W=s_W, s_K=3.0, seed=20260611)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tm.referee(reservoir, inputs, tm.Protocol(orders=ORDERS), engine=engine, batches=16)
    protocol = tm.Protocol(orders=(1, 2, 4, 8), n_replicas=PLAIN_REPLICAS, seed=1)
    plain = tm.simulate(reservoir, inputs, protocol, engine=engine)
    row: dict[str, Any] = {"s_W": s_W, "gain": found.gain, "meanfield error": found.error}
    row["resolution"], row["meanfield's own estimate"] = found.resolution, found.meanfield.info.error
    row["mean squared z"], row["largest z"] = {}, {}
    for k, p in enumerate(ORDERS):
        error = np.hypot(found.standard_error[:, k], plain.standard_error(p))
        z = (found.moments[:, k] - plain.order(p)) / error
        row["mean squared z"][p], row["largest z"][p] = float(np.mean(z**2)), float(np.abs(z).max())
    row["expected largest z"] = math.sqrt(2 * math.log(z.size))
    return row


def main() -> None:
    """Writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--commit", default="")
    chosen = parser.parse_args()
    rows = [point(s_W, chosen.samples, chosen.engine) for s_W in (0.1, 0.2, 1.0, 2.0)]
    facts = {"environment": environment(chosen.engine), "commit": chosen.commit, "samples": chosen.samples}
    chosen.out.write_text(json.dumps({**facts, "points": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
