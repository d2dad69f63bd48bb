"""Training on trajectories: the likelihood of paths and its gradient, the linear solve, students of teachers."""

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import thermoment as tm
from thermoment import data
from thermoment.machines.couplings import symmetric_fit

DYNAMICS = tm.Dynamics(mu=0.7, kT=0.5)
PROTOCOL = tm.Protocol(dt=0.01, t_final=0.2, n_replicas=1)


def network(seed: int, n_nodes: int = 4, n_inputs: int = 3) -> tm.Reservoir:
    """Random weights, W symmetric."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n_nodes, n_nodes))
    W = W + W.T
    np.fill_diagonal(W, 0.0)
    return tm.Reservoir(W, rng.normal(size=(n_nodes, n_inputs)), rng.normal(size=n_nodes), DYNAMICS)


def paths_of(seed: int = 5, n_nodes: int = 4, n_inputs: int = 3) -> tuple[Any, Any]:
    """Inputs (2, D), and paths (2, 21, N) that some other network took."""
    inputs = np.random.default_rng(seed).normal(size=(2, n_inputs))
    other = network(seed, n_nodes, n_inputs)
    return inputs, tm.sample_paths(other, inputs, PROTOCOL, nodes=range(n_nodes), engine="reference")[1][:, 0]


class TestLikelihood:
    def test_it_is_that_of_gaussian_steps(self) -> None:
        inputs, paths = paths_of()
        logs = []
        for seed in (1, 2):
            one = network(seed)
            x = paths[:, :-1]
            F = DYNAMICS.force(x, one.drive(inputs)[:, None]) + x @ one.W.T
            spread = np.sqrt(2 * DYNAMICS.mu * DYNAMICS.kT * PROTOCOL.dt)
            logs.append(norm.logpdf(paths[:, 1:], x + DYNAMICS.mu * PROTOCOL.dt * F, spread).sum())
        a, b = (tm.path_likelihood(network(seed), inputs, paths, PROTOCOL).loss for seed in (1, 2))
        assert a - b == pytest.approx(logs[1] - logs[0], rel=1e-9)

    @pytest.mark.parametrize("name", ["W", "K", "b"])
    def test_the_gradient_is_that_of_finite_differences(self, name: str) -> None:
        inputs, paths = paths_of()
        here = network(1)
        parts: dict[str, Any] = {"W": here.W, "K": here.K, "b": here.b}
        found = getattr(tm.path_likelihood(here, inputs, paths, PROTOCOL), name)
        step = 1e-4
        for where in np.ndindex(found.shape):
            if name == "W" and where[0] == where[1]:
                assert found[where] == 0
                continue
            moved = []
            for sign in (-1, 1):
                part = parts[name].copy()
                for bond in {where, where[::-1]} if name == "W" else {where}:
                    part[bond] += sign * step
                there = tm.Reservoir(**{**parts, name: part}, dynamics=DYNAMICS)
                moved.append(tm.path_likelihood(there, inputs, paths, PROTOCOL).loss)
            # The loss is quadratic: central differences are exact but for rounding.
            assert found[where] == pytest.approx((moved[1] - moved[0]) / (2 * step), rel=1e-6, abs=1e-6)


class TestFit:
    def test_the_equation_holds_off_the_diagonal(self) -> None:
        rng = np.random.default_rng(0)
        x, g = rng.normal(size=(50, 6)) * [1, 2, 3, 1, 0.1, 5], rng.normal(size=(50, 6))
        C, E = x.T @ x, x.T @ g
        W = symmetric_fit(C, E, 1e-12)
        left = W @ C + C @ W - E - E.T
        np.testing.assert_allclose(left - np.diag(np.diagonal(left)), 0, atol=1e-8)
        np.testing.assert_array_equal(W, W.T)
        assert not np.diagonal(W).any()

    def test_it_takes_the_bonds_that_there_are_and_no_others(self) -> None:
        rng = np.random.default_rng(1)
        x, g = rng.normal(size=(50, 5)), rng.normal(size=(50, 5))
        bonds = np.ones((5, 5), bool)
        bonds[:3, :3] = False
        C, E = x.T @ x, x.T @ g
        W = symmetric_fit(C, E, 1e-12, bonds=bonds)
        assert not W[:3, :3].any()
        np.fill_diagonal(bonds, False)
        np.testing.assert_allclose((W @ C + C @ W - E - E.T)[bonds], 0, atol=1e-8)

    def test_a_network_is_found_from_its_own_fields(self) -> None:
        true, rng = network(3), np.random.default_rng(0)
        inputs, x = rng.normal(size=(300, 3)), rng.normal(size=(300, 1, 4))
        sums = tm.PathSums(4, 3)
        for part in (slice(0, 100), slice(100, 300)):
            sums.add(inputs[part], true.drive(inputs[part]) + x[part, 0] @ true.W, x[part])
        student = sums.student(DYNAMICS, ridge=0)
        for name in ("W", "K", "b"):
            np.testing.assert_allclose(getattr(student, name), getattr(true, name), atol=1e-4)

    def test_no_student_goes_along_the_guides_with_a_larger_probability(self) -> None:
        rng = np.random.default_rng(0)
        inputs, fields = rng.normal(size=(40, 3)), rng.normal(0, 5, (40, 4))
        guides = tm.guided_paths(fields, DYNAMICS, PROTOCOL)
        sums = tm.PathSums(4, 3)
        sums.add(inputs, fields, guides[:, :-1])
        best = sums.student(DYNAMICS, ridge=0)
        found = tm.path_likelihood(best, inputs, guides, PROTOCOL)
        untrained = tm.path_likelihood(network(1), inputs, guides, PROTOCOL)
        for name in ("W", "K", "b"):
            assert np.abs(getattr(found, name)).max() < 1e-4 * np.abs(getattr(untrained, name)).max()
        assert found.loss < untrained.loss

    def test_a_guide_moves_under_its_field_alone(self) -> None:
        fields = np.array([[3.0, -40.0]])
        paths = tm.guided_paths(fields, DYNAMICS, PROTOCOL)
        change = np.diff(paths, axis=1) / (DYNAMICS.mu * PROTOCOL.dt)
        np.testing.assert_allclose(change - DYNAMICS.force(paths[:, :-1]), np.tile(fields, (20, 1))[None], rtol=1e-9)
        late = tm.guided_paths(fields, DYNAMICS, tm.Protocol(dt=0.01, t_final=5.0))
        np.testing.assert_allclose(late[:, -1], DYNAMICS.stationary_point(fields), rtol=1e-6)


class TestStudents:
    """On scikit-learn's digits: 1297 to learn from, 500 to be judged by."""

    dynamics = tm.Dynamics(kT=1.0)
    protocol = tm.Protocol(dt=2e-3, t_final=0.2, n_replicas=1, orders=(1,))
    digits = data.load("digits")

    def right(self, student: tm.Reservoir) -> float:
        found = tm.simulate(student, self.digits.x_test, self.protocol).order(1)[:, -10:].argmax(1)
        return float((found == self.digits.y_test).mean())

    @pytest.mark.slow
    def test_a_student_reads_what_its_teacher_reads(self) -> None:
        teaching = tm.Teaching(n_hidden=24, hidden=100, output=40, epochs=20, batch=100, rate=0.02)
        teacher = tm.train_teacher(self.digits.x_train, self.digits.y_train, self.dynamics, teaching)
        assert (teacher.predict(self.digits.x_test) == self.digits.y_test).mean() > 0.9
        fields = teacher.fields(self.digits.x_train)
        student = tm.learn_paths(self.digits.x_train, fields, self.dynamics, self.protocol, rounds=1)
        assert self.right(student) > 0.85
        assert tm.integrability(student.W).integrable
        mixed = tm.learn_paths(self.digits.x_train, fields[::-1], self.dynamics, self.protocol)
        assert self.right(mixed) < 0.3  # control: the fields are those of other images

    def test_the_fields_are_those_of_resting_nodes(self) -> None:
        rng = np.random.default_rng(0)
        A, a, V, v, x = (rng.normal(size=shape) for shape in ((4, 3), 4, (2, 4), 2, (5, 3)))
        teacher = tm.Teacher(A, a, V, v, self.dynamics, tm.Teaching(hidden=50, output=20))
        hidden, output = np.split(teacher.fields(x), [4], axis=1)
        np.testing.assert_allclose(hidden, 50 * (x @ A.T + a))
        s = self.dynamics.stationary_point(hidden) / self.dynamics.stationary_point(50.0)
        np.testing.assert_allclose(output, 20 * (s @ V.T + v))

    def test_gradients_through_paths_teach_a_random_network(self) -> None:
        rng = np.random.default_rng(0)
        W = rng.normal(0, 2, (34, 34))
        W = W + W.T
        np.fill_diagonal(W, 0.0)
        raw = tm.Reservoir(W, rng.normal(0, 10, (34, 64)), rng.normal(0, 3, 34), self.dynamics)
        options = tm.Pathwise(epochs=8, batch=100, rate=0.05)
        trained = tm.learn_pathwise(raw, self.digits.x_train, self.digits.y_train, self.protocol, options)
        assert self.right(raw) < 0.3
        assert self.right(trained) > 0.65
        assert tm.integrability(trained.W).integrable


