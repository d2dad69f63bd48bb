"""Wrong arguments of the library, some thousand of them: none ends in anything but the one sentence."""

import warnings
from collections.abc import Iterator

import pytest

from attack.arguments import CALLS, SPECIAL, VALUES, cases, problem


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a machine with much memory what is too large here would be computed."""
    monkeypatch.setattr("thermoment._support.memory.memory", lambda: 2.0**24)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_taken_or_refused_in_one_sentence(name: str) -> None:
    tried = {(argument, value): problem(name, argument, value) for one, argument, value in cases() if one == name}
    assert len(tried) >= len(VALUES) - 2
    assert {case: found for case, found in tried.items() if found is not None} == {}


@pytest.mark.parametrize("case", SPECIAL)
def test_what_cannot_be_done_is_refused(case: str) -> None:
    with pytest.raises(ValueError, match=r"^Argument `"):
        SPECIAL[case]()
