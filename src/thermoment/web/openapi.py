"""The OpenAPI description of the JSON interface, with the sizes and limits of the machine that is served."""

from typing import Any

import thermoment
from thermoment.machines.classifier import Classifier
from thermoment.web.guard import MOST_BYTES
from thermoment.web.images import side
from thermoment.web.paths import SHOWN
from thermoment.web.question import MOST_POINTS, Limits

Schema = dict[str, Any]


def describe(machine: Classifier, engines: tuple[str, ...], default: str) -> Schema:
    """The description, of OpenAPI 3.1."""
    question, node_question = _question(machine, engines, default), _node_question(machine, engines, default)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "thermoment serve",
            "version": thermoment.__version__,
            "description": "A Langevin computer reads an image. Errors are {error}, one sentence. A body has at most "
            f"{MOST_BYTES} bytes.",
        },
        "paths": {
            "/api/predict": _post("The class of an image, with probabilities", question, _answer(machine)),
            "/api/paths": _post(f"x(t) of all nodes, over at most {SHOWN} replicas", question, _paths(machine)),
            "/api/node": _post("One node in its well, with densities and paths", node_question, _node(machine)),
            "/api/machine": _get("The machine and its limits", _machine()),
            "/api/results": _get("What the machine reached, as tables", _object(tables=_list(_object()))),
            "/api/examples": _get("Images to try", _examples(machine)),
            "/api/health": _get("Whether the server is there", _object(status={"const": "ok"}, version=_TEXT)),
            "/api/openapi.json": _get("This description", _object(openapi=_TEXT)),
        },
    }


_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def _list(items: Schema, count: int | None = None) -> Schema:
    length = {} if count is None else {"minItems": count, "maxItems": count}
    return {"type": "array", "items": items, **length}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _by_reservoir(machine: Classifier, value: Any) -> Schema:
    return _object(**{name: value(one.n_nodes) for name, one in machine.reservoirs.items()})


def _by_order(machine: Classifier, value: Schema) -> Schema:
    return _object(**{str(p): value for p in machine.protocol.orders})


def _question(machine: Classifier, engines: tuple[str, ...], default: str) -> Schema:
    limits = Limits.of(machine)
    point = _list(_SHARE, 2)
    stroke = {"type": "array", "items": point, "minItems": 1, "maxItems": MOST_POINTS}
    properties: dict[str, Schema] = {
        "pixels": {**_list(_SHARE, machine.n_inputs), "description": "Row by row, 0 for paper and 1 for ink"},
        "engine": {
            "enum": list(engines),
            "default": default,
            "description": "meanfield answers in the limit of many replicas; xla takes powers of two of them",
        },
        "n_replicas": _within("integer", limits.n_replicas),
        "kT": _within("number", limits.kT),
        "t_final": _within("number", limits.t_final),
        "sample_id": {**_within("integer", (0, 2**32 - 1)), "description": "Chooses the noise"},
        "reservoirs": _some(list(machine.reservoirs), "Those that feed the readout"),
        "orders": _some(list(machine.protocol.orders), "The moments that feed the readout"),
    }
    either = [{"required": ["pixels"]}]
    if side(machine.n_inputs) is not None:
        properties["strokes"] = {
            "type": "array",
            "items": stroke,
            "minItems": 1,
            "maxItems": MOST_POINTS,
            "description": f"Points x, y from 0 to 1 across the canvas, y down; at most {MOST_POINTS} in all",
        }
        either.append({"required": ["strokes"]})
    powers = [2**k for k in range(limits.n_replicas[1].bit_length())]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "oneOf": either,
        "if": {"properties": {"engine": {"const": "xla"}}, "required": [] if default == "xla" else ["engine"]},
        "then": {"properties": {"n_replicas": {"enum": powers}}},
    }


def _node_question(machine: Classifier, engines: tuple[str, ...], default: str) -> Schema:
    schema = _question(machine, engines, default)
    fewest = min(one.n_nodes for one in machine.reservoirs.values())
    schema["properties"] |= {
        "reservoir": {"enum": list(machine.reservoirs)},
        "node": _within("integer", (0, fewest - 1)),
    }
    return schema


def _within(kind: str, limits: tuple[float, float]) -> Schema:
    return {"type": kind, "minimum": limits[0], "maximum": limits[1]}


def _some(known: list[Any], description: str) -> Schema:
    return {"type": "array", "items": {"enum": known}, "minItems": 1, "uniqueItems": True, "description": description}


