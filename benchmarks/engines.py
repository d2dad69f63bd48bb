"""Node-steps per second of the engines beside a plain NumPy loop and a plain JAX loop, and peak memory: one run.

    python benchmarks/engines.py [--out benchmarks/results/engines-NAME.json]

Every contestant runs the paper's size (N = 256, M = 128) in turn, several rounds, so that a noisy
machine disturbs all alike; a ratio is the median over rounds of ratios within a round.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from machine import describe

import thermoment as tm
from thermoment.engines.xla import Xla

N, M, D = 256, 128, 784
PROTOCOL = tm.Protocol(n_replicas=M)
RESERVOIR = tm.Reservoir.draw(N, D, seed=20260611)
DT, KT, CLIP = PROTOCOL.dt, RESERVOIR.dynamics.kT, PROTOCOL.clip
MEMORY_SAMPLES = 1000
MEMORY_LIMIT = 2 * 10**9


@cache
def images(S: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Noise of about MNIST's brightness; the speed does not depend on it."""
    return np.random.default_rng(0).random((S, D)) * 0.26


def numpy_loop(S: int, n_steps: int) -> Any:
    """As the equations stand, in NumPy's default float64."""
    rng = np.random.default_rng(PROTOCOL.seed)
    h = (images(S) @ RESERVOIR.K.T + RESERVOIR.b)[:, None]
    x = np.zeros((S, M, N))
    for _ in range(n_steps):
        force = -2 * x - 4 * x**3 + h + x @ RESERVOIR.W.T
        x = np.clip(x + DT * force + np.sqrt(2 * KT * DT) * rng.standard_normal(x.shape), -CLIP, CLIP)
    return np.stack([(x**p).mean(axis=1) for p in PROTOCOL.orders], axis=1)


def tuned_numpy_loop(S: int, n_steps: int) -> Any:
    """The same with care: float32, no general power, temporaries reused."""
    rng = np.random.default_rng(PROTOCOL.seed)
    W = (DT * RESERVOIR.W.T).astype(np.float32)
    moments = np.empty((S, len(PROTOCOL.orders), N))
    noise = np.empty((M, N), np.float32)
    for s, h in enumerate((DT * (images(S) @ RESERVOIR.K.T + RESERVOIR.b)).astype(np.float32)):
        x = np.zeros((M, N), np.float32)
        for _ in range(n_steps):
            rng.standard_normal(dtype=np.float32, out=noise)
            noise *= np.float32(np.sqrt(2 * KT * DT))
            noise += h
            noise += x @ W
            x += x * (np.float32(-2 * DT) - np.float32(4 * DT) * x * x)
            x += noise
            np.clip(x, -CLIP, CLIP, out=x)
        moments[s] = [(x**p).mean(axis=0) for p in PROTOCOL.orders]
    return moments


@jax.jit
def _jax_loop(h: jax.Array, W: jax.Array, key: jax.Array, n_steps: int) -> jax.Array:
    def step(n: jax.Array, x: jax.Array) -> jax.Array:
        force = -2 * x - 4 * x**3 + h[:, None] + x @ W.T
        noise = jax.random.normal(jax.random.fold_in(key, n), x.shape)
        return jnp.clip(x + DT * force + jnp.sqrt(2 * KT * DT) * noise, -CLIP, CLIP)

    x = jax.lax.fori_loop(0, n_steps, step, jnp.zeros((h.shape[0], M, N)))
    return jnp.stack([(x**p).mean(axis=1) for p in PROTOCOL.orders], axis=1)


def jax_loop(S: int, n_steps: int) -> Any:
    """As JAX's documentation would have it written: jit, fori_loop, jax.random."""
    h = images(S) @ RESERVOIR.K.T + RESERVOIR.b
    return np.asarray(_jax_loop(jnp.asarray(h), jnp.asarray(RESERVOIR.W), jax.random.key(PROTOCOL.seed), n_steps))


def engine(which: Any) -> Callable[[int, int], Any]:
    """A contestant that is one of ours."""

    def run(S: int, n_steps: int) -> Any:
        protocol = tm.Protocol(n_replicas=M, t_final=n_steps * DT)
        return tm.simulate(RESERVOIR, images(S), protocol, engine=which).raw

    return run


# Samples that keep XLA's device busy for a second or so.
BUSY = 16 if jax.default_backend() == "cpu" else 2048
# Name, function, samples per round.
CONTESTANTS: dict[str, tuple[Callable[[int, int], Any], int]] = {
    "numpy loop": (numpy_loop, 1),
    "tuned numpy loop": (tuned_numpy_loop, 1),
    "jax loop": (jax_loop, BUSY // 2),
    "reference": (engine("reference"), 1),
    "xla": (engine("xla"), BUSY),
    "xla float64": (engine(Xla("float64")), BUSY // 2),
    **{name: (engine(name), S) for name, S in (("native", 32), ("cuda", 21120)) if tm.engines()[name].can_run},
}


def agreement() -> dict[str, float]:
    """Largest distance of each contestant's m1 from the reference's, in standard errors of the difference.

    The same noise for the engines, other noise for the loops: all must stay below 5.5 (once in 1e5 runs of 256 nodes).
    """
    found = {name: run(1, PROTOCOL.n_steps) for name, (run, _) in CONTESTANTS.items()}
    m1, m2, _ = found["reference"][0]
    error = np.sqrt(2 * (m2 - m1**2) / M)
    off = {name: float(np.abs((moments[0, 0] - m1) / error).max()) for name, moments in found.items()}
    assert max(off.values()) < 5.5, off
    return off


def speeds(rounds: int) -> dict[str, list[float]]:
    """Node-steps per second, per round."""
    n_steps = PROTOCOL.n_steps
    rates: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for name, (run, S) in CONTESTANTS.items():
        run(S, n_steps if "jax" in name or "xla" in name else 2)  # compile
    for _ in range(rounds):
        for name, (run, S) in CONTESTANTS.items():
            start = time.perf_counter()
            run(S, n_steps)
            rates[name].append(S * M * N * n_steps / (time.perf_counter() - start))
    return rates


def peak_memory() -> int:
    """Bytes that S = 1000, M = 128, N = 256 take at the most, in a process of their own."""
    printed = subprocess.run([sys.executable, __file__, "--memory-only"], capture_output=True, check=True)
    return int(printed.stdout)


def main() -> None:
    """Runs everything, prints a table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory-only", action="store_true", help="print the peak memory of one large run")
    options = parser.parse_args()
    if options.memory_only:
        engine("xla")(MEMORY_SAMPLES, 50)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    off = agreement()
    rates = speeds(options.rounds)
    xla = rates["xla"]
    result: dict[str, Any] = {
        "machine": describe(),
        "size": {"N": N, "M": M, "n_steps": PROTOCOL.n_steps},
        "node_steps_per_second": {name: median(values) for name, values in rates.items()},
        "xla_is_faster_by": {
            name: median(mine / theirs for mine, theirs in zip(xla, values, strict=True))
            for name, values in rates.items()
        },
        "distance_from_reference_in_standard_errors": off,
        "peak_memory_bytes": {"S": MEMORY_SAMPLES, "M": M, "N": N, "xla": peak_memory(), "limit": MEMORY_LIMIT},
    }
    for name, values in rates.items():
        print(f"{name:18} {median(values):9.3g} node-steps/s   xla is {result['xla_is_faster_by'][name]:5.2f} x")
    print(f"peak memory {result['peak_memory_bytes']['xla'] / 1e9:.2f} GB at S = {MEMORY_SAMPLES}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
