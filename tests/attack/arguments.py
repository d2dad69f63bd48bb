"""Every argument of the library with every wrong value: it is taken, or refused in the one sentence."""

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import thermoment as tm
from thermoment.data import load
from thermoment.data.dataset import Dataset

HERE = Path(tempfile.gettempdir())
RESERVOIR = tm.Reservoir.draw(4, 3, seed=0)
INPUTS = np.ones((2, 3))
PROTOCOL = tm.Protocol(dt=0.1, t_final=0.2, n_replicas=3)
MOMENTS = tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine="reference")
LIMIT = replace(MOMENTS, n_replicas=math.inf)
WELL, LEANING, MIXED = tm.Dynamics(), tm.Dynamics(J3=-0.5), tm.Dynamics(J2=[1.0, -1.0], J3=[0.0, 0.3], kT=[0.1, 0.2])
PIXELS, LABELS = np.ones((2, 3), np.float32), np.array([0, 1])

VALUES: dict[str, Any] = {
    "None": None,
    "a word": "a",
    "the text of a number": "1",
    "no text": "",
    "bytes": b"1",
    "true": True,
    "a complex number": 1j,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "minus one": -1,
    "zero": 0,
    "one half": 0.5,
    "1e308": 1e308,
    "1e-308": 1e-308,
    "2^31": 2**31,
    "2^70": 2**70,
    "10^5000": 10**5000,
    "a Decimal": Decimal(1),
    "an empty list": [],
    "a dict": {},
    "a list of words": ["a", "b"],
    "a ragged list": [[1], [1, 2]],
    "one number in a list": [1.0],
    "an array of no samples": np.ones((0, 3)),
    "an array of three dimensions": np.ones((2, 3, 1)),
    "an array of 1e308": np.full((2, 3), 1e308),
    "an array of nan": np.full((2, 3), math.nan),
    "a masked array": np.ma.MaskedArray(INPUTS, mask=INPUTS == 1),
    "a masked cell": np.ma.masked,
    "an array of objects": np.array([None, 1], object),
    "an array of dates": np.array(["2026-01-01"], "M8[D]"),
    "an array without end": np.broadcast_to(0.0, (2**40, 3)),
    "a function of nothing": lambda: 0,
    "a class": tm.Reservoir,
    "an object": object(),
    "a folder": HERE,
    "a path in no folder": HERE / "no-such-folder/file",
    "a path with a null byte": "a\0b",
}


class Call(NamedTuple):
    """A function of the library, called rightly: each of its arguments is made wrong in turn."""

    function: Callable[..., Any]
    arguments: dict[str, Any]


