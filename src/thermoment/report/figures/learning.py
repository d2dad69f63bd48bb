"""What was learnt and what was not: the course of training, weights as images, and the mistakes that are left."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from thermoment.plot.images import draw_misread, draw_weights, misread_height
from thermoment.plot.learning import confusion as plot_confusion
from thermoment.plot.learning import confusion_side, draw_training
from thermoment.plot.style import WIDTH, math_name, panel
from thermoment.results.pictures import MOST_NODES, MOST_RESERVOIRS, Curve, Misread
from thermoment.results.results import Confusion


def confusion(found: Confusion) -> Figure:
    """Which class was taken for which."""
    side = confusion_side(len(found.counts))
    figure = Figure(figsize=(side, side), layout="constrained")
    plot_confusion(found.counts, ax=figure.subplots())
    return figure


def misread(found: Misread) -> Figure:
    """The most confident mistakes."""
    figure = Figure(figsize=(WIDTH, misread_height(len(found))), layout="constrained")
    draw_misread(figure.subplots(), found)
    return figure


def training(curves: Sequence[Curve]) -> Figure:
    """Loss over the epochs, a panel for each way of training; and where images were held out the accuracy on them."""
    panels = {
        "Through the moments when read": ([curve for curve in curves if curve.how != "static"], "loss"),
        "Images held out": ([curve for curve in curves if curve.validation], "validation"),
        "Through a static stand-in": ([curve for curve in curves if curve.how == "static"], "loss"),
    }
    shown = {title: part for title, part in panels.items() if part[0]}
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    cells = figure.subplots(1, len(shown), squeeze=False)[0]
    for letter, axes, (title, (part, kind)) in zip("abc", cells, shown.items(), strict=False):
        draw_training(axes, part, kind)
        panel(axes, letter, title)
    return figure


def weights(images: Mapping[str, NDArray[np.float64]]) -> Figure:
    """K of the first nodes of each reservoir, all in the same colours."""
    shown = {name: K[:MOST_NODES] for name, K in list(images.items())[:MOST_RESERVOIRS]}
    limit = max(float(np.abs(K).max()) for K in shown.values())
    columns = 8 if len(shown) <= 2 else 4
    height = (WIDTH - 0.8) / len(shown) * (MOST_NODES // columns) / columns
    figure = Figure(figsize=(WIDTH, height + 0.4), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False, gridspec_kw={"wspace": 0.12})[0]
    for axes, (name, K) in zip(panels, shown.items(), strict=True):
        image = draw_weights(axes, K, limit, columns)
        axes.set_title(math_name(name))
    figure.colorbar(image, ax=list(panels), label="weight $K$", shrink=0.8)
    return figure
