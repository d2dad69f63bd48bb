"""The README tells the truth: its Python prints what it says, its commands name files that exist."""

import contextlib
import io
import re
from pathlib import Path

import thermoment

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_prints_what_the_readme_shows() -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert code is not None
    assert shown is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code[1], {})
    assert printed.getvalue() == shown[1]


def test_there_are_exactly_two_set_up_commands() -> None:
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert commands == ["pip install . && thermoment run\n", "pip install '.[test]' && pytest\n"]


def test_every_file_it_names_exists() -> None:
    tree = README[README.index("## The tree") :]
    for name in re.findall(r"\b[a-z_]+\.(?:py|md)\b", tree):
        assert list(ROOT.rglob(name)), name
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_version_is_in_one_place_and_the_citation_agrees() -> None:
    assert f"version: {thermoment.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
