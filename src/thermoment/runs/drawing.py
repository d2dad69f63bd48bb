"""The figures of a run: drawn by several processes where there are cores for them, else in turn in this one.

The module that draws is imported when it is needed: where other processes draw, this one never waits for matplotlib.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thermoment._support.processes import Processes
from thermoment._support.threads import cores
from thermoment.results.node import NodeSample
from thermoment.runs.pictures import needed

FROM_CORES = 4
"""Cores from which on other processes draw. To start they take a second of a core each, and all figures take four: with
two cores, both at work on readouts, nothing is gained."""
_MOST = 6
"""Processes, where there are as many cores: the slowest of nine figures takes a fifth of the time of all."""


class Drawing:
    """The drawing of one run's figures, to be begun before there is anything to draw: processes take a while to start.

    A context manager, after which no process is left. The bytes are the same, whoever draws.
    """

    def __init__(self) -> None:
        self._others: Processes | None = None

    def __enter__(self) -> "Drawing":
        return self

    def __exit__(self, *_: object) -> None:
        if self._others is not None:
            self._others.end()

    def begin(self, settings: Mapping[str, Any] | None = None) -> None:
        """Starts the processes, unless there are too few cores. One of them begins with the node, where it is needed.

        settings: those that `node` will be given; None where it will not be called
        """
        if self._others is None and cores() >= FROM_CORES:
            self._others = Processes(min(cores(), _MOST), "thermoment.runs.figure_process")
            if self._others and settings is not None:
                self._others.ask(0, "node", {part: settings[part] for part in ("dynamics", "protocol")})

    def node(self, settings: Mapping[str, Any]) -> NodeSample:
        """The node that the figures show, in the well of `settings`."""
        if self._others and (arrays := self._others.answer(0)):
            return NodeSample(**{name: np.array(values) for name, values in arrays.items()})
        from thermoment.runs import example_node

        return example_node.simulate_node(settings)

    def figures(self, folder: Path, files: Mapping[str, Path]) -> list[Path]:
        """Draws the figures of folder/results.json into folder/figures, and says which files were written.

        files: those of the run, by their names in its folder
        """
        given = os.path.abspath(folder), {name: os.path.abspath(path) for name, path in needed(files).items()}
        if not self._others:
            written = _here(*given)
        else:
            written, count = [], len(self._others)
            for number in range(count):
                self._others.ask(number, "figures", *given, number, count)
            for number in range(count):
                answer = self._others.answer(number)
                written += _here(*given, number, count) if answer is None else answer
        return [folder / "figures" / name for name in written]


def _here(*what: Any) -> list[str]:
    """Draws in this process: where no other does, or what one did not get done."""
    from thermoment.runs.figure_process import figures

    return figures(*what)
