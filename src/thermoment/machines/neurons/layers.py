"""Layered: neurons in layers, an input into the first, an answer read from the last."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine
from thermoment._support.checks import (
    check_array,
    check_integer,
    check_integers,
    check_not_negative,
    check_shape,
    invalid,
    quoted,
)
from thermoment._support.files import read_facts, read_tensors, write_tensors
from thermoment._support.memory import check_fits
from thermoment.noise import MAX_NODES
from thermoment.phases import course
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Layered:
    """Neurons in layers: neighbouring layers are coupled both ways alike, and the answer is linear in the last one.

        V = sum_i (U(x_i) - b_i x_i) - sum_(i in l, j in l + 1) W_ij x_i x_j - sum_(i in layer 1) (K I)_i x_i
        y(I) = readout <x(t_final)> of the last layer

    U is the well of the dynamics. W is symmetric, so V is a potential.

    Args:
        reservoir: the neurons, layer after layer, with W_ij = W_ji between neighbouring layers and zero elsewhere, and
            K zero but for the first layer.
        widths: neurons in each layer.
        readout: the weights of the answer, (C, widths[-1]). They are applied outside the dynamics.
    """

    reservoir: Reservoir
    widths: tuple[int, ...]
    readout: Array
    """(C, widths[-1])"""

    def __post_init__(self) -> None:
        if not isinstance(self.reservoir, Reservoir):
            raise invalid("reservoir", "be a thermoment.Reservoir", quoted(self.reservoir))
        widths = check_widths(self.widths)
        if sum(widths) != self.reservoir.n_nodes:
            raise invalid("widths", f"add up to the {self.reservoir.n_nodes} nodes of the reservoir", widths)
        W, K = self.reservoir.W, self.reservoir.K
        if not np.array_equal(W, W.T):
            raise invalid("W", "be symmetric for layers", f"asymmetric by up to {np.abs(W - W.T).max():.3g}")
        layer = np.repeat(np.arange(len(widths)), widths)
        if len(wrong := np.argwhere((W != 0) & (np.abs(layer[:, None] - layer) != 1))):
            i, j = (int(k) for k in wrong[0])
            raise invalid("W", "couple neighbouring layers only", f"{W[i, j]:.3g} at index ({i}, {j})")
        if np.any(K[widths[0] :]):
            node = widths[0] + int(np.flatnonzero(np.any(K[widths[0] :], axis=1))[0])
            raise invalid("K", f"drive the {widths[0]} neurons of the first layer only", f"not zero in row {node}")
        readout = np.array(check_array("readout", self.readout, ("C", widths[-1])))
        readout.flags.writeable = False
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "readout", readout)

    @classmethod
    def draw(
        cls,
        widths: Sequence[int],
        n_inputs: int,
        n_outputs: int = 1,
        *,
        s_W: float = 0.5,
        s_K: float = 3.0,
        s_b: float = 1.0,
        s_readout: float = 0.5,
        seed: int,
        dynamics: Dynamics | None = None,
    ) -> "Layered":
        """A random machine, from which training starts.

        Args:
            widths: neurons in each layer.
            n_inputs: D.
            n_outputs: C.
            s_W: a bond between layers of n and m neurons is drawn from N(0, s_W^2 / max(n, m)).
            s_K: an input weight is drawn from N(0, s_K^2 / D).
            s_b: a bias is drawn from N(0, s_b^2).
            s_readout: a weight of the readout is drawn from N(0, s_readout^2).
            seed: of `numpy.random.default_rng`.
            dynamics: of all neurons; `Dynamics()` unless given.
        """
        sizes = check_widths(widths)
        N, D = sum(sizes), check_integer("n_inputs", n_inputs, 1, 2**31)
        C = check_integer("n_outputs", n_outputs, 1, 2**31)
        scales = {"s_W": s_W, "s_K": s_K, "s_b": s_b, "s_readout": s_readout}
        s_W, s_K, s_b, s_readout = (check_not_negative(name, value) for name, value in scales.items())
        rng = np.random.default_rng(check_integer("seed", seed, 0, 2**128))
        check_fits("n_inputs", (N, N), (N, D))
        bonds = [rng.normal(0.0, s_W / math.sqrt(max(pair)), pair) for pair in pairwise(sizes)]
        K = np.zeros((N, D))
        K[: sizes[0]] = rng.normal(0.0, s_K / math.sqrt(D), (sizes[0], D))
        b, readout = rng.normal(0.0, s_b, N), rng.normal(0.0, s_readout, (C, sizes[-1]))
        return cls(Reservoir(coupling(bonds, N), K, b, Dynamics() if dynamics is None else dynamics), sizes, readout)

    def __repr__(self) -> str:
        layers = "-".join(map(str, self.widths))
        return f"Layered({self.n_inputs} inputs, {layers}, {self.n_outputs} outputs, {self.reservoir.dynamics})"

    @property
    def n_inputs(self) -> int:
        """D"""
        return self.reservoir.n_inputs

    @property
    def n_outputs(self) -> int:
        """C"""
        return len(self.readout)

    @property
    def layers(self) -> tuple[slice, ...]:
        """The nodes of each layer."""
        ends = tuple(accumulate(self.widths))
        return tuple(slice(end - width, end) for end, width in zip(ends, self.widths, strict=True))

    def answers(
        self,
        inputs: ArrayLike,
        protocol: Protocol | None = None,
        *,
        engine: str | Engine = "auto",
        sample_ids: ArrayLike | None = None,
    ) -> Array:
        """y = readout <x(t_final)> of the last layer: (S, C) for inputs (S, D).

        `protocol`, `engine` and `sample_ids` are those of `simulate`.
        """
        protocol = first_moments(protocol)
        found = simulate(self.reservoir, inputs, protocol, engine=engine, sample_ids=sample_ids)
        return found.order(1)[:, -self.widths[-1] :] @ self.readout.T

    def answers_at(
        self,
        inputs: ArrayLike,
        times: Sequence[float],
        protocol: Protocol | None = None,
        *,
        engine: str | Engine = "auto",
        sample_ids: ArrayLike | None = None,
    ) -> Array:
        """The answers if the machine is read at each of `times`, from one run: (len(times), S, C) for inputs (S, D)."""
        protocol = first_moments(protocol)
        found = course(self.reservoir, inputs, protocol, times=times, engine=engine, sample_ids=sample_ids)
        return found.raw[:, :, 0, -self.widths[-1] :] @ self.readout.T

    def with_readout_for(
        self,
        inputs: ArrayLike,
        targets: ArrayLike,
        protocol: Protocol | None = None,
        *,
        ridge: float = 1e-4,
        engine: str | Engine = "auto",
    ) -> "Layered":
        """The same neurons with the readout that is best for targets (S, C), by least squares on sampled moments.

        `ridge` is added to the mean square of <x>; it should not be below the variance of <x> over repeated runs.
        """
        y, ridge = check_targets(self, inputs, targets), check_not_negative("ridge", ridge)
        found = simulate(self.reservoir, inputs, first_moments(protocol), engine=engine)
        x = found.order(1)[:, -self.widths[-1] :]
        squares = x.T @ x / len(x) + ridge * np.eye(self.widths[-1])
        best: Array = np.linalg.lstsq(squares, x.T @ y / len(x))[0].astype(np.float64)
        return replace(self, readout=best.T)

    def at_temperature(self, kT: float) -> "Layered":
        """The same machine at another thermal energy."""
        dynamics = replace(self.reservoir.dynamics, kT=kT)
        return replace(self, reservoir=replace(self.reservoir, dynamics=dynamics))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a safetensors file, whole or not at all. `load` gives back the same bits."""
        one = self.reservoir
        facts = {"dynamics": asdict(one.dynamics), "stream": one.stream, "widths": self.widths}
        tensors = {"W": one.W, "K": one.K, "b": one.b, "readout": self.readout}
        write_tensors(path, "layered", tensors, json.dumps(facts))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Layered":
        """Reads what `save` wrote, with every check of a new machine."""
        tensors, text = read_tensors(path, "layered", ("W", "K", "b", "readout"))
        facts = read_facts(text, path, "dynamics", "stream", "widths")
        try:
            readout = tensors.pop("readout")
            reservoir = Reservoir(**tensors, dynamics=Dynamics(**facts["dynamics"]), stream=facts["stream"])
            return cls(reservoir, facts["widths"], readout)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} holds no layered machine: {error}") from None


