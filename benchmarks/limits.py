"""What this machine could do at best: the two parts of a node-step, each measured with the other left out.

    python benchmarks/limits.py [--seconds 0.5] [--rounds 3] [--out benchmarks/results/limits-NAME.json]

A node-step is a row of W x (N multiplications) and everything else: noise, well, drive, clip. No engine can be faster
than the slower of the two, and one that does them one after the other needs the sum of their times. On the CPU, W x is
the instruction of the native engine's product on numbers in registers (multiply.cpp; needs a C++ compiler), the rest
is that engine with four nodes, whose W x is next to nothing. On the GPU only W x can be measured from outside the
kernel: as a large product in half precision by the vendor's library.
"""

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import thermoment as tm
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment._support.threads import cores
from thermoment.bench import N

HERE = Path(__file__).parent


def cpu_product() -> Callable[[int], int]:
    """A function of n that does n portions of multiplications on all cores and returns how many that were."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "multiply.so"
        source = Path(__file__).with_name("multiply.cpp")
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
        multiply = ctypes.CDLL(str(library)).multiply_only
    multiply.argtypes, multiply.restype = [ctypes.c_uint64], ctypes.c_uint64

    def work(n: int) -> int:
        with ThreadPoolExecutor(cores()) as pool:
            return sum(pool.map(multiply, [1000 * n] * cores()))

    return work


def cpu_rest(n_steps: int) -> int:
    """Runs the native engine with four nodes on all cores, and returns how many node-steps that were."""
    four = tm.Reservoir(np.zeros((4, 4)), np.ones((4, 1)), np.zeros(4))
    protocol = tm.Protocol(dt=1e-6, t_final=n_steps * 1e-6, n_replicas=4096)
    tm.simulate(four, np.ones((cores(), 1)), protocol, engine="native")
    return cores() * 4096 * 4 * n_steps


def gpu_product(n: int) -> int:
    """Does n large products in half precision on the first GPU, and returns how many multiplications that were."""
    import cupy

    size = 8192
    with cupy.cuda.Device(0) as device:
        factor = cupy.random.random((size, size), np.float32).astype(np.float16)
        product = cupy.empty_like(factor)
        for _ in range(n):
            cupy.matmul(factor, factor, out=product)
        device.synchronize()
    return n * size**3


def rate(work: Callable[[int], int], seconds: float) -> float:
    """Units of work per second in a run of about `seconds`. `work(n)` does n portions and returns the units in them."""
    work(1)  # compiles
    n, elapsed = 1, 0.0
    while elapsed < seconds / 4:
        n *= 4
        start = time.perf_counter()
        work(n)
        elapsed = time.perf_counter() - start
    n = max(1, round(n * seconds / elapsed))
    start = time.perf_counter()
    units = work(n)
    return units / (time.perf_counter() - start)


def main() -> None:
    """Measures every part that can be measured here, several rounds in turn, and keeps the fastest round of each.

    Disturbance only slows, so the fastest round is nearest to the limit.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    status = tm.engines()
    parts: dict[str, tuple[Callable[[int], int], float]] = {}
    if status["native"].can_run:
        parts |= {"W x on the CPU": (cpu_product(), 1 / N), "the rest on the CPU": (cpu_rest, 1.0)}
    if status["cuda"].can_run:
        parts["W x on the first GPU"] = (gpu_product, 1 / N)
    best = dict.fromkeys(parts, 0.0)
    for _ in range(options.rounds):
        for name, (work, node_steps) in parts.items():
            best[name] = max(best[name], rate(work, options.seconds) * node_steps)
    for name, found in best.items():
        print(f"{name}: {found:.3g} node-steps/s at N = {N}")
    result = {"machine": describe("cupy-cuda13x", checkout=HERE), "N": N, "node_steps_per_second": best}
    if options.out:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
