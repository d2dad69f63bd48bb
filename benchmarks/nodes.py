"""Networks of many sizes: thermoment beside what one would write without it, and the product W x alone.

    python benchmarks/nodes.py --device gpu [--nodes 64 256] [--rounds 3] [--out benchmarks/results/nodes-NAME.json]

Every number of nodes is a process of its own. On a GPU all of them first get ready: they compile, and every contestant
shows that it computes the right moments (agreement.py). Then they measure, one process after the other, and in each the
contestants in turn, from drives to moments. On a CPU, where large networks would take hours to show that, each
process runs by itself, and peers.py has shown it at the paper's size.

The product alone is rows of replicas times W, as fast as the device has it: on a GPU in half precision by the vendor's
library, with x from memory; on a CPU the instruction of the native engine on numbers in registers (limits.py). Sizes
that the file has and that are not asked for stay in it.
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

import jax
import numpy as np
import problem
from agreement import Agreement, DisagreementError
from limits import cpu_product, rate
from peers import ENTRIES

from thermoment._support.files import write_json
from thermoment._support.host import describe

HERE = Path(__file__).parent
NODES = (64, 128, 256, 512, 1024, 2048, 4096)
PRODUCT = "product alone"
# Node-steps in a round, at 256 nodes: about a second. The first leads.
WORK = {
    "gpu": {"cuda": 2e11, "xla": 5e10, "JAX loop": 2.5e10, "PyTorch compiled, TF32": 2.5e10},
    "cpu": {"native": 6e8, "xla": 3e8, "JAX loop": 2e8, "PyTorch eager": 1.5e8},
}


def size(device: str, name: str) -> tuple[int, int]:
    """Samples and steps of a round. On a CPU, where one sample of a large network takes long, it has fewer steps."""
    work, cells = WORK[device][name], problem.N * problem.M
    if device == "gpu":
        whole = 2**24 // cells if name == "xla" else 16  # samples in a tile
        return whole * max(1, round(work / (cells * problem.PROTOCOL.n_steps) / whole)), problem.PROTOCOL.n_steps
    samples = max(2, round(work / (cells * problem.PROTOCOL.n_steps)))  # a core each, at least
    return samples, int(np.clip(work * 256 / problem.N / (cells * samples), 200, problem.PROTOCOL.n_steps))


def gpu_product() -> Callable[[], float]:
    """A function that multiplies x of many replicas by W in half precision, and returns node-steps per second."""
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


def product_alone(device: str) -> Callable[[], float]:
    """A function that returns the node-steps per second of the product alone."""
    if device == "gpu":
        return gpu_product()
    multiply = cpu_product()
    return lambda: rate(multiply, 0.3) / problem.N


def contestants(device: str, only: list[str]) -> dict[str, problem.Contestant]:
    """Those that are asked for and can run here, by name."""
    found = {}
    for entry in ENTRIES[device]:
        if entry.name in only:
            try:
                found[entry.name] = entry.get()
            except ImportError as why:
                print(f"{entry.name} is left out: {why}", file=sys.stderr)
    return found


def agreed(found: dict[str, problem.Contestant]) -> dict[str, float]:
    """How far each contestant on a GPU is off, in standard errors; raises where that is too far."""
    agreement, off = Agreement.with_engine(next(iter(found))), {}
    for name, run in found.items():  # as many samples as will be timed: what is compiled for a size is compiled once
        samples, n_steps = size("gpu", name)
        copies = samples if name not in ("cuda", "xla") else 16
        off[name] = agreement.distance(
            np.asarray(run(np.repeat(problem.drives(1), copies, axis=0), n_steps), np.float64)
        )
        if not off[name] < agreement.limit:
            raise DisagreementError(f"{name} is {off[name]:.1f} standard errors off, {agreement.limit} are allowed.")
    return off


def measure(device: str, rounds: int, only: list[str], *, unchecked: bool) -> dict[str, Any]:
    """All contestants at one number of nodes: node-steps per second in every round."""
    found = contestants(device, only)
    sizes = {name: size(device, name) for name in found}
    off = {} if unchecked else agreed(found)
    if unchecked:
        for name, run in found.items():  # compiles
            run(problem.drives(sizes[name][0]), 2)
    alone = product_alone(device) if PRODUCT in only else None
    rates: dict[str, list[float]] = {name: [] for name in (*found, *([PRODUCT] if alone else []))}
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(rounds):
        for name, run in found.items():
            samples, n_steps = sizes[name]
            h = problem.drives(samples)
            start = time.perf_counter()
            run(h, n_steps)
            rates[name].append(samples * problem.M * problem.N * n_steps / (time.perf_counter() - start))
        if alone:
            rates[PRODUCT].append(alone())
    leader = next(iter(found))
    return {
        "nodes": problem.N,
        "standard_errors_off": off,
        "samples_and_steps": sizes,
        "node_steps_per_second": {name: median(own) for name, own in rates.items()},
        "rounds": rates,
        f"{leader}_is_faster_by": _ratios(rates, leader),
        "xla_is_faster_by": _ratios(rates, "xla"),
    }


def _ratios(rates: dict[str, list[float]], first: str) -> dict[str, float]:
    """The median over rounds of the ratio within a round."""
    return {
        name: median(a / b for a, b in zip(rates[first], own, strict=True))
        for name, own in rates.items()
        if name != first
    }


class Size:
    """A process for one number of nodes. It gets ready by itself and measures when it is told to."""

    def __init__(self, nodes: int) -> None:
        command = [sys.executable, __file__, *sys.argv[1:], "--one"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.nodes = nodes
        self._process = subprocess.Popen(command, env=os.environ | {"NODES": str(nodes)}, **pipes)

    def wait(self) -> bool:
        """Until it is ready; False where it cannot be."""
        assert self._process.stdout
        return bool(self._process.stdout.readline() == "ready\n")

    def measured(self) -> dict[str, Any] | None:
        printed, _ = self._process.communicate("go\n")
        return None if self._process.returncode else json.loads(printed.splitlines()[-1])


def main() -> None:
    """Starts a process for every number of nodes; prints a table and writes the JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=WORK, required=True)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="the contestant that leads, xla, and others")
    parser.add_argument("--unchecked", action="store_true", help="where an earlier run on the GPU has shown agreement")
    parser.add_argument("--commit", help="of the code, where the folder is no checkout")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    if options.one:
        unchecked = options.unchecked or options.device == "cpu"
        only = options.only or [*WORK[options.device], PRODUCT]
        print(json.dumps(measure(options.device, options.rounds, only, unchecked=unchecked)))
        return
    machine = describe("torch", "cupy-cuda13x", checkout=HERE)
    if options.commit:
        machine["commit"] = options.commit
    before = json.loads(options.out.read_text())["sizes"] if options.out and options.out.exists() else []
    sizes: dict[int, dict[str, Any]] = {row["nodes"]: row for row in before}
    started: list[Size] = []
    if options.device == "gpu":  # together: getting ready takes a core each, and most of the time
        started = [Size(nodes) for nodes in options.nodes]
        for one in started:
            one.wait()
    for k, nodes in enumerate(options.nodes):
        if options.device == "gpu":
            found = started[k].measured()
        else:
            alone = Size(nodes)
            found = alone.measured() if alone.wait() else None
        if found is None:
            print(f"N = {nodes}: no result", flush=True)
            continue
        sizes[nodes] = found | {"machine": machine}
        row = found["node_steps_per_second"]
        print(f"N = {nodes}: " + ", ".join(f"{name} {rate:.3g}" for name, rate in row.items()), flush=True)
        if options.out:
            ordered = [sizes[n] for n in sorted(sizes)]
            result = {"device": options.device, "replicas": problem.M, "sizes": ordered}
            write_json(options.out, result)


if __name__ == "__main__":
    main()