COLD = tm.Dynamics(kT=0.05)
NOISING = tm.Noising(duration=0.2, dt=0.02, levels=3)
DRAWINGS = [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
GENERATOR = tm.train_generator(DRAWINGS, COLD, NOISING, n_hidden=2, classes=[0, 1], prompt=0.5)

CALLS: dict[str, Call] = {
    "Dynamics": Call(tm.Dynamics, {"J2": 1.0, "J4": 1.0, "mu": 1.0, "kT": 0.1, "J3": 0.5}),
    "nodes that differ": Call(
        tm.Dynamics, {"J2": [1.0, 2.0], "J4": 1.0, "mu": [1.0, 2.0], "kT": 0.1, "J3": [0.5, 0.0]}
    ),
    "node": Call(MIXED.node, {"i": 0}),
    "potential of a leaning well": Call(LEANING.potential, {"x": 1.0, "h": 0.5}),
    "stationary_point of a leaning well": Call(LEANING.stationary_point, {"h": 0.5}),
    "boltzmann_moments of a leaning well": Call(LEANING.boltzmann_moments, {"h": 0.5, "orders": (1, 2)}),
    "largest_stable_step of a leaning well": Call(LEANING.largest_stable_step, {"h": 0.5, "W_norm": 0.1}),
    "force on nodes that differ": Call(MIXED.force, {"x": [1.0, 2.0], "h": 0.5}),
    "stationary_point of nodes that differ": Call(MIXED.stationary_point, {"h": [0.5, 0.1]}),
    "boltzmann_moments of nodes that differ": Call(MIXED.boltzmann_moments, {"h": [0.5, 0.1], "orders": (1, 2)}),
    "path_likelihood": Call(
        tm.path_likelihood,
        {"reservoir": RESERVOIR, "inputs": INPUTS, "paths": np.zeros((2, 3, 4)), "protocol": PROTOCOL},
    ),
    "guided_paths": Call(tm.guided_paths, {"fields": INPUTS, "dynamics": COLD, "protocol": PROTOCOL}),
    "learn_paths": Call(
        tm.learn_paths,
        {
            "inputs": INPUTS,
            "fields": np.array([[1.0, 2.0], [3.0, 1.0]]),
            "dynamics": COLD,
            "protocol": PROTOCOL,
            "rounds": 0,
            "ridge": 0.1,
        },
    ),
    "Pathwise": Call(tm.Pathwise, {"epochs": 1, "batch": 1, "rate": 0.1, "sharpness": 1.0, "seed": 0}),
    "Teaching": Call(tm.Teaching, {"n_hidden": 1, "hidden": 1.0, "output": 1.0, "epochs": 1, "batch": 1, "rate": 0.1}),
    "Noising": Call(tm.Noising, {"field": 2.0, "duration": 0.2, "fade": 0.7, "dt": 0.02, "levels": 3}),
    "noised_paths": Call(tm.noised_paths, {"s": INPUTS, "noising": NOISING, "dynamics": COLD, "seed": 0}),
    "train_generator": Call(
        tm.train_generator,
        {
            "images": DRAWINGS,
            "dynamics": COLD,
            "noising": NOISING,
            "groups": [0, 1],
            "n_hidden": 2,
            "classes": [0, 1],
            "prompt": 0.5,
            "ridge": 0.1,
            "seed": 0,
        },
    ),
    "generate": Call(
        GENERATOR.generate,
        {
            "n": 2,
            "prompts": [0, 1],
            "duration": 0.2,
            "rest": 0.2,
            "readings": 1,
            "contrast": 1.0,
            "seed": 0,
            "engine": "reference",
        },
    ),
    "potential": Call(WELL.potential, {"x": 1.0, "h": 0.5}),
    "force": Call(WELL.force, {"x": 1.0, "h": 0.5}),
    "curvature": Call(WELL.curvature, {"x": 1.0}),
    "stationary_point": Call(WELL.stationary_point, {"h": 0.5}),
    "largest_stable_step": Call(WELL.largest_stable_step, {"h": 0.5, "W_norm": 0.1}),
    "boltzmann_density": Call(WELL.boltzmann_density, {"x": 1.0, "h": 0.5}),
    "boltzmann_moments": Call(WELL.boltzmann_moments, {"h": 0.5, "orders": (1, 2)}),
    "global_potential": Call(WELL.global_potential, {"x": np.ones(2), "h": 0.5, "W": np.zeros((2, 2))}),
    "integrability": Call(tm.integrability, {"W": np.zeros((2, 2))}),
    "Protocol": Call(
        tm.Protocol,
        {
            "dt": 0.1,
            "t_final": 0.2,
            "n_replicas": 3,
            "clip": 4.0,
            "seed": 1,
            "orders": (1, 2),
            "start": "rest",
            "t_rest": 2.0,
        },
    ),
    "Reservoir": Call(
        tm.Reservoir, {"W": RESERVOIR.W, "K": RESERVOIR.K, "b": RESERVOIR.b, "dynamics": WELL, "stream": 0}
    ),
    "draw": Call(
        tm.Reservoir.draw,
        {"n_nodes": 4, "n_inputs": 3, "s_W": 0.1, "s_K": 1.2, "s_b": 0.02, "seed": 0, "stream": 0, "dynamics": WELL},
    ),
    "drive": Call(RESERVOIR.drive, {"inputs": INPUTS}),
    "simulate": Call(
        tm.simulate,
        {
            "reservoir": RESERVOIR,
            "inputs": INPUTS,
            "protocol": PROTOCOL,
            "engine": "reference",
            "sample_ids": [0, 1],
            "progress": lambda done, total: None,  # noqa: ARG005
            "observables": (tm.Heat(),),
            "x0": np.zeros(4),
            "pairs": ((0, 1), (2, 3)),
        },
    ),
    "course": Call(
        tm.course,
        {
            "reservoir": RESERVOIR,
            "inputs": np.ones((2, 2, 3)),
            "protocol": PROTOCOL,
            "times": (0.1, 0.2),
            "hold": 0.1,
            "x0": np.zeros((2, 4)),
            "keep_end": True,
            "engine": "reference",
            "sample_ids": [0, 1],
            "progress": lambda done, total: None,  # noqa: ARG005
            "observables": (tm.Heat(),),
        },
    ),
    "phases": Call(
        lambda duration, inputs, W: tm.course(RESERVOIR, [tm.Phase(duration, inputs, W)], PROTOCOL, engine="reference"),
        {"duration": 0.2, "inputs": INPUTS, "W": RESERVOIR.W},
    ),
    "Course.at": Call(tm.course(RESERVOIR, INPUTS, PROTOCOL, engine="reference").at, {"t": 0.2}),
    "energetics": Call(
        tm.energetics,
        {
            "reservoir": RESERVOIR,
            "inputs": INPUTS,
            "protocol": PROTOCOL,
            "engine": "reference",
            "sample_ids": [0, 1],
            "x0": np.zeros(4),
            "per_replica": True,
            "progress": lambda done, total: None,  # noqa: ARG005
        },
    ),
    "joules": Call(
        tm.energetics(RESERVOIR, INPUTS, PROTOCOL, engine="reference").joules,
        {"temperature": 300.0},
    ),
    "final_states": Call(
        tm.final_states,
        {
            "reservoir": RESERVOIR,
            "inputs": INPUTS,
            "protocol": PROTOCOL,
            "engine": "reference",
            "sample_ids": [0, 1],
        },
    ),
    "sample_paths": Call(
        tm.sample_paths,
        {
            "reservoir": RESERVOIR,
            "inputs": INPUTS,
            "protocol": PROTOCOL,
            "nodes": [0],
            "every": 1,
            "engine": "reference",
            "sample_ids": [0, 1],
        },
    ),
    "order": Call(MOMENTS.order, {"p": 1}),
    "central": Call(MOMENTS.central, {"q": 1}),
    "standard_error": Call(MOMENTS.standard_error, {"p": 1}),
    "standard_error in the limit": Call(LIMIT.standard_error, {"p": 1}),
    "features": Call(MOMENTS.features, {"orders": (1, 2)}),
    "concatenate": Call(tm.concatenate, {"reservoirs": [MOMENTS], "orders": (1, 2)}),
    "Reservoir.load": Call(tm.Reservoir.load, {"path": None}),
    "Moments.load": Call(tm.Moments.load, {"path": None}),
    "Reservoir.save": Call(RESERVOIR.save, {"path": None}),
    "Moments.save": Call(MOMENTS.save, {"path": None}),
    "distance_to_equilibrium": Call(
        lambda protocol: tm.distance_to_equilibrium(RESERVOIR, INPUTS, protocol), {"protocol": PROTOCOL}
    ),
    "data.load": Call(load, {"name": "digits"}),
    "Dataset": Call(
        Dataset,
        {
            "name": "mine",
            "x_train": PIXELS,
            "y_train": LABELS,
            "x_test": PIXELS,
            "y_test": LABELS,
            "image_shape": (3,),
        },
    ),
    "Native": Call(tm.Native, {"isa": None, "threads": 1}),
    "Xla": Call(tm.Xla, {"dtype": "float32"}),
}

SPECIAL: dict[str, Callable[[], object]] = {
    "an array of moments that no memory holds": lambda: tm.final_states(
        RESERVOIR, INPUTS, tm.Protocol(n_replicas=2**20), engine="reference"
    ),
    "paths that no memory holds": lambda: tm.sample_paths(
        RESERVOIR, INPUTS, tm.Protocol(dt=1e-9), nodes=range(4), engine="reference"
    ),
    "a reservoir that no memory holds": lambda: tm.Reservoir.draw(16384, 2**20, seed=0),
    "a progress function of one argument": lambda: tm.simulate(
        RESERVOIR,
        INPUTS,
        PROTOCOL,
        engine="reference",
        progress=lambda done: None,  # type: ignore[arg-type, misc]  # noqa: ARG005
    ),
    "concatenate of moments themselves": lambda: tm.concatenate(MOMENTS),  # type: ignore[arg-type]
    "concatenate of numbers": lambda: tm.concatenate([1, 2]),  # type: ignore[list-item]
    "a node that is too cold for its quadrature": lambda: tm.Dynamics(kT=1e-60).boltzmann_moments([0.0, 1.0]),
    "an engine's class": lambda: tm.simulate(RESERVOIR, INPUTS, PROTOCOL, engine=tm.Reference),  # type: ignore[arg-type]
    "an observable's class": lambda: tm.simulate(RESERVOIR, INPUTS, PROTOCOL, observables=[tm.Heat]),  # type: ignore[list-item]
    "an observable alone": lambda: tm.simulate(RESERVOIR, INPUTS, PROTOCOL, observables=tm.Heat()),  # type: ignore[arg-type]
}
"""What must be refused, each for a reason of its own."""

TAKEN_ON_DISK = {"a word", "the text of a number"}
"""Names that `save` would write to."""


SLOW = {(name, "None") for name in ("distance_to_equilibrium", "simulate", "course", "final_states", "sample_paths")}
"""What is right, and takes seconds."""


def cases() -> Iterator[tuple[str, str, str]]:
    """(function, argument, value), by their names."""
    for name, call in CALLS.items():
        for argument, value in itertools.product(call.arguments, VALUES):
            if not (name.endswith(".save") and value in TAKEN_ON_DISK) and (name, value) not in SLOW:
                yield name, argument, value


def problem(name: str, argument: str, value: str) -> str | None:
    """What is wrong with the answer to a wrong value; None where it was taken or refused in the one sentence."""
    call = CALLS[name]
    return refusal(lambda: call.function(**{**call.arguments, argument: VALUES[value]}))


def refusal(call: Callable[[], object], *, must: bool = False) -> str | None:
    """What is wrong with how a call was refused, or that it was not where it must be."""
    try:
        call()
    except FileNotFoundError as error:
        return None if error.filename or "No such file" in str(error) else f"it names no file: {error}"
    except ValueError as error:
        said = str(error)
        good = said.startswith(("Argument `", f"{HERE}: It must hold")) and len(said) < 800
        return None if good else f"it said {said[:200]!r}"
    except BaseException as error:
        return f"it raised {type(error).__name__}: {str(error)[:200]}"
    return "it was taken" if must else None
