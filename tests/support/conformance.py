"""The engines that the tests of all engines examine, the reference first. A new engine is added to `ENGINES`."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

import thermoment as tm
from support.analytic import Array
from thermoment._engines.choice import choose
from thermoment._engines.task import Engine
from thermoment._engines.xla import LARGEST_EXACT, Xla


@dataclass(frozen=True)
class Candidate:
    """An engine, how far its moments may be from the reference on the same noise, and how much it can sample."""

    label: str
    engine: str | Engine
    tolerance: float
    replicas: int
    """for statistical tests: what it does in a second or two"""
    miscounts: int = 0
    """clipped updates, of some 8000, that rounding may move across the clip"""
    sums: float = 1e-12
    """how far the moments may be from those of its own states: the rounding of sums over replicas"""

    def tolerance_at(self, n_nodes: int) -> float:
        """That of `cuda` where xla, too, rounds x and W to half precision: on a GPU, with many nodes.

        A factor is off by up to 2^-12 of itself. W is off the same way in all steps, so W x of 0.3 over a time of 1
        moves x by about 3e-5, and more where coupled nodes amplify it.
        """
        in_halves = self.label == "xla" and Xla().on_gpu and n_nodes > LARGEST_EXACT
        return 1e-4 if in_halves else self.tolerance


try:
    from thermoment._engines.cuda import Cuda
except ImportError:
    _CUDA_WITHOUT_HOPPER = []
else:
    _CUDA_WITHOUT_HOPPER = [Candidate("cuda-mma", Cuda("mma"), 1e-4, 2**17, miscounts=2, sums=1e-6)]

ENGINES = [
    Candidate("reference", "reference", 0.0, 2**13),
    Candidate("xla", "xla", 2e-5, 2**17),
    Candidate("native", "native", 2e-5, 2**17),
    Candidate("cuda", "cuda", 1e-4, 2**17, miscounts=2, sums=1e-6),
    *_CUDA_WITHOUT_HOPPER,
    Candidate("xla-float64", Xla("float64"), 1e-10, 2**16),
]


def runnable(candidate: Candidate) -> Candidate:
    """The candidate; where its engine cannot run here, the test is skipped."""
    try:
        choose(candidate.engine)
    except RuntimeError as why:
        pytest.skip(str(why))
    return candidate


def agrees(found: Array, expected: Array, standard_error: Array, bias: float = 0.0) -> None:
    """Fails where a number is off by more than chance allows once in 1e6 runs, plus a known `bias`."""
    found, expected, standard_error = np.broadcast_arrays(found, expected, standard_error)
    threshold = norm.isf(1e-6 / 2 / found.size)
    off = np.maximum(np.abs(found - expected) - bias, 0) / standard_error
    assert off.max() < threshold, f"{off.max():.1f} standard errors off, {threshold:.1f} allowed"


def bits(moments: tm.Moments) -> bytes:
    """The raw moments to the last bit."""
    return np.ascontiguousarray(moments.raw).tobytes()
