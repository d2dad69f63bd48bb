"""One node of an experiment, simulated by itself for the report: its paths under three drives, and where they end."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from thermoment.physics import Dynamics
from thermoment.plot.machine import every_for, typical_drives, uncoupled
from thermoment.protocol import Protocol, whole_steps
from thermoment.results.node import N_PATHS, N_REPLICAS, N_STATES, NodeSample
from thermoment.simulation import final_states, sample_paths

_MOST_STEPS = 2000


def simulate_node(settings: Mapping[str, Any]) -> NodeSample:
    """A node in the experiment's well, without coupling, on the reference engine. Cost: about two seconds.

    settings: those of results.json, with `dynamics` and `protocol`.
    """
    dynamics = Dynamics(**settings["dynamics"])
    drives = np.array(typical_drives(dynamics))
    protocol = _protocol(settings["protocol"], dynamics, float(drives[-1]))
    every, nodes = every_for(protocol.n_steps), range(len(drives))
    while protocol.n_steps % every or protocol.rest_steps % every:
        every -= 1
    times, x = sample_paths(
        uncoupled(drives, dynamics), [[1.0]], protocol, nodes=nodes, every=every, engine="reference"
    )
    shown = slice(protocol.rest_steps // every, None)  # from when the drive comes
    times, paths = times[shown], np.moveaxis(x[0, :, shown], 2, 0)  # (drives, replicas, times)
    many = uncoupled(np.repeat(drives, N_STATES // N_REPLICAS), dynamics)
    states = final_states(many, [[1.0]], protocol, engine="reference")[0]
    return NodeSample(
        drives=drives,
        times=times,
        paths=paths[:, :N_PATHS],
        means=np.array([path.mean(axis=0) for path in paths]),
        ends=paths[:, :, -1],
        extent=np.array([paths.min(), paths.max()]),
        states=states.T.reshape(len(drives), -1),
    )


def _protocol(given: Mapping[str, Any], dynamics: Dynamics, strongest: float) -> Protocol:
    """The experiment's protocol; with fewer steps where it has very many and fewer are stable: nobody sees that."""
    steps = round(given["t_final"] / given["dt"])
    dt = given["t_final"] / min(steps, _MOST_STEPS)
    rest = {name: given[name] for name in ("start", "t_rest") if name in given}
    if dt > dynamics.largest_stable_step(strongest) / 20 or (rest and whole_steps(rest["t_rest"], dt) is None):
        dt = given["dt"]
    return Protocol(dt, given["t_final"], N_REPLICAS, given["clip"], given["seed"], **rest)