def _answer(machine: Classifier) -> Schema:
    C = machine.n_classes
    return _object(
        label={"type": "integer", "minimum": 0, "maximum": C - 1},
        probabilities=_list(_SHARE, C),
        low={**_list(_SHARE, C), "description": "Lower ends of the 90 % sampling intervals"},
        high={**_list(_SHARE, C), "description": "Upper ends of the 90 % sampling intervals"},
        repeatable={**_SHARE, "description": "Share of repeats with other noise that would give the same class"},
        logits=_list(_NUMBER, C),
        shares={
            **_by_reservoir(machine, lambda _: _by_order(machine, _list(_NUMBER, C))),
            "description": "What each moment of each reservoir adds to the logits, less its mean over the classes",
        },
        nodes={
            **_by_reservoir(machine, lambda n: _by_order(machine, _list(_NUMBER, n))),
            "description": "What each node adds to the logit of the answer, less its mean over the classes",
        },
        image=_list(_SHARE, machine.n_inputs),
        engine={**_TEXT, "description": "The engine that answered"},
        asked={**_TEXT, "description": "The engine that was asked for"},
        note={**_TEXT, "description": "Why another engine answered; empty where none did"},
        tables={"enum": ["ready", "building", "none"], "description": "Whether meanfield can answer at once"},
        n_replicas={"type": "integer"},
        kT=_NUMBER,
        t_final=_NUMBER,
        cost=_object(work_kT={"type": ["number", "null"]}, updates={"type": "integer"}),
        seconds=_NUMBER,
    )


def _paths(machine: Classifier) -> Schema:
    nodes = _by_reservoir(machine, lambda n: _list(_list(_NUMBER, n)))
    return _object(times=_list(_NUMBER), n_replicas={"type": "integer"}, one=nodes, mean=nodes)


def _node(machine: Classifier) -> Schema:
    optional = ["array", "null"]
    return _object(
        reservoir={"enum": list(machine.reservoirs)},
        node={"type": "integer"},
        drive=_NUMBER,
        field=_list(_NUMBER),
        times=_list(_NUMBER),
        paths=_list(_list(_NUMBER)),
        mean=_list(_NUMBER),
        x=_list(_NUMBER),
        density={"type": optional, "items": _list(_NUMBER), "description": "At every time, at every x"},
        boltzmann={"type": optional, "items": _NUMBER, "description": "In equilibrium, at every x"},
        well=_object(J2=_NUMBER, J3=_NUMBER, J4=_NUMBER, mu=_NUMBER, kT=_NUMBER),
        weights=_list(_NUMBER, machine.n_inputs),
    )


def _machine() -> Schema:
    whole: Schema = {"type": "integer"}
    return _object(
        name=_TEXT,
        version=_TEXT,
        n_inputs=whole,
        side={"type": ["integer", "null"]},
        n_classes=whole,
        reservoirs=_list(_object(name=_TEXT, n_nodes=whole)),
        orders=_list(whole),
        dt=_NUMBER,
        t_final=_NUMBER,
        n_replicas=whole,
        kT=_NUMBER,
        well=_object(J2=_NUMBER, J4=_NUMBER, mu=_NUMBER),
        limits=_object(**{name: _list(_NUMBER, 2) for name in ("kT", "t_final", "n_replicas")}),
        engines=_list(_object(name=_TEXT, can_run={"type": "boolean"}, note=_TEXT)),
        engine=_TEXT,
    )


def _examples(machine: Classifier) -> Schema:
    grey = {"type": "integer", "minimum": 0, "maximum": 255}
    image = _object(pixels=_list(grey, machine.n_inputs), label={"type": "integer"}, read={"type": "integer"})
    return _object(source=_TEXT, images=_list(image))


_ERROR = {"application/json": {"schema": _object(error=_TEXT)}}
_REFUSALS = {
    "400": "The body is not JSON",
    "408": "The body did not arrive in time",
    "413": "The body is too large",
    "415": "The body is not declared as JSON",
    "422": "A field is not what it must be",
    "503": "Too many questions wait; Retry-After says when to ask again",
}


def _responses(schema: Schema, refusals: dict[str, str]) -> Schema:
    said = {status: {"description": text, "content": _ERROR} for status, text in refusals.items()}
    return {"200": {"description": "The answer", "content": {"application/json": {"schema": schema}}}, **said}


def _post(summary: str, question: Schema, schema: Schema) -> Schema:
    body = {"required": True, "content": {"application/json": {"schema": question}}}
    return {"post": {"summary": summary, "requestBody": body, "responses": _responses(schema, _REFUSALS)}}


def _get(summary: str, schema: Schema) -> Schema:
    return {"get": {"summary": summary, "responses": _responses(schema, {"503": _REFUSALS["503"]})}}
