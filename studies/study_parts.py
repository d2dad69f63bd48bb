"""The studies of the paper's open questions taken apart into shares that any process can do. For run_all.py.

A part is a variant of a study, or a point of its scan where points have nothing to simulate in common.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thermoment._support.identity import identity
from thermoment.experiments.experiment import Experiment, read
from thermoment.experiments.scan import PAIRED, Point
from thermoment.results.results import StudyResults

STUDIES = (
    "seeds",
    "equal-resources",
    "what-the-moments-carry",
    "time-and-temperature",
    "fusion",
    "beside-others",
)


@dataclass(frozen=True)
class Part:
    """A share of a study, and where its results are kept."""

    experiment: Experiment
    """the study with these points alone"""
    points: tuple[str, ...]
    """their names in the whole study"""
    file: Path
    """called after what the points are, whichever study has them"""

    @property
    def first(self) -> Experiment:
        """The first of its points, as a run of its own."""
        return self.experiment.variant(next(iter(self.experiment.points)))

    @property
    def variant(self) -> str:
        """STUDY/VARIANT, as the command line calls it; STUDY alone where it has no variants."""
        (name,) = {point.variant for point in self.experiment.points.values()}
        return f"{self.experiment.name}/{name}" if name else self.experiment.name

    @property
    def samples(self) -> bool:
        """Whether paths are sampled."""
        return self.first.engine != "meanfield"

    @property
    def fills_a_gpu(self) -> bool:
        """Whether most of its time is sampling by an engine that leaves nothing of a GPU to others."""
        return self.samples and self.first.engine != "xla" and self.first.finite_time is None

    @property
    def size(self) -> float:
        """Updates of nodes that are sampled, or nodes that are solved; the largest parts are begun first."""
        one = self.first
        each = one.protocol.n_replicas * one.protocol.n_steps if self.samples else 1
        return one.repeats * each * sum(plan.n_nodes for plan in one.reservoirs)


def studies(arguments: argparse.Namespace) -> dict[str, Experiment]:
    """The studies as asked for, by name."""
    found = {}
    for name in dict.fromkeys(name.split("/")[0] for name in arguments.studies):
        one = read(name, [f"data.name={arguments.data}", *arguments.overrides])
        if arguments.engine:
            one = replace(one, engine=arguments.engine)
        if arguments.engine == "meanfield":
            one = replace(one, variants={key: table for key, table in one.variants.items() if not samples(table)})
        if most := arguments.repeats:
            capped = {key: {**table, "repeats": min(most, table.get("repeats", most))}
                      for key, table in one.variants.items()}  # fmt: skip
            one = replace(one, repeats=min(most, one.repeats), variants=capped)
        found[name] = one
    return found


def chosen(asked: Sequence[str], every: Sequence[Part]) -> list[Part]:
    """The parts of the studies that were asked for, or of the variants, each as STUDY/VARIANT."""
    known = {part.variant for part in every}
    if unknown := [name for name in asked if "/" in name and name not in known]:
        raise ValueError(f"There is no {unknown[0]}. There are {', '.join(sorted(known))}.")
    return [part for part in every if part.variant in asked or part.experiment.name in asked]


def samples(variant: Mapping[str, Any]) -> bool:
    """Whether a variant names an engine of its own that samples."""
    return bool(variant.get("engine", "meanfield") != "meanfield")


def parts(study: Experiment, out: Path) -> list[Part]:
    """The parts of a study, in its order. Points of a variant that differ in their readout alone stay together."""
    groups: dict[str, dict[str, Point]] = {}
    for name, point in study.points.items():
        simulated = {key: point.changes[key] for key in point.scanned if not key.startswith("readout.")}
        groups.setdefault(identity(point.variant, simulated), {})[name] = point
    found = []
    for points in groups.values():
        alone, names = with_points(study, list(points.values())), tuple(points)
        made_of = [replace(study.variant(name), name=study.name) for name in names]
        file = f"{study.name}-{names[0]}-{identity(made_of)[:16]}.json"
        found.append(Part(alone, names, out / "parts" / file))
    return found


def with_points(study: Experiment, points: Sequence[Point]) -> Experiment:
    """The study with some points of one variant alone, as a scan of values that go together."""
    variant, own = points[0].variant, points[0].own
    common = [key for key in points[0].scanned if key not in own]

    def listed(keys: Sequence[str]) -> dict[str, Any]:
        return {PAIRED: {key: [point.changes[key] for point in points] for key in keys}}

    if common and own:
        raise ValueError(f"{study.name}: a study has one scan for all variants, or each variant has its own.")
    table = {key: value for key, value in study.variants.get(variant, {}).items() if key != "scan"}
    if own:
        table["scan"] = listed(own)
    return replace(study, variants={variant: table} if variant else {}, scan=listed(common) if common else None)


def merged(study: Experiment, found: Sequence[tuple[Part, StudyResults]]) -> StudyResults:
    """The results of a study from those of its parts that are done."""
    rows = {
        name: replace(row, variant=name, engine=results.engine if row.engine is None else row.engine)
        for part, results in found
        for name, row in zip(part.points, results.study, strict=True)
    }
    ordered = [rows[name] for name in study.points if name in rows]
    if len({row.engine for row in ordered}) == 1:
        ordered = [replace(row, engine=None) for row in ordered]
    if any(point.own for point in study.points.values()):
        ordered = [replace(row, group=study.points[row.variant].variant) for row in ordered]
    return replace(found[0][1], study=tuple(ordered))


def training_file(part: Part, out: Path) -> Path:
    """Says when the reservoirs of a part were trained; all parts whose reservoirs are trained alike have the same."""
    one = part.first
    told = (one.dynamics, one.protocol) if one.finite_time else (one.dynamics.J2, one.dynamics.J4)
    name = identity(one.reservoirs, one.repeats, one.vary, one.data, one.training, one.finite_time, *told)[:16]
    return out / "trainings" / f"{name}.json"


def trainings(every: Iterable[Part], out: Path) -> dict[Path, Part]:
    """For all parts whose reservoirs are trained alike the first of them, by the file that says when they were."""
    found: dict[Path, Part] = {}
    for part in every:
        found.setdefault(training_file(part, out), part)
    return found
