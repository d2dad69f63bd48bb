"""Plots of neurons and of signals show the numbers they are given."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import thermoment as tm
from thermoment.machines.signals.memory import Memory
from thermoment.plot.style import COLOURS, INK

SHORT = tm.Protocol(dt=0.02, t_final=0.2, n_replicas=40)
LAYERS = tm.neurons.Layered.draw((2, 2), 1, seed=1)
DRIVES = np.array([-2.0, 0.0, 1.0])
ANY: Any = 3


def axes() -> Axes:
    return Figure().subplots()


def line(ax: Axes, colour: str) -> Any:
    """The points of the one line of this colour."""
    (found,) = (one for one in ax.lines if one.get_color() == colour)
    return np.asarray(found.get_xydata())


def test_activation_curves_are_those_of_the_neuron() -> None:
    node = tm.Dynamics()
    ax = tm.plot.activation(node, [0.1, 0.2], DRIVES, protocol=SHORT, ax=axes())
    np.testing.assert_allclose(line(ax, INK)[:, 1], tm.neurons.activation(node, DRIVES))
    for colour, t in zip(COLOURS, (0.1, 0.2), strict=False):
        expected = tm.neurons.activation(node, DRIVES, replace(SHORT, t_final=t))
        np.testing.assert_array_equal(line(ax, colour), np.stack([DRIVES, expected], axis=1))


def test_the_clock_shows_the_error_at_each_time_and_marks_one() -> None:
    inputs, targets, times = np.array([[0.0], [1.0]]), np.array([0.5, -0.5]), [0.1, 0.2]
    ax = tm.plot.clock(LAYERS, inputs, targets, times, trained_for=0.2, protocol=SHORT, ax=axes())
    answers = LAYERS.answers_at(inputs, times, SHORT)[:, :, 0]
    np.testing.assert_allclose(line(ax, COLOURS[0]), np.stack([times, ((answers - targets) ** 2).mean(axis=1)], axis=1))
    assert [0.2, 0.2] in [list(np.asarray(one.get_xdata(), float)) for one in ax.lines]


def test_a_prediction_is_drawn_over_its_rows() -> None:
    ax = tm.plot.prediction([1.0, 2.0], {"one": [1.0, 1.5], "other": [0.0, 0.0]}, first=7, ax=axes())
    assert line(ax, INK).tolist() == [[7, 1], [8, 2]]
    assert line(ax, COLOURS[0]).tolist() == [[7, 1], [8, 1.5]]
    assert line(ax, COLOURS[1]).tolist() == [[7, 0], [8, 0]]


def test_memory_is_drawn_over_the_delay_with_its_sum() -> None:
    ax = tm.plot.memory({"a": Memory(np.array([0.9, 0.5]), 1.4)}, ax=axes())
    assert line(ax, COLOURS[0]).tolist() == [[1, 0.9], [2, 0.5]]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a (1.4)"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tm.plot.activation(ANY), "`machine` must be a thermoment.Dynamics, Reservoir or Classifier"),
        (lambda: tm.plot.activation(tm.Dynamics(), range(1, 8)), "`times` must be at most 6, a curve each"),
        (lambda: tm.plot.activation(tm.Dynamics(), [-1.0]), "`times` must be positive"),
        (lambda: tm.plot.clock(ANY, [[0.0]], [0.0], [1.0]), "`machine` must be a thermoment.neurons.Layered"),
        (lambda: tm.plot.clock(LAYERS, [[0.0]], [0.0, 1.0], [1.0]), "`targets` must have shape (1,)"),
        (lambda: tm.plot.prediction([0.0, math.nan], [0.0, 0.0]), "`target` must be finite"),
        (lambda: tm.plot.prediction([0.0, 1.0], [0.0]), "`predictions` must have shape (2,)"),
        (lambda: tm.plot.memory(ANY), "`capacities` must be what thermoment.signals.memory_capacity gives"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
