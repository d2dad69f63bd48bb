"""The files of a run: put together from the store, with checksums last; and checked, every number of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from thermoment._support.files import write_json, write_whole
from thermoment._support.host import environment
from thermoment._support.progress import Note
from thermoment.experiments.experiment import AnyExperiment, Experiment, read, read_any, to_toml
from thermoment.experiments.toml import as_table
from thermoment.report import page as report
from thermoment.results.analysis import analyse, summarise
from thermoment.results.codec import plain
from thermoment.results.machine import MachineResults, holds_machine
from thermoment.results.machine import from_json as machine_results
from thermoment.results.results import RESULTS, Results, StudyResults, load, null_for_infinity
from thermoment.results.study import STUDY_CSV, STUDY_JSON
from thermoment.results.study import to_csv as study_csv
from thermoment.results.study import to_json as study_json
from thermoment.runs.cost import check_cost
from thermoment.runs.drawing import Drawing
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.pictures import files_of
from thermoment.runs.predictions import PREDICTIONS, baselines, load_predictions
from thermoment.runs.store import SUMS, damaged, place, read_sums, remove_partial, write_sums

EXPERIMENT, ENVIRONMENT, TIMINGS = "experiment.toml", "environment.json", "timings.json"
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


def is_finished(folder: Path) -> bool:
    """Whether a run was once put together here."""
    return (folder / SUMS).is_file()


def claim(folder: Path, experiment: AnyExperiment) -> None:
    """Makes the folder a run's, by its first file: from now on the same command finds its own work there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / EXPERIMENT, to_toml(experiment).encode())


def assemble(
    folder: Path,
    experiment: AnyExperiment,
    results: Results | StudyResults | MachineResults,
    files: Mapping[str, Path],
) -> None:
    """Puts a run's folder together: `files` from the store under their names here, and what describes the run.

    Files of an earlier run in the same folder that this one does not have are removed, by the earlier SHA256SUMS.
    """
    claim(folder, experiment)
    remove_partial(folder)
    before = read_sums(folder)
    texts = {RESULTS: results.to_json(), ENVIRONMENT: json.dumps(environment(results.engine), indent=1) + "\n"}
    if isinstance(results, StudyResults):
        texts |= {STUDY_JSON: study_json(results), STUDY_CSV: study_csv(results)}
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
    write_json(folder / TIMINGS, {"seconds": rounded})


def rewrite_report(folder: Path) -> Path:
    """Makes figures and report.html of a run again from its files, and brings SHA256SUMS up to date.

    A run that has no node.safetensors keeps the figures of its node, if it has any.
    """
    results = load(folder)
    (folder / "figures").mkdir(exist_ok=True)
    with Drawing() as drawing:
        if isinstance(results, Results):
            drawing.begin()
        drawn = drawing.figures(folder, files_of(folder))
    path: Path = report.write(folder)
    if before := read_sums(folder):  # a list that is not whole is not made to look so
        write_sums(folder, [str(made.relative_to(folder)) for made in (*drawn, path)], before)
    return path


def verify(folder: Path, data_dir: Path | None = None, note: Note = lambda _: None) -> list[str]:
    """What is wrong with a run: files against SHA256SUMS, features against checksums, results against predictions.

    The cost of an answer follows from features and images. It is derived again where the run keeps features and its
    data set is on this machine, in `data_dir` or where `thermoment.data.load` looks; `note` is told where it is not.
    """
    if not (folder / RESULTS).exists() and not (folder / SUMS).exists():
        raise ValueError(f"{folder} holds no {RESULTS}: it is not a run, or not a finished one.")
    if holds_machine(folder):
        return _verify_machine(folder)
    results, experiment, unreadable = None, None, {}
    try:
        results = load(folder)
    except (ValueError, OSError) as error:
        unreadable[RESULTS] = str(error)
    try:
        experiment = read(folder / EXPERIMENT)
    except ValueError as error:
        unreadable[EXPERIMENT] = str(error)
    problems = []
    if isinstance(results, Results) and (folder / PREDICTIONS).is_file():
        try:
            problems = _check_results(folder, results)
        except (ValueError, OSError, LookupError, TypeError) as error:
            unreadable[PREDICTIONS] = str(error)
    wrong = damaged(folder)
    problems = _differences(wrong, unreadable) + problems
    if isinstance(results, Results):
        # Where a file of the features is known to be damaged there is no more to say of them.
        kept = (folder / FEATURES).is_dir() and not any(FEATURES in name for name in wrong)
        found = _check_features(folder, results) if kept else []
        problems += found
        sources = (FEATURES, "reservoirs", EXPERIMENT)
        if experiment is not None and not found and not any(name.startswith(sources) for name in wrong):
            problems += check_cost(folder, folder / FEATURES, results, experiment, data_dir, note)
    if isinstance(results, StudyResults):
        problems += _check_study(folder, results)
    for inner in _inner_runs(folder, experiment):
        problems += [f"{inner.name}: {problem}" for problem in _verify_inner(inner, data_dir, note)]
    return problems


