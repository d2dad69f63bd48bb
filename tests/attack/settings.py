"""Every setting of an experiment with every wrong value: it is taken, or refused in one sentence before any work."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import read, to_toml
from thermoment.experiments.toml import as_table
from thermoment.runs.check import check

VALUES = (
    '"a"',
    '""',
    "true",
    "-1",
    "0",
    "1",
    "0.5",
    "1e-308",
    "1e308",
    "nan",
    "inf",
    "-inf",
    "2147483648",
    "1" + "0" * 400,
    "1" + "0" * 5000,
    "[]",
    "[1, [2, 3]]",
    "{}",
    "{ a = 1 }",
    "2026-01-01",
    '"' + "x" * 300 + '"',
    "[" * 2000 + "]" * 2000,
)
MORE = (
    "variants.a=1",
    "variants.a=[1]",
    "variants.figures={}",
    "variants.repeat-1={}",
    'variants.a={ engine = "abacus" }',
    "variants.a={ protocol = { n_replicas = inf } }",
    "variants.a={ no_such_key = 1 }",
    "variants.a.b.c.d=1",
    "no_such_key=1",
    "protocol=1",
    "reservoirs=1",
    "reservoirs=[]",
    "reservoirs=[1]",
    "reservoirs.9.seed=1",
    "finite_time={ n_replicas = 0.5 }",
    "finite_time={ validation = 10000 }",
    "finite_time={ distortion = { scale = 2.0 } }",
    "finite_time={ distortion = { scale = 2 } }",
    "readout.l2=0",
)
"""What must be refused: variants, nesting, keys that there are not, what no machine can do."""


def cases(source: Path) -> Iterator[str]:
    """Overrides "key=value": every key of the experiment with every value, and MORE."""
    keys = [key for key in _keys(as_table(read(source))) if not key.startswith("variants")]
    yield from (f"{key}={value}" for key, value in itertools.product(keys, VALUES))
    yield from MORE


def _keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of all values and of all tables."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = {str(number): item for number, item in enumerate(value)}
    if prefix:
        yield prefix.removesuffix(".")
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _keys(item, f"{prefix}{key}.")


def problem(source: Path, override: str, dataset: Dataset) -> str | None:
    """What is wrong with the answer to a setting; None where it was taken, and comes back, or refused in a sentence."""
    try:
        experiment = read(source, [override])
        again = source.with_name("again.toml")
        again.write_text(to_toml(experiment), "utf-8")
        if read(again) != experiment:
            return "it is another experiment when written and read again"
        data = experiment.data
        if data.name == "digits":
            check(experiment, dataset.first(data.n_train, data.n_test))
    except (ValueError, RuntimeError) as error:
        said = str(error)
        if isinstance(error, RecursionError) or "\n" in said.partition("must be one of the following")[0]:
            return f"it raised {type(error).__name__}: {said[:200]}"
        return None if len(said) < 1200 and " " in said else f"it said {said[:200]!r}"
    except BaseException as error:
        return f"it raised {type(error).__name__}: {str(error)[:200]}"
    return "it was taken" if override in MORE else None
