"""Questions made up from the OpenAPI description, good and bad ones: the server answers as it is described."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.page_server import serving
from support.small_machine import small_machine
from thermoment.web.app import Site

pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install '.[dev]'")


@pytest.mark.slow
def test_the_server_does_what_its_description_says(tmp_path: Path) -> None:
    """No status that is not described, no answer of another shape, no bad question taken, no good one refused."""
    with serving(Site(small_machine())) as address:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/api/openapi.json"]
        options = ["--checks=all", "--mode=all", "--max-examples=25", "--seed=1", "--generation-database=none"]
        options.append("--request-timeout=300")  # a busy machine is no fault of the server
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=3000, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
