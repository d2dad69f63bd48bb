"""Thermodynamic neurons: activations against closed forms and sampling, layers, and two ways of training."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import thermoment as tm
from thermoment.machines.neurons.layers import coupling
from thermoment.machines.neurons.sampled import Clock, answers, squared_error, weights_of
from thermoment.machines.neurons.schedule import Schedule

Z = np.linspace(0, 1, 40)[:, None]
COSINE = np.cos(2 * np.pi * Z[:, 0])
SMALL = tm.neurons.Layered.draw((3, 2), 2, n_outputs=2, seed=4)
SHORT = tm.Protocol(dt=0.05, t_final=0.5, n_replicas=16)
ANY: Any = 3


def machine(seed: int = 1, **options: Any) -> tm.neurons.Layered:
    """Two layers of four neurons, one input."""
    return tm.neurons.Layered.draw((4, 4), 1, seed=seed, **options)


# One neuron.


@pytest.mark.slow
def test_the_activation_of_a_harmonic_neuron_is_its_closed_form() -> None:
    """<x> = I / (2 J2) in equilibrium, times 1 - exp(-2 mu J2 t) before it; by tables, and by sampling.

    Sampled: five standard errors, of which the width in equilibrium gives an upper one, and 0.5 % for Euler's steps.
    """
    node, drives = tm.Dynamics(J2=1.5, J4=0, mu=0.7, kT=0.2), np.linspace(-10, 10, 7).reshape(7, 1)
    np.testing.assert_allclose(tm.neurons.activation(node, drives), drives / 3, atol=1e-10)
    expected = drives / 3 * -math.expm1(-2 * 0.7 * 1.5 * 0.4)
    late = tm.Protocol(dt=2e-3, t_final=0.4, n_replicas=math.inf)
    np.testing.assert_allclose(tm.neurons.activation(node, drives, late), expected, atol=1e-4)
    sampled = tm.neurons.activation(node, drives, replace(late, n_replicas=4000), engine="xla")
    np.testing.assert_allclose(sampled, expected, rtol=5e-3, atol=5 * math.sqrt(0.2 / 3 / 4000))


def test_the_activation_of_a_quartic_neuron_has_its_two_limits() -> None:
    """I -> 0: I <x^2>_0 / kT. I -> inf: (I / 4 J4)^(1/3)."""
    node = tm.Dynamics(J2=0, J4=2, kT=0.5)
    slope = node.boltzmann_moments(0.0, (2,))[0] / node.kT
    weak, strong = tm.neurons.activation(node, [1e-4, 1e6])
    assert weak == pytest.approx(1e-4 * slope, rel=1e-5)
    assert strong == pytest.approx((1e6 / 8) ** (1 / 3), rel=1e-4)


# Layers.


def test_a_drawn_machine_couples_neighbouring_layers_and_drives_the_first() -> None:
    drawn = tm.neurons.Layered.draw((3, 2, 4), 5, n_outputs=2, seed=0)
    layer = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    neighbours = np.abs(layer[:, None] - layer) == 1
    assert np.array_equal(drawn.reservoir.W != 0, neighbours)
    assert np.array_equal(drawn.reservoir.W, drawn.reservoir.W.T)
    assert np.array_equal(np.any(drawn.reservoir.K != 0, axis=1), layer == 0)
    assert drawn.readout.shape == (2, 4)


def test_coupling_puts_each_bond_where_it_belongs() -> None:
    W = coupling([np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])], 4)
    assert W.tolist() == [[0, 1, 2, 0], [1, 0, 0, 3], [2, 0, 0, 4], [0, 3, 4, 0]]


def test_answers_are_the_readout_of_the_last_layer() -> None:
    inputs = np.array([[0.3, -0.2], [1.0, 0.5]])
    moments = tm.simulate(SMALL.reservoir, inputs, SHORT, engine="reference")
    expected = moments.order(1)[:, 3:] @ SMALL.readout.T
    assert np.array_equal(SMALL.answers(inputs, SHORT, engine="reference"), expected)
    early, late = SMALL.answers_at(inputs, [0.25, 0.5], SHORT, engine="reference")
    assert np.array_equal(late, expected)
    assert not np.array_equal(early, expected)


def test_a_machine_saved_and_loaded_has_the_same_bits(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "machine")
    loaded = tm.neurons.Layered.load(tmp_path / "machine")
    assert loaded.widths == SMALL.widths
    assert loaded.reservoir.dynamics == SMALL.reservoir.dynamics
    for one, other in ((loaded.readout, SMALL.readout), (loaded.reservoir.W, SMALL.reservoir.W)):
        assert np.array_equal(one, other)


def test_the_readout_found_by_least_squares_is_better_than_any_other() -> None:
    """On the very run of the fit, whose noise is that of its seed."""
    inputs = np.linspace(-1, 1, 12).reshape(6, 2)
    x = tm.simulate(SMALL.reservoir, inputs, SHORT, engine="reference").order(1)[:, 3:]
    targets = x @ np.array([[2.0, -1.0], [0.5, 3.0]])
    fitted = SMALL.with_readout_for(inputs, targets, SHORT, ridge=0, engine="reference")
    np.testing.assert_allclose(fitted.readout, [[2.0, 0.5], [-1.0, 3.0]], rtol=1e-6)
    assert np.array_equal(fitted.reservoir.W, SMALL.reservoir.W)


def test_a_training_goes_without_noise_first_and_then_with_it() -> None:
    schedule = Schedule(SHORT, 3, 5, n_replicas=8, seed=0, report=None)
    (calm, before), (noisy, after) = schedule.phases(SMALL, np.zeros((1, 2)))
    assert (calm.dynamics.kT, calm.n_replicas, before) == (0.0, 1, 3)
    assert (noisy.dynamics, noisy.n_replicas, after) == (SMALL.reservoir.dynamics, 8, 5)


# Paths in JAX.


def test_paths_in_jax_are_those_of_the_reference_without_noise() -> None:
    cold, inputs = SMALL.at_temperature(0.0), np.array([[0.3, -0.2], [1.0, 0.5]])
    clock = Clock(cold.reservoir.dynamics, SHORT.dt, SHORT.n_steps, 1, math.inf)
    found = answers(weights_of(cold), jax.numpy.asarray(inputs), jax.random.key(0), clock)
    expected = cold.answers(inputs, replace(SHORT, n_replicas=1), engine="reference")
    np.testing.assert_allclose(np.asarray(found)[0, 0], expected, rtol=1e-5, atol=1e-6)


def test_paths_in_jax_have_the_mean_and_variance_of_an_engine() -> None:
    """Five standard errors of the mean, and 10 % of the variance, of which the standard error is 1.6 %."""
    inputs, P = np.array([[1.0, 0.5]]), 8000
    clock = Clock(SMALL.reservoir.dynamics, SHORT.dt, SHORT.n_steps, P, math.inf)
    y = np.asarray(answers(weights_of(SMALL), jax.numpy.asarray(inputs), jax.random.key(1), clock))
    y = y.reshape(P, 2)
    states = tm.final_states(SMALL.reservoir, inputs, replace(SHORT, n_replicas=P))[0, :, 3:] @ SMALL.readout.T
    error = states.std(axis=0) * math.sqrt(2 / P)
    assert np.all(np.abs(y.mean(axis=0) - states.mean(axis=0)) < 5 * error)
    np.testing.assert_allclose(y.var(axis=0), states.var(axis=0), rtol=0.1)


@pytest.mark.parametrize("M", [4, math.inf])
def test_the_loss_is_the_expected_squared_error_of_a_reading(M: float) -> None:
    """Of y ~ N(1, 1), alike in a pair by half, and a target of 0.5: 0.25 + 1 / M. A mean of 1e5 losses errs by 5e-3."""
    rng = np.random.default_rng(0)
    both, own = rng.normal(0.0, math.sqrt(0.5), (1, 2, 100_000, 1)), rng.normal(0.0, math.sqrt(0.5), (2, 2, 100_000, 1))
    y = jax.numpy.asarray(1 + both + own, jax.numpy.float32)
    assert float(squared_error(y, jax.numpy.float32(0.5), M)) == pytest.approx(0.25 + 1 / M, abs=0.02)


# Training.


def mean_square(one: tm.neurons.Layered) -> float:
    """Of a machine's error on the cosine, the sampling noise of 400 replicas left out by two independent runs."""
    a, b = (one.answers(Z, tm.Protocol(dt=0.05, n_replicas=400, seed=s), engine="xla")[:, 0] - COSINE for s in (1, 2))
    return float(np.mean(a * b))


