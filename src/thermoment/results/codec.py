"""Frozen dataclasses to plain JSON values and back: a missing key, an unknown key or a wrong type is refused by name.

A field that has its default is left out of the JSON. A ModelKey lies flat in its row as four columns; tuples are
lists.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from thermoment.results.naming import ModelKey
from thermoment.results.statistics import Interval

_NAMES = {int: "an integer", float: "a number", str: "a string"}


def plain(value: Any) -> Any:
    """`value` as dicts, lists and what JSON knows."""
    if is_dataclass(value):
        row: dict[str, Any] = {}
        for field in fields(value):
            item = getattr(value, field.name)
            if isinstance(item, ModelKey):
                row |= item.columns
            elif field.default is MISSING or item != field.default:
                row[field.name] = plain(item)
        return row
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def typed(kind: Any, value: Any, where: str = "") -> Any:
    """`value`, parsed from JSON, as a `kind`; `where` it stands is for messages."""
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else typed(inner[0], value, where)
    if kind is Interval:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise _wrong(where, "two numbers", value)
        return Interval(*(typed(float, end, where) for end in value))
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(where, "a list", value)
        return tuple(typed(inner[0], item, f"{where}[{number}]") for number, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _wrong(where, "an object", value)
        return value
    if origin is Literal:
        if value not in inner:
            raise _wrong(where, f"one of {', '.join(inner)}", value)
        return value
    fits = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
    if not fits:
        raise _wrong(where, _NAMES[kind], value)
    return value


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(where, "an object", value)
    rest, found, hints, dot = dict(value), {}, get_type_hints(kind), f"{where}." if where else ""
    for field in fields(kind):
        columns = ("model", "fusion", "orders", "readout") if hints[field.name] is ModelKey else (field.name,)
        missing = [column for column in columns if column not in rest]
        if missing and field.default is MISSING:
            raise ValueError(f"the key `{dot}{missing[0]}` is missing")
        if hints[field.name] is ModelKey:
            try:
                found[field.name] = ModelKey.of_columns({column: rest.pop(column) for column in columns})
            except ValueError as error:
                raise ValueError(f"`{where}` names no model: {str(error).rstrip('.')}") from None
        elif not missing:
            found[field.name] = typed(hints[field.name], rest.pop(field.name), f"{dot}{field.name}")
    if rest:
        raise ValueError(f"the key `{dot}{next(iter(rest))}` is unknown")
    return kind(**found)


def _wrong(where: str, must: str, was: Any) -> ValueError:
    shown = repr(was)
    return ValueError(f"`{where or 'all'}` must be {must}, but was {shown if len(shown) < 80 else shown[:77] + '...'}")
