"""What something depends on, as readable facts, and the SHA-256 that names it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thermoment._support.files import named


def identity(*facts: Any) -> str:
    """SHA-256 of dataclasses, arrays and plain values: equal where, and only where, all of them are."""
    return hashlib.sha256(json.dumps(plain(facts), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: an array by its type, shape and SHA-256, a dataclass by its name and fields."""
    if isinstance(value, np.ndarray):
        return f"array {value.dtype.str} {list(value.shape)} sha256:{_array_digest(value)}"
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: plain(asdict(value))}
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
