"""Peak memory of an engine on S = 1000 samples at the paper's N and M, in a process of its own.

python benchmarks/memory.py [xla]
"""

import argparse
import resource

import numpy as np

import thermoment as tm
from thermoment.bench import D, M, N

SAMPLES, LIMIT = 1000, 2 * 10**9


def main() -> None:
    """Prints the peak; fails where it is above two gigabytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("engine", nargs="?", default="xla")
    engine = parser.parse_args().engine
    images = np.random.default_rng(0).random((SAMPLES, D))
    # Few steps: the memory does not depend on their number.
    protocol = tm.Protocol(n_replicas=M, t_final=0.05)
    tm.simulate(tm.Reservoir.draw(N, D, seed=1), images, protocol, engine=engine)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{engine}: {peak / 1e9:.2f} GB at S = {SAMPLES}, M = {M}, N = {N}")
    if peak > LIMIT:
        raise SystemExit(f"more than {LIMIT / 1e9:.0f} GB")


if __name__ == "__main__":
    main()
