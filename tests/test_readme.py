"""README, CONTRIBUTING and docs tell the truth: the Python prints what they say, every file they name exists."""

import contextlib
import io
import json
import re
import tomllib
from pathlib import Path

import accuracy_pages
import frontier
import pytest

import thermoment

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_the_python_prints_what_the_readme_shows() -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert code is not None
    assert shown is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code[1], {})
    assert printed.getvalue() == shown[1]


@pytest.mark.parametrize("name", ["protocols", "energy"])
def test_the_python_of_a_page_prints_what_the_page_shows(name: str) -> None:
    page = (ROOT / f"docs/{name}.md").read_text("utf-8")
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(code, names)
    assert printed.getvalue() == "".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))


def test_there_are_exactly_two_set_up_commands() -> None:
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert commands == ["pip install '.[web]' && thermoment run\n", "pip install '.[test]' && pytest\n"]


PAGES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *PAGES])
def test_every_link_leads_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text("utf-8")):
        file, _, heading = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert link.startswith("https://") or target.exists(), link
        if heading:
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings}, link


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    assert "](docs/index.md)" in README
    index = (ROOT / "docs/index.md").read_text("utf-8")
    listed = {name for tree in re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL) for name in tree.split()}
    assert {page.removeprefix("docs/").removesuffix(".md") for page in PAGES} - {"index"} <= listed


def test_the_page_on_installing_says_what_every_dependency_is_for() -> None:
    table = (ROOT / "docs/install.md").read_text("utf-8").partition("## Dependencies")[2].lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = (
        project["dependencies"] + project["optional-dependencies"]["web"] + project["optional-dependencies"]["cluster"]
    )
    assert [name for name in wanted if re.split(r"[<>=]", name)[0] not in table] == []


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs/api.md").read_text("utf-8")
    named = set(re.findall(r":: (?:thermoment\.)?(\w+)$", page, re.MULTILINE))
    assert set(thermoment.__all__) | set(thermoment._PLACES) <= named  # type: ignore[attr-defined]


def test_the_pages_on_accuracy_follow_from_the_numbers() -> None:
    result = json.loads((ROOT / "studies" / "results" / "accuracy.json").read_text("utf-8"))
    assert (ROOT / "docs" / "accuracy.md").read_text("utf-8") == accuracy_pages.conclusions(result)
    assert (ROOT / "studies" / "results" / "accuracy.md").read_text("utf-8") == accuracy_pages.every_point(result)


def test_the_page_to_draw_on_is_as_fast_and_as_right_as_was_measured() -> None:
    page = " ".join((ROOT / "docs/page.md").read_text("utf-8").split())
    found = json.loads((ROOT / "benchmarks/results/web-zen4.json").read_text("utf-8"))
    fast, sampled = (found["speed"][f"predict, {how}"]["median_ms"] for how in ("meanfield", "native, 128 replicas"))
    assert f"takes {fast / 1000:.2f} s with `meanfield` and {sampled / 1000:.2f} s by sampling 128 replicas" in page
    images, again, first, drawn = (found["accuracy"][name]["right"] for name in found["accuracy"])
    assert f"are read right in {again} of 10000 cases, where the images themselves are in {images}." in page
    assert f"{drawn} are read right, where of the images themselves {first} are." in page


def test_the_tables_of_energies_are_those_of_the_studies() -> None:
    page = (ROOT / "docs" / "energy.md").read_text("utf-8")
    assert frontier.table() in page
    assert frontier.costs() in page
    published = frontier.others()["thermo_gd"]["zero"]
    assert f"gives off {round(published['heat'][0], -2):,.0f} kT of heat" in page
    assert f"{round(published['cost'][0], -2):,.0f} kT is left in the nodes" in page


def tree() -> dict[str, str]:
    """The tree of CONTRIBUTING: paths and what is said of them. Two spaces of indentation are one folder."""
    drawn = re.search(r"```text\n(.*?)```", CONTRIBUTING, re.DOTALL)
    assert drawn is not None
    found: dict[str, str] = {}
    above: list[str] = []
    for line in drawn[1].splitlines():
        name, _, comment = line.strip().partition(" ")
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], name.rstrip("/")]
        found["/".join(above)] = comment.strip()
    return found


def test_the_tree_names_files_that_exist_and_says_what_each_is() -> None:
    for name, comment in tree().items():
        assert (ROOT / name).exists(), name
        assert comment or (ROOT / name).is_dir(), name


def test_the_tree_is_complete() -> None:
    patterns = ("src/thermoment/**/*.py", "benchmarks/*.py", "tools/*.py", "examples/*.py", "docs/*.md")
    files = {path for pattern in patterns for path in ROOT.glob(pattern) if path.stat().st_size}
    missing = {str(path.relative_to(ROOT)) for path in files} - tree().keys()
    assert not missing, f"not in the tree of CONTRIBUTING.md: {sorted(missing)}"


def test_the_version_is_in_one_place_and_the_citation_agrees() -> None:
    assert f"version: {thermoment.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
