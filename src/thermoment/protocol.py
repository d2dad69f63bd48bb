"""Protocol: the time step, the reading time, the number of replicas, the clip, the seed and the moments to read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from thermoment._support.checks import check_integer, check_integers, check_positive, invalid, is_infinite
from thermoment.noise import MAX_REPLICAS, MAX_STEPS

MAX_ORDER = 8
_WORD = 2**32 - 1


@dataclass(frozen=True)
class Protocol:
    """How a reservoir is simulated: time step, reading time, number of copies, seed, and the moments that are read.

    Args:
        dt: Euler step; it must divide `t_final`.
        t_final: the time at which the positions are measured.
        n_replicas: M, independent copies, each started at x = 0, over which moments are averaged; from 1 to 2^20.
            `math.inf` is for an engine that computes the limit (meanfield).
        clip: x is cut to [-clip, clip] after every step, and the cuts are counted; none unless given.
        seed: chooses the noise of the whole experiment, 32 bits.
        orders: the p of the moments E[x^p], increasing, from 1 to 8.
    """

    dt: float = 1e-3
    t_final: float = 1.0
    n_replicas: int | float = 128
    clip: float = math.inf
    seed: int = 20260609
    orders: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        dt, t_final = check_positive("dt", self.dt), check_positive("t_final", self.t_final)
        if t_final / dt > MAX_STEPS:
            raise invalid("dt", f"give at most 2^32 steps to t_final = {t_final}", dt)
        if not math.isclose(round(t_final / dt) * dt, t_final, rel_tol=1e-9):
            raise invalid("dt", f"divide t_final = {t_final} into whole steps", dt)
        n_replicas: int | float = math.inf
        if not is_infinite(self.n_replicas):
            n_replicas = check_integer("n_replicas", self.n_replicas, 1, MAX_REPLICAS)  # type: ignore[arg-type]
        clip = math.inf if is_infinite(self.clip) else check_positive("clip", self.clip)
        seed = check_integer("seed", self.seed, 0, _WORD)
        orders = check_orders("orders", self.orders)
        for name, value in (
            ("dt", dt),
            ("t_final", t_final),
            ("n_replicas", n_replicas),
            ("clip", clip),
            ("seed", seed),
            ("orders", orders),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_steps(self) -> int:
        """t_final / dt."""
        return round(self.t_final / self.dt)


def check_orders(argument: str, orders: Sequence[int]) -> tuple[int, ...]:
    """`orders` as a tuple of increasing moment orders from 1 to 8."""
    checked = check_integers(argument, orders, 1, MAX_ORDER)
    if not checked or any(p >= q for p, q in pairwise(checked)):
        raise invalid(argument, f"be increasing integers from 1 to {MAX_ORDER}", orders)
    return checked
