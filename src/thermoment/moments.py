"""Moments of the nodes' positions at t_final: raw and central, their Monte Carlo errors, and features for a readout."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import check_integer, check_shape, invalid, quoted
from thermoment._support.files import read_facts, read_tensors, write_tensors
from thermoment.protocol import MAX_ORDER, check_orders

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Info:
    """How the moments were computed."""

    engine: str
    choice: str
    """Why this engine: it was asked for, or what "auto" found."""
    clip_count: int
    """Updates that went beyond the clip, over all samples, replicas, nodes and steps."""
    n_steps: int
    seconds: float
    error: dict[int, float] | None = None
    """For an engine that approximates: its estimated error in each order, rms over nodes and samples."""


@dataclass(frozen=True, eq=False)
class Observed:
    """An observable, summed along the path of every replica: mean and variance over the replicas of each sample."""

    mean: Array
    """mean over the replicas: (S,)"""
    variance: Array
    """variance over the replicas, with M - 1 in the denominator: (S,); NaN for a single replica"""
    n_replicas: int

    def __repr__(self) -> str:
        return f"Observed(S={len(self.mean)}, n_replicas={self.n_replicas})"

    @property
    def standard_error(self) -> Array:
        """Monte Carlo standard error of the mean: (S,)."""
        return np.sqrt(self.variance / self.n_replicas)


@dataclass(frozen=True, eq=False)
class Moments:
    """m_p = E[x(t_final)^p] of every node for every sample, a mean over `n_replicas` independent copies.

    Args:
        raw: the moments, (S, len(orders), N).
        orders: the p, increasing.
        n_replicas: M, or `math.inf`.
        sample_ids: which noise each sample had, (S,).
        info: engine, clipped updates, steps, seconds.
        observed: by name, what the observables that `simulate` was given added up to.
    """

    raw: Array
    orders: tuple[int, ...]
    n_replicas: int | float
    sample_ids: NDArray[np.uint64]
    info: Info
    observed: Mapping[str, Observed] = field(default_factory=dict)

    def __repr__(self) -> str:
        S, _, N = self.raw.shape
        observed = f", observed={sorted(self.observed)}" if self.observed else ""
        how = f"n_replicas={self.n_replicas}, engine={self.info.engine!r}{observed}"
        return f"Moments(S={S}, orders={self.orders}, N={N}, {how})"

    def order(self, p: int) -> Array:
        """The raw moment m_p = E[x^p].

        Args:
            p: one of `orders`.

        Returns:
            (S, N).
        """
        p = check_integer("p", p, 1, MAX_ORDER)
        if p not in self.orders:
            raise invalid("p", f"be one of the orders {self.orders} of these moments", p)
        return self.raw[:, self.orders.index(p)]

    def central(self, q: int) -> Array:
        """The central moment E[(x - E[x])^q], by the binomial formula from the raw moments.

        Args:
            q: order; all of 1 to q must be among `orders`.

        Returns:
            (S, N).
        """
        check_integer("q", q, 1, max(self.orders))
        self._need(range(1, q + 1), f"The central moment of order {q}")
        mean = self.order(1)
        total = (-mean) ** q
        for p in range(1, q + 1):
            total = total + math.comb(q, p) * self.order(p) * (-mean) ** (q - p)
        return total

    def standard_error(self, p: int) -> Array:
        """Monte Carlo standard error of m_p, sqrt((m_2p - m_p^2) / (M - 1)); zero at infinite M.

        Args:
            p: order; p and 2 p must be among `orders`.

        Returns:
            (S, N).
        """
        p = check_integer("p", p, 1, MAX_ORDER)
        if self.n_replicas == math.inf:
            return np.zeros_like(self.order(p))
        if self.n_replicas < 2:
            raise invalid("n_replicas", "be at least 2 for a standard error", self.n_replicas)
        self._need((p, 2 * p), f"The standard error of order {p}")
        variance = np.maximum(self.order(2 * p) - self.order(p) ** 2, 0.0)
        return np.sqrt(variance / (self.n_replicas - 1))

    def features(self, orders: Sequence[int] | None = None) -> Array:
        """The features that a linear readout sees: all moments of one order, then the next, [m_p | m_q | ...].

        Args:
            orders: which ones, increasing; all unless given.

        Returns:
            (S, len(orders) * N).
        """
        wanted = self.orders if orders is None else check_orders("orders", orders)
        self._need(wanted, "These features")
        columns = [self.orders.index(p) for p in wanted]
        return self.raw[:, columns].reshape(len(self.raw), -1)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a safetensors file, whole or not at all. `load` gives back the same bits."""
        replicas = None if self.n_replicas == math.inf else self.n_replicas
        facts: dict[str, Any] = {"orders": self.orders, "n_replicas": replicas, "info": asdict(self.info)}
        tensors = {"raw": self.raw, "sample_ids": self.sample_ids}
        if self.observed:
            facts["observed"] = list(self.observed)
            tensors["observed"] = np.array([(one.mean, one.variance) for one in self.observed.values()])
        write_tensors(path, "moments", tensors, json.dumps(facts))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Moments":
        """Reads what `save` wrote."""
        tensors, text = read_tensors(path, "moments", ("raw", "sample_ids"), optional=("observed",))
        facts = read_facts(text, path, "orders", "n_replicas", "info")
        try:
            return cls._of_file(tensors, facts)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} holds no moments: {error}") from None

    @classmethod
    def _of_file(cls, tensors: dict[str, NDArray[Any]], facts: dict[str, Any]) -> "Moments":
        replicas = math.inf if facts["n_replicas"] is None else facts["n_replicas"]
        orders = check_orders("orders", facts["orders"])
        info = facts["info"]
        if info.get("error") is not None:
            info["error"] = {int(p): value for p, value in info["error"].items()}  # JSON has no integer keys
        check_shape("raw", tensors["raw"], ("S", len(orders), "N"))
        check_shape("sample_ids", tensors["sample_ids"], (len(tensors["raw"]),))
        totals = zip(facts.get("observed", ()), tensors.pop("observed", ()), strict=True)
        observed = {name: Observed(mean, variance, int(replicas)) for name, (mean, variance) in totals}
        return cls(orders=orders, n_replicas=replicas, info=Info(**info), observed=observed, **tensors)

    def _need(self, orders: Sequence[int], what: str) -> None:
        missing = [p for p in orders if p not in self.orders]
        if missing:
            full = tuple(sorted({*self.orders, *missing}))
            advice = f"simulate with orders={full}" if max(full) <= 8 else "orders above 8 are not sampled"
            raise ValueError(
                f"{what} needs the raw moments of order {', '.join(map(str, missing))}, "
                f"but these have the orders {self.orders}: {advice}."
            )


def concatenate(reservoirs: Sequence[Moments], orders: Sequence[int] | None = None) -> Array:
    """Joint features [phi_K1 | phi_K2 | ...] of reservoirs that saw the same samples.

    Args:
        reservoirs: the moments of each, with the same sample ids.
        orders: which orders of each, increasing; all unless given.

    Returns:
        (S, sum of the numbers of their features).
    """
    if isinstance(reservoirs, Moments) or not isinstance(reservoirs, Sequence):
        raise invalid("reservoirs", "be a list of Moments", quoted(reservoirs))
    if not reservoirs:
        raise invalid("reservoirs", "hold at least one Moments", "empty")
    for k, moments in enumerate(reservoirs):
        if not isinstance(moments, Moments):
            raise invalid(f"reservoirs[{k}]", "be Moments", quoted(moments))
    for k, moments in enumerate(reservoirs):
        if not np.array_equal(moments.sample_ids, reservoirs[0].sample_ids):
            raise invalid(f"reservoirs[{k}]", "have the sample ids of reservoirs[0]", "of other samples")
    return np.concatenate([moments.features(orders) for moments in reservoirs], axis=1)
