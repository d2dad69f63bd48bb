"""Draws the picture at the top of the README: a node in its tilted well, its paths, and the errors on MNIST.

    python tools/readme_figure.py           docs/figures/overview.{svg,png}

The node is simulated here, in seconds. The errors on MNIST are those of docs/training.md and docs/reproduction.md.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import thermoment as tm
from thermoment.plot.style import COLOURS, FAINT, INK, MUTED, STROKES, WIDTH, look, panel, write

PICTURE = Path(__file__).resolve().parents[1] / "docs/figures/overview"

DRIVES = (0.0, 2.0)
DYNAMICS = tm.Dynamics()
"""J2 = J4 = 1 and kT = 0.1, as in the paper."""
ERRORS = {"raw pixels": 7.29, "the paper's machine": 3.05, "trained by thermoment": 0.58}
"""Wrong of the 10000 test images, in per cent, by what a linear readout sees; the last is the mean over three seeds."""


def well(axes: Axes) -> None:
    """The well without and with a drive, and where replicas of the node are at t = 1."""
    x = np.linspace(-0.85, 1.05, 200)
    for k, h in enumerate(DRIVES):
        axes.plot(x, DYNAMICS.potential(x, h), color=COLOURS[k], linestyle=STROKES[k], label=f"drive $h = {h:g}$")
        ends = states(h)[:25]
        axes.plot(ends, DYNAMICS.potential(ends, h), "o", color=COLOURS[k], markersize=3.5, alpha=0.5, mew=0)
    axes.set_ylim(-1.1, 1.1)
    axes.set_xlabel("state $x$")
    axes.set_ylabel("potential $U(x)$")
    axes.legend(loc="upper center")
    panel(axes, "a", "The input tilts a well")


def relaxation(axes: Axes) -> None:
    """A few paths under each drive from x = 0, and the mean of many, to the time when they are read."""
    for k, h in enumerate(DRIVES):
        times, x = tm.sample_paths(node(h, stream=k), [[1.0]], tm.Protocol(n_replicas=1024), every=10)
        paths = x[0, :, :, 0]
        axes.plot(times, paths[:6].T, color=COLOURS[k], linewidth=0.5, alpha=0.5)
        axes.plot(times, paths.mean(axis=0), color=COLOURS[k], linestyle=STROKES[k], linewidth=2)
    axes.axvline(1.0, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_xlim(0, 1)
    axes.set_xlabel("time $t$; moments are read at $t = 1$")
    axes.set_ylabel("state $x(t)$")
    panel(axes, "b", "The node relaxes, with noise")


def errors(axes: Axes) -> None:
    """Wrong answers on MNIST, a bar for each thing that a linear classifier can be given."""
    shades = (FAINT, COLOURS[5], COLOURS[0])
    for place, ((name, wrong), colour) in enumerate(zip(ERRORS.items(), shades, strict=True)):
        axes.barh(-place, wrong, color=colour, height=0.45)
        axes.text(0, 0.3 - place, name, fontsize=8.5, va="bottom", color=INK)
        axes.text(wrong + 0.12, -place, f"{wrong:.2f} %", va="center", fontsize=8.5, color=INK)
    axes.set_xlim(0, 9)
    axes.set_ylim(-2.5, 0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("MNIST test images wrong (%)")
    panel(axes, "c", "A linear readout classifies")


def node(h: float, stream: int = 0) -> tm.Reservoir:
    """A node by itself, under the drive h for an input of 1, with the noise of `stream`."""
    return tm.Reservoir(W=np.zeros((1, 1)), K=np.full((1, 1), h), b=np.zeros(1), dynamics=DYNAMICS, stream=stream)


def states(h: float) -> np.ndarray:
    """x(1) of 128 replicas."""
    return tm.final_states(node(h), [[1.0]], tm.Protocol())[0, :, 0]


def main() -> None:
    """Draws the picture."""
    with look():
        figure = Figure(figsize=(WIDTH * 1.25, 2.6), layout="constrained")
        for axes, draw in zip(figure.subplots(1, 3), (well, relaxation, errors), strict=True):
            draw(axes)
        write(figure, PICTURE)


if __name__ == "__main__":
    main()
