"""What a client asks: JSON, checked field by field, as a frozen `Question`; all else is refused in one sentence."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import shown
from thermoment.machines.classifier import Classifier
from thermoment.web.images import drawn

MOST_REPLICAS = 1024
MOST_POINTS = 20_000
"""Points of all strokes together: a drawing of a few minutes."""
_NOISE = 2**32 - 1
_KNOWN = ("pixels", "strokes", "engine", "n_replicas", "kT", "t_final", "sample_id", "reservoirs", "orders")

Array = NDArray[np.float64]


class RefusedError(Exception):
    """A request that cannot be answered: the status, and a sentence for the client."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def wrong(field: str, must: str, was: object) -> RefusedError:
    """The refusal of a field: what it must be, and what it was."""
    return RefusedError(422, f"Field `{field}` must {must}, but was {shown(was)}.")


@dataclass(frozen=True)
class Limits:
    """The settings that a machine takes questions in, around its own."""

    kT: tuple[float, float]
    t_final: tuple[float, float]
    n_replicas: tuple[int, int] = (1, MOST_REPLICAS)

    @classmethod
    def of(cls, machine: Classifier) -> "Limits":
        """A factor of 20 colder and hotter, 20 times earlier and four times later than the machine's own."""
        kT, t = own_temperature(machine), machine.protocol.t_final
        return cls((kT / 20, kT * 20) if kT else (0.0, 1.0), (t / 20, t * 4))


def own_temperature(machine: Classifier) -> float:
    """The temperature of the machine's first reservoir."""
    return next(iter(machine.reservoirs.values())).dynamics.kT


@dataclass(frozen=True, eq=False)
class Question:
    """One image, and how it is to be read."""

    image: Array
    """(D,), from 0 to 1"""
    engine: str
    n_replicas: int
    kT: float
    t_final: float
    sample_id: int
    """chooses the noise"""
    reservoirs: tuple[str, ...]
    """those that feed the readout"""
    orders: tuple[int, ...]
    """the moments that feed the readout"""

    @property
    def physics(self) -> tuple[bytes, float, float, int]:
        """What the paths depend on."""
        return self.image.tobytes(), self.kT, self.t_final, self.sample_id


def parse(body: bytes) -> dict[str, Any]:
    """The object in a request's body: strict JSON, in which NaN and Infinity are no numbers."""
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise RefusedError(400, "The body must be JSON in UTF-8.") from None
    if not isinstance(found, dict):
        raise RefusedError(422, f"The body must be a JSON object, but was {_kind(found)}.")
    return found


def ask(given: Mapping[str, Any], machine: Classifier, engines: tuple[str, ...], default: str) -> Question:
    """The question in a JSON object, for this machine; `engines` are those that can run here."""
    for field in given:
        if field not in _KNOWN:
            raise wrong("body", f"have no fields other than {', '.join(_KNOWN)}", f"given {field!r}")
    limits = Limits.of(machine)
    engine = given.get("engine", default)
    if engine not in engines:
        raise wrong("engine", f"be one of {', '.join(engines)}", repr(engine))
    n_replicas = _integer(given.get("n_replicas", _replicas(machine, engine)), "n_replicas", *limits.n_replicas)
    if engine == "xla" and n_replicas & (n_replicas - 1):
        raise wrong("n_replicas", "be a power of two for xla, which compiles a program for every number", n_replicas)
    return Question(
        image=_image(given, machine),
        engine=engine,
        n_replicas=n_replicas,
        kT=_real(given.get("kT", own_temperature(machine)), "kT", *limits.kT),
        t_final=_real(given.get("t_final", machine.protocol.t_final), "t_final", *limits.t_final),
        sample_id=_integer(given.get("sample_id", 0), "sample_id", 0, _NOISE),
        reservoirs=tuple(_chosen(given, "reservoirs", tuple(machine.reservoirs))),
        orders=tuple(_chosen(given, "orders", machine.protocol.orders)),
    )


def node_of(given: dict[str, Any], machine: Classifier) -> tuple[str, int]:
    """Takes `reservoir` and `node` out of the object: which node is asked for."""
    names = tuple(machine.reservoirs)
    name = given.pop("reservoir", names[0])
    if not isinstance(name, str) or name not in names:
        raise wrong("reservoir", f"be one of {', '.join(names)}", repr(name))
    return name, _integer(given.pop("node", 0), "node", 0, machine.reservoirs[name].n_nodes - 1)


def _replicas(machine: Classifier, engine: str) -> int:
    """The machine's own, as far as they are taken; for xla the power of two below."""
    own = machine.protocol.n_replicas
    found = MOST_REPLICAS if own == math.inf else min(int(own), MOST_REPLICAS)
    return 1 << (found.bit_length() - 1) if engine == "xla" else found


def _image(given: Mapping[str, Any], machine: Classifier) -> Array:
    if ("pixels" in given) == ("strokes" in given):
        raise wrong("body", "have either pixels or strokes", "given both" if "pixels" in given else "given neither")
    if "pixels" in given:
        return _numbers(given["pixels"], "pixels", machine.n_inputs, 0.0, 1.0)
    strokes = given["strokes"]
    if not isinstance(strokes, list) or not strokes:
        raise wrong("strokes", "be a list with at least one stroke", _kind(strokes))
    lines, points = [], 0
    for k, stroke in enumerate(strokes):
        if not isinstance(stroke, list) or not stroke:
            raise wrong(f"strokes[{k}]", "be a list with at least one point", _kind(stroke))
        points += len(stroke)
        if points > MOST_POINTS:
            raise wrong("strokes", f"have at most {MOST_POINTS} points", f"of {points} or more")
        lines.append(np.array([_numbers(point, f"strokes[{k}]", 2, 0.0, 1.0) for point in stroke]))
    try:
        return drawn(lines, machine.n_inputs)
    except ValueError as error:
        raise RefusedError(422, str(error)) from None


def _numbers(value: Any, field: str, count: int, low: float, high: float) -> Array:
    if not isinstance(value, list) or len(value) != count:
        was = f"{len(value)} of them" if isinstance(value, list) else _kind(value)
        raise wrong(field, f"be lists of {count} numbers" if count == 2 else f"be a list of {count} numbers", was)
    for one in value:
        if isinstance(one, bool) or not isinstance(one, int | float) or not low <= one <= high:
            raise wrong(field, f"hold numbers from {low:g} to {high:g}", repr(one) if one is not None else "null")
    return np.array(value, np.float64)


def _real(value: Any, field: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise wrong(field, f"be a number from {low:g} to {high:g}", _kind(value))
    return float(value)


def _integer(value: Any, field: str, low: int, high: int) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not low <= value <= high:
        raise wrong(field, f"be an integer from {low} to {high}", _kind(value))
    return int(value)


def _chosen(given: Mapping[str, Any], field: str, known: tuple[Any, ...]) -> tuple[Any, ...]:
    """The entries of `known` that the list names, in the order of `known`; all unless it is given."""
    value = given.get(field, list(known))
    names = ", ".join(map(str, known))
    if not isinstance(value, list) or not value:
        raise wrong(field, f"be a list with at least one of {names}", _kind(value))
    for one in value:
        if isinstance(one, bool | list | dict) or one not in known:
            raise wrong(field, f"name only {names}", repr(one))
    if len(set(value)) < len(value):
        raise wrong(field, "name nothing twice", value)
    return tuple(one for one in known if one in value)


def _kind(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return json.dumps(value) if not isinstance(value, int) or abs(value) < 10**30 else shown(value)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")
