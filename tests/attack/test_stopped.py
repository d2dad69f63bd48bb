"""Runs stopped by a signal, by a full disk or by a failing one: the same command again ends with the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attack.small import PLAIN, REPEATED, THREADED, TRAINED, stopped
from thermoment._support.leaving import SENTENCE

FEW = ("SIGKILL:170:1000", "SIGINT:133:1000", "ENOSPC:190:1000")
MANY = ("SIGKILL:5:70", "SIGINT:11:70", "EIO:23:90", "EACCES:47:200", "ENOSPC:17:120", "EDQUOT:200:400")


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        pytest.param(PLAIN, FEW, id="plain"),
        pytest.param(PLAIN, MANY, id="plain, many", marks=pytest.mark.slow),
        pytest.param(TRAINED, ("SIGKILL:9:140",), id="trained", marks=pytest.mark.slow),
        pytest.param(REPEATED, ("SIGKILL:13:140",), id="repeated", marks=pytest.mark.slow),
        pytest.param(THREADED, ("SIGINT:21:90",), id="threaded", marks=pytest.mark.slow),
    ],
)
def test_stopped_anywhere_it_says_so_and_goes_on_to_the_same_bytes(
    tmp_path: Path, text: str, jobs: tuple[str, ...]
) -> None:
    found = stopped(text, tmp_path, *jobs)
    assert set(found) == {job.split(":")[0] for job in jobs}
    assert all(act["tried"] > 0 for act in found.values())
    assert [failure for act in found.values() for failure in act["failures"]] == []


INTERRUPTED_AT_IMPORT = """
import os, signal, sys
from thermoment.__main__ import main
seen = 0
def count(event, arguments):
    global seen
    if event == "import":
        seen += 1
        if seen == {number}:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(count)
sys.argv = ["thermoment", "run", "digits", "--set", "data.n_train=99999"]
main()
"""


@pytest.mark.parametrize("number", [1, 40, 300, pytest.param(1200, marks=pytest.mark.slow)])
def test_ctrl_c_while_it_imports_is_one_line(number: int) -> None:
    program = INTERRUPTED_AT_IMPORT.format(number=number)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (130, f"{SENTENCE}\n", "")


def test_the_command_deals_with_ctrl_c_before_it_imports_anything() -> None:
    program = "import sys, thermoment.__main__ as _; print({'numpy', 'click', 'thermoment.cli'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_output_that_nobody_reads_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "thermoment", "data", "digits"]
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "")
