"""Plots show the numbers they are given, on the axes they are given, and leave nothing behind."""

import math
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

import thermoment as tm
from thermoment.learning.readout import Readout, Scaling
from thermoment.machines.signals.memory import Memory
from thermoment.plot.style import COLOURS
from thermoment.results.pictures import Misread
from thermoment.thermodynamics.relaxation import stationary_drive

RNG = np.random.default_rng(5)
NODE = tm.Dynamics()
SHORT = tm.Protocol(dt=0.02, t_final=0.2, n_replicas=40, orders=(1, 2))
RESERVOIR = tm.Reservoir.draw(7, 12, s_W=0.5, s_K=4, seed=1)
IMAGES = RNG.random((9, 12))


def classifier(**facts: Any) -> tm.Classifier:
    """Seven nodes that read images of 3x4 pixels, and three classes."""
    scaling = Scaling(np.zeros(14), np.ones(14))
    readout = Readout(RNG.normal(size=(3, 14)), np.zeros(3), scaling)
    facts.setdefault("results", {"dataset": {"image_shape": [3, 4]}})
    return tm.Classifier({"K1": RESERVOIR}, SHORT, (readout,), "reference", facts)


MACHINE = classifier()
ANY: Any = 3
TWO = np.array([[0.0], [1.0]])
LAYERS = tm.neurons.Layered.draw((2, 2), 1, seed=1)


def axes() -> Axes:
    return Figure().subplots()


# Two samples at two times, four pixels each.
EMERGED = tm.Generated((0.0, 2.5), np.zeros((2, 2, 4)), np.linspace(0, 1, 16).reshape(2, 2, 4), np.array([3.0, 41.6]))


def points(line: Line2D) -> NDArray[np.float64]:
    return np.asarray(line.get_xydata(), np.float64)


def curves(ax: Axes, colour: str) -> list[NDArray[np.float64]]:
    """The lines of this colour, (points, 2) each."""
    return [points(line) for line in ax.lines if line.get_color() == colour and len(points(line))]


def cells_of(shown: Any) -> NDArray[np.float64]:
    """The numbers behind an image, NaN where it is empty."""
    return np.asarray(np.ma.filled(np.ma.asarray(shown.get_array(), float), np.nan))


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


CALLS: dict[str, Callable[..., Axes]] = {
    "well": lambda **ax: tm.plot.well(NODE, **ax),
    "paths": lambda **ax: tm.plot.paths(NODE, [0, 1], protocol=SHORT, **ax),
    "density": lambda **ax: tm.plot.density(NODE, [0, 1], protocol=SHORT, **ax),
    "nodes": lambda **ax: tm.plot.nodes(MACHINE, IMAGES[0], **ax),
    "moments": lambda **ax: tm.plot.moments(NODE, [0, 1], protocol=SHORT, engine="reference", **ax),
    "weights": lambda **ax: tm.plot.weights(MACHINE, **ax),
    "training": lambda **ax: tm.plot.training({"K1": [2, 1]}, **ax),
    "confusion": lambda **ax: tm.plot.confusion([[3, 1], [0, 2]], **ax),
    "misread": lambda **ax: tm.plot.misread(MACHINE, IMAGES, np.arange(9) % 3, **ax),
    "activation": lambda **ax: tm.plot.activation(NODE, [0.2], [-1, 0, 1], protocol=SHORT, **ax),
    "clock": lambda **ax: tm.plot.clock(LAYERS, TWO, [0.0, 1.0], [0.1, 0.2], protocol=SHORT, **ax),
    "memory": lambda **ax: tm.plot.memory(Memory(np.array([0.9, 0.5]), 1.4), **ax),
    "prediction": lambda **ax: tm.plot.prediction([0.0, 1.0], [0.1, 0.9], **ax),
    "generation": lambda **ax: tm.plot.generation(EMERGED, **ax),
}