def coupling(bonds: Sequence[Any], n_nodes: int, xp: Any = np) -> Any:
    """W (N, N) of the bonds of each layer with the next one, on arrays of `xp`: NumPy, or jax.numpy."""
    if not len(bonds):
        return xp.zeros((n_nodes, n_nodes))
    sizes = [len(bonds[0]), *(one.shape[1] for one in bonds)]
    rows = [
        [bonds[j - 1] if j == i + 1 else xp.zeros((sizes[i], sizes[j])) for j in range(len(sizes))]
        for i in range(len(sizes))
    ]
    above = xp.block(rows)
    return above + above.T


def check_targets(machine: Layered, inputs: ArrayLike, targets: ArrayLike) -> Array:
    """Targets (S, C), finite; targets (S,) are taken for (S, 1) where C = 1."""
    S = len(check_shape("inputs", inputs, ("S", machine.n_inputs)))
    if machine.n_outputs == 1 and np.ndim(targets) == 1:
        return check_array("targets", targets, (S,))[:, None]
    return check_array("targets", targets, (S, machine.n_outputs))


def check_widths(widths: Sequence[int]) -> tuple[int, ...]:
    """`widths` as a tuple of at least one number of neurons."""
    sizes = check_integers("widths", widths, 1, MAX_NODES)
    if not sizes or sum(sizes) > MAX_NODES:
        raise invalid("widths", f"be at least one layer, of {MAX_NODES} neurons in all at most", sizes)
    return sizes


def first_moments(protocol: Protocol | None) -> Protocol:
    """The protocol with the moment of order 1 alone: an answer needs no other."""
    if not (protocol is None or isinstance(protocol, Protocol)):
        raise invalid("protocol", "be a thermoment.Protocol", quoted(protocol))
    return replace(protocol or Protocol(), orders=(1,))
