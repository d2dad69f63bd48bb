"""Moments of the nodes' positions at t_final: raw and central, their Monte Carlo errors, and features for a readout."""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import check_integer, check_integers, check_shape, invalid, quoted
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
class Products:
    """E[x_i^a x_j^b] of chosen pairs of nodes (i, j), for a and b of 1 and 2, at t_final; P pairs.

    x_i x_j itself gives the covariance. The higher ones say how far sampling may be off.
    """

    pairs: tuple[tuple[int, int], ...]
    raw: Array
    """of x_i x_j, x_i^2 x_j, x_i x_j^2 and x_i^2 x_j^2: (S, 4, P); at infinite M of x_i x_j alone: (S, 1, P)"""


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
        products: of the pairs of nodes that `simulate` was given.
    """

    raw: Array
    orders: tuple[int, ...]
    n_replicas: int | float
    sample_ids: NDArray[np.uint64]
    info: Info
    observed: Mapping[str, Observed] = field(default_factory=dict)
    products: Products | None = None

    def __repr__(self) -> str:
        S, _, N = self.raw.shape
        observed = f", observed={sorted(self.observed)}" if self.observed else ""
        pairs = f", {len(self.products.pairs)} pairs" if self.products else ""
        how = f"n_replicas={self.n_replicas}, engine={self.info.engine!r}{observed}{pairs}"
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

    @property
    def mean(self) -> Array:
        """E[x], the raw moment of order 1: (S, N)."""
        self._need((1,), "The mean")
        return self.order(1)

    @property
    def variance(self) -> Array:
        """E[x^2] - E[x]^2: (S, N). It is that of the M replicas; M / (M - 1) times it has no bias."""
        self._need((1, 2), "The variance")
        return self.central(2)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of nodes (i, j) whose products were read; P of them."""
        return self.products.pairs if self.products else ()

    @property
    def joint(self) -> Array:
        """E[x_i x_j] of every pair: (S, P)."""
        return self._products().raw[:, 0]

    @property
    def joint_error(self) -> Array:
        """Monte Carlo standard error of `joint`: (S, P); zero at infinite M."""
        found = self._products().raw
        return self._error(found[:, -1] - found[:, 0] ** 2)

    @property
    def covariance(self) -> Array:
        """E[x_i x_j] - E[x_i] E[x_j] of every pair: (S, P). Like `variance` it is that of the M replicas."""
        i, j = np.array(self._products().pairs).T
        return self.joint - self.mean[:, i] * self.mean[:, j]

    @property
    def covariance_error(self) -> Array:
        """Monte Carlo standard error of `covariance`, from the spread of (x_i - E[x_i]) (x_j - E[x_j]): (S, P)."""
        if self.n_replicas == math.inf:
            return np.zeros_like(self.joint)
        self._need((1, 2), "The standard error of a covariance")
        i, j = np.array(self.pairs).T
        xy, xxy, xyy, xxyy = np.moveaxis(self._products().raw, 1, 0)
        (x, y), (xx, yy) = ((self.order(p)[:, i], self.order(p)[:, j]) for p in (1, 2))
        fourth = xxyy - 2 * y * xxy - 2 * x * xyy + y**2 * xx + x**2 * yy + 4 * x * y * xy - 3 * (x * y) ** 2
        return self._error(fourth - (xy - x * y) ** 2)

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
        self._need((p, 2 * p), f"The standard error of order {p}")
        return self._error(self.order(2 * p) - self.order(p) ** 2)

    def _error(self, variance: Array) -> Array:
        """The standard error of a mean over the replicas, from the variance over these M replicas."""
        if self.n_replicas < 2:
            raise invalid("n_replicas", "be at least 2 for a standard error", self.n_replicas)
        spread = np.zeros_like(variance) if self.n_replicas == math.inf else np.maximum(variance, 0.0)
        return np.sqrt(spread / (self.n_replicas - 1))

    def features(self, orders: Sequence[int] | None = None, *, pairs: bool = False) -> Array:
        """The features that a linear readout sees: all moments of one order, then the next, [m_p | m_q | ...].

        Args:
            orders: which ones, increasing; all unless given.
            pairs: whether E[x_i x_j] of the P pairs follows: [m_p | m_q | ... | joint].

        Returns:
            (S, len(orders) * N), or (S, len(orders) * N + P) with pairs.
        """
        wanted = self.orders if orders is None else check_orders("orders", orders)
        self._need(wanted, "These features")
        columns = [self.orders.index(p) for p in wanted]
        moments = self.raw[:, columns].reshape(len(self.raw), -1)
        return np.concatenate([moments, self.joint], axis=1) if pairs else moments

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a safetensors file, whole or not at all. `load` gives back the same bits."""
        replicas = None if self.n_replicas == math.inf else self.n_replicas
        facts: dict[str, Any] = {"orders": self.orders, "n_replicas": replicas, "info": asdict(self.info)}
        tensors = {"raw": self.raw, "sample_ids": self.sample_ids}
        if self.observed:
            facts["observed"] = list(self.observed)
            tensors["observed"] = np.array([(one.mean, one.variance) for one in self.observed.values()])
        if self.products:
            facts["pairs"] = self.products.pairs
            tensors["products"] = self.products.raw
        write_tensors(path, "moments", tensors, json.dumps(facts))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Moments":
        """Reads what `save` wrote."""
        tensors, text = read_tensors(path, "moments", ("raw", "sample_ids"), optional=("observed", "products"))
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
        products = None
        if (raw := tensors.pop("products", None)) is not None:
            pairs = check_pairs("pairs", facts["pairs"], tensors["raw"].shape[2])
            check_shape("products", raw, (len(tensors["raw"]), 4 if math.isfinite(replicas) else 1, len(pairs)))
            products = Products(pairs, raw)
        ids = tensors["sample_ids"]
        return cls(tensors["raw"], orders, replicas, ids, Info(**info), observed, products)

    def _products(self) -> Products:
        if self.products is None:
            raise ValueError("These moments have no pairs of nodes: simulate with pairs=((i, j), ...).")
        return self.products

    def _need(self, orders: Sequence[int], what: str) -> None:
        missing = [p for p in orders if p not in self.orders]
        if missing:
            full = tuple(sorted({*self.orders, *missing}))
            advice = f"simulate with orders={full}" if max(full) <= 8 else "orders above 8 are not sampled"
            raise ValueError(
                f"{what} needs the raw moments of order {', '.join(map(str, missing))}, "
                f"but these have the orders {self.orders}: {advice}."
            )


def check_pairs(argument: str, pairs: Iterable[Sequence[int]], n_nodes: int) -> tuple[tuple[int, int], ...]:
    """`pairs` as tuples of two different nodes, from 0 to N - 1."""
    must = f"be pairs (i, j) of different nodes from 0 to {n_nodes - 1}"
    try:
        checked = tuple(check_integers(argument, pair, 0, n_nodes - 1) for pair in pairs)
    except TypeError:
        raise invalid(argument, must, quoted(pairs)) from None
    found = []
    for pair in checked:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise invalid(argument, must, pair)
        found.append((pair[0], pair[1]))
    return tuple(found)


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
