"""One driven node of an experiment as it was simulated: what the figures of a node are drawn from."""

from dataclasses import dataclass, fields
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from thermoment._support.files import read_tensors, write_tensors

Array = NDArray[np.float64]
NODE = "node.safetensors"
N_PATHS, N_REPLICAS, N_STATES = 6, 1024, 16384
"""Paths that are kept, replicas they are of, and states at the end: for each drive."""


@dataclass(frozen=True, eq=False)
class NodeSample:
    """A node by itself under a few drives: H drives, P paths kept of M replicas, T times, S states."""

    drives: Array
    """h: (H,)"""
    times: Array
    """from 0 to t_final: (T,)"""
    paths: Array
    """x of the first replicas: (H, P, T)"""
    means: Array
    """mean of x over all M replicas: (H, T)"""
    ends: Array
    """x(t_final) of all M replicas: (H, M)"""
    extent: Array
    """least and largest x of all replicas at all times: (2,)"""
    states: Array
    """x(t_final) of many more replicas: (H, S)"""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes all arrays to `path` as safetensors: about half a megabyte."""
        write_tensors(path, "node-sample", vars(self), "")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "NodeSample":
        """What `save` wrote."""
        return cls(**read_tensors(path, "node-sample", [field.name for field in fields(cls)])[0])