class TestAxes:
    def test_every_public_function_is_here(self) -> None:
        assert sorted(CALLS) == sorted(tm.plot.__all__)

    @pytest.mark.parametrize("name", CALLS)
    def test_given_axes_are_drawn_on_and_returned(self, name: str) -> None:
        given = axes()
        assert CALLS[name](ax=given) is given
        assert given.lines or given.images or given.collections

    @pytest.mark.parametrize("name", CALLS)
    def test_new_axes_look_the_same_whatever_the_settings_around_and_leave_them(self, name: str) -> None:
        def drawn() -> bytes:
            figure = CALLS[name]().get_figure()
            assert isinstance(figure, Figure)
            buffer = BytesIO()
            figure.savefig(buffer, format="raw", dpi=50)
            return buffer.getvalue()

        before = dict(mpl.rcParams)
        first = drawn()
        assert dict(mpl.rcParams) == before
        with mpl.rc_context({"font.size": 20, "lines.linewidth": 7, "axes.grid": True, "xtick.labelsize": 20}):
            assert drawn() == first

    def test_pyplot_is_not_imported(self) -> None:
        script = (
            "import sys, thermoment as tm; tm.plot.well(tm.Dynamics()); sys.exit('matplotlib.pyplot' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", script], check=True)

    @pytest.mark.parametrize("name", CALLS)
    def test_what_is_no_axes_is_refused(self, name: str) -> None:
        with pytest.raises(
            ValueError, match=r"Argument `ax` must be a matplotlib Axes, or None for a new one, but was 3"
        ):
            CALLS[name](ax=3)


class TestNode:
    @pytest.mark.parametrize("dynamics", [NODE, tm.Dynamics(J2=-1), tm.Dynamics(J2=0, kT=0.3), tm.Dynamics(kT=0)])
    def test_the_well_and_its_minima(self, dynamics: tm.Dynamics) -> None:
        ax = tm.plot.well(dynamics, [0.0, 2.0], ax=axes())
        for colour, h in zip(COLOURS, (0.0, 2.0), strict=False):
            curve, marks = curves(ax, colour)
            np.testing.assert_allclose(curve[:, 1], dynamics.potential(curve[:, 0], h))
            lowest = float(dynamics.stationary_point(h))
            expected = sorted({lowest, -lowest}) if h == 0 else [lowest]
            np.testing.assert_allclose(marks, np.stack([expected, dynamics.potential(expected, h)], axis=1))
            assert np.diff(ax.get_xlim()) > 0
            assert ax.get_xlim()[1] >= 1.2 * lowest

    def test_a_well_that_leans_has_one_minimum_and_all_of_it_is_seen(self) -> None:
        leaning = tm.Dynamics(J2=-1.0, J4=1.0, J3=0.5)
        drawn = tm.plot.well(leaning, [0.0], ax=axes())
        lowest = float(leaning.stationary_point(0.0))
        assert lowest < 0
        _, marks = curves(drawn, COLOURS[0])
        np.testing.assert_allclose(marks, [[lowest, float(leaning.potential(lowest))]])
        assert drawn.get_ylim()[1] >= float(leaning.potential(drawn.get_xlim()[1]))

    def test_a_reservoir_and_a_classifier_have_wells(self) -> None:
        for machine in (RESERVOIR, MACHINE):
            assert legend(tm.plot.well(machine, ax=axes())) == ["$h = 0$", "$h = 1$", "$h = 3$"]

    def test_paths_of_a_node_alone(self) -> None:
        ax = tm.plot.paths(NODE, [0, 1], protocol=SHORT, n_paths=3, ax=axes())
        alone = tm.Reservoir(np.zeros((2, 2)), TWO, np.zeros(2))
        times, x = tm.sample_paths(alone, [[1.0]], SHORT, nodes=[0, 1], engine="reference")
        for k in range(2):
            *kept, mean = curves(ax, COLOURS[k])
            np.testing.assert_array_equal([path[:, 1] for path in kept], x[0, :3, :, k])
            np.testing.assert_array_equal(mean, np.stack([times, x[0, :, :, k].mean(axis=0)], axis=1))

    def test_paths_of_a_node_in_a_network(self) -> None:
        ax = tm.plot.paths(MACHINE, inputs=IMAGES[:2], node=4, n_paths=2, protocol=SHORT, ax=axes())
        _, x = tm.sample_paths(RESERVOIR, IMAGES[:2], SHORT, nodes=[4])
        for k in range(2):
            *kept, mean = curves(ax, COLOURS[k])
            np.testing.assert_array_equal([path[:, 1] for path in kept], x[k, :2, :, 0])
            np.testing.assert_allclose(mean[:, 1], x[k, :, :, 0].mean(axis=0))
        h = RESERVOIR.drive(IMAGES[:2])[:, 4]
        assert legend(ax) == [f"input {k}, $h = {h[k]:.2g}$" for k in range(2)]

    def test_densities_integrate_to_one_and_equilibrium_too(self) -> None:
        ax = tm.plot.density(NODE, [0, 2], protocol=tm.Protocol(dt=0.02, n_replicas=400), ax=axes())
        outlines = [patch.get_path().vertices for patch in ax.patches if not patch.get_fill()]
        assert len(outlines) == 2
        for outline in outlines:
            x, y = np.asarray(outline).T
            assert np.sum(y[1:] * np.diff(x)) == pytest.approx(1, abs=1e-9)
        laws = [points(line) for line in ax.lines if len(points(line))]
        for h, law in zip((0, 2), laws, strict=True):
            np.testing.assert_allclose(law[:, 1], NODE.boltzmann_density(law[:, 0], h))
        assert np.trapezoid(laws[0][:, 1], laws[0][:, 0]) == pytest.approx(1, abs=0.01)

    def test_equilibrium_in_a_network_has_the_field_of_the_others(self) -> None:
        ax = tm.plot.density(RESERVOIR, inputs=IMAGES[:1], node=3, protocol=SHORT, ax=axes())
        law = points(ax.lines[0])
        field = stationary_drive(RESERVOIR.drive(IMAGES[:1]), RESERVOIR.W, NODE)[0, 3]
        np.testing.assert_allclose(law[:, 1], NODE.boltzmann_density(law[:, 0], field))


