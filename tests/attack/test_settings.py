"""Wrong settings of an experiment, a thousand of them: each is taken, or refused in a sentence before any work."""

from pathlib import Path

import pytest

from attack.settings import cases, problem
from support.runs import TINY
from thermoment.data import load
from thermoment.data.dataset import Dataset


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "tiny.toml"
    path.write_text(TINY, "utf-8")
    return path


@pytest.mark.parametrize("part", range(8))
def test_a_wrong_setting_is_taken_or_refused_in_one_sentence(
    tiny: Path, digits: Dataset, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thermoment._support.memory.memory", lambda: 2.0**24)
    tried = {one: problem(tiny, one, digits) for one in list(cases(tiny))[part::8]}
    assert len(tried) > 100
    assert {one[:100]: found for one, found in tried.items() if found is not None} == {}
