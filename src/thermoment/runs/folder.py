"""The files of a run: put together from the store, with checksums last; and checked, every number of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thermoment._support.files import write_whole
from thermoment._support.host import environment
from thermoment.experiments.experiment import Experiment, to_toml
from thermoment.report import page as report
from thermoment.report.figures import draw as figures
from thermoment.results.analysis import analyse
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.predictions import PREDICTIONS, load_predictions
from thermoment.runs.store import SUMS, damaged, place, read_sums, remove_partial, write_sums

RESULTS, EXPERIMENT, ENVIRONMENT, TIMINGS = "results.json", "experiment.toml", "environment.json", "timings.json"
FEATURES = "features.zarr"


def check_new(folder: Path) -> None:
    """Refuses a folder that holds something other than a run, or than what a killed run left of its first file."""
    if not folder.exists():
        return
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else [folder.name]
    left_over = [name for name in names if name.startswith(f".{EXPERIMENT}.") and name.endswith(".partial")]
    is_run = EXPERIMENT in names or {RESULTS, SUMS} <= set(names)
    if len(left_over) < len(names) and not is_run:
        raise ValueError(f"{folder} exists and is not a run: give --out a new or an empty folder.")


def claim(folder: Path, experiment: Experiment) -> None:
    """Makes the folder a run's, by its first file: from now on the same command finds its own work there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / EXPERIMENT, to_toml(experiment).encode())


def results_text(results: Mapping[str, Any]) -> str:
    """results.json, the same for the same results."""
    return json.dumps(results, indent=1, allow_nan=False) + "\n"


def assemble(folder: Path, experiment: Experiment, results: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Puts a run's folder together: `files` from the store under their names here, and what describes the run.

    Files of an earlier run in the same folder that this one does not have are removed, by the earlier SHA256SUMS.
    """
    claim(folder, experiment)
    remove_partial(folder)
    before = read_sums(folder)
    texts = {RESULTS: results_text(results), ENVIRONMENT: json.dumps(environment(results["engine"]), indent=1) + "\n"}
    if any(name.startswith(f"{FEATURES}/") for name in files):
        texts[f"{FEATURES}/zarr.json"] = _group()
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_whole(folder / name, text.encode())
    for name, source in files.items():
        place(source, folder / name)
    present = {EXPERIMENT, *texts, *files}
    for name in before.keys() - present:
        (folder / name).unlink(missing_ok=True)
        _remove_empty((folder / name).parent, folder)
    write_sums(folder, present)


def write_timings(folder: Path, seconds: Mapping[str, float]) -> None:
    """Seconds per stage of the last command. Not in SHA256SUMS: a clock never says the same twice."""
    rounded = {stage: round(value, 3) for stage, value in seconds.items()}
    write_whole(folder / TIMINGS, (json.dumps({"seconds": rounded}, indent=1) + "\n").encode())


def read_results(folder: Path) -> dict[str, Any]:
    """results.json of a run."""
    try:
        found = json.loads((folder / RESULTS).read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no {RESULTS}: it is not a run, or not a finished one.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder / RESULTS} is damaged: {error}.") from None
    if not isinstance(found, dict) or "experiment" not in found:
        raise ValueError(f"{folder / RESULTS} is not the results of a run.")
    return found


def rewrite_report(folder: Path) -> Path:
    """Makes figures and report.html of a run again from its results.json, and brings SHA256SUMS up to date."""
    results = read_results(folder)
    (folder / "figures").mkdir(exist_ok=True)
    drawn = figures.draw(results, folder / "figures")
    path: Path = report.write(folder)
    write_sums(folder, [str(made.relative_to(folder)) for made in (*drawn, path)], read_sums(folder))
    return path


def verify(folder: Path) -> list[str]:
    """What is wrong with a run: files against SHA256SUMS, features against checksums, results against predictions."""
    results = read_results(folder)
    problems = [f"{name} is missing or has other bytes than {SUMS} says" for name in damaged(folder)]
    if (folder / PREDICTIONS).is_file():
        problems += _check_results(folder, results)
    if (folder / FEATURES).is_dir():
        problems += _check_features(folder, results)
    for inner in sorted(path.parent for path in folder.glob(f"*/{RESULTS}")):
        problems += [f"{inner.name}: {problem}" for problem in verify(inner)]
    return problems


def _check_results(folder: Path, results: Mapping[str, Any]) -> list[str]:
    """Every number that follows from the predictions, derived again."""
    try:
        n_nodes = {plan["name"]: plan["n_nodes"] for plan in results["settings"]["reservoirs"]}
        derived = json.loads(results_text(analyse(*load_predictions(folder), n_nodes)))
    except (ValueError, OSError, KeyError) as error:
        return [f"{PREDICTIONS} cannot be read: {error}"]
    return [
        f'"{key}" of {RESULTS} does not follow from {PREDICTIONS}: {_first_difference(results.get(key), value)}'
        for key, value in derived.items()
        if results.get(key) != value
    ]


def _first_difference(stored: Any, derived: Any) -> str:
    if isinstance(stored, list) and isinstance(derived, list) and len(stored) == len(derived):
        stored, derived = next((a, b) for a, b in zip(stored, derived, strict=True) if a != b)
    return f"it has {stored}, they give {derived}"


def _check_features(folder: Path, results: Mapping[str, Any]) -> list[str]:
    """Every chunk read with its checksum, and the count of clipped updates added up again."""
    problems: list[str] = []
    clipped = 0
    for group in sorted(path for path in (folder / FEATURES).iterdir() if path.is_dir()):
        try:
            store = FeatureStore.open(group)
        except ValueError as error:
            return [*problems, f"{FEATURES}/{group.name} cannot be read: {error}"]
        if missing := store.missing():
            problems.append(f"{FEATURES}/{group.name}: chunks {missing} are missing or damaged")
        else:
            clipped += store.clip_count()
    if not problems and clipped != results.get("clip_count"):
        problems.append(f"clip_count of {RESULTS} is {results.get('clip_count')}, but the features add up to {clipped}")
    return problems


def _remove_empty(folder: Path, root: Path) -> None:
    """Removes `folder` and those above it, below `root`, as far as they are empty."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _group() -> str:
    return json.dumps({"attributes": {}, "zarr_format": 3, "node_type": "group"}, indent=2)
