"""Options: checked when made, stored as plain numbers, and read without anything that computes."""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from thermoment.learning.options import Distortion, FiniteTime, Sgd, Stage, Training


def test_options_and_readouts_are_imported_without_jax() -> None:
    program = """
import sys
import thermoment.learning.options, thermoment.learning.readout
heavy = {"jax", "optax", "zarr", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
import thermoment.learning.fit
assert "jax" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_numbers_are_stored_as_plain_ones() -> None:
    sgd = Sgd(epochs=np.int64(3), learning_rate=np.float32(0.5), l2=1)  # type: ignore[arg-type]
    assert [type(value) for value in (sgd.epochs, sgd.learning_rate, sgd.l2)] == [int, float, float]
    options = FiniteTime(n_replicas=np.int64(8), kT=1)  # type: ignore[arg-type]
    assert [type(value) for value in (options.n_replicas, options.kT, options.t_final)] == [float, float, type(None)]
    assert type(FiniteTime(n_replicas=np.float64(math.inf)).n_replicas) is float
    assert FiniteTime(n_replicas=math.inf).n_replicas == math.inf
    assert FiniteTime(n_replicas=1).n_replicas == 1.0


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Stage, {"surrogate": "median", "epochs": 1, "learning_rate": 0.1}, "`surrogate` must be one of mean, poly"),
        (Stage, {"surrogate": "mean", "epochs": 0, "learning_rate": 0.1}, "`epochs` must be an integer from 1"),
        (Stage, {"surrogate": "mean", "epochs": 1, "learning_rate": -0.1}, "`learning_rate` must be positive"),
        (Training, {"optimiser": "adm"}, "`optimiser` must be one of sgd, momentum, adam, but was 'adm'"),
        (Training, {"head": "big"}, "`head` must be one of"),
        (Training, {"standardise": "twice"}, "`standardise` must be one of"),
        (Training, {"l2": -1}, "`l2` must be zero or positive"),
        (Training, {"batch_size": True}, "`batch_size` must be an integer"),
        (Sgd, {"epochs": -1}, "`epochs`"),
        (Sgd, {"learning_rate": 0}, "`learning_rate`"),
        (Sgd, {"learning_rate": None}, "`learning_rate` must be a real number"),
        (Sgd, {"seed": -1}, "`seed` must be an integer from 0"),
        (Distortion, {"rotation": -0.1}, "`rotation` must be zero or positive"),
        (Distortion, {"scale": 1.0}, "`scale` must be below 1"),
        (Distortion, {"smoothness": 0.0}, "`smoothness` must be positive"),
        (Distortion, {"shift": math.nan}, "`shift` must be finite"),
        (FiniteTime, {"epochs": 0}, "`epochs` must be an integer from 1"),
        (FiniteTime, {"optimiser": "adam"}, "`optimiser` must be one of adamw, sgd"),
        (FiniteTime, {"schedule": "step"}, "`schedule` must be one of one-cycle, cosine, constant"),
        (FiniteTime, {"learning_rate": 0}, "`learning_rate` must be positive"),
        (FiniteTime, {"weight_decay": -1.0}, "`weight_decay` must be zero or positive"),
        (FiniteTime, {"label_smoothing": 1.0}, "`label_smoothing` must be below 1"),
        (FiniteTime, {"drive_limit": 101.0}, "`drive_limit` must be at most 100"),
        (FiniteTime, {"n_replicas": -1.0}, "`n_replicas` must be positive"),
        (FiniteTime, {"n_replicas": 0.5}, "`n_replicas` must be at least 1, but was 0.5"),
        (FiniteTime, {"n_replicas": math.nan}, "`n_replicas` must be finite"),
        (FiniteTime, {"kT": math.inf}, "`kT` must be finite"),
        (FiniteTime, {"t_final": 0}, "`t_final` must be positive"),
    ],
)
def test_bad_options_are_refused(kind: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)
