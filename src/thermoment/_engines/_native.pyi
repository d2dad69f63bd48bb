from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

rest_period: int
"""Every how many steps a bfloat16 product makes up for the rounding of W."""

sparse_product: object
sparse_transposed_product: object
draw_sums: object
curve_sums: object
narrow_product: object
narrow_sums: object
"""Capsules of functions that XLA calls: sparse_calls.hpp, draw_call.hpp, curve_call.hpp, narrow_calls.hpp."""

def kernels() -> list[tuple[str, str, bool, bool]]:
    """(name, description, runs here, has bfloat16) of each kernel that was built, fastest first."""

def moments(
    *,
    isa: str,
    W: list[NDArray[np.float64]],
    drive: list[NDArray[np.float64]],
    n_steps: list[int],
    read: list[bool],
    first_step: int,
    start: NDArray[np.float64] | None,
    sample_ids: NDArray[np.uint64],
    bfloat16: NDArray[np.bool_],
    orders: tuple[int, ...],
    n_replicas: int,
    seed: int,
    stream: int,
    mu_dt: float,
    linear: float,
    cubic: float,
    sigma: float,
    clip: float,
    n_threads: int,
    raw: NDArray[np.float64],
    states: NDArray[np.float64] | None,
    work: NDArray[np.float64] | None,
    report: Callable[[int], None],
) -> list[int]:
    """Fills `raw` (R, S, len(orders), N), and `states` (S, M, N) if given; returns clipped updates up to each reading.

    `work` (R, S, M), if given, gets the work of `PathWork` up to each reading; `bfloat16` must then be False.

    W, drive, n_steps and read have an entry for each segment, R of which are read. `start` is x before the first step,
    (S or 1, M or 1, N).
    """
