"""An experiment: everything a run depends on, as frozen dataclasses from a TOML file; repeats and variants of it."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path
from typing import Any

import tomli_w

from thermoment._support.checks import check_choice, check_integer, invalid
from thermoment._support.identity import LATER
from thermoment.experiments import machine as machines
from thermoment.experiments import scan as scans
from thermoment.experiments.dotted import override
from thermoment.experiments.machine import MachineExperiment
from thermoment.experiments.settings import (
    LONGEST_NAME,
    BaselineSettings,
    Data,
    FeatureSettings,
    ReadoutSettings,
    ReservoirSettings,
    check_name,
)
from thermoment.experiments.toml import as_table, build
from thermoment.learning.options import FiniteTime, Training
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reads import MEANS, PAIR, needed

REPEAT_STRIDE = 1000
"""How far the seeds of two repeats of an experiment are apart."""
SEEDS = ("reservoirs", "batches", "trajectories", "readout")
"""What has seeds of its own: the draws of W, K and b; the order of the batches that train them; the noise of the
simulation; the order of the batches that fit the readout."""
_LONGEST_NAMES = 180
"""Of all reservoirs joined by +: a readout's file is called so, and a file's name has at most 255 bytes."""
_TAKEN = re.compile("figures|readouts|reservoirs|repeat-[0-9]+", re.IGNORECASE)
"""Folders of a run, which has each variant in a folder of its name beside them."""
_TABLE = "table"
"""The shipped experiment that a CSV file is run by."""


@dataclass(frozen=True)
class Experiment:
    """Everything a run depends on, except the engine's device."""

    name: str
    reservoirs: tuple[ReservoirSettings, ...]
    description: str = ""
    engine: str = "auto"
    repeats: int = 1
    """how often the whole is done, each time with other seeds"""
    vary: tuple[str, ...] = field(default=SEEDS, metadata=LATER)
    """which seeds are others in a repeat, of SEEDS"""
    data: Data = field(default_factory=Data)
    dynamics: Dynamics = field(default_factory=Dynamics)
    protocol: Protocol = field(default_factory=Protocol)
    training: Training = field(default_factory=Training)
    finite_time: FiniteTime | None = None
    """training through the finite-time moments, after the stages of the reservoirs; None for none"""
    readout: ReadoutSettings = field(default_factory=ReadoutSettings)
    features: FeatureSettings = field(default_factory=FeatureSettings)
    baselines: BaselineSettings | None = field(default=None, metadata=LATER)
    """classifiers without reservoirs to compare with, beside a readout of the raw inputs"""
    equilibrium: int = field(default=0, metadata=LATER)
    """over how many of the first test images it is averaged how far the means of the nodes are from their stationary
    values when they are read; 0: not at all"""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """of a study: for each variant what it changes, as in `--set`, its `description`, and a `scan` of its own"""
    scan: Mapping[str, Any] | None = field(default=None, metadata=LATER)
    """of a study: settings by dotted keys, and for each the list of values that are tried; see experiments/scan.py"""

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_integer("repeats", self.repeats, 1, 1000)
        check_integer("equilibrium", self.equilibrium, 0, 2**40)
        for kind in self.vary:
            check_choice("vary", kind, SEEDS)
        if not self.vary or len(set(self.vary)) < len(self.vary):
            raise invalid("vary", f"name some of {', '.join(SEEDS)}, each once", self.vary)
        names = [plan.name for plan in self.reservoirs]
        if not names or len(set(names)) < len(names):
            raise invalid("reservoirs", "have at least one, each with a name of its own", names)
        sizes = {plan.name: plan.n_nodes for plan in self.reservoirs}
        for plan in self.reservoirs:
            others = [name for name, size in sizes.items() if size == plan.n_nodes and name != plan.name]
            if plan.start is not None and plan.start not in others:
                raise invalid(
                    "start", f"be another reservoir of {plan.n_nodes} nodes for {plan.name}", repr(plan.start)
                )
        copies = {f"{name}-trained" for name in names} if self.finite_time and self.finite_time.beside else set()
        if copies & set(names):
            raise invalid(
                "reservoirs", "leave the names of trained copies free", ", ".join(sorted(copies & set(names)))
            )
        if self.readout.reads and self.finite_time is not None:
            raise invalid("readout.reads", "be left out where finite_time trains a head of raw moments", "set")
        if {PAIR, MEANS} & {*self.readout.reads} and min(sizes.values()) < 2:
            raise invalid("n_nodes", "be at least 2 where readout.reads asks for pairs of nodes", min(sizes.values()))
        if missing := set(needed(self.readout.reads)) - set(self.protocol.orders):
            must = f"hold {', '.join(map(str, sorted(missing)))} for what readout.reads asks for"
            raise invalid("protocol.orders", must, self.protocol.orders)
        if len("+".join(names)) > _LONGEST_NAMES:
            raise invalid("reservoirs", f"have names of at most {_LONGEST_NAMES} characters together", "+".join(names))
        for variant, changes in self.variants.items():
            check_name("variants", variant)
            if _TAKEN.fullmatch(variant):
                raise invalid("variants", "have names that no other folder of a run has", repr(variant))
            if not isinstance(changes, Mapping):
                raise invalid(f"variants.{variant}", "be a table of what it changes", repr(changes))
        n_runs = scans.count_runs(self.variants, self.scan, self.repeats)
        if n_runs > scans.MOST_RUNS:
            raise invalid("scan", f"be a study of at most {scans.MOST_RUNS} runs, repeats counted", f"one of {n_runs}")

    @cached_property
    def points(self) -> dict[str, scans.Point]:
        """Of a study its points by name: its variants, with all values of the scans."""
        return scans.points(self.variants, self.scan)

    @property
    def read(self) -> tuple[int, ...] | tuple[str, ...]:
        """What readouts read of every node: orders of raw moments, or the words of `readout.reads`."""
        return self.readout.reads or self.protocol.orders

    def repeat(self, number: int) -> "Experiment":
        """The same with the seeds of repeat `number`; repeat 0 has the seeds as written."""
        shift = {kind: REPEAT_STRIDE * number if kind in self.vary else 0 for kind in SEEDS}
        trained = self.finite_time and replace(self.finite_time, seed=self.finite_time.seed + shift["batches"])
        others = self.baselines and replace(self.baselines, seed=self.baselines.seed + shift["reservoirs"])
        return replace(
            self,
            repeats=1,
            finite_time=trained,
            baselines=others,
            protocol=replace(self.protocol, seed=self.protocol.seed + shift["trajectories"]),
            readout=replace(self.readout, seed=self.readout.seed + shift["readout"]),
            reservoirs=tuple(plan.reseeded(shift["reservoirs"], shift["batches"]) for plan in self.reservoirs),
        )

    @cached_property
    def _common(self) -> dict[str, Any]:
        """The table that every point of a study starts from."""
        table: dict[str, Any] = as_table(replace(self, variants={}, scan=None))
        return table

    def variant(self, name: str) -> "Experiment":
        """The experiment that a point of a study stands for."""
        point = self.points[name]
        changes = dict(point.changes)
        description = changes.pop("description", "")
        scanned = scans.describe({key: changes[key] for key in point.own} if description else changes)
        description = ": ".join(filter(None, [description, scanned if point.own or not description else ""]))
        table = {**deepcopy(self._common), "description": description}
        for key, value in changes.items():
            override(table, key, value)
        return from_table({**table, "name": f"{self.name}-{name}"})