class TestNetwork:
    def test_nodes_stand_row_by_row_and_the_rest_is_empty(self) -> None:
        moments = tm.simulate(RESERVOIR, IMAGES, SHORT, engine="reference")
        for ax in (
            tm.plot.nodes(moments, sample=2, ax=axes()),
            tm.plot.nodes(RESERVOIR, IMAGES, sample=2, protocol=SHORT, engine="reference", ax=axes()),
        ):
            (cells,) = (one for one in ax.collections if isinstance(one, QuadMesh))
            shown = cells_of(cells).ravel()
            np.testing.assert_array_equal(shown[:7], moments.order(1)[2])
            assert np.isnan(shown[7:]).all()
            assert cells.get_clim() == (-np.abs(shown[:7]).max(), np.abs(shown[:7]).max())

    def test_moments_of_a_node_over_its_drive(self) -> None:
        ax = tm.plot.moments(NODE, [1.0, 0.0], protocol=SHORT, engine="reference", ax=axes())
        alone = tm.Reservoir(np.zeros((2, 2)), TWO, np.zeros(2))
        expected = tm.simulate(alone, [[1.0]], SHORT, engine="reference").raw[0]
        for k in range(2):
            (curve,) = curves(ax, COLOURS[k])
            np.testing.assert_array_equal(curve, [[0, expected[k, 0]], [1, expected[k, 1]]])
        laws = [points(line) for line in ax.lines if line.get_linestyle() == ":"]
        for law, expected_law in zip(laws, NODE.boltzmann_moments(laws[0][:, 0], (1, 2)), strict=True):
            np.testing.assert_array_equal(law[:, 1], expected_law)

    def test_moments_of_every_node_over_the_drives(self) -> None:
        moments, h = tm.simulate(RESERVOIR, IMAGES, SHORT, engine="reference"), RESERVOIR.drive(IMAGES)
        for ax in (tm.plot.moments(moments, h, ax=axes()), tm.plot.moments(MACHINE, inputs=IMAGES, ax=axes())):
            for k, p in enumerate((1, 2)):
                (dots,) = curves(ax, COLOURS[k])
                np.testing.assert_array_equal(dots, np.stack([h.ravel(), moments.order(p).ravel()], axis=1))


