"""What an answer of a run's machine takes, from the features that the run has anyway; and the same derived again."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment import data
from thermoment._support.progress import Note
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.learning.options import trained_name
from thermoment.physics import integrability
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.results.results import RESULTS, Results
from thermoment.runs.feature_store import FeatureStore
from thermoment.thermodynamics.account import switching_work

# Test samples over which the work of the directed coupling is averaged; it is small beside that of the drive.
_FEW = 1024
# Numbers are kept to six digits.
_TOLERANCE = 1e-5


def answer_cost(
    features: NDArray[Any],
    reservoirs: Mapping[str, Reservoir],
    protocol: Protocol,
    images: NDArray[Any],
    meanfield: bool,
) -> dict[str, Any] | None:
    """The fields of `results.Cost`; None at kT = 0, or where the mean positions were not read.

    features: (S, F), all reservoirs joined, of the test images (S, D). The work of the drive is h . m1 of each. The
    work of a directed coupling is known only where `meanfield` says that tables of this machine are there.
    """
    if 1 not in protocol.orders or any(one.dynamics.kT == 0 for one in reservoirs.values()):
        return None
    symmetric = all(integrability(one.W).integrable for one in reservoirs.values())
    meanfield = meanfield and all(one.dynamics.J3 == 0 for one in reservoirs.values())
    cycles, start = {}, 0
    for name, one in reservoirs.items():
        first = start + protocol.orders.index(1) * one.n_nodes
        mean = features[:, first : first + one.n_nodes]
        work = float(switching_work(one.drive(images), mean, one.dynamics.kT).mean())
        if meanfield and not symmetric:
            work += _path(one, images[:_FEW], protocol)
        cycles[name] = _rounded(work)
        start += len(protocol.orders) * one.n_nodes
    answer = sum(cycles.values()) * protocol.n_replicas
    terms = ["work_on", "work_off"] + (["work_path"] if meanfield or symmetric else [])
    return {"answer": _rounded(answer) if np.isfinite(answer) else None, "cycles": cycles, "counted": terms}


def has_tables(experiment: Experiment) -> bool:
    """Whether a run has the tables of `meanfield`: it simulated, or training went through the dynamics."""
    return experiment.engine == "meanfield" or experiment.finite_time is not None


def check_cost(
    folder: Path, features: Path, results: Results, experiment: Experiment, data_dir: Path | None, note: Note
) -> list[str]:
    """What is wrong with the cost that the run in `folder` states.

    `features` is its folder of features. They and the images tell what a cycle takes; `note` is told where either is
    not at hand. What an answer takes follows from the cycles anyway.
    """
    if (stored := results.cost) is None:
        return []
    problems, n_replicas = [], experiment.protocol.n_replicas
    answer = sum(stored.cycles.values()) * n_replicas
    if not _same(stored.answer, answer if math.isfinite(answer) else None):
        problems.append(f'"cost" of {RESULTS}: {n_replicas} replicas take {answer:.6g} kT, but it has {stored.answer}')
    try:
        cycles = _cycles(folder, features, results, experiment, data_dir)
    except _MissingError as why:
        note(f"The cost of an answer was not derived again: {why}.")
        return problems
    return problems + [
        f'"cost" of {RESULTS} does not follow from the features: it has {stored.cycles.get(name)}, they give {cycle}'
        for name, cycle in cycles.items()
        if not _same(stored.cycles.get(name), cycle)
    ]


class _MissingError(Exception):
    """What a cost follows from is not there."""


def _cycles(
    folder: Path, features: Path, results: Results, experiment: Experiment, data_dir: Path | None
) -> dict[str, float]:
    """What a cycle takes of every reservoir of the machine that a run is judged by, from the files of the run."""
    files = {one.name: trained_name(one.name, experiment.finite_time) for one in experiment.reservoirs}
    if not all((features / file).is_dir() for file in files.values()):
        raise _MissingError("the run keeps no features")
    dataset = _dataset(experiment, results, data_dir)
    reservoirs = {name: Reservoir.load(folder / f"reservoirs/{file}.safetensors") for name, file in files.items()}
    test = slice(-dataset.n_test, None)
    moments = np.concatenate([FeatureStore.open(features / file).features(test) for file in files.values()], axis=1)
    found = answer_cost(moments, reservoirs, experiment.protocol, dataset.x_test, has_tables(experiment))
    return {} if found is None else dict(found["cycles"])


def _dataset(experiment: Experiment, results: Results, data_dir: Path | None) -> Dataset:
    """The images of a run, where this machine has them as they were; the network is left alone."""
    name, split = experiment.data.name, experiment.data.split
    if not data.is_here(name, data_dir):
        raise _MissingError(f"the data set {name} is not on this machine (--data-dir names its folder)")
    try:
        dataset = data.load(name, data_dir, split=split).first(experiment.data.n_train, experiment.data.n_test)
        if dataset.sha256 == results.dataset.sha256:
            return dataset
    except (ValueError, OSError):
        pass
    raise _MissingError(f"the data set {name} is another one now")


def _same(stored: float | None, found: float | None) -> bool:
    if stored is None or found is None:
        return stored is found
    return math.isclose(stored, found, rel_tol=_TOLERANCE)


def _path(reservoir: Reservoir, images: NDArray[Any], protocol: Protocol) -> float:
    from thermoment._engines.meanfield.engine import MeanField  # loads JAX
    from thermoment.thermodynamics.averages import path_work

    return float(path_work(reservoir, images, protocol, MeanField()).mean())


def _rounded(value: float) -> float:
    """Six digits: what is beyond them may differ from machine to machine."""
    return float(f"{value:.6g}")
