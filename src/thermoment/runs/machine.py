"""A run of one of the other machines: what it found, and its folder. It is one task, done anew every time."""

import time
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from thermoment._engines.choice import choose
from thermoment._engines.task import Outcome, Report, Task
from thermoment._support.host import environment
from thermoment._support.progress import Listener, silent
from thermoment.experiments.machine import MachineExperiment
from thermoment.experiments.toml import as_table
from thermoment.plot.style import look, write
from thermoment.results.machine import MachineResults
from thermoment.runs import machine_tasks
from thermoment.runs.folder import assemble, check_new, write_timings


@dataclass
class Noted:
    """The engine that was asked for, which remembers who did its tasks: "auto" may choose another for another task."""

    asked: str
    name: str = "noted"
    tasks_at_once: int = 1
    used: set[str] = field(default_factory=set)

    def status(self) -> str:
        return choose(self.asked)[0].status()

    def check(self, task: Task) -> None:
        choose(self.asked, task)[0].check(task)

    def moments(self, task: Task, report: Report) -> Outcome:
        engine = choose(self.asked, task)[0]
        self.used.add(engine.name)
        return engine.moments(task, report)


def run_machine(
    experiment: MachineExperiment, folder: str | PathLike[str] | None = None, listener: Listener | None = None
) -> MachineResults:
    """Does the experiment and puts its files into `folder`, runs/NAME unless given."""
    target = Path(folder) if folder is not None else Path("runs") / experiment.name
    check_new(target)
    begin, engine, name = time.perf_counter(), Noted(experiment.engine), experiment.machine
    engine.status()
    found: machine_tasks.Found = getattr(machine_tasks, name)(experiment.settings, engine, listener or silent)
    used = ", ".join(sorted(engine.used))
    software = environment(used)
    versions = {"thermoment": software["thermoment"], **{key: one for key, one in software["packages"].items() if one}}
    settings, about = as_table(experiment.settings), (experiment.name, experiment.description, name)
    results = MachineResults(*about, used, versions, settings, found.numbers, found.curves)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".figures-") as drawn, look():
        figures = write(found.axes.figure, Path(drawn) / name)
        assemble(target, experiment, results, {f"figures/{path.name}": path for path in figures})
    write_timings(target, {name: time.perf_counter() - begin})
    return results
