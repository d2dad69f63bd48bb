"""The one look of all figures: sizes, type, colours, strokes; and how a figure becomes SVG and PNG."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import RLock
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from thermoment._support.checks import invalid, quoted
from thermoment._support.files import write_whole
from thermoment.results.naming import ModelKey, Read

WIDTH = 7.0
"""Inches: a page's two columns."""
HALF = 3.45
"""Inches: one column."""
_PNG_DPI = 220

INK, MUTED, FAINT = "#1a1a1a", "#5f5f5f", "#d9d9d9"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's, told apart by the colour-blind. Each goes with a stroke, a hatch and a marker for print in grey."""
STROKES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.8)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (1.2, 1.2)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
DIVERGING = LinearSegmentedColormap.from_list(
    "thermoment", ["#00456b", "#0072B2", "#8cc0de", "#ffffff", "#efae80", "#D55E00", "#7f3800"]
)
"""Blue below zero, white at zero, vermilion above."""
HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")
MARKERS = ("o", "s", "^", "v", "P", "X")

_NUMBERED = re.compile("[A-Za-z][0-9]+")

_RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "figure.facecolor": "white",
    # Both come with matplotlib, so that every machine draws the same letters; the second for letters the first lacks.
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "font.size": 9,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "mathtext.fontset": "stix",
    "svg.fonttype": "path",
    "svg.hashsalt": "thermoment",  # ids in the file depend on what is drawn, not on the hour
    "xtick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 8,
    "ytick.major.width": 0.6,
}


# matplotlib's settings belong to the whole process.
_drawing = RLock()


@contextmanager
def look() -> Iterator[None]:
    """Within it matplotlib draws in this style, whatever the settings around it. One thread at a time may be inside."""
    settings: Any = {key: value for key, value in mpl.rcParamsDefault.items() if not key.startswith("backend")}
    with _drawing, mpl.rc_context(settings | _RC):
        yield


@contextmanager
def canvas(ax: Axes | None, width: float = HALF, height: float = 2.7) -> Iterator[Axes]:
    """The axes that were given, to be drawn on with the settings around; or new ones, in this style, of this size.

    A new figure belongs to its axes alone: pyplot does not know it, so nothing has to be closed.
    """
    if ax is None:
        with look():
            figure = Figure(figsize=(width, height), layout="constrained")
            yield figure.subplots()
            for axes in figure.axes:
                axes.tick_params(labelsize=_RC["xtick.labelsize"])  # else the settings when saved choose the ticks
            figure.draw_without_rendering()  # labels of ticks are made when they are drawn first, and in this style
    elif isinstance(ax, Axes):
        yield ax
    else:
        raise invalid("ax", "be a matplotlib Axes, or None for a new one", quoted(ax))


def write(figure: Figure, path: Path) -> list[Path]:
    """Writes `path`.svg and `path`.png, each whole, the same bytes every time."""
    written = []
    for form, options in (
        ("svg", {"metadata": {"Date": None, "Creator": None}}),
        ("png", {"metadata": {"Software": None}, "dpi": _PNG_DPI}),
    ):
        buffer = BytesIO()
        figure.savefig(buffer, format=form, **options)
        target = path.with_name(f"{path.name}.{form}")
        write_whole(target, buffer.getvalue())
        written.append(target)
    return written


def panel(axes: Axes, letter: str, title: str) -> None:
    """A panel's letter and title, flush left above it."""
    axes.set_title(f"({letter})  {title}", loc="left", pad=8, fontweight="bold")


def grid(axes: Axes, axis: str) -> None:
    """Faint lines to read values by."""
    axes.grid(axis=axis, color=FAINT, linewidth=0.5)  # type: ignore[arg-type]


def darker(colour: str) -> str:
    """A colour with more black in it, for letters on white."""
    return "#" + "".join(f"{round(0.7 * int(colour[k : k + 2], 16)):02x}" for k in (1, 3, 5))


def math_name(name: str) -> str:
    """A model's name as it is set: "K1+K2" with subscripts; any other name as it is, "$" and all."""
    return "+".join(
        f"${part[0]}_{{{part[1:]}}}$" if _NUMBERED.fullmatch(part) else text(part) for part in name.split("+")
    )


def short_name(model: ModelKey, largest: tuple[str, ...], full: tuple[Read, ...]) -> str:
    """What a model is, as short as can be: its reservoirs, or "all" for the `largest` set, and what is special."""
    name = "all" if model.reservoirs == largest and len(largest) > 1 else math_name(model.name)
    if model.fusion != "feature":
        name += ", averaged" if model.fusion == "logit" else f", {model.fusion}"
    if model.orders != full:
        name += ", " + " ".join(p if isinstance(p, str) else f"$m_{p}$" for p in model.orders)
    return name


def text(words: str) -> str:
    """Words as they are: "$" does not start a formula, and no backslash undoes that."""
    return words.replace("\\", "\N{SET MINUS}").replace("$", r"\$")
