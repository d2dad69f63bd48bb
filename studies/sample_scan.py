"""Samples the accuracy scan and keeps what accuracy.py needs: minutes on one GPU, in one call or several.

    python studies/sample_scan.py SAMPLES.npz [--seconds 350] [--engine cuda]

Every image of every point is sampled in 16 batches of 8192 replicas. Uncoupled nodes at the effective drives h + W <x>
are sampled with the same noise: their moments are known, and the error of their samples, Euler's bias included, is
nearly that of the coupled nodes. The file keeps the means over batches and the scatter of the batches. Points that the
file already has are not sampled again.
"""

import argparse
import io
import time
from pathlib import Path

import numpy as np
from scan import EYE, KINDS, S_W, Array, Point, points

import thermoment as tm
from thermoment._support.files import write_whole

BATCHES, REPLICAS = 16, 8192
PILOT = 1024
"""Replicas from which the effective drives are found."""


def sampled(point: Point, reservoir: tm.Reservoir, engine: str, replicas: int, seed: int) -> Array:
    """Moments of each batch: (images, batches, orders, N)."""
    inputs = np.repeat(EYE, BATCHES, axis=0)
    moments = tm.simulate(reservoir, inputs, point.protocol(replicas, seed), engine=engine)
    return moments.raw.reshape(len(EYE), BATCHES, *moments.raw.shape[1:])


def sample(point: Point, engine: str, replicas: int, seed: int) -> dict[str, Array]:
    """What the file keeps of one point: means (images, orders, N), scatter (3, images, orders), drives (images, N)."""
    reservoir = point.reservoir()
    pilot = tm.simulate(reservoir, EYE, point.protocol(min(PILOT, replicas), seed + 1), engine=engine)
    h = reservoir.drive(EYE) + pilot.order(1) @ reservoir.W.T
    coupled = sampled(point, reservoir, engine, replicas, seed)
    # Without coupling both runs would be the same.
    alone = sampled(point, point.nodes(h), engine, replicas, seed) if point.s_W else coupled
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (coupled, alone))
    # Variances and covariance of the means over batches, averaged over nodes.
    scatter = np.stack([(x * y).sum(axis=1).mean(axis=-1) for x, y in ((a, a), (a, b), (b, b))])
    return {
        "coupled": coupled.mean(axis=1).astype(np.float32),
        "alone": alone.mean(axis=1).astype(np.float32),
        "scatter": scatter / (BATCHES * (BATCHES - 1)),
        "drive": h,
    }


def save(path: Path, found: dict[str, Array]) -> None:
    """Writes the file whole."""
    data = io.BytesIO()
    np.savez_compressed(data, **found)  # type: ignore[arg-type]
    write_whole(path, data.getvalue())


def main() -> None:
    """Samples until all points are done or the time is up; saves every half minute."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--seconds", type=float, default=np.inf, help="no point is begun later than this")
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--replicas", type=int, default=REPLICAS, help="of a batch; less for a trial")
    options = parser.parse_args()
    begin = saved = time.perf_counter()
    found = dict(np.load(options.samples)) if options.samples.exists() else {}
    found["replicas"] = np.array(BATCHES * options.replicas)
    todo = [(number, point) for number, point in enumerate(points()) if f"{point.key}/drive" not in found]
    for number, point in todo:
        if time.perf_counter() - begin > options.seconds:
            break
        for name, array in sample(point, options.engine, options.replicas, seed=2 * number).items():
            found[f"{point.key}/{name}"] = array
        now = time.perf_counter()
        if number % (len(S_W) * len(KINDS)) == 0:
            print(f"{now - begin:6.1f} s: {number} of {len(points())} points, at {point.key}", flush=True)
        if now - saved > 30:
            save(options.samples, found)
            saved = now
    save(options.samples, found)
    left = sum(f"{point.key}/drive" not in found for point in points())
    print(f"{time.perf_counter() - begin:.1f} s, {left} points left")


if __name__ == "__main__":
    main()
