"""Networks of many sizes on a GPU: thermoment beside a plain loop in JAX and in PyTorch, and the product W x alone.

    python benchmarks/nodes.py [--nodes 64 256 1024] [--rounds 3] [--out benchmarks/results/nodes-NAME.json]

Every number of nodes is a process of its own, in which all contestants first show that they compute the right moments
(agreement.py) and then run in turn, from drives to moments. The product alone is by the vendor's library, in half
precision, rows of replicas times W: no engine that multiplies in half precision can be faster. Sizes that the file has
and that are not asked for stay in it.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch wants some of the GPU's memory too

import numpy as np
import problem
from agreement import Agreement, DisagreementError
from peers import ENTRIES

from thermoment._support.files import write_whole
from thermoment._support.host import describe

HERE = Path(__file__).parent
NODES = (64, 128, 256, 512, 1024, 2048, 4096)
CONTESTANTS = ("cuda", "xla", "JAX loop", "PyTorch compiled, TF32")
PRODUCT = "half-precision product alone"
# Node-steps in a round: some seconds.
WORK = {"cuda": 4e11, "xla": 1e11, "JAX loop": 5e10, "PyTorch compiled, TF32": 5e10}


def sample_count(name: str) -> int:
    """As many as take a contestant about a second, in whole tiles."""
    return 16 * max(1, round(WORK[name] / (problem.N * problem.M * problem.PROTOCOL.n_steps) / 16))


def product_alone() -> Callable[[], float]:
    """A function that multiplies x of many replicas by W, and returns node-steps per second."""
    import cupy

    rows, repeats = 2**24 // problem.N, 4_000_000 // problem.N  # a fraction of a second
    x = cupy.random.standard_normal((rows, problem.N), np.float32).astype(np.float16)
    W, out = cupy.asarray(problem.W.T.astype(np.float16)), cupy.empty_like(x)

    def run() -> float:
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            cupy.matmul(x, W, out=out)
        cupy.cuda.Device().synchronize()
        return float(rows * problem.N * repeats / (time.perf_counter() - start))

    run()
    return run


def measure(rounds: int) -> dict[str, Any]:
    """All contestants at one number of nodes: node-steps per second in every round."""
    found = {entry.name: entry.get() for entry in ENTRIES["gpu"] if entry.name in CONTESTANTS}
    n_steps = problem.PROTOCOL.n_steps
    agreement = Agreement.with_engine("cuda")
    drives = {name: problem.drives(sample_count(name)) for name in found}
    off = {}
    for name, run in found.items():  # as many samples as will be timed: what is compiled for a size is compiled once
        copies = len(drives[name]) if name not in ("cuda", "xla") else 16
        off[name] = agreement.distance(
            np.asarray(run(np.repeat(problem.drives(1), copies, axis=0), n_steps), np.float64)
        )
        if not off[name] < agreement.limit:
            raise DisagreementError(f"{name} is {off[name]:.1f} standard errors off, {agreement.limit} are allowed.")
    alone = product_alone()
    rates: dict[str, list[float]] = {name: [] for name in (*found, PRODUCT)}
    for _ in range(rounds):
        for name, run in found.items():
            start = time.perf_counter()
            run(drives[name], n_steps)
            rates[name].append(len(drives[name]) * problem.M * problem.N * n_steps / (time.perf_counter() - start))
        rates[PRODUCT].append(alone())
    return {
        "nodes": problem.N,
        "standard_errors_off": off,
        "samples": {name: len(h) for name, h in drives.items()},
        "node_steps_per_second": {name: median(own) for name, own in rates.items()},
        "rounds": rates,
        "cuda_is_faster_by": _ratios(rates, "cuda"),
        "xla_is_faster_by": _ratios(rates, "xla"),
    }


def _ratios(rates: dict[str, list[float]], first: str) -> dict[str, float]:
    """The median over rounds of the ratio within a round."""
    return {
        name: median(a / b for a, b in zip(rates[first], own, strict=True))
        for name, own in rates.items()
        if name != first
    }


def main() -> None:
    """Starts a process for every number of nodes; prints a table and writes the JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit", help="of the code, where the folder is no checkout")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.rounds)))
        return
    machine = describe("torch", "cupy-cuda13x", checkout=HERE)
    if options.commit:
        machine["commit"] = options.commit
    before = json.loads(options.out.read_text())["sizes"] if options.out and options.out.exists() else []
    sizes: dict[int, dict[str, Any]] = {row["nodes"]: row for row in before}
    for nodes in options.nodes:
        command = [sys.executable, __file__, "--one", "--rounds", str(options.rounds)]
        done = subprocess.run(command, env=os.environ | {"NODES": str(nodes)}, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"N = {nodes}: no result", flush=True)
            continue
        sizes[nodes] = json.loads(done.stdout.splitlines()[-1]) | {"machine": machine}
        row = sizes[nodes]["node_steps_per_second"]
        print(f"N = {nodes}: " + ", ".join(f"{name} {rate:.3g}" for name, rate in row.items()), flush=True)
        if options.out:
            ordered = [sizes[n] for n in sorted(sizes)]
            result = {"replicas": problem.M, "steps": problem.PROTOCOL.n_steps, "sizes": ordered}
            write_whole(options.out, (json.dumps(result, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
