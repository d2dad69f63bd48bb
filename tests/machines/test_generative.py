"""Generation from thermal noise: the law of noising, the fit that runs it backwards, images, prompts, heat."""

import re
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment import data
from thermoment.machines.generative import reverse_fit

DYNAMICS = tm.Dynamics(kT=0.05)
NOISING = tm.Noising(duration=1.5, dt=0.02, levels=5)


def patterns(n: int = 2, n_pixels: int = 60) -> Any:
    """Random images of black and white: (n, n_pixels)."""
    return np.random.default_rng(1).integers(0, 2, (n, n_pixels)).astype(float)


class TestNoising:
    def test_the_law_is_that_of_sampled_paths(self) -> None:
        law = tm.node_law(NOISING, DYNAMICS)
        s = np.repeat([[-1.0, 0.0, 0.5]], 4000, axis=0)
        paths = tm.noised_paths(s, NOISING, DYNAMICS, seed=1)
        levels = [0, 2, 3]
        for n in (0, 30, 74):  # after the first step, while the field fades, and when it is gone
            x = paths[:, n + 1]
            for known, sampled in ((law.mean[n], x), (law.square[n], x**2)):
                error = sampled.std(axis=0) / np.sqrt(len(x))
                z = (sampled.mean(axis=0) - known[levels]) / error
                assert np.abs(z).max() < 4.5  # 18 numbers: a false alarm in ten thousand
                wrong = (sampled.mean(axis=0) - known[[1, 2, 4]]) / error
                assert n == 74 or np.abs(wrong).max() > 10  # control: the laws of other levels

    def test_the_score_gives_the_mean_field_back(self) -> None:
        noising = tm.Noising(duration=1.5, dt=0.005, levels=5)
        law = tm.node_law(noising, DYNAMICS)
        for n in (20, 150, 280):
            p = law.density[n] / law.density[n].sum(axis=1, keepdims=True)
            found = (p * law.reverse_field(noising, DYNAMICS, n)).sum(axis=1)
            np.testing.assert_allclose(found, law.field[n], atol=0.03)
            assert np.abs(law.field[n]).max() > 0.2 or n == 280

    def test_the_score_is_that_of_steps_backwards(self) -> None:
        # E[x' g(x')] sees the score, whose own mean is zero; on a path g is V'(x') - dx/(mu dt), less noise.
        noising = tm.Noising(duration=1.0, dt=0.01, levels=3)
        law = tm.node_law(noising, DYNAMICS)
        paths = tm.noised_paths(np.ones((40000, 1)), noising, DYNAMICS, seed=3)[:, :, 0]
        for n in (60, 90):
            x, change = paths[:, n + 1], paths[:, n + 1] - paths[:, n]
            sampled = x * (-DYNAMICS.force(x) - change / noising.dt)
            p = law.density[n, -1] / law.density[n, -1].sum()
            known = (p * law.x * law.reverse_field(noising, DYNAMICS, n)[-1]).sum()
            error = sampled.std() / np.sqrt(len(x))
            assert abs(sampled.mean() - known) < 4 * error + 0.02  # the score is of first order in dt
            assert DYNAMICS.kT > 4 * error + 0.02  # by so much half the score would be off

    def test_the_fields_fade_along_a_line(self) -> None:
        c = tm.Noising(duration=1.0, dt=0.01, fade=0.8).strength()
        np.testing.assert_allclose(c[[0, 20, 40, 79]], [1, 0.75, 0.5, 0.0125])
        assert not c[80:].any()

    def test_an_image_is_forgotten(self) -> None:
        mean = tm.node_law(NOISING, DYNAMICS).mean
        assert mean[0, -1] > 0.5
        assert abs(mean[-1, -1]) < 0.3
        np.testing.assert_allclose(mean, -mean[:, ::-1], atol=1e-12)


