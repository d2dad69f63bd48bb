"""Speed of the deterministic engine: images, draws, gradients and tables, beside a PyTorch loop that samples.

    python benchmarks/meanfield.py [--out benchmarks/results/meanfield-NAME.json]

Images go through one reservoir of 256 nodes. The PyTorch loop runs where PyTorch is installed. The contestants run in
turn for several rounds; a ratio of two is the median over rounds of the ratio within a round, so that a noisy machine
disturbs both alike.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import thermoment as tm
from thermoment._engines.meanfield.network import moments_of_drive, node_curves
from thermoment._engines.meanfield.tables import build, node_tables
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.learning.finite_time.lookup import TrainingCurves, noisy_moments, training_curves

HERE = Path(__file__).parent

try:
    import torch  # type: ignore[import-not-found]
except ModuleNotFoundError:
    torch = None

N, M, D, ORDERS = 256, 128, 784, (1, 2, 4)
RESERVOIR = tm.Reservoir.draw(N, D, seed=20260611)
LIMIT, FINITE = tm.Protocol(n_replicas=math.inf), tm.Protocol(n_replicas=M)
# J2, kT, t_final and largest drive of the tables that are timed: the paper's, then extremes.
TABLES = (
    (1.0, 0.1, 1.0, 20.0),
    (1.0, 0.1, 1.0, 100.0),
    (1.0, 0.01, 0.01, 100.0),
    (1.0, 0.01, 1.0, 100.0),
    (1.0, 0.01, 100.0, 100.0),
    (1.0, 10.0, 1.0, 100.0),
    (-1.0, 0.01, 1.0, 100.0),
    (-1.0, 0.01, 100.0, 100.0),
    (-1.0, 10.0, 100.0, 100.0),
)
BATCH = 256
MEMORY_SAMPLES = 60_000


def images(S: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Noise of about MNIST's brightness, (S, D); the speed hardly depends on the images."""
    return np.random.default_rng(0).random((S, D)) * 0.26


def ours(protocol: tm.Protocol, inputs: Any) -> Any:
    """Moments by `meanfield`."""
    return tm.simulate(RESERVOIR, inputs, protocol, engine="meanfield").raw


def torch_loop(inputs: Any) -> Any:
    """Moments of M sampled replicas as one would write it in PyTorch, in float32."""
    dt, kT, clip = FINITE.dt, RESERVOIR.dynamics.kT, FINITE.clip
    W = torch.tensor(RESERVOIR.W.T, dtype=torch.float32)
    h = torch.tensor(RESERVOIR.drive(inputs), dtype=torch.float32)[:, None]
    x = torch.zeros(len(inputs), M, N)
    with torch.no_grad():
        for _ in range(FINITE.n_steps):
            force = -2 * x - 4 * x**3 + h + x @ W
            x = torch.clamp(x + dt * force + math.sqrt(2 * kT * dt) * torch.randn_like(x), -clip, clip)
    return torch.stack([(x**p).mean(dim=1) for p in ORDERS], dim=1).numpy()


