"""One node of an experiment, simulated by itself for the report: its paths under three drives, and where they end."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from thermoment.physics import Dynamics
from thermoment.protocol import Protocol, whole_steps
from thermoment.reservoir import Reservoir
from thermoment.results.node import N_PATHS, N_REPLICAS, N_STATES, NodeSample
from thermoment.simulation import final_states, sample_paths

_RECORDS = 200
"""Times at which a path is recorded, at most."""
_MOST_STEPS = 2000


def simulate_node(settings: Mapping[str, Any]) -> NodeSample:
    """A node in the experiment's well, without coupling, on the reference engine. Cost: about two seconds.

    settings: those of results.json, with `dynamics` and `protocol`.
    """
    dynamics = Dynamics(**settings["dynamics"])
    drives = _drives(dynamics)
    protocol = _protocol(settings["protocol"], dynamics, drives[-1])
    every = max(1, protocol.n_steps // _RECORDS)
    while protocol.n_steps % every or protocol.rest_steps % every:
        every -= 1
    nodes = range(len(drives))
    times, x = sample_paths(
        _copies(drives, 1, dynamics), [[1.0]], protocol, nodes=nodes, every=every, engine="reference"
    )
    shown = slice(protocol.rest_steps // every, None)  # from when the drive comes
    times, paths = times[shown], np.moveaxis(x[0, :, shown], 2, 0)  # (drives, replicas, times)
    many = _copies(drives, N_STATES // N_REPLICAS, dynamics)
    states = final_states(many, [[1.0]], protocol, engine="reference")[0]
    return NodeSample(
        drives=np.array(drives),
        times=times,
        paths=paths[:, :N_PATHS],
        means=np.array([path.mean(axis=0) for path in paths]),
        ends=paths[:, :, -1],
        extent=np.array([paths.min(), paths.max()]),
        states=states.T.reshape(len(drives), -1),
    )


def _drives(dynamics: Dynamics) -> tuple[float, ...]:
    """Drives that would move a harmonic node by 0, 2 and 6 thermal widths, to one digit."""
    if dynamics.kT <= 0:
        return (0.0, 1.0, 3.0)
    width = float(np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    return (0.0, *(float(f"{factor * dynamics.kT / width:.1g}") for factor in (2, 6)))


def _protocol(given: Mapping[str, Any], dynamics: Dynamics, strongest: float) -> Protocol:
    """The experiment's protocol; with fewer steps where it has very many and fewer are stable: nobody sees that."""
    steps = round(given["t_final"] / given["dt"])
    dt = given["t_final"] / min(steps, _MOST_STEPS)
    rest = {name: given[name] for name in ("start", "t_rest") if name in given}
    if dt > dynamics.largest_stable_step(strongest) / 20 or (rest and whole_steps(rest["t_rest"], dt) is None):
        dt = given["dt"]
    return Protocol(dt, given["t_final"], N_REPLICAS, given["clip"], given["seed"], **rest)


def _copies(drives: tuple[float, ...], count: int, dynamics: Dynamics) -> Reservoir:
    """`count` uncoupled nodes under each drive, for an input of 1."""
    h = np.repeat(drives, count)
    return Reservoir(np.zeros((len(h), len(h))), h[:, None], np.zeros(len(h)), dynamics)