class TestImages:
    def test_weights_lie_beside_each_other(self) -> None:
        ax = tm.plot.weights(MACHINE, nodes=[5, 0, 2], ax=axes())
        shown = cells_of(ax.images[0])
        K = RESERVOIR.K.reshape(-1, 3, 4)
        np.testing.assert_array_equal(shown[:3, :4], K[5])
        np.testing.assert_array_equal(shown[:3, 5:9], K[0])
        np.testing.assert_array_equal(shown[4:7, :4], K[2])
        assert np.isnan(shown[3]).all()
        assert np.isnan(shown[4:7, 5:]).all()

    def test_the_most_confident_mistakes_come_first(self) -> None:
        labels = np.array([0, 1, 2, 0, 1, 2])
        probability = np.array([[0.9, 0.1, 0], [0.8, 0.2, 0], [0.6, 0, 0.4], [0, 0.8, 0.2], [0, 0, 1], [0, 0, 1.0]])
        found = Misread.of(IMAGES[:6], labels, probability, (3, 4), most=3)
        assert found.index.tolist() == [4, 1, 3]  # 2 is a mistake too, but the least sure; of equals the first is first
        assert found.labels.tolist() == [1, 1, 0]
        assert found.taken.tolist() == [2, 0, 1]
        assert found.probability.tolist() == [1, 0.8, 0.8]
        np.testing.assert_array_equal(found.images, IMAGES[[4, 1, 3]].reshape(-1, 3, 4))
        ax = tm.plot.misread(found, ax=axes())
        assert words(ax) == ["1 → 2", "> 99 %", "1 → 0", "80 %", "0 → 1", "80 %"]
        shown = cells_of(ax.images[0])
        np.testing.assert_array_equal(shown[:3, :4], 1 - found.images[0])

    def test_a_classifier_is_asked(self) -> None:
        ids = np.arange(30, 39)
        p = MACHINE.predict_proba(IMAGES, sample_ids=ids)
        labels = (p.argmax(axis=1) + np.array([1, 0, 0, 1, 0, 0, 0, 0, 0])) % 3
        shown = words(tm.plot.misread(MACHINE, IMAGES, labels, sample_ids=ids, ax=axes()))
        first, second = sorted([0, 3], key=lambda k: -p[k].max())
        assert shown[::2] == [f"{labels[k]} → {p[k].argmax()}" for k in (first, second)]
        assert words(tm.plot.misread(MACHINE, IMAGES, p.argmax(axis=1), sample_ids=ids, ax=axes())) == [
            "none was misread"
        ]


