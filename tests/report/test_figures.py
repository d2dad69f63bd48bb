"""Figures: which are drawn, that they are the same every time, and that they show the numbers they are given."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from support.made_up import DIGITS, K3, MNIST, node, pictures, results, study
from thermoment.physics import Dynamics
from thermoment.plot.style import look, math_name
from thermoment.report.figures import error_sets, seeds, venn
from thermoment.report.figures import node as node_figures
from thermoment.report.figures.draw import draw
from thermoment.results import paper
from thermoment.results.naming import ModelKey
from thermoment.results.pictures import Pictures
from thermoment.results.results import Results, StudyResults, from_json


def words(where: Figure | Axes) -> list[str]:
    """All texts of a figure or a panel, as they were given."""
    panels = where.axes if isinstance(where, Figure) else [where]
    return [text.get_text() for axes in panels for text in axes.texts]


def xs(line: Line2D) -> list[float]:
    found: list[float] = np.asarray(line.get_xdata(), np.float64).tolist()
    return found


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every figure that a run can have."""
    return draw(from_json(results(("K1", "K2"), repeats=2)), tmp_path_factory.mktemp("run") / "figures", pictures())


class TestDraw:
    def test_every_figure_as_vector_and_bitmap(self, drawn: list[Path]) -> None:
        expected = ["potential", "paths", "density", "errors", "confusion", "misread", "training", "weights", "fusion"]
        expected.append("repeats")
        assert names(drawn) == [f"{name}.{form}" for name in expected for form in ("svg", "png")]
        assert sorted(names(list(drawn[0].parent.iterdir()))) == sorted(names(drawn))
        for path in drawn:
            if path.suffix == ".svg":
                assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
            else:
                assert path.read_bytes().startswith(b"\x89PNG")

    def test_the_same_bytes_whatever_the_settings_around(self, drawn: list[Path], tmp_path: Path) -> None:
        with mpl.rc_context({"font.size": 20, "lines.linewidth": 7, "axes.grid": True, "svg.hashsalt": "other"}):
            again = draw(from_json(results(("K1", "K2"), repeats=2)), tmp_path / "again", pictures())
        assert [path.read_bytes() for path in drawn] == [path.read_bytes() for path in again]

    def test_never_imports_pyplot(self, tmp_path: Path) -> None:
        script = (
            f"import sys; sys.path[:0] = {sys.path!r}; from pathlib import Path; from support.made_up import results; "
            "from thermoment.report.figures.draw import draw; from thermoment.results.results import from_json; "
            f"draw(from_json(results(('K1',))), Path({str(tmp_path)!r})); sys.exit('matplotlib.pyplot' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", script], check=True)

    def test_a_study_has_one_figure_and_leaves_no_trace(self, tmp_path: Path) -> None:
        """Neither in matplotlib's settings, nor of its version or the hour in the files."""
        before = dict(mpl.rcParams)
        given = study()
        for variant in given["study"]:
            variant["accuracy"] = variant["accuracy"][:2]
        found = draw(from_json(given), tmp_path)
        assert dict(mpl.rcParams) == before
        assert names(found) == ["study.svg", "study.png"]
        for path in found:
            data = path.read_bytes()
            assert mpl.__version__.encode() not in data
            assert b"<dc:date" not in data

    def test_one_reservoir_has_nothing_to_fuse_and_an_old_run_no_node(self, tmp_path: Path) -> None:
        assert {path.stem for path in draw(from_json(results(("K1",))), tmp_path)} == {"errors", "confusion"}

    def test_no_density_without_temperature(self, tmp_path: Path) -> None:
        given = results(("K1",))
        given["settings"]["dynamics"]["kT"] = 0.0
        found = names(draw(from_json(given), tmp_path, Pictures(node())))
        assert "density.svg" not in found
        assert "paths.svg" in found

    @pytest.mark.parametrize("rate", [0.0, 1.0])
    def test_zero_errors_and_all_wrong(self, tmp_path: Path, rate: float) -> None:
        assert "errors.svg" in names(draw(from_json(results(rate=rate)), tmp_path))

    def test_names_that_look_like_formulas(self, tmp_path: Path) -> None:
        hostile = ("$x$", "a_{b\\", "<b>&", "Δ-10 %")
        draw(from_json(results(hostile, orders=(1, 2))), tmp_path)
        changed = study()
        changed["study"] = [{**variant, "accuracy": variant["accuracy"][:1]} for variant in changed["study"]]
        changed["study"][0]["variant"] = "50 % of $ \\frac{"
        draw(from_json(changed), tmp_path)


