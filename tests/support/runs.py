"""Small runs and what is left of them, shared by the tests of whole runs."""

import subprocess
from pathlib import Path

from thermoment.experiments.experiment import Experiment, read

TINY = """
engine = "reference"
[data]
name = "digits"
n_train = 120
n_test = 60
[protocol]
dt = 0.02
t_final = 0.2
n_replicas = 6
[features]
chunk = 50
[readout]
epochs = 3
[[reservoirs]]
name = "K1"
seed = 1
n_nodes = 6
stages = [{ surrogate = "polynomial", epochs = 2, learning_rate = 0.01 }]
[[reservoirs]]
name = "K2"
seed = 2
n_nodes = 4
s_W = 0.2
"""


def experiment(text: str, folder: Path) -> Experiment:
    """The experiment in a TOML text, which is put into `folder` as tiny.toml."""
    path = folder / "tiny.toml"
    path.write_text(text, "utf-8")
    return read(path)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the clock's."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found.pop("timings.json", None)
    return found


def copied(run: Path, target: Path) -> None:
    """A finished run and its store, as `target` and beside it; files that were one file on disk still are."""
    subprocess.run(["cp", "-a", str(run.parent), str(target.parent / "copied")], check=True)
    (target.parent / "copied" / run.name).rename(target)
    (target.parent / "copied/.stages").rename(target.parent / ".stages")
    (target.parent / "copied").rmdir()
