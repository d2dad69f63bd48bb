"""How much memory there is: arrays that cannot fit are refused before anything is computed for them."""

import math
import os
from functools import cache
from pathlib import Path

from thermoment._support.checks import invalid

_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""What a container may use, on Linux: a number of bytes, or the word "max"."""


def check_fits(argument: str, *shapes: tuple[int, ...], item_bytes: int = 8) -> None:
    """Raises where arrays of these shapes, all in memory at a time, need more than there is."""
    needed = item_bytes * sum(math.prod(shape) for shape in shapes)
    if needed > (have := memory()):
        arrays = " and ".join(map(str, shapes))
        raise invalid(argument, f"ask for no more than the {_size(have)} of memory here", f"{_size(needed)}: {arrays}")


@cache
def memory() -> float:
    """Bytes of memory that this process may use at the most; infinite where the system does not say."""
    try:
        physical = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf
    try:
        return min(physical, float(_LIMIT.read_text()))
    except (OSError, ValueError):
        return physical


def _size(n_bytes: float) -> str:
    """So many bytes for people: "1.5 GiB"."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(int(math.log2(max(n_bytes, 1)) // 10), len(units) - 1)
    return f"{n_bytes / 1024**power:.3g} {units[power]}"
