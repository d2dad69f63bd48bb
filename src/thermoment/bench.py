"""How fast the engines are here: what can run, node-steps per second, share of the machine's limit, time for the paper.

The paper's size: N = 256 nodes, M = 128 replicas, 1000 steps. Its whole experiment is 70000 images through three
reservoirs, 6.88e12 node-steps.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from thermoment._engines.choice import engines
from thermoment._support.checks import check_integer, check_positive, invalid
from thermoment._support.host import describe
from thermoment.limits import Device, Limit, cpu_limit, gpu_limit
from thermoment.protocol import Protocol
from thermoment.report.formatting import duration
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

N, M, D = 256, 128, 784
PROTOCOL = Protocol(n_replicas=M)
PAPER_IMAGES = 70_000 * 3
"""Images times reservoirs of the paper's experiment."""
IMAGE_NODE_STEPS = N * M * PROTOCOL.n_steps
_MOST_SAMPLES = PAPER_IMAGES // 3


@dataclass(frozen=True)
class Speed:
    """What an engine did. An image is one sample through one reservoir, from input to moments."""

    engine: str
    device: Device
    runs_on: str
    samples: int
    seconds: tuple[float, ...]
    """of each round"""

    @property
    def images_per_second(self) -> float:
        return self.samples / median(self.seconds)

    @property
    def node_steps_per_second(self) -> float | None:
        """None for the engine that takes no steps."""
        return None if self.engine == "meanfield" else self.images_per_second * IMAGE_NODE_STEPS

    @property
    def paper_seconds(self) -> float:
        """What the paper's whole experiment would take at this speed."""
        return PAPER_IMAGES / self.images_per_second


@dataclass(frozen=True)
class Benchmark:
    """One run: the machine, its limits, the engines that ran, and why the others did not."""

    machine: dict[str, str | int]
    limits: tuple[Limit, ...]
    speeds: tuple[Speed, ...]
    absent: dict[str, str]

    def share(self, speed: Speed) -> float | None:
        """Of the limit of its device; None for the engine that takes no steps, or where the limit is not known."""
        limit = next((one for one in self.limits if one.device == speed.device), None)
        rate = speed.node_steps_per_second
        return None if limit is None or rate is None else rate / limit.overlapped

    def as_json(self) -> str:
        """Everything measured and what follows from it, as one JSON object."""
        return json.dumps(
            {
                "machine": self.machine,
                "size": {"N": N, "M": M, "n_steps": PROTOCOL.n_steps, "paper_images": PAPER_IMAGES},
                "limits": [asdict(one) | {"overlapped": one.overlapped, "in_turn": one.in_turn} for one in self.limits],
                "speeds": [
                    asdict(one)
                    | {
                        "images_per_second": one.images_per_second,
                        "node_steps_per_second": one.node_steps_per_second,
                        "share_of_limit": self.share(one),
                        "paper_seconds": one.paper_seconds,
                    }
                    for one in self.speeds
                ],
                "absent": self.absent,
            },
            indent=1,
        )

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Heading and rows of text, fastest engine first, then those that cannot run."""
        heading: tuple[str, ...] = (
            "engine",
            "runs on",
            "node-steps/s",
            "of the limit",
            "images/s",
            "the paper's experiment",
        )
        rows: list[tuple[str, ...]] = [
            (
                one.engine,
                one.runs_on,
                f"{one.node_steps_per_second:.2g}" if one.node_steps_per_second else "none taken",
                f"{share:.0%}" if (share := self.share(one)) else "",
                f"{one.images_per_second:.3g}",
                duration(one.paper_seconds),
            )
            for one in sorted(self.speeds, key=lambda one: one.paper_seconds)
        ]
        return heading, rows + [(engine, f"cannot run: {why}", "", "", "", "") for engine, why in self.absent.items()]

    def notes(self) -> list[str]:
        """A line on each limit: what it is made of."""
        return [
            f"Limit of the {one.device.upper()} ({one.name}): {one.overlapped:.2g} node-steps/s. W x alone makes "
            f"{one.product:.2g} ({one.product_is}), the rest alone {one.rest:.2g} ({one.rest_is}); one after the other "
            f"they would make {one.in_turn:.2g}."
            for one in self.limits
        ]


def measure(
    names: Sequence[str] | None = None,
    *,
    seconds: float = 2.0,
    rounds: int = 3,
    report: Callable[[str], None] = lambda _: None,
) -> Benchmark:
    """Measures the named engines, or all that can run here, and the limits of the machine in the same run.

    Each engine is warmed up, then does as many samples as take it about `seconds`, `rounds` times, in turn with the
    others. `report` is told what is being measured.
    """
    seconds, rounds = check_positive("seconds", seconds), check_integer("rounds", rounds, 1, 1000)
    found = engines()
    names = tuple(found) if names is None else tuple(names)
    for name in names:
        if name not in found:
            raise invalid("names", f"be among {', '.join(found)}", repr(name))
    runnable = [name for name in names if found[name].can_run]
    samples: dict[str, int] = {}
    for name in runnable:
        report(f"{name}: warming up")
        samples[name] = _samples_in(name, seconds)
    taken: dict[str, list[float]] = {name: [] for name in runnable}
    limits: dict[Device, Limit] = {}
    for number in range(rounds):
        for limit in (cpu_limit, gpu_limit):
            report(f"limits of the machine: round {number + 1} of {rounds}")
            if (found_now := limit(N)) is not None:
                limits[found_now.device] = found_now.or_faster(limits.get(found_now.device, found_now))
        for name in runnable:
            report(f"{name}: round {number + 1} of {rounds}")
            taken[name].append(_time(name, samples[name]))
    machine = describe()
    on_gpu = {"cuda"} if machine["accelerator"] == "none" else {"cuda", "xla", "meanfield"}
    speeds = [
        Speed(name, "gpu" if name in on_gpu else "cpu", found[name].note, samples[name], tuple(taken[name]))
        for name in runnable
    ]
    absent = {name: found[name].note for name in names if not found[name].can_run}
    return Benchmark(machine, tuple(limits.values()), tuple(speeds), absent)


def _time(name: str, samples: int) -> float:
    """Seconds from inputs to moments."""
    reservoir = Reservoir.draw(N, D, seed=20260611)
    # The speed does not depend on what is in the images: some of about MNIST's brightness, over and over.
    inputs = np.resize(np.random.default_rng(0).random((256, D)) * 0.26, (samples, D))
    protocol = Protocol(n_replicas=math.inf) if name == "meanfield" else PROTOCOL
    start = time.perf_counter()
    simulate(reservoir, inputs, protocol, engine=name)
    return time.perf_counter() - start


def _samples_in(name: str, seconds: float) -> int:
    """Samples that take about `seconds`. The first run also compiles, so it does not count."""
    _time(name, 1)
    samples = 1
    while (elapsed := _time(name, samples)) < seconds / 4 and samples < _MOST_SAMPLES:
        samples = min(samples * 4, _MOST_SAMPLES)
    return max(1, min(round(samples * seconds / elapsed), _MOST_SAMPLES))
