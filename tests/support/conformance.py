"""The engines that tests/test_conformance.py examines, the reference first. A new engine is added to `ENGINES`."""

from dataclasses import dataclass

import numpy as np

import thermoment as tm
from thermoment._engines.task import Engine
from thermoment._engines.xla import Xla


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


try:
    from thermoment._engines.cuda import Cuda
except ImportError:
    _CUDA_WITHOUT_HOPPER = []
else:
    _CUDA_WITHOUT_HOPPER = [Candidate("cuda-mma", Cuda("mma"), 1e-4, 2**17, miscounts=2)]

ENGINES = [
    Candidate("reference", "reference", 0.0, 2**13),
    Candidate("xla", "xla", 2e-5, 2**17),
    Candidate("native", "native", 2e-5, 2**17),
    Candidate("cuda", "cuda", 1e-4, 2**17, miscounts=2),
    *_CUDA_WITHOUT_HOPPER,
    Candidate("xla-float64", Xla("float64"), 1e-10, 2**16),
]


def bits(moments: tm.Moments) -> bytes:
    """The raw moments to the last bit."""
    return np.ascontiguousarray(moments.raw).tobytes()