INPUTS, FIELDS = np.ones((2, 3)), np.ones((2, 4))
learn_paths: Any = tm.learn_paths
learn_pathwise: Any = tm.learn_pathwise


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tm.path_likelihood(network(0), INPUTS, np.zeros((2, 1, 4))), "`paths` must have at least two points"),
        (lambda: tm.path_likelihood(network(0), INPUTS, np.zeros((3, 5, 4))), "`paths` must have shape (2, T, 4)"),
        (
            lambda: tm.path_likelihood(tm.Reservoir.draw(4, 3, seed=0, dynamics=tm.Dynamics(kT=0)), INPUTS, FIELDS),
            "`kT` must be positive: without noise every path but one has probability zero, but was 0.0.",
        ),
        (lambda: tm.guided_paths([[np.nan]], DYNAMICS, PROTOCOL), "`fields` must be finite"),
        (lambda: tm.guided_paths([[1e6]], DYNAMICS, PROTOCOL), "`dt` must be at most"),
        (lambda: learn_paths(INPUTS, FIELDS[:1], DYNAMICS, PROTOCOL), "`fields` must have shape (2, N)"),
        (lambda: learn_paths(INPUTS, FIELDS, "cold", PROTOCOL), "`dynamics` must be a thermoment.Dynamics, but was"),
        (lambda: learn_paths(INPUTS, FIELDS, DYNAMICS, 7), "`protocol` must be a thermoment.Protocol, but was 7."),
        (lambda: learn_paths(INPUTS, FIELDS, DYNAMICS, PROTOCOL, rounds=-1), "`rounds` must be an integer from 0"),
        (lambda: learn_paths(INPUTS, FIELDS, DYNAMICS, PROTOCOL, ridge=-1), "`ridge` must be zero or positive"),
        (lambda: tm.PathSums(4, 3).student(DYNAMICS), "Nothing was added to these sums"),
        (lambda: tm.Teaching(hidden=0), "`hidden` must be positive, but was 0.0."),
        (lambda: tm.Pathwise(epochs=0), "`epochs` must be an integer from 1"),
        (lambda: learn_pathwise(network(0), INPUTS, [0, 4], PROTOCOL), "`labels` must be class numbers from 0 to 3"),
        (lambda: learn_pathwise(network(0), INPUTS, [0, 1], PROTOCOL), "`batch` must be at most the 2 samples"),
        (
            lambda: learn_pathwise(network(0), INPUTS, [0, 1], tm.Protocol(clip=4.0)),
            "`protocol` must start at zero and not clip",
        ),
        (lambda: tm.train_teacher(INPUTS, [0, 1], DYNAMICS, 3), "`teaching` must be a thermoment.Teaching, but was 3."),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


@pytest.mark.slow
def test_a_student_reads_mnist_from_one_trajectory() -> None:
    if not any(place.present for place in data.locate("mnist")):
        pytest.skip("MNIST is not on this machine")
    mnist = data.load("mnist")
    dynamics, protocol = tm.Dynamics(kT=1.0), tm.Protocol(dt=1e-3, t_final=0.2, n_replicas=1, orders=(1,))
    few = slice(0, 10000)
    teacher = tm.train_teacher(mnist.x_train, mnist.y_train, dynamics)
    student = tm.learn_paths(mnist.x_train[few], teacher.fields(mnist.x_train[few]), dynamics, protocol)
    right = tm.simulate(student, mnist.x_test, protocol).order(1)[:, -10:].argmax(1) == mnist.y_test
    assert right.mean() > 0.95
