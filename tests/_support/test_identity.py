"""The identity of what something depends on: every part of it counts."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import thermoment as tm
from thermoment._support.identity import LATER, identity, sha256, stated


@dataclass(frozen=True)
class Wide:
    width: int


@dataclass(frozen=True)
class Broad:
    width: int


@dataclass(frozen=True)
class Grown:
    """A dataclass that got a field later."""

    width: int
    depth: int = field(default=3, metadata=LATER)
    inner: tuple[Wide, ...] = ()


def test_a_later_field_is_stated_only_if_it_is_not_its_default() -> None:
    assert stated(Grown(1)) == {"width": 1, "inner": ()}
    assert stated([Grown(1, 3, (Wide(2),))]) == [{"width": 1, "inner": ({"width": 2},)}]
    assert stated(Grown(1, 4)) == {"width": 1, "depth": 4, "inner": ()}
    assert identity(Grown(1)) == identity(Grown(1, 3)) != identity(Grown(1, 4))


def test_a_protocol_that_starts_at_zero_has_the_identity_it_had_before_there_was_another_start() -> None:
    known = "e5be674794c2dab120a127b013518ce164b592128a1767da125d9ed5d27b69f0"
    assert identity(tm.Protocol()) == known
    assert identity(tm.Protocol(start="rest", t_rest=2.0)) != known
    text = "Protocol(dt=0.001, t_final=1.0, n_replicas=128, clip=inf, seed=20260609, orders=(1, 2, 4)"
    assert repr(tm.Protocol()) == text + ")"
    assert repr(tm.Protocol(start="rest", t_rest=2.0)) == text + ", start='rest', t_rest=2.0)"


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