class TestErrorSets:
    def figure(self, given: dict[str, Any]) -> Figure:
        with look():
            return error_sets.errors(Results.from_json(given))

    def test_every_region_carries_its_count(self) -> None:
        given = results()
        sets = self.figure(given).axes[0]
        counts = [str(row["count"]) for row in given["regions"] if row["readout"] == "sgd"]
        sizes = [row["total"] - row["correct"] for row in given["accuracy"][:3]]
        shown = words(sets)
        assert sorted(text for text in shown if text.isdigit()) == sorted(counts)
        assert [text for text in shown if not text.isdigit()] == [
            f"{math_name(name)}: {size} wrong" for name, size in zip(K3, sizes, strict=True)
        ]

    def test_narrow_regions_are_labelled_outside(self) -> None:
        """The paper's wrong sets overlap so much that some crescents have no room for a number."""
        given = results(dataset=MNIST)
        counts = {"K1": 29, "K2": 23, "K3": 102, "K1 K2": 45, "K1 K3": 45, "K2 K3": 20, "K1 K2 K3": 230}
        given["regions"] = [
            {"readout": "sgd", "wrong": chosen.split(), "count": count} for chosen, count in counts.items()
        ]
        shown = words(self.figure(given).axes[0])
        assert sorted(map(str, counts.values())) == sorted(text for text in shown if text.isdigit())

    def test_sets_that_circles_cannot_show_are_listed(self) -> None:
        """Large pairwise overlaps without a sample in all three sets: no circles have just these regions."""
        given = results()
        counts = {"K1": 1, "K1 K2": 400, "K1 K3": 400, "K2 K3": 1}
        given["regions"] = [
            {"readout": "sgd", "wrong": chosen.split(), "count": count} for chosen, count in counts.items()
        ]
        members = {frozenset(K3.index(name) for name in chosen.split()): n for chosen, n in counts.items()}
        assert not venn.spots(venn.circles(members, 3)).keys() >= members.keys()
        shown = words(self.figure(given).axes[0])
        assert sorted(text for text in shown if text.isdigit()) == sorted(map(str, counts.values()))

    def test_many_reservoirs_are_listed_and_add_up(self) -> None:
        given = results(tuple(f"K{k}" for k in range(1, 7)), orders=(1,))
        shown = words(self.figure(given).axes[0])
        listed = sum(int(text) for text in shown if text.isdigit())
        rest = [int(text.split(", ")[1].split()[0]) for text in shown if "more combinations" in text]
        assert listed + sum(rest) == sum(row["count"] for row in given["regions"] if row["readout"] == "sgd")

    def test_matrix_shows_every_overlap(self) -> None:
        given = results()
        shown = words(self.figure(given).axes[1])
        assert [text for text in shown if text[0].isdigit()] == [
            f"{row['jaccard']:.3f}"
            for a, b in (("K1", "K2"), ("K1", "K3"), ("K2", "K3"), *((k, "K1+K2+K3") for k in K3))
            for row in given["jaccard"]
            if (row["a"], row["b"], row["readout"]) == (a, b, "sgd")
        ]

    def marks(self, bars: Axes, marker: str) -> list[float]:
        return [x for line in bars.lines if line.get_marker() == marker for x in xs(line)]

    def test_bars_start_at_zero_and_carry_wilsons_intervals(self) -> None:
        """One bar a model, with its first readout; the second is a mark on it."""
        given = results()
        bars = self.figure(given).axes[2]
        rows, others = given["accuracy"][:10], given["accuracy"][10:]
        found = [(bar.get_x(), bar.get_width()) for bar in bars.patches]  # type: ignore[attr-defined]
        assert found == [(0, pytest.approx(100 * (1 - row["accuracy"]))) for row in rows]
        whiskers = [xs(line) for line in bars.lines if line.get_color() != "white"]
        for row, ends in zip(rows, whiskers, strict=True):
            assert sorted(ends) == pytest.approx([100 * (1 - end) for end in reversed(row["ci95"])])
        assert [text.strip() for text in words(bars)[:-1]] == [f"{100 * row['accuracy']:.2f}" for row in rows]
        assert self.marks(bars, "s") == pytest.approx([100 * (1 - row["accuracy"]) for row in others])

    def test_the_machine_as_trained_comes_first_and_raw_pixels_last(self) -> None:
        given = results(trained=True, baseline=True)
        bars = self.figure(given).axes[2]
        names = [tick.get_text() for tick in bars.get_yticklabels()]
        assert names[0] == "all, trained"
        assert names[-1] == "raw pixels"
        assert len(names) == len(set(names)) == 12
        by_readout = {row["readout"]: row for row in given["accuracy"]}  # the last row of each readout
        first, last = bars.patches[0], bars.patches[-1]
        assert first.get_width() == pytest.approx(100 * (1 - by_readout["trained"]["accuracy"]))  # type: ignore[attr-defined]
        assert last.get_width() == pytest.approx(100 * (1 - given["baseline"][0]["accuracy"]))  # type: ignore[attr-defined]
        colours = [patch.get_facecolor() for patch in bars.patches]
        assert len(set(colours)) == 3
        assert colours.count(colours[0]) == colours.count(colours[-1]) == 1
        assert self.marks(bars, "v") == pytest.approx([100 * (1 - by_readout["predicted"]["accuracy"])])
        legend = self.figure(given).legends[0]
        assert [text.get_text() for text in legend.get_texts()] == [
            "trained with the machine",
            "without sampling noise",
            "paper's readout",
            "fully fitted readout",
            "no reservoir",
        ]

    def test_no_bar_covers_another_and_names_stand_in_the_middle_of_theirs(self) -> None:
        bars = self.figure(results(trained=True)).axes[2]
        middles = [bar.get_y() + bar.get_height() / 2 for bar in bars.patches]  # type: ignore[attr-defined]
        assert max(bar.get_height() for bar in bars.patches) < np.diff(middles).min()  # type: ignore[attr-defined]
        assert bars.get_yticks() == pytest.approx(middles)

    def diamonds(self, given: dict[str, Any]) -> list[float]:
        bars = self.figure(given).axes[2]
        return [x for line in bars.lines if line.get_marker() == "D" for x in xs(line)]

    def test_the_papers_numbers_stand_beside_ours_on_mnist_only(self) -> None:
        assert self.diamonds(results(dataset=DIGITS)) == []
        assert self.diamonds(results(dataset=MNIST | {"n_train": 1000})) == []
        assert self.diamonds(results(("A", "B", "C"), MNIST)) == []
        assert self.diamonds(results(dataset=MNIST)) == pytest.approx(
            [100 - correct / 100 for correct in paper.CORRECT.values()]
        )

    def test_no_diamond_is_cut_off(self) -> None:
        given = results(dataset=MNIST, rate=0.005)
        bars = self.figure(given).axes[2]
        assert bars.get_xlim()[1] > max(self.diamonds(given))

    def test_of_very_many_models_only_singles_and_all(self) -> None:
        given = results(tuple(f"K{k}" for k in range(1, 6)))
        labels = [tick.get_text() for tick in self.figure(given).axes[2].get_yticklabels()]
        assert labels == [
            *(f"$K_{{{k}}}$" for k in range(1, 6)),
            "all",
            "all, averaged",
            "all, $m_1$",
            "all, $m_1$ $m_2$",
        ]