class TestFit:
    def test_it_is_where_the_gradient_of_the_reverse_likelihood_vanishes(self) -> None:
        s = 2 * patterns(3, 6) - 1
        W, b = reverse_fit(s, NOISING, DYNAMICS, np.ones((6, 6), bool))
        protocol = tm.Protocol(dt=NOISING.dt, t_final=NOISING.duration)
        paths = tm.noised_paths(np.repeat(s, 40, axis=0), NOISING, DYNAMICS, seed=2)[:, ::-1]

        def scores(W: Any, b: Any) -> Any:
            """Mean over its standard error of every derivative, over groups of ten paths of each image."""
            network, nothing = tm.Reservoir(W, np.zeros((6, 1)), b, DYNAMICS), np.zeros((30, 1))
            parts = [tm.path_likelihood(network, nothing, paths[k::4], protocol) for k in range(4)]
            found = np.array([[*one.W[np.triu_indices(6, 1)], *one.b] for one in parts])
            return found.mean(axis=0) / (found.std(axis=0, ddof=1).mean() / 2)

        assert np.sqrt((scores(W, b) ** 2).mean()) < 2  # 1 if the gradient vanishes: 21 numbers
        assert np.sqrt((scores(0 * W, 0 * b) ** 2).mean()) > 5

    def test_descent_along_sampled_paths_comes_near_it(self) -> None:
        images, fast = patterns(2, 6), tm.Noising(duration=0.4, fade=0.2, dt=0.02, levels=5)
        best = tm.train_generator(images, DYNAMICS, fast).reservoir
        empty = tm.Reservoir(np.zeros((6, 6)), np.zeros((6, 1)), np.zeros(6), DYNAMICS)
        there = tm.descend_generator(tm.Generator(empty, 6, fast), images, rate=0.5, steps=300)
        assert np.corrcoef(there.reservoir.W.ravel(), best.W.ravel())[0, 1] > 0.8
        share = float((there.reservoir.W * best.W).sum() / (best.W**2).sum())
        assert 0.8 < share < 1.2  # along paths that are not reversed it is 0.27
        np.testing.assert_array_equal(there.reservoir.W, there.reservoir.W.T)

    def test_visible_nodes_are_coupled_through_hidden_ones(self) -> None:
        found = tm.train_generator(patterns(), DYNAMICS, NOISING, n_hidden=8, ridge=0.1).reservoir
        assert not found.W[:60, :60].any()
        assert found.W[:60, 60:].any()
        assert found.W[60:, 60:].any()


class TestImages:
    images = patterns()
    machine = tm.train_generator(images, DYNAMICS, NOISING, n_hidden=20, classes=[0, 1], prompt=0.5, ridge=0.1)

    def distances(self, made: tm.Generated, row: int) -> Any:
        """Mean square difference of every sample to every pattern: (n, 2)."""
        return ((made.images[row][:, None] - self.images) ** 2).mean(axis=2)

    def test_they_emerge_from_noise(self) -> None:
        made = self.machine.generate(40, duration=8.0, readings=2, engine="xla")
        assert made.times == (0.0, 4.0, 8.0)
        assert self.distances(made, 0).min(axis=1).min() > 0.1
        ends = self.distances(made, -1)
        assert (ends.min(axis=1) < 0.1).mean() > 0.9
        assert set(ends.argmin(axis=1)) == {0, 1}

    def test_without_a_prompt_the_codes_compete_until_one_is_left(self) -> None:
        images = patterns(6)
        machine = tm.train_generator(images, DYNAMICS, NOISING, n_hidden=60, ridge=0.2)
        made = machine.generate(60, duration=20.0, readings=10, engine="xla")
        away = ((made.images[:, :, None] - images) ** 2).mean(axis=3)  # (times, samples, patterns)
        pure = (away.min(axis=2) < 0.1).mean(axis=1)
        assert pure[1] < 0.8 < 0.95 < pure[-1]  # mixtures at first; a share of 60 has a standard error of 0.06
        chosen = np.bincount(away[-1].argmin(axis=1), minlength=6)
        assert chosen.min() > 2  # each has 10 of 60 on average: a false alarm in 300 if they are equally likely

    def test_a_prompt_says_which(self) -> None:
        asked = np.arange(20) % 2
        made = self.machine.generate(20, prompts=asked, duration=6.0, engine="xla")
        np.testing.assert_array_equal(self.distances(made, -1).argmin(axis=1), asked)

    def test_the_heat_is_that_along_the_paths(self) -> None:
        made = self.machine.generate(3, duration=1.0, rest=0.5, seed=4, engine="reference")
        network = self.machine.reservoir
        phases = [tm.Phase(0.5, None, np.zeros_like(network.W)), tm.Phase(1.0, np.zeros((3, 2)))]
        protocol = tm.Protocol(dt=NOISING.dt, t_final=1.0, n_replicas=1, seed=4, orders=(1,))
        run = tm.course(network, phases, protocol, observables=[tm.Heat()], engine="reference")
        before, after = (one.observed["heat"].mean for one in run.moments)
        np.testing.assert_array_equal(run.moments[-1].order(1), made.x[-1])
        np.testing.assert_allclose(made.heat, (after - before) / DYNAMICS.kT, rtol=0.05)
        mean, error = made.mean_heat
        assert mean == pytest.approx(made.heat.mean())
        assert error == pytest.approx(made.heat.std(ddof=1) / np.sqrt(3))