def test_gradients_teach_two_layers_a_cosine() -> None:
    """No straight line is better than 0.5."""
    start = machine(seed=2, dynamics=tm.Dynamics(kT=0.02))
    options: Any = {"warm_up": 300, "steps": 60, "batch_size": 20, "learning_rate": 0.05}
    trained = tm.neurons.learn(start, Z, COSINE, tm.Protocol(dt=0.05), **options)
    assert trained.losses.shape == (360,)
    assert mean_square(start) > 0.3
    assert mean_square(trained.machine) < 0.1
    again = tm.neurons.learn(start, Z, COSINE, tm.Protocol(dt=0.05), **options | {"warm_up": 5, "steps": 0})
    assert np.array_equal(again.losses[:2], trained.losses[:2])


def test_a_training_that_runs_away_says_so() -> None:
    options: Any = {"warm_up": 30, "steps": 0, "batch_size": 40, "learning_rate": 20.0}
    with pytest.raises(RuntimeError, match=r"The loss is not finite after [0-9]+ steps: .* Take a shorter dt"):
        tm.neurons.learn(machine(), Z, COSINE, tm.Protocol(dt=0.1), **options)


@pytest.mark.slow
def test_evolution_brings_the_loss_down() -> None:
    start = machine(s_W=0, s_K=0, s_b=0, s_readout=0, dynamics=tm.Dynamics(kT=0.02))
    line = 0.5 * Z[:, 0]
    options: Any = {"warm_up": 60, "generations": 0, "population": 20, "spread": 0.1}
    evolved = tm.neurons.evolve(start, Z, line, tm.Protocol(dt=0.05), **options)
    assert evolved.losses.shape == (60,)
    assert evolved.losses[0] > 0.05
    assert evolved.losses[-1] < 0.01
    assert evolved.machine.reservoir.W.any()


