"""What the figures of a run show beside the numbers of results.json: node, mistakes, weights, course of training."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.files import read_tensors, write_tensors
from thermoment.results.node import NodeSample

MISREAD = "misread.safetensors"
MOST_MISREAD = 24
"""Mistakes of which a run keeps the image."""
MOST_RESERVOIRS, MOST_NODES = 4, 16
"""Reservoirs whose weights the report shows, and nodes of each."""


@dataclass(frozen=True, eq=False)
class Misread:
    """Images that a classifier took for the wrong class, the most confident mistakes first: n of them."""

    images: NDArray[Any]
    """(n, H, W)"""
    labels: NDArray[np.int64]
    """what they are: (n,)"""
    taken: NDArray[np.int64]
    """what they were taken for: (n,)"""
    probability: NDArray[np.float64]
    """that the classifier gave to its answer: (n,)"""
    index: NDArray[np.int64]
    """where they stand among the samples: (n,)"""

    @classmethod
    def of(
        cls,
        inputs: NDArray[Any],
        labels: NDArray[np.int64],
        probabilities: ArrayLike,
        shape: tuple[int, ...],
        most: int = MOST_MISREAD,
    ) -> "Misread":
        """The `most` mistakes in which the wrong class got the highest probability; of equal ones the first come first.

        inputs: (S, D), images of `shape`, unrolled; labels: (S,); probabilities: (S, C)
        """
        given = np.asarray(probabilities)
        taken, highest = given.argmax(axis=1), given.max(axis=1)
        wrong = np.flatnonzero(taken != labels)
        index = wrong[np.argsort(-highest[wrong], kind="stable")][:most]
        images = np.asarray(inputs)[index].reshape(-1, *shape)
        return cls(images, np.asarray(labels)[index], taken[index], highest[index], index)

    def __len__(self) -> int:
        return len(self.index)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes all arrays to `path` as safetensors."""
        write_tensors(path, "misread", vars(self), "")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Misread":
        """What `save` wrote."""
        return cls(**read_tensors(path, "misread", [one.name for one in fields(cls)])[0])


@dataclass(frozen=True)
class Curve:
    """One training over its epochs."""

    name: str
    """the reservoirs that were trained"""
    how: str
    """"static" through a stand-in without time, "finite-time" through the moments at t_final"""
    loss: tuple[float, ...]
    """mean over the batches of each epoch"""
    validation: tuple[float, ...] = ()
    """accuracy on the images that were held out; empty where there were none"""


@dataclass(frozen=True, eq=False)
class Pictures:
    """All of it; what a run does not have is left out."""

    node: NodeSample | None = None
    misread: Misread | None = None
    weights: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """K of the reservoirs that the run is judged by, as images: (N, H, W) each"""
    curves: tuple[Curve, ...] = ()