train: Any = tm.train_generator
generate: Any = TestImages.machine.generate


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tm.Noising(levels=4), "`levels` must be odd, so that zero is one of them, but was 4."),
        (lambda: tm.Noising(fade=2), "`fade` must be at most 1, but was 2.0."),
        (lambda: tm.Noising(dt=0.7), "`dt` must divide the duration of 2.5 into whole steps, but was 0.7."),
        (lambda: tm.node_law(tm.Noising(dt=0.125), DYNAMICS), "`dt` must be at most"),
        (lambda: tm.noised_paths([[2.0]], NOISING, DYNAMICS), "`s` must lie between -1 and 1, but was up to 2."),
        (lambda: train([[0.5, 2.0]], DYNAMICS), "`images` must lie between 0 and 1, but was from 0.5 to 2."),
        (lambda: train([[0.5]], tm.Dynamics(kT=0)), "`dynamics` must have kT > 0 and a single well"),
        (lambda: train([[0.5]], DYNAMICS, 3), "`noising` must be a thermoment.Noising, but was 3."),
        (lambda: train([[0.5]], DYNAMICS, groups=[-1]), "`groups` must be zero or positive"),
        (lambda: train([[0.5]], DYNAMICS, ridge=-1), "`ridge` must be zero or positive"),
        (lambda: generate(0), "`n` must be an integer from 1"),
        (lambda: generate(2, prompts=[0, 2]), "`prompts` must be class numbers from 0 to 1, but was 2 at index 1."),
        (lambda: generate(2, duration=-1), "`duration` must be positive"),
        (lambda: generate(2, contrast=0), "`contrast` must be positive"),
    ],
)
def test_bad_input_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


@pytest.mark.slow
def test_a_class_of_mnist_that_is_asked_for_is_drawn() -> None:
    if not any(place.present for place in data.locate("mnist")):
        pytest.skip("MNIST is not on this machine")
    mnist = data.load("mnist")
    x, y = mnist.x_train[:1000], mnist.y_train[:1000]
    options: dict[str, Any] = {"groups": y, "n_hidden": 64, "classes": y, "prompt": 1.0, "ridge": 0.2}
    machine = tm.train_generator(x, tm.Dynamics(kT=0.02), **options)
    asked = np.arange(20) % 10
    made = machine.generate(20, prompts=asked, duration=5.0, contrast=1.5)
    read = tm.pretrained("mnist", engine="meanfield").predict(made.images[-1])
    assert (read == asked).mean() > 0.6
