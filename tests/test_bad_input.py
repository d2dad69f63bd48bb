"""Bad input: refused before any work, with the argument, what it must be and what it was."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment._engines.task import Move, Outcome, Report, Task
from thermoment._engines.xla import Xla
from thermoment.thermodynamics.heat import Heat

# Without their types: what a caller who does not check types may pass.
Dynamics: Any = tm.Dynamics
Protocol: Any = tm.Protocol
Reservoir: Any = tm.Reservoir

GOOD = tm.Reservoir.draw(4, 3, seed=0)
INPUTS = np.ones((2, 3))


class Untouched:
    """An engine that must never be reached."""

    name = "untouched"
    tasks_at_once = 1

    def status(self) -> str:
        return "nothing"

    def check(self, task: Task) -> None:
        pass

    def moments(self, task: Task, report: Report) -> Outcome:
        raise AssertionError("work began on bad input")


class PerNode:
    """An observable that forgets to sum over the nodes."""

    name = "per node"

    def increment(self, move: Move) -> Any:
        return move.change


class NotHashable:
    """An observable for which no program could be kept."""

    name = "not hashable"
    __hash__ = None  # type: ignore[assignment]

    def increment(self, move: Move) -> Any:
        return move.change.sum(axis=-1)


def simulate(inputs: Any = INPUTS, protocol: Any = None, reservoir: Any = GOOD, **options: Any) -> tm.Moments:
    return tm.simulate(reservoir, inputs, protocol, **{"engine": Untouched(), **options})


def course(inputs: Any = INPUTS, protocol: Any = None, **options: Any) -> tm.Course:
    return tm.course(GOOD, inputs, protocol, **{"engine": Untouched(), **options})


def with_(array: Any, index: Any, value: float) -> np.ndarray[Any, Any]:
    changed = np.array(array, float)
    changed[index] = value
    return changed


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "kT negative": (lambda: Dynamics(kT=-0.1), "`kT` must be zero or positive, but was -0.1."),
    "kT nan": (lambda: Dynamics(kT=np.nan), "`kT` must be finite, but was nan."),
    "mu zero": (lambda: Dynamics(mu=0), "`mu` must be positive, but was 0.0."),
    "J4 negative": (lambda: Dynamics(J4=-1), "`J4` must be zero or positive, but was -1.0."),
    "J4 zero, J2 zero": (lambda: Dynamics(J2=0, J4=0), "`J2` must be positive where J4 = 0"),
    "J4 zero, J2 negative": (lambda: Dynamics(J2=-1, J4=0), "`J2` must be positive where J4 = 0"),
    "J2 a word": (lambda: Dynamics(J2="one"), "`J2` must be a real number, but was 'one'."),
    "dt negative": (lambda: Protocol(dt=-1), "`dt` must be positive, but was -1.0."),
    "dt does not divide": (
        lambda: Protocol(dt=0.3),
        "`dt` must divide t_final = 1.0 into whole steps, but was 0.3.",
    ),
    "dt nearly divides": (
        lambda: Protocol(dt=0.3333),
        "`dt` must divide t_final = 1.0 into whole steps, but was 0.3333.",
    ),
    "dt above t_final": (lambda: Protocol(dt=2.0), "`dt` must divide t_final = 1.0 into whole steps, but was 2.0."),
    "dt tiny": (lambda: Protocol(dt=1e-12), "`dt` must give at most 2^32 steps to t_final = 1.0, but was 1e-12."),
    "t_final zero": (lambda: Protocol(t_final=0), "`t_final` must be positive, but was 0.0."),
    "M zero": (lambda: Protocol(n_replicas=0), "`n_replicas` must be an integer from 1 to 1048576, but was 0."),
    "M too large": (lambda: Protocol(n_replicas=2**20 + 1), "`n_replicas` must be an integer from 1 to 1048576"),
    "M fractional": (lambda: Protocol(n_replicas=1.5), "`n_replicas` must be an integer, but was 1.5."),
    "M true": (
        lambda: Protocol(n_replicas=True),
        "`n_replicas` must be an integer from 1 to 1048576, but was True.",
    ),
    "clip zero": (lambda: Protocol(clip=0), "`clip` must be positive, but was 0.0."),
    "clip nan": (lambda: Protocol(clip=np.nan), "`clip` must be finite, but was nan."),
    "seed too large": (lambda: Protocol(seed=2**32), "`seed` must be an integer from 0 to 4294967295"),
    "order nine": (lambda: Protocol(orders=(1, 9)), "`orders` must be an integer from 1 to 8, but was 9."),
    "orders twice": (
        lambda: Protocol(orders=(2, 2)),
        "`orders` must be increasing integers from 1 to 8, but was (2, 2).",
    ),
    "no orders": (lambda: Protocol(orders=()), "`orders` must be increasing integers from 1 to 8, but was ()."),
    "orders a number": (lambda: Protocol(orders=2), "`orders` must be a sequence of integers, but was 2."),
    "start unknown": (lambda: Protocol(start="one"), "`start` must be one of zero, rest, but was 'one'."),
    "no t_rest": (lambda: Protocol(start="rest"), '`t_rest` must be a time where start is "rest", but was None.'),
    "t_rest without rest": (
        lambda: Protocol(t_rest=2.0),
        '`t_rest` must be left out where start is "zero", but was 2.0.',
    ),
    "t_rest no multiple": (
        lambda: Protocol(start="rest", t_rest=1.0005),
        "`dt` must divide t_rest = 1.0005 into whole steps, but was 0.001.",
    ),
    "a rest too short": (
        lambda: simulate(protocol=Protocol(start="rest", t_rest=1.0)),
        "`t_rest` must be at least 1.235, three times the slowest relaxation of an undriven node, but was 1.0.",
    ),
    "a rest in two cold wells": (
        lambda: simulate(
            protocol=Protocol(start="rest", t_rest=1.0),
            reservoir=Reservoir(GOOD.W, GOOD.K, GOOD.b, Dynamics(J2=-1.0, kT=0.0)),
        ),
        '`start` must be "zero" for a well in which a node never comes to rest, but was rest.',
    ),
    "x0 shape": (
        lambda: simulate(x0=np.ones((4, 2))),
        "`x0` must have shape (4,), (2, 4) or (2, 128, 4), but has shape (4, 2).",
    ),
    "x0 of other replicas": (lambda: simulate(x0=np.ones((2, 5, 4))), "`x0` must have shape (4,), (2, 4) or (2, 128"),
    "x0 nan": (lambda: simulate(x0=[0, 0, np.nan, 0]), "`x0` must be finite, but was nan at index (2,)."),
    "x0 words": (lambda: simulate(x0="here"), "`x0` must be a real array"),
    "x0 beyond the clip": (
        lambda: simulate(protocol=Protocol(clip=2.0), x0=[0, 0, -2.5, 0]),
        "`x0` must be within the clip of 2, but was up to 2.5.",
    ),
    "x0 after too many steps": (
        lambda: simulate(x0=tm.State(np.zeros((2, 128, 4)), 2**32 - 5)),
        "`x0` must leave room for this run in the 2^32 steps of the noise, but was after 4294967291 steps.",
    ),
    "signal shape": (
        lambda: course(np.ones((2, 5, 4))),
        "`inputs` must have shape (S, T, 3), but has shape (2, 5, 4).",
    ),
    "course of one row": (lambda: course(np.ones(3)), "`inputs` must have shape (S, 3), but has shape (3,)."),
    "signal nan": (lambda: course(np.full((2, 5, 3), np.nan)), "`inputs` must be finite"),
    "hold without a signal": (
        lambda: course(hold=0.1),
        "`hold` must be left out unless inputs are signals of shape (S, T, D), but was 0.1.",
    ),
    "hold no multiple": (
        lambda: course(np.ones((2, 5, 3)), hold=0.0105),
        "`hold` must be a multiple of dt = 0.001, at most 2^32 of them, but was 0.0105.",
    ),
    "times no multiple": (
        lambda: course(times=(0.1, 0.2005)),
        "`times` must be a multiple of dt = 0.001, at most 2^32 of them, but was 0.2005.",
    ),
    "times fall": (lambda: course(times=(0.2, 0.1)), "`times` must increase, but was 0.1 after 0.2."),
    "times twice": (lambda: course(times=(0.1, 0.1)), "`times` must increase, but was 0.1 after 0.1."),
    "time zero": (lambda: course(times=(0.0, 0.1)), "`times` must be positive, but was 0.0."),
    "no times": (lambda: course(times=()), "`times` must name at least one time, but was empty."),
    "times a number": (lambda: course(times=0.1), "`times` must be a sequence of times, but was 0.1."),
    "times after the signal": (
        lambda: course(np.ones((2, 5, 3)), hold=0.1, times=(0.6,)),
        "`times` must end with the inputs, which last for 0.5, but was 0.6.",
    ),
    "phase samples": (
        lambda: course([tm.Phase(0.1, INPUTS), tm.Phase(0.1, np.ones((3, 3)))]),
        "`inputs` must have shape (2, 3), but has shape (3, 3).",
    ),
    "phase duration": (
        lambda: course([tm.Phase(0.10005, INPUTS)]),
        "`duration` must be a multiple of dt = 0.001, at most 2^32 of them, but was 0.10005.",
    ),
    "phase W": (
        lambda: course([tm.Phase(0.1, INPUTS, np.zeros((3, 3)))]),
        "`W` must have shape (4, 4), but has shape (3, 3).",
    ),
    "phase W diagonal": (
        lambda: course([tm.Phase(0.1, INPUTS, np.eye(4))]),
        "`W` must have a zero diagonal",
    ),
    "phase W unstable": (
        lambda: course([tm.Phase(0.1, None, 1e5 * (np.ones((4, 4)) - np.eye(4)))]),
        "`dt` must be at most ",
    ),
    "phases and others": (
        lambda: course([tm.Phase(0.1, INPUTS), INPUTS]),
        "`inputs` must be phases throughout",
    ),
    "keep_end": (lambda: course(keep_end=1), "`keep_end` must be True or False, but was 1."),
    "hold of phases": (
        lambda: course([tm.Phase(0.1, INPUTS)], hold=0.1),
        "`hold` must be left out where inputs are phases, each with its duration, but was 0.1.",
    ),
    "W not square": (
        lambda: Reservoir(np.zeros((2, 3)), INPUTS, INPUTS),
        "`W` must have shape (N, N), but has shape (2, 3).",
    ),
    "W diagonal": (
        lambda: Reservoir(with_(GOOD.W, (2, 2), 0.5), GOOD.K, GOOD.b),
        "`W` must have a zero diagonal (np.fill_diagonal(W, 0) makes one), but was 0.5 at index (2, 2).",
    ),
    "W nan": (
        lambda: Reservoir(with_(GOOD.W, (1, 2), np.nan), GOOD.K, GOOD.b),
        "`W` must be finite, but was nan at index (1, 2).",
    ),
    "W too large": (
        lambda: Reservoir(np.broadcast_to(0.0, (16385, 16385)), GOOD.K, GOOD.b),
        "`W` must couple at most 16384 nodes, but was of shape (16385, 16385).",
    ),
    "K shape": (
        lambda: Reservoir(GOOD.W, np.ones((5, 3)), GOOD.b),
        "`K` must have shape (4, D), but has shape (5, 3).",
    ),
    "b shape": (
        lambda: Reservoir(GOOD.W, GOOD.K, np.ones((4, 1))),
        "`b` must have shape (4,), but has shape (4, 1).",
    ),
    "K words": (lambda: Reservoir(GOOD.W, [["a"]], GOOD.b), "`K` must be a real array, but was of type list."),
    "K ragged": (lambda: Reservoir(GOOD.W, [[1], [1, 2]], GOOD.b), "`K` must be a real array"),
    "dynamics missing": (
        lambda: Reservoir(GOOD.W, GOOD.K, GOOD.b, None),
        "`dynamics` must be a thermoment.Dynamics",
    ),
    "stream": (
        lambda: Reservoir(GOOD.W, GOOD.K, GOOD.b, stream=-1),
        "`stream` must be an integer from 0 to 4294967295",
    ),
    "draw N": (lambda: tm.Reservoir.draw(0, 3, seed=0), "`n_nodes` must be an integer from 1 to 16384, but was 0."),
    "draw N too large": (lambda: tm.Reservoir.draw(16385, 3, seed=0), "`n_nodes` must be an integer from 1 to 16384"),
    "draw scale": (lambda: tm.Reservoir.draw(2, 3, s_W=-1, seed=0), "`s_W` must be zero or positive, but was -1.0."),
    "inputs nan": (
        lambda: simulate(with_(INPUTS, (1, 0), np.nan)),
        "`inputs` must be finite, but was nan at index (1, 0).",
    ),
    "inputs infinite": (
        lambda: simulate(with_(INPUTS, (0, 2), np.inf)),
        "`inputs` must be finite, but was inf at index (0, 2).",
    ),
    "inputs shape": (lambda: simulate(np.ones((2, 4))), "`inputs` must have shape (S, 3), but has shape (2, 4)."),
    "inputs one row": (lambda: simulate(np.ones(3)), "`inputs` must have shape (S, 3), but has shape (3,)."),
    "inputs none": (lambda: simulate(np.ones((0, 3))), "`inputs` must have shape (S, 3), but has shape (0, 3)."),
    "inputs complex": (lambda: simulate(INPUTS * 1j), "`inputs` must be a real array"),
    "drive overflows": (
        lambda: simulate(INPUTS * 1e308, reservoir=Reservoir(GOOD.W, GOOD.K * 100, GOOD.b)),
        "`drive` must be finite",
    ),
    "dt unstable": (
        lambda: simulate(INPUTS * 100, Protocol(dt=0.1)),
        "`dt` must be at most 0.0",
    ),
    "ids shape": (lambda: simulate(sample_ids=[1]), "`sample_ids` must have shape (2,), but has shape (1,)."),
    "ids negative": (
        lambda: simulate(sample_ids=[1, -1]),
        "`sample_ids` must be integers from 0 to 2^64 - 1, but was -1 at the least.",
    ),
    "ids fractional": (
        lambda: simulate(sample_ids=[1.0, 2.0]),
        "`sample_ids` must be integers from 0 to 2^64 - 1, but was of dtype float64.",
    ),
    "ids too large": (
        lambda: simulate(sample_ids=[0, 2**64]),
        "`sample_ids` must be integers from 0 to 2^64 - 1, but was of dtype object.",
    ),
    "reservoir": (lambda: simulate(reservoir=None), "`reservoir` must be a thermoment.Reservoir, but was None."),
    "protocol": (lambda: simulate(protocol=5), "`protocol` must be a thermoment.Protocol, but was 5."),
    "engine not one": (lambda: simulate(engine=5), "`engine` must be a name or an engine, but was 5."),
    "engine unknown": (lambda: simulate(engine="abacus"), "`engine` must be one of the following, but was 'abacus'."),
    "observable not one": (
        lambda: simulate(observables=[5]),
        "`observables` must be objects with a name and an increment, but was 5.",
    ),
    "observable of nodes": (
        lambda: simulate(observables=[PerNode()]),
        "`observables` must add one number to each replica, but was per node, which adds shape (2, 4) to 2.",
    ),
    "observable not hashable": (
        lambda: simulate(observables=[NotHashable()]),
        "`observables` must be hashable, as a frozen dataclass is, but was not hashable.",
    ),
    "observables twice": (
        lambda: simulate(observables=[Heat(), Heat()]),
        "`observables` must have different names, but was heat, 2 times.",
    ),
    "xla dtype": (lambda: Xla("float16"), '`dtype` must be "float32" or "float64", but was \'float16\'.'),
    "no replicas kept": (
        lambda: tm.final_states(GOOD, INPUTS, engine=Untouched()),
        "`engine` must be one that keeps single replicas",
    ),
    "path node": (
        lambda: tm.sample_paths(GOOD, INPUTS, nodes=[4]),
        "`nodes` must be an integer from 0 to 3, but was 4.",
    ),
    "path every": (lambda: tm.sample_paths(GOOD, INPUTS, every=3), "`every` must divide the 1000 steps, but was 3."),
    "integrability": (lambda: tm.integrability(np.ones((2, 3))), "`W` must have shape (N, N), but has shape (2, 3)."),
    "drive of Boltzmann": (
        lambda: Dynamics().boltzmann_moments([np.nan]),
        "`h` must be finite, but was nan at index (0,).",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises(ValueError, match="^Argument " + re.escape(message)):
        call()


def test_the_stable_step_that_is_named_is_stable() -> None:
    with pytest.raises(ValueError, match="largest stable step") as refused:
        simulate(INPUTS * 100, tm.Protocol(dt=0.1))
    named = re.search(r"at most ([0-9.e-]+)", str(refused.value))
    assert named is not None
    stable = 1 / np.ceil(1 / float(named[1]))
    protocol = tm.Protocol(dt=stable, n_replicas=2)
    moments = tm.simulate(GOOD, INPUTS * 100, protocol, engine="reference")
    assert np.isfinite(moments.raw).all()


@pytest.mark.parametrize("w", [0.0, 8.0])
def test_a_step_is_refused_from_the_largest_stable_one_on(w: float) -> None:
    """The largest stable step is that of the whole network: coupled nodes need a smaller one than nodes alone."""
    pair = tm.Reservoir(w * (1 - np.eye(2)), np.ones((2, 1)), np.zeros(2))
    stable = pair.dynamics.largest_stable_step(1.0, w)
    tm.simulate(pair, [[1.0]], tm.Protocol(dt=0.999 * stable, t_final=0.999 * stable), engine="reference")
    beyond = 1.001 * stable
    with pytest.raises(
        ValueError, match=f"`dt` must be at most {stable:.3g}, the largest stable step for drives up to 1"
    ):
        simulate([[1.0]], tm.Protocol(dt=beyond, t_final=beyond), pair)


def test_an_unknown_engine_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"\n  reference: NumPy .*\n  xla: JAX"):
        simulate(engine="abacus")


def test_repeated_ids_are_allowed() -> None:
    moments = tm.simulate(GOOD, INPUTS, tm.Protocol(dt=0.1), engine="reference", sample_ids=[3, 3])
    assert np.array_equal(moments.raw[0], moments.raw[1])
