"""Protocol: the start, the time step, the reading time, the replicas, the clip, the seed and the moments to read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from thermoment._support.checks import check_choice, check_integer, check_integers, check_positive, invalid, is_infinite
from thermoment._support.identity import LATER, stated
from thermoment.noise import MAX_REPLICAS, MAX_STEPS
from thermoment.physics import Dynamics

MAX_ORDER = 8
_WORD = 2**32 - 1
# A rest lasts at least this many slowest relaxation times. What is left of where a node was is then exp(-3) = 5 % in
# its mean; the variance that a start at x = 0 lacks is down to exp(-6) = 0.2 %.
_FORGOTTEN = 3.0


@dataclass(frozen=True)
class Protocol:
    """How a reservoir is simulated: time step, reading time, number of copies, seed, and the moments that are read.

    Args:
        dt: Euler step; it must divide `t_final`.
        t_final: the time at which the positions are measured.
        n_replicas: M, independent copies, over which moments are averaged; from 1 to 2^20. `math.inf` is for an engine
            that computes the limit (meanfield).
        clip: x is cut to [-clip, clip] after every step, and the cuts are counted; none unless given.
        seed: chooses the noise of the whole experiment, 32 bits.
        orders: the p of the moments E[x^p], increasing, from 1 to 8.
        start: "zero", every node is at x = 0 when the input comes; or "rest", the network has been without any drive
            (neither K I nor b) for a time `t_rest` by then, after x = 0.
        t_rest: that time, which `dt` must divide; only where start is "rest".
    """

    dt: float = 1e-3
    t_final: float = 1.0
    n_replicas: int | float = 128
    clip: float = math.inf
    seed: int = 20260609
    orders: tuple[int, ...] = (1, 2, 4)
    start: Literal["zero", "rest"] = field(default="zero", metadata=LATER)
    t_rest: float | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        dt, t_final = check_positive("dt", self.dt), check_positive("t_final", self.t_final)
        start = check_choice("start", self.start, ("zero", "rest"))
        t_rest = None if self.t_rest is None else check_positive("t_rest", self.t_rest)
        if start == "rest" and t_rest is None:
            raise invalid("t_rest", 'be a time where start is "rest"', None)
        if start == "zero" and t_rest is not None:
            raise invalid("t_rest", 'be left out where start is "zero"', t_rest)
        if (t_final + (t_rest or 0.0)) / dt > MAX_STEPS:
            raise invalid("dt", f"give at most 2^32 steps to t_final = {t_final}", dt)
        for name, time in (("t_final", t_final), ("t_rest", t_rest or dt)):
            if whole_steps(time, dt) is None:
                raise invalid("dt", f"divide {name} = {time} into whole steps", dt)
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
            ("start", start),
            ("t_rest", t_rest),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Protocol({', '.join(f'{name}={value!r}' for name, value in stated(self).items())})"

    @property
    def n_steps(self) -> int:
        """t_final / dt."""
        return round(self.t_final / self.dt)

    @property
    def rest_steps(self) -> int:
        """t_rest / dt; 0 where start is "zero"."""
        return round((self.t_rest or 0.0) / self.dt)

    @property
    def all_steps(self) -> int:
        """The steps of the rest and those until t_final."""
        return self.rest_steps + self.n_steps


def whole_steps(time: float, dt: float) -> int | None:
    """How many steps dt a time is; None where it is no whole number of them, one at the least."""
    steps = round(time / dt)
    return steps if steps and math.isclose(steps * dt, time, rel_tol=1e-9) else None


def check_rest(protocol: Protocol, dynamics: Dynamics) -> None:
    """Refuses a rest in which a node in this well does not forget where it was."""
    if protocol.t_rest is None:
        return
    rate = dynamics.slowest_rate()
    if rate <= 0:  # rounding may leave the rate of a very cold double well below zero
        raise invalid("start", 'be "zero" for a well in which a node never comes to rest', "rest")
    if protocol.t_rest < _FORGOTTEN / rate:
        steps = math.ceil(_FORGOTTEN / rate / protocol.dt)
        must = f"be at least {steps * protocol.dt:.6g}, three times the slowest relaxation of an undriven node"
        raise invalid("t_rest", must, protocol.t_rest)


def check_orders(argument: str, orders: Sequence[int]) -> tuple[int, ...]:
    """`orders` as a tuple of increasing moment orders from 1 to 8."""
    checked = check_integers(argument, orders, 1, MAX_ORDER)
    if not checked or any(p >= q for p, q in pairwise(checked)):
        raise invalid(argument, f"be increasing integers from 1 to {MAX_ORDER}", orders)
    return checked
