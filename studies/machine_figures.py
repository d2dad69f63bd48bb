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
SHOWN = 100
"""Rows of a signal."""


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
        if letter == "a":
            axes.legend(loc="lower right", handlelength=1.6, borderaxespad=0.2)
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
    """A piece of each test signal with what was predicted, and the errors of the predictions below it."""
    figure = Figure(figsize=(WIDTH, 5.4), layout="constrained")
    rows = figure.subplots(4, 1, height_ratios=[2, 1, 2, 1])
    tasks = {"narma10": "NARMA-10", "mackey-glass": "Mackey-Glass, 84 rows ahead"}
    for (above, below), letter, (name, title) in zip(rows.reshape(2, 2), "ab", tasks.items(), strict=True):
        y = np.array(found[name]["target"][:SHOWN])
        both = {"moments": "langevin", "echo states with squares": "echo-state"}
        shown = {
            label: np.array(found[name][kind]["means and squares"]["prediction"][:SHOWN])
            for label, kind in both.items()
        }
        prediction(y, shown, ax=above)
        panel(above, letter, title)
        above.legend(loc="upper right", bbox_to_anchor=(1.0, 1.28), ncols=3)
        above.set_xlabel("")
        above.tick_params(labelbottom=False)
        below.axhline(0, color=INK, linewidth=0.6)
        for k, values in enumerate(shown.values()):
            below.plot(values - y, color=COLOURS[k], linestyle=STROKES[k], linewidth=1.0)
        below.set_xlim(0, SHOWN - 1)
        below.set_xlabel("row")
        below.set_ylabel("error")
    return figure


def noise(found: dict[str, Any]) -> Figure:
    """The error over the temperature, by the number of replicas; and memory over the delay."""
    figure = Figure(figsize=(WIDTH, 5.0), layout="constrained")
    panels = figure.subplot_mosaic("ab;cc")
    for letter, (name, title) in {"a": ("narma10", "NARMA-10"), "b": ("mackey-glass", "Mackey-Glass")}.items():
        _noise(panels[letter], found[name])
        panel(panels[letter], letter, title)
    remembered = {
        key.replace("0.0001", "1e-4").replace("0.01", "1e-2").replace("1e-0", "1e-"): Memory(np.array(one), sum(one))
        for key, one in found["memory"].items()
        if "kT" in key
    }
    memory(remembered, ax=panels["c"])
    beside: Any = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "alignment": "left"}  # where no curve is
    panels["b"].legend(**beside, title="Langevin network, and echo states")
    panels["c"].legend(**beside, title="coupling, and sum over all delays")
    panel(panels["c"], "c", "memory")
    return figure


def _noise(axes: Axes, found: dict[str, Any]) -> None:
    rows = found["noise"]
    for k, M in enumerate(sorted({row["replicas"] for row in rows})):
        points = [(row["kT"], row["test error"]) for row in rows if row["replicas"] == M and row["kT"] > 0]
        x, y = zip(*points, strict=True)
        label = f"{M} replica{'s' if M > 1 else ''}"
        axes.plot(x, y, MARKERS[k], linestyle=STROKES[k], color=COLOURS[k], markersize=3, label=label)
    for label, stroke in (("means", (0, (2, 2))), ("means and squares", (0, (6, 2)))):
        peer = found["echo-state"][label]["test error"]
        name = "echo states" if label == "means" else "echo states and squares"
        axes.axhline(peer, color=MUTED, linewidth=0.8, linestyle=stroke, label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("temperature $kT$")
    axes.set_ylabel("test error")
    grid(axes, "y")


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