@pytest.mark.slow
def test_classes_are_learnt() -> None:
    """Two rings: no line separates them, and half of the answers are right by chance."""
    rng = np.random.default_rng(3)
    angle, labels = rng.uniform(0, 2 * np.pi, 200), np.arange(200) % 2
    rings = np.where(labels, 1.0, 0.4)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    start = tm.neurons.Layered.draw((6, 6), 2, n_outputs=2, seed=2, dynamics=tm.Dynamics(kT=0.02))
    options: Any = {"warm_up": 250, "steps": 50, "batch_size": 50, "learning_rate": 0.05}
    trained = tm.neurons.learn_classes(start, rings, labels, tm.Protocol(dt=0.05), **options)
    taken = trained.machine.answers(rings, tm.Protocol(dt=0.05, n_replicas=64), engine="xla").argmax(axis=1)
    assert np.mean(taken == labels) > 0.95


# Bad input.

layered: Any = tm.neurons.Layered
GOOD = SMALL.reservoir
X2, Y2 = np.zeros((5, 2)), np.zeros((5, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layered(GOOD, (3, 3), SMALL.readout), "`widths` must add up to the 5 nodes of the reservoir, but was"),
        (lambda: layered(GOOD, (2, 3), np.zeros((1, 3))), "`W` must couple neighbouring layers only, but was"),
        (lambda: layered(GOOD, (3, 2), np.zeros((1, 3))), "`readout` must have shape (C, 2), but has shape (1, 3)"),
        (lambda: layered(3, (3, 2), SMALL.readout), "`reservoir` must be a thermoment.Reservoir, but was 3"),
        (
            lambda: layered(tm.Reservoir.draw(4, 1, seed=0), (2, 2), np.zeros((1, 2))),
            "`W` must be symmetric for layers",
        ),
        (
            lambda: layered(tm.Reservoir(np.zeros((2, 2)), np.ones((2, 1)), np.zeros(2)), (1, 1), np.zeros((1, 1))),
            "`K` must drive the 1 neurons of the first layer only, but was not zero in row 1",
        ),
        (lambda: layered.draw((), 1, seed=0), "`widths` must be at least one layer"),
        (lambda: layered.draw((3, 0), 1, seed=0), "`widths` must be an integer from 1 to"),
        (lambda: layered.draw(3, 1, seed=0), "`widths` must be a sequence of integers"),
        (lambda: SMALL.answers(X2, ANY), "`protocol` must be a thermoment.Protocol, but was 3"),
        (lambda: tm.neurons.learn(ANY, X2, Y2), "`machine` must be a thermoment.neurons.Layered, but was 3"),
        (lambda: tm.neurons.learn(SMALL, X2[:, :1], Y2), "`inputs` must have shape (S, 2), but has shape (5, 1)"),
        (lambda: tm.neurons.learn(SMALL, X2, Y2[:4]), "`targets` must have shape (5, 2), but has shape (4, 2)"),
        (
            lambda: tm.neurons.learn(machine(), X2[:, :1], X2[:4, 0]),
            "`targets` must have shape (5,), but has shape (4,)",
        ),
        (lambda: tm.neurons.learn(SMALL, X2, Y2, n_replicas=2), "`n_replicas` must be an integer from 4"),
        (lambda: tm.neurons.learn(SMALL, X2, Y2, n_replicas=5), "`n_replicas` must be even"),
        (lambda: SMALL.with_readout_for(X2, Y2[:4]), "`targets` must have shape (5, 2), but has shape (4, 2)"),
        (lambda: tm.neurons.learn(SMALL, X2, Y2, report=ANY), "`report` must be a function of 2 arguments"),
        (
            lambda: tm.neurons.learn(SMALL, X2, Y2, tm.Protocol(dt=0.5)),
            "`dt` must be at most",
        ),
        (
            lambda: tm.neurons.learn(SMALL, X2, Y2, tm.Protocol(start="rest", t_rest=9.0)),
            '`start` must be "zero" for a training of layers',
        ),
        (lambda: tm.neurons.learn_classes(SMALL, X2, np.full(5, 2)), "`labels` must be class numbers from 0 to 1"),
        (lambda: tm.neurons.evolve(SMALL, X2, Y2, population=5), "`parents` must be an integer from 1 to 4, but was 5"),
        (lambda: tm.neurons.evolve(SMALL, X2, Y2[:, :1]), "`targets` must have shape (5, 2), but has shape (5, 1)"),
        (lambda: tm.neurons.activation(ANY, [0.0]), "`dynamics` must be a thermoment.Dynamics, but was 3"),
        (lambda: tm.neurons.activation(tm.Dynamics(), [math.nan]), "`drives` must be finite"),
        (
            lambda: tm.neurons.activation(tm.Dynamics(), [0.0], engine="xla"),
            "`engine` must be left out where there is no protocol",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
