"""The experiments that are attacked, as small as they can be, and the program that stops them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PLAIN = """
engine = "reference"
[data]
name = "digits"
n_train = 60
n_test = 30
[protocol]
dt = 0.02
t_final = 0.2
n_replicas = 4
[features]
chunk = 50
[readout]
epochs = 2
converged = false
[[reservoirs]]
name = "K1"
seed = 1
n_nodes = 6
stages = [{ surrogate = "polynomial", epochs = 2, learning_rate = 0.01 }]
"""
TRAINED = PLAIN.replace("[[reservoirs]]\n", "[finite_time]\nepochs = 2\nbatch_size = 30\n[[reservoirs]]\n", 1)
REPEATED = f"repeats = 2\n{PLAIN}"
THREADED = PLAIN.replace('"reference"', '"native"')
EXPERIMENTS = {"a run": PLAIN, "a run with finite-time training": TRAINED, "a run with repeats": REPEATED}


def stopped(text: str, folder: Path, *jobs: str) -> dict[str, Any]:
    """What stopped.py finds for ACT:START:STEP, by ACT: how many were tried, and what was wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.toml").write_text(text, "utf-8")
    program = Path(__file__).with_name("stopped.py")
    command = [sys.executable, str(program), str(folder), str(folder / "small.toml"), *jobs]
    paths = [str(program.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
