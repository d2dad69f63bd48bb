"""The same work by thermoment and by what one would write without it: one run, checked, then timed in turn.

    python benchmarks/peers.py --device cpu [--rounds 5] [--out benchmarks/results/peers-NAME.json]

Contestants: loops in NumPy, JAX and PyTorch (eager and compiled), the libraries diffrax and torchsde, and the engines.
Each must first give the paper's moments within sampling error (agreement.py). Then all run in turn, several rounds, so
that a noisy machine disturbs them alike; a ratio is the median over rounds of ratios within a round.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch wants some of the GPU's memory too

import jax
import problem
from agreement import Agreement, DisagreementError

from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.bench import IMAGE_NODE_STEPS, PAPER_IMAGES, PROTOCOL, M, N

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A contestant: how to get it (it may be missing here), and how many samples keep its device busy for seconds."""

    name: str
    samples: int
    get: Callable[[], problem.Contestant]


def _contestant(file: str) -> Any:
    return import_module(f"contestants.{file}")


ENTRIES = {
    "cpu": (
        Entry("native", 48, lambda: problem.engine("native")),
        Entry("xla", 16, lambda: problem.engine("xla")),
        Entry("reference", 1, lambda: problem.engine("reference")),
        Entry("NumPy loop", 1, lambda: _contestant("numpy_loop").plain),
        Entry("NumPy loop, careful", 2, lambda: _contestant("numpy_loop").careful),
        Entry("JAX loop", 8, lambda: _contestant("jax_loop").compiled),
        Entry("PyTorch eager", 8, lambda: _contestant("pytorch_loop").eager("cpu")),
        Entry("PyTorch compiled", 4, lambda: _contestant("pytorch_loop").compiled("cpu")),
        Entry("diffrax", 8, lambda: _contestant("diffrax_ensemble").ensemble),
        Entry("torchsde", 4, lambda: _contestant("torchsde_batch").batch("cpu")),
    ),
    "gpu": (
        Entry("cuda", 42240, lambda: problem.engine("cuda")),
        Entry("xla", 2048, lambda: problem.engine("xla")),
        Entry("JAX loop", 2048, lambda: _contestant("jax_loop").compiled),
        Entry("PyTorch eager", 2048, lambda: _contestant("pytorch_loop").eager("cuda")),
        Entry("PyTorch eager, TF32", 2048, lambda: _contestant("pytorch_loop").eager("cuda", tf32=True)),
        Entry("PyTorch compiled", 2048, lambda: _contestant("pytorch_loop").compiled("cuda")),
        Entry("PyTorch compiled, TF32", 2048, lambda: _contestant("pytorch_loop").compiled("cuda", tf32=True)),
        Entry("diffrax", 2048, lambda: _contestant("diffrax_ensemble").ensemble),
        Entry("torchsde", 1024, lambda: _contestant("torchsde_batch").batch("cuda")),
    ),
}


def contestants(
    device: str, only: list[str] | None
) -> tuple[dict[str, tuple[problem.Contestant, int]], dict[str, str]]:
    """Those that can run, by name, with their samples; and why the others cannot."""
    found, absent = {}, {}
    for entry in ENTRIES[device]:
        if only and entry.name not in only:
            continue
        try:
            found[entry.name] = entry.get(), entry.samples
        except Exception as why:
            absent[entry.name] = repr(why)
    return found, absent


def seconds(run: problem.Contestant, samples: int, n_steps: int) -> float:
    """From the drive on the host to moments on the host."""
    h = problem.drives(samples)
    start = time.perf_counter()
    run(h, n_steps)
    return time.perf_counter() - start


def summary(times: dict[str, list[float]], samples: dict[str, int]) -> dict[str, Any]:
    """Per contestant its rate, and how many times as fast the first one is: the median of ratios within a round."""
    rates = {name: [samples[name] * IMAGE_NODE_STEPS / t for t in taken] for name, taken in times.items()}
    first = rates[next(iter(rates))]
    return {
        name: {
            "samples": samples[name],
            "seconds": times[name],
            "node_steps_per_second": median(own),
            "paper_seconds": PAPER_IMAGES * IMAGE_NODE_STEPS / median(own),
            "first_is_faster_by": median(a / b for a, b in zip(first, own, strict=True)),
        }
        for name, own in rates.items()
    }


def main() -> None:
    """Checks everything, times everything, prints a table, writes the JSON after every round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=ENTRIES, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="the engine that leads, and some others")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.device == "cpu":
        jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    found, absent = contestants(options.device, options.only)
    leader = next(iter(found))
    agreement = Agreement.with_engine(leader)
    print(f"a network 5 % too hot is {agreement.control():.0f} standard errors off, {agreement.limit} are allowed")
    off = {}
    for name, (run, samples) in list(found.items()):
        try:
            off[name] = agreement.check(name, run)
            seconds(run, samples, 2)  # compiles for this size
        except DisagreementError:
            raise
        except Exception as why:  # a library that does not work with the others here
            absent[name] = repr(why)
            del found[name]
        else:
            print(f"{name:24} agrees: {off[name]:.1f} standard errors off at the most", flush=True)
    times: dict[str, list[float]] = {name: [] for name in found}
    counts = {name: samples for name, (_, samples) in found.items()}
    for _ in range(options.rounds):
        for name, (run, samples) in found.items():
            times[name].append(seconds(run, samples, PROTOCOL.n_steps))
        result = {
            "machine": describe("torch", "diffrax", "torchsde", "cupy-cuda13x", checkout=HERE),
            "device": options.device,
            "size": {"N": N, "M": M, "n_steps": PROTOCOL.n_steps, "paper_images": PAPER_IMAGES},
            "agreement": agreement.facts() | {"standard_errors_off": off},
            "first": leader,
            "contestants": summary(times, counts),
            "absent": absent,
        }
        if options.out:
            write_json(options.out, result)
    for name, row in result["contestants"].items():
        print(
            f"{name:24} {row['node_steps_per_second']:9.3g} node-steps/s, the paper's experiment in "
            f"{row['paper_seconds']:9.3g} s; {leader} is {row['first_is_faster_by']:.2f} times as fast"
        )
    for name, reason in absent.items():
        print(f"{name:24} not here: {reason}")


if __name__ == "__main__":
    main()
