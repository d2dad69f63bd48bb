"""The paper's sampling on the GPU, from inputs to moments: 70000 images through three reservoirs, by every way to
multiply by W that `cuda` has.

    python benchmarks/products.py [--rounds 2] [--data-dir DIR] [--out benchmarks/results/products-NAME.json]
"""

import argparse
import time
from pathlib import Path

import numpy as np

import thermoment as tm
from thermoment import data
from thermoment._engines.cuda import Cuda
from thermoment._support.files import write_json
from thermoment._support.host import describe

HERE = Path(__file__).parent

PRODUCTS = ("wgmma", "mma", "mma, W in global memory")
S_W = (0.1, 0.1, 0.2)


def main() -> None:
    """Warms every product up, then times all in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    mnist = data.load("mnist", options.data_dir)
    images = np.concatenate([mnist.x_train, mnist.x_test])
    reservoirs = [tm.Reservoir.draw(256, images.shape[1], seed=k, stream=k, s_W=s_W) for k, s_W in enumerate(S_W)]
    seconds: dict[str, list[float]] = {product: [] for product in PRODUCTS}
    for product in PRODUCTS:
        tm.simulate(reservoirs[0], images[:1320], engine=Cuda(product))
    for _ in range(options.rounds):
        for product in PRODUCTS:
            begin = time.perf_counter()
            for reservoir in reservoirs:
                tm.simulate(reservoir, images, engine=Cuda(product))
            seconds[product].append(time.perf_counter() - begin)
            print(f"{product}: {seconds[product][-1]:.2f} s", flush=True)
    result = {"machine": describe("cupy-cuda13x", checkout=HERE), "images": len(images), "s_W": S_W, "seconds": seconds}
    if options.out:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
