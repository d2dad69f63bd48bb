"""The identity of what something depends on: every part of it counts."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thermoment._support.identity import identity, sha256


@dataclass(frozen=True)
class Wide:
    width: int


@dataclass(frozen=True)
class Broad:
    width: int


def test_whatever_differs_has_another_identity() -> None:
    """Zeros have the same bytes in int64 and float64, and in any shape: type and shape must count by themselves."""
    cases: list[tuple[Any, ...]] = [
        (np.zeros(4, np.int64),),
        (np.zeros(4, np.float64),),
        (np.zeros(4, np.uint64),),
        (np.zeros((2, 2), np.int64),),
        (np.zeros((4, 1), np.int64),),
        (np.zeros(2, np.int64), np.zeros(2, np.int64)),
        (Wide(1),),
        (Broad(1),),
        (Wide(2),),
        ({"width": 1},),
        ("a", "b"),
        ("ab",),
        ("a", "b", None),
        (1,),
        ("1",),
    ]
    found = [identity(*case) for case in cases]
    assert len(set(found)) == len(cases)


def test_the_same_has_the_same_in_any_layout_and_order() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert identity(np.asfortranarray(array)) == identity(array)
    assert identity({"a": 1, "b": 2}) == identity({"b": 2, "a": 1})


def test_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    assert sha256(tmp_path / "file") == hashlib.sha256(b"bytes").hexdigest()
