"""No test reads or writes the user's files: all tests of a run share a new cache, and no folder is set from outside."""

import math
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from thermoment.runs import drawing

_COMPILED = "JAX_COMPILATION_CACHE_DIR"


def pytest_configure(config: pytest.Config) -> None:
    """What JAX compiles is shared by the parallel workers of a run, and by all processes that tests start."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit it
        folder = tempfile.mkdtemp(prefix="thermoment-compiled-")
        os.environ |= {_COMPILED: folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new cache, shared by the parallel workers of one run, so that tables are built once."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOMENT_CACHE", str(cache))
        patch.delenv("THERMOMENT_DATA", raising=False)
        patch.delenv("THERMOMENT_STORE", raising=False)
        # Tests stand in for figures in this process, and go the same way on every machine.
        patch.setattr(drawing, "FROM_CORES", math.inf)
        yield cache


@pytest.fixture(scope="session", autouse=True)
def _hears_ctrl_c() -> None:
    """Processes that tests start hear SIGINT, though whoever started the tests may not: a shell ignores it for `&`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
