"""The figures of docs/neurons.md and docs/time-series.md, from what the studies of neurons and signals found.

python studies/machine_figures.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from thermoment.machines.signals.memory import Memory
from thermoment.plot.neurons import draw_activation, draw_clock
from thermoment.plot.signals import memory, prediction
from thermoment.plot.style import COLOURS, INK, MARKERS, MUTED, STROKES, WIDTH, grid, look, panel, write

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


def activations(found: dict[str, Any]) -> Figure:
    """Activation curves of three neurons."""
    figure = Figure(figsize=(WIDTH, 2.3), layout="constrained")
    drives, wells = np.array(found["drives"]), [key for key in found if key.startswith("J2")]
    for axes, letter, name in zip(figure.subplots(1, 3), "abc", wells, strict=True):
        curves = {float(key[4:]): np.array(x) for key, x in found[name].items() if key.startswith("t = ")}
        draw_activation(axes, drives, np.array(found[name]["equilibrium"]), curves)
        panel(axes, letter, name.replace("J2", "$J_2$").replace("J4", "$J_4$"))
        if letter != "a":
            axes.set_ylabel("")
        if letter == "b":
            axes.legend(loc="upper left")
    return figure


def clock(found: dict[str, Any]) -> Figure:
    """The error over the time of reading, and the answers at three times."""
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = {"gradient": "gradients", "genetic": "genetic"}
    errors = {label: np.array(found[key]) for key, label in names.items() if key in found}
    draw_clock(left, np.array(found["times"]), errors, 1.0)
    panel(left, "a", "error over the time of reading")
    z = np.linspace(0, 1, 250)[::5]
    right.plot(z, np.cos(2 * np.pi * z), color=INK, linewidth=1.6, alpha=0.75, label="target")
    for k, (t, y) in enumerate(zip((0.5, 1, 2), found["answers at 0.5, 1 and 2"], strict=True)):
        right.plot(z, y, MARKERS[k], color=COLOURS[k], markersize=2.5, label=f"$t = {t:g}$")
    right.set_xlabel("input $z$")
    right.set_ylabel("answer")
    right.legend(loc="best")
    panel(right, "b", "answers at three times")
    return figure


def predictions(found: dict[str, Any]) -> Figure:
    """A piece of each test signal, and what was predicted."""
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    for axes, letter, (name, title) in zip(
        figure.subplots(2, 1),
        "ab",
        (("narma10", "NARMA-10"), ("mackey-glass", "Mackey-Glass, 84 rows ahead")),
        strict=True,
    ):
        one = found[name]
        shown = {"moments": one["langevin"]["prediction"][:150], "echo states": one["echo-state"]["prediction"][:150]}
        prediction(one["target"][:150], shown, ax=axes)
        panel(axes, letter, title)
        axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.17), ncols=3)
    return figure


def noise(found: dict[str, Any]) -> Figure:
    """The error over the temperature, by the number of replicas; and memory over the delay."""
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    tasks = figure.subplots(1, 3)
    for axes, letter, (name, title) in zip(
        tasks[:2], "ab", (("narma10", "NARMA-10"), ("mackey-glass", "Mackey-Glass")), strict=True
    ):
        _noise(axes, found[name])
        panel(axes, letter, title)
    remembered = {
        key.replace("1e-0", "1e-"): Memory(np.array(one), sum(one))
        for key, one in found["memory"].items()
        if "kT" in key and "kT = 0.01" not in key
    }
    memory(remembered, ax=tasks[2])
    tasks[2].set_ylim(0, 1.42)
    tasks[2].set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    tasks[2].legend(loc="upper right", fontsize=5.5)
    panel(tasks[2], "c", "memory")
    return figure


def _noise(axes: Axes, found: dict[str, Any]) -> None:
    rows = found["noise"]
    for k, M in enumerate(sorted({row["replicas"] for row in rows})):
        points = [(row["kT"], row["test error"]) for row in rows if row["replicas"] == M and row["kT"] > 0]
        x, y = zip(*points, strict=True)
        label = f"{M} replica{'s' if M > 1 else ''}"
        axes.plot(x, y, MARKERS[k], linestyle=STROKES[k], color=COLOURS[k], markersize=3, label=label)
    peer = found["echo-state"]["means"]["test error"]
    axes.axhline(peer, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("temperature $kT$")
    axes.set_ylabel("test error")
    grid(axes, "y")
    axes.legend(loc="best", fontsize=6.5)


def main() -> None:
    """Writes the figures."""
    neurons, signals = (json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("neurons", "signals"))
    with look():
        for name, figure in {
            "neurons-activation": activations(neurons["activation"]),
            "neurons-clock": clock(neurons["clock"]),
            "signals-predictions": predictions(signals),
            "signals-noise": noise(signals),
        }.items():
            for path in write(figure, FIGURES / name):
                if path.suffix == ".svg":
                    path.unlink()


if __name__ == "__main__":
    main()