def in_turn(contestants: dict[str, tuple[Callable[[Any], Any], int]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds for one image, per round."""
    inputs = {name: images(S) for name, (_, S) in contestants.items()}
    for name, (run, _) in contestants.items():
        if "torch" not in name:
            run(inputs[name])  # compile
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (run, S) in contestants.items():
            start = time.perf_counter()
            run(inputs[name])
            found[name].append((time.perf_counter() - start) / S * 1e3)
    return found


def training(rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds for one image of a batch of 256: moments, and moments with the gradient in h and W."""
    table, lean = node_tables(RESERVOIR.dynamics, 1.0, 20.0), training_curves(RESERVOIR.dynamics, 1.0, ORDERS)
    h, W = (jnp.asarray(a, jnp.float32) for a in (RESERVOIR.drive(images(BATCH)), RESERVOIR.W))
    ways: dict[str, tuple[Any, Any]] = {
        "whole": (moments_of_drive, node_curves(table, ORDERS)),
        "plain mean field": (moments_of_drive, node_curves(table, ORDERS, next_order=False)),
        "as training sees it": (as_trained, lean),
    }
    exact = np.asarray(moments_of_drive(h, W, ways["whole"][1]))
    found = {}
    for name, (function, one) in ways.items():
        forward = jax.jit(function)

        @jax.jit
        def both(h: jax.Array, W: jax.Array, one: Any, function: Any = function) -> Any:
            return jax.value_and_grad(lambda h, W: (function(h, W, one) ** 2).sum(), argnums=(0, 1))(h, W)

        seconds = {"forward": timed(forward, h, W, one, rounds=rounds), "both": timed(both, h, W, one, rounds=rounds)}
        off = np.sqrt(((np.asarray(forward(h, W, one)) - exact) ** 2).mean(axis=(0, 2)))
        found[name] = {key: value / BATCH * 1e3 for key, value in seconds.items()} | {
            "ratio": seconds["both"] / seconds["forward"],
            "distance": float(off.max()),
        }
    return found


def as_trained(h: jax.Array, W: jax.Array, one: TrainingCurves) -> jax.Array:
    """The moments that training reads, without shot noise: (S, orders, N)."""
    return jnp.stack(noisy_moments(h, [W], one, None, 0.0).moments, axis=1)


def timed(function: Any, *arguments: Any, rounds: int) -> float:
    """Median seconds of a compiled call."""
    jax.block_until_ready(function(*arguments))  # type: ignore[no-untyped-call]
    found = []
    for _ in range(4 * rounds):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))  # type: ignore[no-untyped-call]
        found.append(time.perf_counter() - start)
    return median(found)


def table_seconds() -> list[dict[str, float]]:
    """Seconds that tables take, built anew."""
    found = []
    for J2, kT, t_final, h_max in TABLES:
        start = time.perf_counter()
        build(tm.Dynamics(J2=J2, kT=kT), t_final, h_max)
        seconds = time.perf_counter() - start
        found.append({"J2": J2, "kT": kT, "t_final": t_final, "h_max": h_max, "seconds": seconds})
    return found


def peak_memory(n_replicas: str) -> dict[str, int]:
    """Bytes at the most for 60000 images, in a process of its own, beside what its inputs and its result take."""
    run = [sys.executable, __file__, "--memory-only", n_replicas]
    printed = subprocess.run(run, capture_output=True, check=True)
    return dict(json.loads(printed.stdout))


def memory_only(n_replicas: str) -> None:
    """Prints the peak before and after."""
    ours(LIMIT, images(1))
    inputs = images(MEMORY_SAMPLES)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    protocol = LIMIT if n_replicas == "inf" else tm.Protocol(n_replicas=int(n_replicas))
    result = ours(protocol, inputs)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    drives = MEMORY_SAMPLES * N * 8
    print(json.dumps({"before": before, "after": after, "result": result.nbytes, "drives": drives}))


def main() -> None:
    """Runs everything, prints it, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory-only", metavar="M", help="print the peak memory of 60000 images")
    options = parser.parse_args()
    if options.memory_only:
        memory_only(options.memory_only)
        return
    contestants: dict[str, tuple[Callable[[Any], Any], int]] = {
        "meanfield": (partial(ours, LIMIT), 10_000),
        f"meanfield, M = {M}": (partial(ours, FINITE), 10_000),
    }
    if torch is not None:
        contestants[f"torch loop, M = {M}"] = (torch_loop, 8)
    rates = in_turn(contestants, options.rounds)
    result: dict[str, Any] = {
        "machine": describe(checkout=HERE) | {"torch": torch.__version__ if torch else "none"},
        "milliseconds_per_image": {name: median(values) for name, values in rates.items()},
        "slowest_round": {name: max(values) for name, values in rates.items()},
        "times_meanfield": {
            name: median(theirs / mine for mine, theirs in zip(rates["meanfield"], values, strict=True))
            for name, values in rates.items()
        },
        "training_milliseconds_per_image": training(options.rounds),
        "tables": table_seconds(),
        "peak_memory_bytes": {n_replicas: peak_memory(n_replicas) for n_replicas in ("inf", str(M))},
    }
    print(json.dumps(result, indent=1))
    if options.out:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
