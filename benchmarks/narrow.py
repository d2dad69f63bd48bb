"""Readouts fitted to convergence on a processor: the products with all samples by XLA, and in C++.

    python benchmarks/narrow.py [--rounds 3] [--out benchmarks/results/narrow-NAME.json]

A fit of 60000 samples and ten classes for every number of features, on one core, the two ways in turn. The features are
those of a random network: correlated, as moments are. A ratio is the median over rounds of ratios within a round.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoment._engines import narrow, xla_calls
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.learning import fit
from thermoment.learning.fit import Standardised, fit_converged

HERE = Path(__file__).parent
SIZES = (256, 768, 2304)
CAN_CALL = xla_calls.can_call


def converge(features: Standardised, labels: NDArray[np.int64], in_cpp: bool) -> tuple[float, NDArray[np.float64]]:
    """Seconds of a fit that is compiled, and its weights."""
    setattr(narrow, "can_call", CAN_CALL if in_cpp else lambda: False)  # noqa: B010
    fit._converge.clear_cache()  # type: ignore[attr-defined]
    fit_converged(features, labels, l2=1.0)  # which compiles, and takes a few steps
    start = time.perf_counter()
    readout = fit_converged(features, labels)
    return time.perf_counter() - start, readout.weights


def main() -> None:
    """Fits readouts both ways, and says how much faster one is and how far apart they end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not CAN_CALL():
        parser.error("the C++ is not built, or JAX computes on a GPU")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(60_000, 60)).astype(np.float32)
    labels = (hidden @ rng.normal(size=(60, 10)) + rng.normal(size=(60_000, 10))).argmax(axis=1)
    rows = []
    for size in SIZES:
        mix = rng.normal(size=(60, size)).astype(np.float32) / 8
        features = Standardised.of(np.tanh(hidden @ mix + rng.normal(size=size).astype(np.float32)))
        times = []
        for _ in range(options.rounds):
            (before, theirs), (now, ours) = (converge(features, labels, in_cpp) for in_cpp in (False, True))
            times.append((before, now))
        rows.append(
            {
                "features": size,
                "seconds with XLA": round(statistics.median(before for before, _ in times), 2),
                "seconds in C++": round(statistics.median(now for _, now in times), 2),
                "faster by": round(statistics.median(before / now for before, now in times), 2),
                "largest difference of a weight": float(np.abs(theirs - ours).max()),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        write_json(options.out, {"machine": describe(checkout=HERE), "rounds": options.rounds, "fits": rows})


if __name__ == "__main__":
    main()
