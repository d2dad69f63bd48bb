"""All readouts of the paper's experiment as a run fits them, twice: with compiling, and again.

    python benchmarks/readouts.py [--data-dir DIR] [--out benchmarks/results/runs-NAME.json]

The features are powers of tanh h of drawn reservoirs with a little noise. Times are from the start.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray

import thermoment as tm
from thermoment import data
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.learning.fit import Standardised, fit_converged, fit_sgd
from thermoment.learning.options import Sgd
from thermoment.learning.readout import Readout
from thermoment.results.naming import paper_models
from thermoment.runs.fits import columns, fits_at_once, fitting_order

HERE = Path(__file__).parent
SIZES = {"K1": 256, "K2": 256, "K3": 256}
ORDERS = (1, 2, 4)


def main() -> None:
    """Fits everything twice, and says when each part was done and whether the bytes are the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir")
    parser.add_argument("--commit", help="of the code, where the folder is no checkout")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    mnist = data.load("mnist", options.data_dir)
    x, y = mnist.x_train, mnist.y_train
    drives = [tm.Reservoir.draw(n, x.shape[1], seed=k).drive(x) for k, n in enumerate(SIZES.values())]
    features = np.concatenate([np.tanh(h).astype(np.float32) ** p for h in drives for p in ORDERS], axis=1)
    features += np.random.default_rng(0).normal(0, 0.02, features.shape).astype(np.float32)
    models = [model for model in paper_models(list(SIZES), ORDERS) if model.fusion == "feature"]
    chosen = [columns(model, SIZES, ORDERS) for model in models]

    def fit() -> tuple[dict[str, float], list[NDArray[np.float64]]]:
        start, used, seconds = time.perf_counter(), time.process_time(), {}

        def done(what: str) -> None:
            seconds[what] = round(time.perf_counter() - start, 3)
            seconds[f"{what}, processor"] = round(time.process_time() - used, 3)

        every = Standardised.of(features)
        every.x.block_until_ready()
        done("features standardised")

        def read_pixels() -> list[Readout]:
            raw = Standardised.of(x)
            (pixels,) = fit_sgd(raw, y, [np.arange(x.shape[1])], Sgd())
            done("raw pixels by SGD")
            last = fit_converged(raw, y, start=pixels)
            done("raw pixels to convergence")
            return [pixels, last]

        with ThreadPoolExecutor(fits_at_once()) as pool:
            early = pool.submit(read_pixels) if jax.default_backend() == "cpu" else None
            by_sgd = fit_sgd(every, y, chosen, Sgd())
            done("nine by SGD")

            def converge(k: int) -> Readout:
                return fit_converged(every.some(chosen[k]), y, start=by_sgd[k])

            order = fitting_order([len(indices) for indices in chosen])
            begun = {k: pool.submit(converge, k) for k in order}
            of_pixels = early.result() if early else read_pixels()
            converged = [begun[k].result() for k in range(len(chosen))]
            done("nine to convergence")
        return seconds, [readout.weights for readout in (*by_sgd, *converged, *of_pixels)]

    (first, before), (again, after) = fit(), fit()
    same = all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    machine = describe(checkout=HERE) | ({"commit": options.commit} if options.commit else {})
    found = {"machine": machine, "seconds": {"first": first, "again": again}, "same bytes": same}
    print(json.dumps(found, indent=1))
    if options.out:
        write_json(options.out, found)


if __name__ == "__main__":
    main()