AnyExperiment = Experiment | MachineExperiment


def read(source: str | PathLike[str], overrides: Sequence[str] = ()) -> Experiment:
    """The experiment in a TOML file, or of a name that ships with the package; `overrides` are "a.b=c".

    A CSV file stands for the experiment `table` with this file as its data; `overrides` name its column of classes.
    An experiment with one of the other machines is refused: `read_any` takes it.
    """
    found = read_any(source, overrides)
    if isinstance(found, MachineExperiment):
        raise ValueError(
            f"{source} is an experiment with the machine {found.machine}: it has no reservoirs to compare."
        )
    return found


def read_any(source: str | PathLike[str], overrides: Sequence[str] = ()) -> AnyExperiment:
    """As `read`, of experiments of every kind."""
    if (path := Path(source)).suffix.lower() == ".csv":
        if not any(text.partition("=")[0].strip() == "data.label" for text in overrides):
            raise ValueError(f"{path}: Which column holds the classes? Say it by --set data.label=COLUMN.")
        name = re.sub("[^A-Za-z0-9_-]", "-", path.stem)[:LONGEST_NAME] or _TABLE
        source, overrides = _TABLE, [f"name={name}", f"data.name={json.dumps(str(path))}", *overrides]
    text, origin = _text(source)
    try:
        return _read(text, origin, overrides)
    except RecursionError:
        raise ValueError(f"{origin}: Tables or lists are nested too deeply.") from None


def _read(written: str, origin: str, overrides: Sequence[str]) -> AnyExperiment:
    try:
        table = tomllib.loads(written)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(origin, error) from None
    except ValueError:  # Python's own, for an integer of thousands of digits
        raise ValueError(f"{origin}: An integer has too many digits.") from None
    table.setdefault("name", Path(origin).stem)
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise invalid("set", "have the form key=value", repr(text))
        override(table, key.strip(), _value(value.strip()))
    try:
        if "machine" in table:
            return machines.from_table(table)
        experiment = from_table(table)
        for name in experiment.points:
            experiment.variant(name)
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from None
    return experiment


def shipped() -> dict[str, str]:
    """The experiments that come with the package: name and description."""
    return {name: tomllib.loads(file.read_text("utf-8")).get("description", "") for name, file in _shipped().items()}


def from_table(table: Mapping[str, Any]) -> Experiment:
    """The experiment in a parsed TOML table."""
    built = build(Experiment, table)
    assert isinstance(built, Experiment)
    return built


def to_toml(experiment: AnyExperiment) -> str:
    """The experiment with every default written out; `read_any` gives it back."""
    return tomli_w.dumps(as_table(experiment))


def _text(source: str | PathLike[str]) -> tuple[str, str]:
    """The text of an experiment, and where it is from."""
    path, found = Path(source), _shipped()
    if path.suffix == ".toml" or path.is_file():
        try:
            return path.read_text("utf-8"), str(path)
        except UnicodeDecodeError as error:
            raise _not_toml(str(path), error) from None
        except OSError as error:
            raise ValueError(f"{path} cannot be read as an experiment: {error}.") from None
    if str(source) not in found:
        near = get_close_matches(str(source), found, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"There is no experiment {str(source)!r}: it is neither a file nor one of {', '.join(found)}.{hint}"
        )
    return found[str(source)].read_text("utf-8"), f"{source}.toml"


def _shipped() -> dict[str, Traversable]:
    """The files of the experiments that come with the package, by name."""
    folder = resources.files("thermoment.experiments") / "shipped"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file for file in files}


def _not_toml(origin: str, error: ValueError) -> ValueError:
    if origin.endswith(".toml"):
        return ValueError(f"{origin} is not TOML: {error}.")
    return ValueError(
        f"{origin} is not an experiment. An experiment is one of {', '.join(_shipped())}, or a TOML file. It names its "
        "data: `data.name` is a data set, a folder of IDX files, an .npz or a CSV file, as in --set data.name=own.npz."
    )


def _value(text: str) -> Any:
    """A value as TOML writes it; what is not TOML is a plain string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text
