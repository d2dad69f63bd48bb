"""energetics: what it takes to ask a reservoir or a machine, in units of kT.

The terms of the account are in account.py, and explained in docs/energy.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine
from thermoment._support.checks import check_positive, invalid, quoted
from thermoment._support.progress import Progress
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import Start, check_system
from thermoment.thermodynamics.account import Account, Array

BOLTZMANN = 1.380649e-23
"""k in J/K"""
ACCOUNTANTS = "native, xla or reference, which sample, or meanfield, which does not"
"""The engines that keep account."""


@dataclass(frozen=True, eq=False)
class Energetics:
    """The energy account of every input, in units of kT: means over the replicas of one cycle, (S,) each.

    Of several reservoirs it is the sum over them.
    """

    work_on: Array
    """work that it takes to switch the drive on: -h . x(0)"""
    work_off: Array
    """work that it takes to switch the drive off: h . x(t_final)"""
    work_path: Array
    """work of the antisymmetric part of W on the nodes while the drive is on"""
    heat: Array
    """heat given off to the bath while the drive is on: work_path - energy"""
    energy: Array
    """change of E = sum_i J2 x_i^2 + J4 x_i^4 - h . x - x . (W + W^T) x / 4 while the drive is on"""
    cycle: Array
    """what a whole cycle takes: work_on + work_off + work_path"""
    standard_errors: Account
    """of each of these: from the spread over replicas, NaN for a single one; without sampling the estimated error"""
    replicas: Account | None
    """each of these for every replica, (S, M), where it was asked for; of one reservoir only"""
    n_replicas: int | float
    kT: float
    engine: str

    def __repr__(self) -> str:
        mean = f"mean cycle {float(self.cycle.mean()):.4g} kT"
        return f"Energetics(S={len(self.cycle)}, n_replicas={self.n_replicas}, engine={self.engine!r}, {mean})"

    @property
    def entropy(self) -> Array:
        """Entropy that the bath gains while the drive is on, in units of k: heat / kT, (S,).

        The nodes' own entropy is not in it. Over a closed cycle that one comes back to where it was, and the bath has
        gained `cycle` in all (docs/energy.md).
        """
        return self.heat

    @property
    def cost(self) -> Array:
        """What an answer takes in units of kT: `cycle` times n_replicas, (S,)."""
        return self.cycle * self.n_replicas

    @property
    def cost_standard_error(self) -> Array:
        """Standard error of `cost`: (S,)."""
        return self.standard_errors.cycle * self.n_replicas

    def joules(self, temperature: float = 300.0) -> Array:
        """What an answer takes in joules if the bath is at this temperature, in kelvin: (S,)."""
        return self.cost * (BOLTZMANN * check_positive("temperature", temperature))


def energetics(
    reservoir: Reservoir | Sequence[Reservoir] | Any,
    inputs: ArrayLike,
    protocol: Protocol | None = None,
    *,
    engine: str | Engine = "auto",
    sample_ids: ArrayLike | None = None,
    x0: Start = None,
    per_replica: bool = False,
    progress: Progress = False,
) -> Energetics:
    """Work, heat and energy of every input, in units of kT, with standard errors.

    Args:
        reservoir: one reservoir; a list of them, whose accounts are added up; or a machine that has `reservoirs` and a
            `protocol`, such as `thermoment.load(...)` and `thermoment.pretrained(...)` give.
        inputs: (S, D), one sample a row.
        protocol: start, step, time, replicas; the machine's own, or `Protocol()`, unless given. Only a start from rest
            closes the cycle: with start "zero" somebody has to put every node to x = 0, which is not counted.
        engine: native, xla or reference sample; meanfield gives averages without sampling, with an estimate of their
            error. "auto" is the fastest here that keeps account. cuda keeps none and is refused.
        sample_ids: (S,), as for `simulate`.
        x0: x(0), as for `simulate`, instead of the protocol's start.
        per_replica: whether the account of every replica is wanted too, (S, M) for each term.
        progress: as for `simulate`.

    Returns:
        Energetics: `work_on`, `work_off`, `work_path`, `heat`, `energy`, `entropy`, `cycle`, `cost`, and
        `standard_errors` of them, (S,) each.

    The work along a path is a Stratonovich sum over the steps, exact for the path that was simulated, and so is the
    first law. The paths themselves are those of Euler steps, which errs in all averages by the order of dt; meanfield
    solves the limit dt -> 0. Cost: that of `simulate`, in float32 products on native.
    """
    if not isinstance(per_replica, bool | np.bool_):
        raise invalid("per_replica", "be True or False", quoted(per_replica))
    reservoirs, protocol = _machine(reservoir, protocol)
    kT = reservoirs[0].dynamics.kT
    for one in reservoirs:
        if np.ndim(one.dynamics.kT):
            raise invalid("kT", "be the same for all nodes where energies are asked for in units of it", "an array")
        if one.dynamics.kT == 0:
            raise invalid("kT", "be positive where energies are asked for in units of kT", 0.0)
        if one.dynamics.kT != kT:
            raise invalid("reservoir", f"have kT = {kT:g} throughout, to add up the accounts", one.dynamics.kT)
        if one.n_inputs != reservoirs[0].n_inputs:
            raise invalid("reservoir", f"take {reservoirs[0].n_inputs} inputs throughout", one.n_inputs)
    if len(reservoirs) > 1 and per_replica:
        raise invalid("per_replica", "be False for several reservoirs, whose replicas are not paired", True)
    name = engine if isinstance(engine, str) else getattr(engine, "name", None)
    if name == "cuda":
        raise invalid("engine", f"be one that keeps account of work: {ACCOUNTANTS}", name)
    if name == "meanfield":
        _refuse("x0", x0 is not None, "be left out for the meanfield engine, whose nodes start at zero or at rest")
        _refuse("per_replica", per_replica, "be False for the meanfield engine, which has no single replicas")
        from thermoment._engines.meanfield.engine import MeanField  # loads JAX
        from thermoment.thermodynamics.averages import averages

        found, _ = choose(engine)
        assert isinstance(found, MeanField)
        parts = [averages(one, inputs, protocol, found) for one in reservoirs]
    else:
        from thermoment.thermodynamics.paths import sampled

        options = (sample_ids, x0, bool(per_replica), progress)
        parts = [sampled(one, inputs, protocol, engine, *options) for one in reservoirs]
    means, errors, replicas, names = zip(*parts, strict=True)
    total = Account(*(sum(term) for term in zip(*means, strict=True)))
    error = Account(*(np.sqrt(sum(term**2 for term in terms)) for terms in zip(*errors, strict=True)))
    return Energetics(*total, error, replicas[0], protocol.n_replicas, kT, names[0])


def _refuse(argument: str, given: bool, must: str) -> None:
    if given:
        raise invalid(argument, must, "given" if argument == "x0" else True)


def _machine(reservoir: Any, protocol: Protocol | None) -> tuple[list[Reservoir], Protocol]:
    """The reservoirs that are asked, and how."""
    own = getattr(reservoir, "protocol", None)
    if isinstance(own, Protocol) and protocol is None:
        protocol = own
    found = getattr(reservoir, "reservoirs", reservoir)
    if isinstance(found, Mapping):
        found = list(found.values())
    if isinstance(found, Reservoir) or not isinstance(found, Sequence):
        return [found], check_system(found, protocol)
    if not found:
        raise invalid("reservoir", "be at least one thermoment.Reservoir", "empty")
    for one in found:
        protocol = check_system(one, protocol)
    assert protocol is not None
    return list(found), protocol
