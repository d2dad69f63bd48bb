"""Every example runs and shows what it says: a reservoir's moments beat the raw inputs, a node reaches equilibrium."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

GAINS = {"parity": 0.4, "two_moons": 0.08, "digits": 0.015}
"""Accuracy that the moments must add to that of the raw inputs: about two thirds of what they add."""


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*GAINS, "one_node", "cosine", "narma"}


@pytest.mark.parametrize("name", ["parity", "two_moons", pytest.param("digits", marks=pytest.mark.slow)])
def test_moments_beat_raw_inputs(name: str) -> None:
    raw, *by_moments = load(name)["compare"]().values()
    assert min(by_moments) - raw > GAINS[name]


def test_what_is_printed_is_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    example = load("two_moons")
    example["main"]()
    shown = [line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]]
    found = example["compare"]()
    assert [(name.strip(), share) for name, share in shown] == [(name, f"{share:.1%}") for name, share in found.items()]


def test_a_node_reaches_equilibrium_late_and_not_early() -> None:
    """Five standard errors: nine moments pass by chance but for 5e-6. Euler's bias at this step is at most 2e-4."""
    relax = load("one_node")["relax"]
    early, error, equilibrium = relax(0.3)
    assert np.all(equilibrium - early > 10 * error)
    late, error, equilibrium = relax(4.0)
    np.testing.assert_array_less(np.abs(late - equilibrium), 5 * error + 2e-4)


def test_a_turning_reservoir_follows_narma_better_than_independent_numbers() -> None:
    independent, turning = load("narma")["errors"](1000).values()
    assert turning < 0.45
    assert turning < 0.8 * independent


@pytest.mark.slow
def test_layers_learn_a_cosine() -> None:
    before, after = load("cosine")["errors"]().values()
    assert before > 0.3
    assert after < 0.02
