"""Frozen dataclasses from strict TOML tables, and back: an unknown key or a wrong type is an error, not a guess."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from thermoment._support.checks import shown
from thermoment._support.identity import stated

_hints = cache(get_type_hints)
_LARGEST = 1e30
"""No number of an experiment is larger, but infinity. Its powers and products stay within the range of a float."""


def build(kind: Any, value: Any, where: str = "") -> Any:
    """`value`, parsed from TOML, as a `kind`: a dataclass, a tuple, a union or a plain type.

    `where` it stands is for messages.
    """
    origin = get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return _build_dataclass(kind, value, where)
    if origin in (Union, UnionType):
        return _build_union(get_args(kind), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(where, "a list", value)
        return tuple(build(get_args(kind)[0], item, f"{where}[{number}]") for number, item in enumerate(value))
    if origin is Mapping or kind is Any:
        if origin is Mapping and not isinstance(value, dict):
            raise _wrong(where, "a table", value)
        return value
    if origin is Literal:
        return value  # the dataclass checks the choices itself, and names them
    return _build_plain(kind, value, where)


def _build_plain(kind: type, value: Any, where: str) -> Any:
    if kind is float and type(value) in (int, float):
        if abs(value) > _LARGEST and value not in (math.inf, -math.inf):
            raise _wrong(where, f"at most {_LARGEST:g} in magnitude", value)
        return float(value)
    if type(value) is not kind:
        names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
        raise _wrong(where, names[kind], value)
    return value


def _build_union(kinds: Sequence[Any], value: Any, where: str) -> Any:
    for kind in kinds:
        if kind is not NoneType:
            try:
                return build(kind, value, where)
            except ValueError as error:
                refusal = error
    raise refusal


def _build_dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(where, "a table", value)
    hints = _hints(kind)
    known = [f.name for f in fields(kind)]
    dot = f"{where}." if where else ""
    for key in value:
        if key not in known:
            near = get_close_matches(key, known, 1, cutoff=0.0)
            raise ValueError(f"Unknown key `{dot}{key}`: did you mean `{dot}{near[0]}`? Known are {', '.join(known)}.")
    for f in fields(kind):
        if f.name not in value and f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"Key `{dot}{f.name}` is missing.")
    built = {key: build(hints[key], item, f"{dot}{key}") for key, item in value.items()}
    try:
        return kind(**built)
    except ValueError as error:
        raise ValueError(f"{error} (in `{where}`)" if where else str(error)) from None


def _wrong(where: str, must: str, was: Any) -> ValueError:
    return ValueError(f"Key `{where}` must be {must}, but was {shown(was if isinstance(was, int) else repr(was))}.")


def as_table(value: Any) -> Any:
    """A dataclass as nested dicts, lists and plain values, without fields that are None; infinity stays."""
    plain = stated(value)

    def tidy(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: tidy(item) for key, item in value.items() if item is not None}
        return [tidy(item) for item in value] if isinstance(value, list | tuple) else value

    return tidy(plain)
