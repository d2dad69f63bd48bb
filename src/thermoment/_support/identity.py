"""SHA-256 of what something depends on: equal where, and only where, all of it is."""

import hashlib
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def identity(*facts: Any) -> str:
    """SHA-256 of dataclasses, arrays and plain values: equal where, and only where, all of them are."""
    digest = hashlib.sha256()
    for fact in facts:
        if isinstance(fact, np.ndarray):
            digest.update(f"{fact.dtype.str}{fact.shape}".encode())
            digest.update(np.ascontiguousarray(fact).data)
        else:
            plain = [type(fact).__name__, asdict(fact)] if is_dataclass(fact) and not isinstance(fact, type) else fact
            digest.update(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
