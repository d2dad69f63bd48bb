"""What something depends on, as readable facts, and the SHA-256 that names it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thermoment._support.files import named

LATER: Mapping[str, bool] = {"later": True}
"""Metadata of a field that a dataclass got later. At its default it is not stated, and what was made before keeps its
name and its bytes."""


def stated(value: Any) -> Any:
    """A dataclass as a dict of its fields, also inside of lists, tuples and dicts; fields that are `LATER` if changed.

    A nested dataclass is a dict too. All else stays as it is.
    """
    if is_dataclass(value) and not isinstance(value, type):
        given = ((field, getattr(value, field.name)) for field in fields(value))
        return {f.name: stated(one) for f, one in given if not (f.metadata.get("later") and _same(one, f.default))}
    if isinstance(value, Mapping):
        return {key: stated(item) for key, item in value.items()}
    return type(value)(stated(item) for item in value) if type(value) in (list, tuple) else value


def _same(one: Any, default: Any) -> bool:
    """Whether a field has its default, which is never an array."""
    return not isinstance(one, np.ndarray) and bool(one == default)


def identity(*facts: Any) -> str:
    """SHA-256 of dataclasses, arrays and plain values: equal where, and only where, all of them are."""
    return hashlib.sha256(json.dumps(plain(facts), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: an array by its type, shape and SHA-256, a dataclass by its name and fields."""
    if isinstance(value, np.ndarray):
        return f"array {value.dtype.str} {list(value.shape)} sha256:{_array_digest(value)}"
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: plain(stated(value))}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    return value


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with named(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _array_digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