class TestLearning:
    RUN = classifier(
        model="K1|feature|1,2|sgd",
        training=[{"name": "K1", "how": "finite-time", "loss": [2.0, 1.0], "validation": [0.5, 0.75]}],
        results={
            "confusion": {
                "model": "K1", "fusion": "feature", "orders": [1, 2], "readout": "sgd",
                "counts": [[5, 1, 0], [0, 4, 0], [2, 0, 3]],
            }
        },
    )  # fmt: skip

    def test_the_course_of_training(self) -> None:
        (line,) = tm.plot.training(self.RUN, ax=axes()).lines
        assert points(line).tolist() == [[1, 2], [2, 1]]
        (line,) = tm.plot.training(self.RUN, "validation", ax=axes()).lines
        assert points(line).tolist() == [[1, 50], [2, 75]]

    def test_a_run_has_counted(self) -> None:
        assert words(tm.plot.confusion(self.RUN, ax=axes())) == ["5", "1", "4", "2", "3"]

    def test_rows_are_true_classes(self) -> None:
        ax = tm.plot.confusion([[5, 1, 0], [0, 4, 0], [2, 0, 3]], names=["a", "b", "c"], ax=axes())
        where = {text.get_text(): text.get_position() for text in ax.texts}
        assert where["1"] == (1, 0)  # (column, row)
        assert where["2"] == (0, 2)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]

    def test_predictions_are_counted(self) -> None:
        taken = MACHINE.predict(IMAGES)
        labels = np.where(np.arange(9) < 2, (taken + 1) % 3, taken)
        ax = tm.plot.confusion(MACHINE, IMAGES, labels, ax=axes())
        expected = np.zeros((3, 3), int)
        np.add.at(expected, (labels, taken), 1)
        shown = {text.get_position(): int(text.get_text()) for text in ax.texts}
        assert shown == {(c, r): n for (r, c), n in np.ndenumerate(expected) if n}

    def test_classes_may_be_words(self) -> None:
        class Always:
            def predict(self, inputs: Any) -> Any:
                return np.array(["cat"] * len(inputs))

        ax = tm.plot.confusion(Always(), IMAGES[:3], ["cat", "ant", "cat"], ax=axes())
        assert {text.get_position(): text.get_text() for text in ax.texts} == {(1, 0): "1", (1, 1): "2"}
        assert [tick.get_text() for tick in ax.get_yticklabels()] == ["ant", "cat"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tm.plot.well(3), "`machine` must be a thermoment.Dynamics, Reservoir or Classifier, but was 3."),
        (lambda: tm.plot.well(NODE, range(7)), "`drives` must be at most 6 numbers, a curve each, but was 7 of them."),
        (lambda: tm.plot.well(NODE, [math.nan]), "`drives` must be finite"),
        (lambda: tm.plot.paths(NODE, inputs=IMAGES), "`inputs` must be left out where the machine is a Dynamics"),
        (lambda: tm.plot.paths(MACHINE, [1.0]), "`drives` must be left out where the machine is a Classifier"),
        (lambda: tm.plot.paths(MACHINE), "`inputs` must have shape (S, 12): the drives follow from them"),
        (lambda: tm.plot.paths(MACHINE, inputs=IMAGES[:1], node=7), "`node` must be an integer from 0 to 6"),
        (lambda: tm.plot.paths(MACHINE, inputs=IMAGES), "`inputs` must be at most 6 samples, a curve each"),
        (lambda: tm.plot.paths(MACHINE, inputs=IMAGES[:1], reservoir="K9"), "`reservoir` must be one of K1"),
        (lambda: tm.plot.density(tm.Dynamics(kT=0)), "`kT` must be positive for a density, but was 0.0."),
        (lambda: tm.plot.density(NODE, protocol=ANY), "`protocol` must be a thermoment.Protocol, but was 3."),
        (lambda: tm.plot.nodes(RESERVOIR), "`inputs` must have shape (S, 12), but was missing."),
        (lambda: tm.plot.nodes(RESERVOIR, IMAGES, sample=9), "`sample` must be an integer from 0 to 8, but was 9."),
        (lambda: tm.plot.nodes(NODE, IMAGES), "`machine` must be a thermoment.Reservoir or Classifier"),
        (lambda: tm.plot.moments(RESERVOIR), "`inputs` must have shape (S, 12)"),
        (lambda: tm.plot.weights(RESERVOIR), "`shape` must be the height and width of images of 12 pixels"),
        (lambda: tm.plot.weights(RESERVOIR, shape=(5, 2)), "images of 12 pixels, but was (5, 2)."),
        (lambda: tm.plot.weights(RESERVOIR, shape=(3, 4), nodes=[]), "`nodes` must name from 1 to 400 nodes"),
        (lambda: tm.plot.training(MACHINE), "`machine` must know the course of its training, as one of tm.load does"),
        (lambda: tm.plot.training({"K1": [1]}, "gain"), "`kind` must be one of loss, validation, but was 'gain'."),
        (lambda: tm.plot.training({"K1": [1]}, "validation"), "`machine` must have been trained with images held out"),
        (lambda: tm.plot.confusion(MACHINE), "`inputs` must be given with labels, since nothing was counted"),
        (lambda: tm.plot.confusion(MACHINE, IMAGES, [0]), "`labels` must have shape (9,), but was of shape (1,)."),
        (lambda: tm.plot.confusion(MACHINE, IMAGES, [3] * 9), "`labels` must be classes from 0 to 2, but was 3."),
        (lambda: tm.plot.confusion([[1, 2]]), "`machine` must be counts (C, C), but was of dtype int64"),
        (lambda: tm.plot.confusion([[1]], names="ab"), "`names` must be 1, one for each class, but was 2 of them."),
        (lambda: tm.plot.misread(3), "`machine` must be a thermoment.Classifier, but was 3."),
        (lambda: tm.plot.misread(MACHINE, IMAGES), "`labels` must have shape (9,)"),
        (lambda: tm.plot.misread(MACHINE, IMAGES, [0] * 9, most=0), "`most` must be an integer from 1 to 400"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_in_one_sentence(call: Callable[[], Axes], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^Argument ") as refused:
        call()
    assert sentence in str(refused.value)


class TestGeneration:
    def test_images_stand_by_time_and_sample(self) -> None:
        ax = tm.plot.generation(EMERGED, ax=axes())
        (shown,) = ax.images
        cells = 1 - cells_of(shown)
        np.testing.assert_allclose(cells[:2, 3:5], EMERGED.images[0, 1].reshape(2, 2))
        np.testing.assert_allclose(cells[3:, :2], EMERGED.images[1, 0].reshape(2, 2))
        assert np.isnan(cells[2]).all()
        assert words(ax) == ["$t = 0$", "$t = 2.5$", "3", "42", "heat / $kT$"]

    def test_what_cannot_be_drawn_is_refused(self) -> None:
        with pytest.raises(
            ValueError, match=r"Argument `generated` must be what `Generator\.generate` gives, but was 3"
        ):
            tm.plot.generation(ANY)
        with pytest.raises(ValueError, match=r"`shape` must be the height and width of images of 4 pixels, but was "):
            tm.plot.generation(EMERGED, shape=(3, 4))
        with pytest.raises(ValueError, match="`samples` must be an integer from 1 to 40, but was 0"):
            tm.plot.generation(EMERGED, samples=0)