def _verify_machine(folder: Path) -> list[str]:
    """What is wrong with a run of one of the other machines: files, and settings beside those of experiment.toml."""
    unreadable, settings = {}, []
    for name in (RESULTS, EXPERIMENT):
        try:
            if name == RESULTS:
                settings.append(machine_results((folder / name).read_text("utf-8")).settings)
            else:
                settings.append(as_table(read_any(folder / name)).get("settings"))
        except ValueError as error:
            unreadable[name] = str(error)
    problems = _differences(damaged(folder), unreadable)
    if len(settings) == 2 and settings[0] != null_for_infinity(plain(settings[1])):
        problems.append(f'"settings" of {RESULTS} are not those of {EXPERIMENT}')
    return problems


def _differences(wrong: Sequence[str], unreadable: Mapping[str, str]) -> list[str]:
    """One line for each file that is not as SHA256SUMS says or that cannot be read."""
    lines = {name: f"{name} is missing or has other bytes than {SUMS} says" for name in wrong}
    if SUMS in lines:
        lines[SUMS] = f"{SUMS} is missing or is not a whole list of checksums"
    for name, why in unreadable.items():
        lines[name] = f"{lines[name]}: {why}" if name in lines else f"{name} cannot be read: {why}"
    return list(lines.values())


def _inner_runs(folder: Path, experiment: Experiment | None) -> list[Path]:
    """The folders of variants or repeats: those that are there, and those that the experiment says there must be."""
    found = {path.parent for name in (RESULTS, SUMS) for path in folder.glob(f"*/{name}")}
    if experiment is not None:
        repeats = [] if experiment.points else [f"repeat-{number}" for number in range(1, experiment.repeats)]
        found |= {folder / name for name in (*experiment.points, *repeats)}
    return sorted(found)


def _verify_inner(folder: Path, data_dir: Path | None, note: Note) -> list[str]:
    try:
        return verify(folder, data_dir, note)
    except ValueError:
        return ["the run is missing"]


def _check_results(folder: Path, results: Results) -> list[str]:
    """Every number that follows from the predictions, derived again."""
    n_nodes = {plan["name"]: plan["n_nodes"] for plan in results.settings["reservoirs"]}
    derived = vars(analyse(*load_predictions(folder), n_nodes)) | {"baseline": baselines(folder)}
    pairs = {name: (getattr(results, name), found) for name, found in derived.items()}
    stored, found = pairs.pop("confusion")
    if stored is not None:  # as in a run of an earlier version
        pairs["confusion"] = (stored,), (found,)
    return [
        f'"{key}" of {RESULTS} does not follow from {PREDICTIONS}: {_first_difference(stored, found)}'
        for key, (stored, found) in pairs.items()
        if stored != found
    ]


def _check_study(folder: Path, results: StudyResults) -> list[str]:
    """The numbers of a study, derived again from those of its runs; what is wrong with a run is said of the run."""
    problems = []
    for point in results.study:
        try:
            inner = load(folder / point.variant)
        except (ValueError, OSError):
            continue
        if isinstance(inner, Results) and point.accuracy != (inner.repeats or summarise([inner.accuracy])):
            problems.append(f"{RESULTS} has other accuracies of {point.variant} than its run")
    for name, text in ((STUDY_JSON, study_json(results)), (STUDY_CSV, study_csv(results))):
        if (folder / name).is_file() and (folder / name).read_bytes() != text.encode():
            problems.append(f"{name} does not follow from {RESULTS}")
    return problems


def _first_difference(stored: tuple[object, ...], derived: tuple[object, ...]) -> str:
    if len(stored) != len(derived):
        return f"it has {len(stored)} rows, they give {len(derived)}"
    a, b = next((a, b) for a, b in zip(stored, derived, strict=True) if a != b)
    return f"it has {plain(a)}, they give {plain(b)}"


def _check_features(folder: Path, results: Results) -> list[str]:
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
    if not problems and clipped != results.clip_count:
        problems.append(f"clip_count of {RESULTS} is {results.clip_count}, but the features add up to {clipped}")
    return problems


def _remove_empty(folder: Path, root: Path) -> None:
    """Removes `folder` and those above it, below `root`, as far as they are empty."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _group() -> str:
    return json.dumps({"attributes": {}, "zarr_format": 3, "node_type": "group"}, indent=2)