def test_the_figure_of_a_density_states_its_moments() -> None:
    sample = node()
    with look():
        legend = node_figures.density(sample, Dynamics()).axes[1].get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    for p, name in ((1, "x"), (2, "x^2"), (4, "x^4")):
        assert any(text.startswith(f"$E[{name}] = {(sample.states[-1] ** p).mean():.4f} \\pm") for text in shown)


def test_the_figure_of_paths_shows_all_that_was_kept() -> None:
    sample = node()
    with look():
        axes = node_figures.paths(sample).axes[0]
    lines = [np.asarray(line.get_ydata()) for line in axes.lines]
    expected = [row for k in range(3) for row in (*sample.paths[k], sample.means[k])]
    np.testing.assert_array_equal(lines, expected)


class TestSeeds:
    def dots(self, axes: Axes) -> list[list[float]]:
        return [xs(line) for line in axes.lines if line.get_marker() == "o" and xs(line)]

    def test_a_dot_for_every_repeat(self) -> None:
        given = results(repeats=4)
        with look():
            figure = seeds.repeats(Results.from_json(given))
        shown = [dots for axes in figure.axes for dots in self.dots(axes)]
        assert shown == [[100 * n / row["total"] for n in row["correct"]] for row in given["repeats"]]

    def test_one_repeat_has_no_range(self) -> None:
        with look():
            figure = seeds.repeats(Results.from_json(results(repeats=1)))
        assert not [line for axes in figure.axes for line in axes.lines if line.get_linewidth() == 4 and xs(line)]

    def test_a_study_shows_every_variant_of_every_model(self) -> None:
        given = study()
        with look():
            figure = seeds.study(StudyResults.from_json(given))
        panels = [axes for axes in figure.axes if axes.get_title()]
        assert len(panels) == len(paper.CORRECT)
        models = [row for row in given["study"][0]["accuracy"] if row["readout"] == "sgd"]
        for axes, row in zip(panels, models, strict=True):
            assert len(self.dots(axes)) == len(given["study"])
            lines = [xs(line)[0] for line in axes.lines if line.get_linewidth() == 0.8 and xs(line)]
            model = ModelKey(tuple(row["model"].split("+")), tuple(row["orders"]), row["fusion"])
            assert lines == [pytest.approx(paper.CORRECT[model] / 100)]

    def test_variants_need_not_have_the_same_models(self) -> None:
        given = study()
        given["study"][1]["accuracy"] = given["study"][1]["accuracy"][:3]
        with look():
            panels = [axes for axes in seeds.study(StudyResults.from_json(given)).axes if axes.get_title()]
        judged, *others = (
            panels  # by all reservoirs, or by the one that a variant has; then models, but for that of all
        )
        assert judged.get_title() == "all its reservoirs"
        assert len(self.dots(judged)) == 3
        assert [len(self.dots(axes)) for axes in others] == [3] * 3 + [2] * 6

    def test_a_model_of_one_variant_has_no_panel(self) -> None:
        given = study()
        joined = next(row for row in given["study"][0]["accuracy"] if row["model"] == "K1+K2+K3")
        for variant in given["study"][1:]:
            variant["accuracy"] = [row for row in variant["accuracy"] if row["model"] == joined["model"]][:1]
        with look():
            (panel,) = [axes for axes in seeds.study(StudyResults.from_json(given)).axes if axes.get_title()]
        assert self.dots(panel)[0] == [100 * n / joined["total"] for n in joined["correct"]]
        assert len(self.dots(panel)) == len(given["study"])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("K1+K12", "$K_{1}$+$K_{12}$"),
        ("left", "left"),
        ("a$b$", r"a\$b\$"),
        ("a\\", "a\N{SET MINUS}"),
        ("K_1", "K_1"),
    ],
)
def test_names_in_figures(name: str, shown: str) -> None:
    assert math_name(name) == shown
