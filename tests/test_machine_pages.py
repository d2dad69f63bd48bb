"""The pages of the machines say what their studies found: every number below is formed anew from the committed JSON."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def study(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"studies/results/{name}.json").read_text("utf-8"))
    return found


def page(name: str) -> str:
    return " ".join((ROOT / f"docs/{name}.md").read_text("utf-8").split())


def power(value: float) -> str:
    """2.1e-3 as the pages write it."""
    return re.sub(r"e-0", "e-", f"{value:.1e}")


def test_neurons_tell_the_accuracy_on_mnist() -> None:
    found = study("neurons")["mnist"]
    assert len({one["seed"] for one in found["machines"]}) == 3
    for replicas in ("1", "10", "100"):
        right = [one["right of the test images"][replicas] for one in found["machines"]]
        cells = " | ".join(f"{100 * one:.2f} %" for one in right)
        assert f"| {replicas} | {cells} | {100 * sum(right) / 3:.2f} % |" in page("neurons")


def test_neurons_tell_the_error_of_the_cosine() -> None:
    found = study("neurons")
    errors = []
    for way in ("gradient", "genetic"):
        error, of_that = found[way]["of infinitely many replicas"], found[way]["standard error of that"]
        exponent = power(error).partition("e")[2]
        errors.append(f"{power(error)} ± {of_that / float('1e' + exponent):.1f}e{exponent}")
    assert " | ".join(errors) in page("neurons")
    assert found["genetic"]["of infinitely many replicas"] < 1e-2


def test_time_series_tell_the_errors_of_both_kinds() -> None:
    found, text = study("signals"), page("time-series")
    for kind in ("langevin", "echo-state"):
        for label in ("means", "means and squares"):
            each = [found[task][kind][label] for task in ("narma10", "mackey-glass")]
            cells = [f"{one['test error']:.3f} ± {one['spread over seeds']:.3f}" for one in each]
            assert " | ".join(cells) in text, (kind, label)


@pytest.mark.parametrize("case", ["three digits", "ten classes, asked for", "ten classes, none asked for"])
def test_generation_tells_what_was_recognised_and_its_heat(case: str) -> None:
    found = study("generative")[case]
    heat = found["heat_kT"]
    row = f"{found['recognised']} of {found['samples']} | {found['recognised in noise']} |"
    assert f"{row} {heat['mean']:.0f} ± {heat['standard_error']:.0f} |" in page("generative")
    assert ", ".join(map(str, found["of each class"])) in page("generative")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neurons", "time-series", "trajectories", "generative"])
def test_the_python_of_a_page_runs(name: str) -> None:
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for code in re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{name}.md").read_text("utf-8"), re.DOTALL):
            exec(code, names)
