"""The kernels in C++ that run here, for tests that try each of them."""

import pytest

import thermoment as tm

_STATUS = tm.engines()["native"]
built = pytest.mark.skipif(not _STATUS.can_run, reason=f"native {_STATUS.note}")


def _kernels() -> dict[str, int]:
    if not _STATUS.can_run:
        return {"plain": -1}
    from thermoment._engines._native import kernels

    return {name: number for number, (name, _, runs_here, _) in enumerate(kernels()) if runs_here}


KERNELS = _kernels()
"""Their numbers by name, as the functions count that XLA calls."""
