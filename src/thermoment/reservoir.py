"""Reservoir: a network of coupled nodes, with the weights W, K and b.

The word is that of reservoir computing: a random network whose response to an input is read. It is not a heat bath.
"""

import json
import math
import os
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_array, check_integer, check_not_negative, check_shape, invalid, quoted
from thermoment._support.files import read_facts, read_tensors, write_tensors
from thermoment._support.memory import check_fits
from thermoment._support.threads import multiply_in_threads
from thermoment.noise import MAX_NODES
from thermoment.physics import Dynamics, coupling_norm
from thermoment.protocol import _WORD

# Rows per matrix product in `drive`. A BLAS may sum in another order for another shape, so all products have one shape.
_DRIVE_ROWS = 256


class Driven(NamedTuple):
    """The drives of a reservoir's nodes, and how large they get."""

    drive: NDArray[np.float64]
    """(S, N)"""
    strongest: float
    """the largest |h| of all samples and nodes"""


@dataclass(frozen=True, eq=False)
class Reservoir:
    """N coupled nodes in their wells: force -2 J2 x - 3 J3 x^2 - 4 J4 x^3 + h + W x, drive h = K I + b for an input I.

    Args:
        W: coupling, (N, N), zero on the diagonal: x_j pushes node i by W_ij x_j. N is at most 16384.
        K: input projection, (N, D).
        b: bias, (N,).
        dynamics: the well, mobility and temperature of the nodes; an array in it must have the length N.
        stream: number of the reservoir within an experiment, 32 bits. Each number has noise of its own.

    The arrays are copied, and kept as read-only float64.
    """

    W: NDArray[np.float64]
    """(N, N), zero on the diagonal."""
    K: NDArray[np.float64]
    """(N, D)"""
    b: NDArray[np.float64]
    """(N,)"""
    dynamics: Dynamics = field(default_factory=Dynamics)
    stream: int = 0

    def __post_init__(self) -> None:
        W = check_array("W", self.W, ("N", "N"))
        N = len(W)
        if N > MAX_NODES:
            raise invalid("W", f"couple at most {MAX_NODES} nodes", f"of shape {W.shape}")
        if np.any(np.diagonal(W)):
            node = int(np.flatnonzero(np.diagonal(W))[0])
            raise invalid(
                "W",
                "have a zero diagonal (np.fill_diagonal(W, 0) makes one)",
                f"{W[node, node]} at index ({node}, {node})",
            )
        K, b = check_array("K", self.K, (N, "D")), check_array("b", self.b, (N,))
        if not isinstance(self.dynamics, Dynamics):
            raise invalid("dynamics", "be a thermoment.Dynamics", quoted(self.dynamics))
        if self.dynamics.n_nodes not in (None, N):
            raise ValueError(f"Argument `dynamics` must be of {N} nodes, as W is, but is of {self.dynamics.n_nodes}.")
        object.__setattr__(self, "stream", check_integer("stream", self.stream, 0, _WORD))
        for name, array in (("W", W), ("K", K), ("b", b)):
            own = np.array(array, order="C")
            own.flags.writeable = False
            object.__setattr__(self, name, own)

    @classmethod
    def draw(
        cls,
        n_nodes: int,
        n_inputs: int,
        *,
        s_W: float = 0.1,
        s_K: float = 1.2,
        s_b: float = 0.02,
        symmetric: bool = False,
        seed: int,
        stream: int = 0,
        dynamics: Dynamics | None = None,
    ) -> "Reservoir":
        """A random reservoir: W_ij ~ N(0, s_W^2/N) off the diagonal, K_ik ~ N(0, s_K^2/D), b_i ~ N(0, s_b^2).

        Args:
            n_nodes: N.
            n_inputs: D.
            s_W: scale of the coupling.
            s_K: scale of the input projection.
            s_b: scale of the bias.
            symmetric: whether W is (W + W^T) / sqrt(2) of the W drawn: of the same scale, and W_ij = W_ji.
            seed: of `numpy.random.default_rng`, which gives W, K and b in this order. The diagonal of W is drawn too,
                then set to zero.
            stream: as in `Reservoir`; it chooses the noise and not the matrices.
            dynamics: as in `Reservoir`; `Dynamics()` unless given.
        """
        N, D = check_integer("n_nodes", n_nodes, 1, MAX_NODES), check_integer("n_inputs", n_inputs, 1, 2**31)
        scales = {"s_W": s_W, "s_K": s_K, "s_b": s_b}
        s_W, s_K, s_b = (check_not_negative(name, value) for name, value in scales.items())
        rng = np.random.default_rng(check_integer("seed", seed, 0, 2**128))
        check_fits("n_inputs", (N, N), (N, D))
        W = rng.normal(0.0, s_W / math.sqrt(N), (N, N))
        if symmetric:
            W = (W + W.T) / math.sqrt(2)
        np.fill_diagonal(W, 0.0)
        K = rng.normal(0.0, s_K / math.sqrt(D), (N, D))
        b = rng.normal(0.0, s_b, N)
        return cls(W, K, b, Dynamics() if dynamics is None else dynamics, stream)

    def __repr__(self) -> str:
        return f"Reservoir(N={self.n_nodes}, D={self.n_inputs}, stream={self.stream}, {self.dynamics})"

    @property
    def n_nodes(self) -> int:
        return int(self.W.shape[0])

    @property
    def n_inputs(self) -> int:
        return int(self.K.shape[1])

    @cached_property
    def coupling_norm(self) -> float:
        """The largest singular value of W, to a few per cent. Computed once: 0.3 s at N = 4096."""
        return coupling_norm(self.W)

    def drive(self, inputs: ArrayLike) -> NDArray[np.float64]:
        """The drive h = K I + b of every node.

        Args:
            inputs: (S, D), one sample a row.

        Returns:
            (S, N). A row's bits depend neither on the other rows nor on the number of cores.
        """
        return self.driven(inputs).drive

    def driven(self, inputs: ArrayLike) -> Driven:
        """The drive of every node for inputs (S, D), and the largest magnitude in it."""
        images = check_shape("inputs", inputs, ("S", self.n_inputs))
        check_fits("inputs", (len(images), self.n_nodes))
        drive = np.empty((len(images), self.n_nodes))

        def block(start: int) -> float:
            part = images[start : start + _DRIVE_ROWS]
            rows = np.zeros((_DRIVE_ROWS, self.n_inputs))
            rows[: len(part)] = part
            with np.errstate(over="ignore", invalid="ignore"):
                found = (rows @ self.K.T + self.b)[: len(part)]
            largest = float(np.abs(found).max())
            if not math.isfinite(largest):  # an input that is NaN or infinite makes the drive so too: say which
                check_array("inputs", images, images.shape)
                check_array("drive", found, found.shape)
            drive[start : start + len(part)] = found
            return largest

        return Driven(drive, max(multiply_in_threads(block, range(0, len(images), _DRIVE_ROWS))))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a safetensors file, whole or not at all. `load` gives back the same bits."""
        facts = {"dynamics": self.dynamics.facts(), "stream": self.stream}
        write_tensors(path, "reservoir", {"W": self.W, "K": self.K, "b": self.b}, json.dumps(facts))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Reservoir":
        """Reads what `save` wrote, with every check of a new reservoir."""
        tensors, text = read_tensors(path, "reservoir", ("W", "K", "b"))
        facts = read_facts(text, path, "dynamics", "stream")
        try:
            return cls(**tensors, dynamics=Dynamics(**facts["dynamics"]), stream=facts["stream"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} holds no reservoir: {error}") from None
