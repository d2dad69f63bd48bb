from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

rest_period: int
"""Every how many steps a bfloat16 product makes up for the rounding of W."""

def kernels() -> list[tuple[str, str, bool, bool]]:
    """(name, description, runs here, has bfloat16) of each kernel that was built, fastest first."""

def moments(
    *,
    isa: str,
    W: NDArray[np.float64],
    drive: NDArray[np.float64],
    sample_ids: NDArray[np.uint64],
    bfloat16: NDArray[np.bool_],
    orders: tuple[int, ...],
    n_replicas: int,
    n_steps: int,
    seed: int,
    stream: int,
    mu_dt: float,
    linear: float,
    cubic: float,
    sigma: float,
    clip: float,
    n_threads: int,
    raw: NDArray[np.float64],
    report: Callable[[int], None],
) -> int:
    """Fills `raw` (S, len(orders), N) and returns the number of clipped updates."""
