"""What this machine could do at best: the two parts of a node-step, each measured with the other left out.

A node-step is a row of W x (N multiplications) and everything else: noise, well, drive, clip. Nothing can be faster
than the slower of the two, and an engine that does one after the other needs the sum of their times.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from thermoment._engines.choice import engines
from thermoment._support.threads import cores
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

Device = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Limit:
    """Node-steps per second of W x alone and of the rest alone, on one device."""

    device: Device
    name: str
    product: float
    product_is: str
    rest: float
    rest_is: str

    @property
    def overlapped(self) -> float:
        """Node-steps per second if the two were done at the same time: the limit."""
        return min(self.product, self.rest)

    @property
    def in_turn(self) -> float:
        """Node-steps per second if one were done after the other."""
        return 1 / (1 / self.product + 1 / self.rest)

    def or_faster(self, other: "Limit") -> "Limit":
        """Of two measurements of each part the faster one: what is a limit was reached undisturbed."""
        return replace(self, product=max(self.product, other.product), rest=max(self.rest, other.rest))


def cpu_limit(n_nodes: int, seconds: float = 0.5) -> Limit | None:
    """The limit of the cores this process may use; None where the native engine, whose parts are measured, cannot run.

    W x is the native engine's multiplication alone, on numbers that stay in registers. The rest is that engine with
    four nodes, whose W x is next to nothing.
    """
    if not engines()["native"].can_run:
        return None
    from thermoment._engines.native import multiply_only

    four = Reservoir(np.zeros((4, 4)), np.ones((4, 1)), np.zeros(4))

    def rest(n_steps: int) -> int:
        protocol = Protocol(dt=1e-6, t_final=n_steps * 1e-6, n_replicas=4096)
        simulate(four, np.ones((cores(), 1)), protocol, engine="native")
        return cores() * 4096 * 4 * n_steps

    return Limit(
        device="cpu",
        name=engines()["native"].note,
        product=_rate(multiply_only, seconds) / n_nodes,
        product_is="the native engine's multiplications, on numbers in registers",
        rest=_rate(rest, seconds),
        rest_is="the native engine with four nodes",
    )


def gpu_limit(n_nodes: int, seconds: float = 0.5) -> Limit | None:
    """The limit of the GPUs; None where the cuda engine, whose parts are measured, cannot run.

    What is measured is the first one, taken times their number. W x is a large product in half precision by the
    vendor's library. The rest is the cuda engine's kernel compiled without its product.
    """
    status = engines()["cuda"]
    if not status.can_run:
        return None
    from thermoment._engines import cuda

    count = cuda.device_count()
    return Limit(
        device="gpu",
        name=status.note,
        product=count * _rate(cuda.large_products, seconds) / n_nodes,
        product_is="a large product in half precision",
        rest=count * _rate(cuda.steps_without_product, seconds),
        rest_is="the kernel without its product",
    )


def _rate(work: Callable[[int], int], seconds: float) -> float:
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
