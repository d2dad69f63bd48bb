"""Figures: which are drawn, that they are the same every time, and that they show the numbers they are given."""

import math
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

import thermoment as tm
from support.analytic import fokker_planck
from support.made_up import DIGITS, K3, MNIST, results, study
from thermoment.report.figures import error_sets, node, seeds, venn
from thermoment.report.figures.draw import draw
from thermoment.report.figures.style import look, math_name
from thermoment.results import paper
from thermoment.results.naming import ModelKey


def words(where: Figure | Axes) -> list[str]:
    """All texts of a figure or a panel, as they were given."""
    panels = where.axes if isinstance(where, Figure) else [where]
    return [text.get_text() for axes in panels for text in axes.texts]


def xs(line: Line2D) -> list[float]:
    found: list[float] = np.asarray(line.get_xdata(), np.float64).tolist()
    return found


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


class TestDraw:
    def test_every_figure_as_vector_and_bitmap(self, tmp_path: Path) -> None:
        found = draw(results(repeats=3), tmp_path / "figures")
        expected = ["potential", "paths", "density", "errors", "fusion", "repeats"]
        assert names(found) == [f"{name}.{form}" for name in expected for form in ("svg", "png")]
        assert sorted(names(list((tmp_path / "figures").iterdir()))) == sorted(names(found))
        for path in found:
            if path.suffix == ".svg":
                assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
            else:
                assert path.read_bytes().startswith(b"\x89PNG")

    def test_the_same_bytes_whatever_the_settings_around(self, tmp_path: Path) -> None:
        given = results(("K1", "K2"), repeats=2)
        first = draw(given, tmp_path / "first")
        with mpl.rc_context({"font.size": 20, "lines.linewidth": 7, "axes.grid": True, "svg.hashsalt": "other"}):
            again = draw(given, tmp_path / "again")
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]

    def test_never_imports_pyplot(self, tmp_path: Path) -> None:
        script = (
            f"import sys; sys.path[:0] = {sys.path!r}; from pathlib import Path; from made_up import study; "
            "from thermoment.figures import draw; "
            f"draw(study(), Path({str(tmp_path)!r})); sys.exit('matplotlib.pyplot' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", script], check=True)

    def test_a_study_has_one_figure_and_leaves_no_trace(self, tmp_path: Path) -> None:
        """Neither in matplotlib's settings, nor of its version or the hour in the files."""
        before = dict(mpl.rcParams)
        found = draw(study(), tmp_path)
        assert dict(mpl.rcParams) == before
        assert names(found) == ["study.svg", "study.png"]
        for path in found:
            data = path.read_bytes()
            assert mpl.__version__.encode() not in data
            assert b"<dc:date" not in data

    def test_one_reservoir_has_nothing_to_fuse(self, tmp_path: Path) -> None:
        assert "fusion.svg" not in names(draw(results(("K1",)), tmp_path))

    def test_no_density_without_temperature(self, tmp_path: Path) -> None:
        given = results(("K1",))
        given["settings"]["dynamics"]["kT"] = 0.0
        found = names(draw(given, tmp_path))
        assert "density.svg" not in found
        assert "paths.svg" in found

    @pytest.mark.parametrize("rate", [0.0, 1.0])
    def test_zero_errors_and_all_wrong(self, tmp_path: Path, rate: float) -> None:
        assert "errors.svg" in names(draw(results(rate=rate), tmp_path))

    def test_names_that_look_like_formulas(self, tmp_path: Path) -> None:
        hostile = ("$x$", "a_{b\\", "<b>&", "Δ-10 %")
        draw(results(hostile, orders=(1, 2)), tmp_path)
        changed = study()
        changed["study"][0]["variant"] = "50 % of $ \\frac{"
        draw(changed, tmp_path)


def model_key(row: Any) -> tuple[Any, ...]:
    return row["model"], row["fusion"], tuple(row["orders"])


class TestErrorSets:
    def figure(self, given: dict[str, Any]) -> Figure:
        with look():
            return error_sets.errors(given)

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

    def test_bars_start_at_zero_and_carry_wilsons_intervals(self) -> None:
        given = results()
        bars = self.figure(given).axes[2]
        models = list(dict.fromkeys(map(model_key, given["accuracy"])))
        rows = sorted(given["accuracy"], key=lambda row: models.index(model_key(row)))
        found = [(bar.get_x(), bar.get_width()) for bar in bars.patches]  # type: ignore[attr-defined]
        assert found == [(0, pytest.approx(100 * (1 - row["accuracy"]))) for row in rows]
        whiskers = [xs(line) for line in bars.lines if line.get_color() != "white"]
        for row, ends in zip(rows, whiskers, strict=True):
            assert sorted(ends) == pytest.approx([100 * (1 - end) for end in reversed(row["ci95"])])
        assert [text.strip() for text in words(bars)[:-1]] == [f"{100 * row['accuracy']:.2f}" for row in rows]

    def test_no_bar_covers_another_and_names_stand_in_the_middle_of_theirs(self) -> None:
        given = results()
        first = given["accuracy"][0]
        given["accuracy"] += [{**first, "readout": "trained"}, {**first, "readout": "predicted"}]
        bars = self.figure(given).axes[2]
        starts = [bar.get_y() for bar in bars.patches]  # type: ignore[attr-defined]
        assert np.diff(starts).min() > 0.999
        n_first = sum(model_key(row) == model_key(first) for row in given["accuracy"])
        assert n_first >= 3
        assert bars.get_yticks()[0] == pytest.approx((starts[0] + starts[n_first - 1] + 1) / 2)

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
            "all, logits",
            "all, $m_1$",
            "all, $m_1$ $m_2$",
        ]


class TestVenn:
    COUNTS = (
        {frozenset({0}): 87, frozenset({1}): 57, frozenset({0, 1}): 300},
        {
            frozenset({0}): 87,
            frozenset({1}): 57,
            frozenset({2}): 88,
            frozenset({0, 1}): 51,
            frozenset({0, 2}): 65,
            frozenset({1, 2}): 48,
            frozenset({0, 1, 2}): 240,
        },
        {frozenset({0}): 10, frozenset({1}): 20, frozenset({2}): 30},
    )

    @pytest.mark.parametrize("counts", COUNTS)
    def test_areas_are_sizes_and_overlaps(self, counts: dict[venn.Members, int]) -> None:
        """Measured by counting the pixels of a fine raster: good to 1 per cent of the largest set."""
        n = max(max(members) for members in counts) + 1
        drawn = venn.circles(counts, n)
        axis = np.linspace(-drawn.reach, drawn.reach, 1500)
        x, y = np.meshgrid(axis, axis)
        inside = [(x - cx) ** 2 + (y - cy) ** 2 < r * r for (cx, cy), r in zip(drawn.centres, drawn.radii, strict=True)]
        pixel = (axis[1] - axis[0]) ** 2
        for a in range(n):
            for b in range(a + 1):
                expected = sum(count for members, count in counts.items() if {a, b} <= members)
                assert (inside[a] & inside[b]).sum() * pixel == pytest.approx(expected, abs=4)

    def test_spots_lie_in_their_regions(self) -> None:
        drawn = venn.circles(self.COUNTS[1], 3)
        found = venn.spots(drawn)
        assert found.keys() == self.COUNTS[1].keys()
        for members, spot in found.items():
            away = np.hypot(spot.x - drawn.centres[:, 0], spot.y - drawn.centres[:, 1]) - drawn.radii
            assert {k for k in range(3) if away[k] < 0} == set(members)
            assert np.abs(away).min() == pytest.approx(spot.room, abs=0.02 * drawn.reach)

    @pytest.mark.parametrize(("r", "s"), [(1.0, 1.0), (2.0, 0.5)])
    def test_lens(self, r: float, s: float) -> None:
        """Ends in closed form, and its derivative: minus the length of the chord the circles share."""
        assert venn.lens(r, s, r + s) == 0
        assert venn.lens(r, s, abs(r - s)) == pytest.approx(math.pi * min(r, s) ** 2)
        d, step = (abs(r - s) + r + s) / 2, 1e-6
        along = (d * d + r * r - s * s) / (2 * d)
        slope = (venn.lens(r, s, d + step) - venn.lens(r, s, d - step)) / (2 * step)
        assert slope == pytest.approx(-2 * math.sqrt(r * r - along * along), rel=1e-6)

    def test_distance_inverts_lens(self) -> None:
        assert venn.lens(2.0, 1.5, venn.distance(2.0, 1.5, 1.0)) == pytest.approx(1.0)
        assert venn.distance(2.0, 1.5, 0.0) == 3.5
        assert venn.distance(2.0, 1.5, math.pi * 1.5**2) == 0.5

    def test_labels_around_keep_apart_and_outside(self) -> None:
        drawn = venn.circles(self.COUNTS[1], 3)
        places = venn.around(drawn, [(1.0, 0.0)] * 4 + [(0.0, 0.0)], [0, 0, 0, 0, 90])
        angles = [math.atan2(y, x) for x, y in places]
        assert angles[0] == 0
        gaps = [abs(math.remainder(a - b, math.tau)) for i, a in enumerate(angles) for b in angles[:i]]
        assert min(gaps) > 0.39
        for place in places:
            assert (np.linalg.norm(place - drawn.centres, axis=1) > drawn.radii).all()


class TestNode:
    NODE = node.Node.of(results()["settings"])

    def test_drives_of_the_papers_well(self) -> None:
        assert self.NODE.drives == (0.0, 1.0, 3.0)

    def test_what_is_drawn_is_simulated(self) -> None:
        """Moments of the drawn states against the Fokker-Planck equation: five standard errors, and dt's own bias."""
        settings = results()["settings"]
        settings["protocol"]["dt"] = 0.005
        finer = node.Node.of(settings)
        states = finer.states()
        for h, sample in zip(finer.drives, states, strict=True):
            expected = fokker_planck(tm.Dynamics(), h, 1.0, (1, 2, 4))
            for p, value in zip((1, 2, 4), expected, strict=True):
                error = (sample**p).std() / math.sqrt(len(sample))
                assert (sample**p).mean() == pytest.approx(value, abs=5 * error + 1e-3)
        t, x = finer.paths()
        assert (t[0], t[-1]) == (0.0, 1.0)
        assert not x[:, :, 0].any()
        assert x[:, :, -1].mean(axis=1) == pytest.approx(states.mean(axis=1), abs=5 * 0.21 / math.sqrt(1024))

    def test_the_figure_states_the_moments(self) -> None:
        with look():
            legend = node.density(self.NODE).axes[1].get_legend()
        assert legend is not None
        shown = [text.get_text() for text in legend.get_texts()]
        sample = self.NODE.states()[-1]
        for p, name in ((1, "x"), (2, "x^2"), (4, "x^4")):
            assert any(text.startswith(f"$E[{name}] = {(sample**p).mean():.4f} \\pm") for text in shown)

    def test_very_many_steps_are_drawn_with_fewer(self) -> None:
        settings = results()["settings"]
        settings["protocol"] |= {"dt": 1e-4, "t_final": 10.0}
        assert node.Node.of(settings).protocol.n_steps == 2000
        settings["protocol"] |= {"dt": 1e-4, "t_final": 1000.0}  # then a step of 0.5 would not be stable
        assert node.Node.of(settings).protocol.dt == 1e-4

    def test_no_clip_is_null(self) -> None:
        settings = results()["settings"]
        settings["protocol"]["clip"] = None
        assert node.Node.of(settings).protocol.clip == math.inf


class TestSeeds:
    def dots(self, axes: Axes) -> list[list[float]]:
        return [xs(line) for line in axes.lines if line.get_marker() == "o" and xs(line)]

    def test_a_dot_for_every_repeat(self) -> None:
        given = results(repeats=4)
        with look():
            figure = seeds.repeats(given)
        shown = [dots for axes in figure.axes for dots in self.dots(axes)]
        assert shown == [[100 * n / row["total"] for n in row["correct"]] for row in given["repeats"]]

    def test_one_repeat_has_no_range(self) -> None:
        with look():
            figure = seeds.repeats(results(repeats=1))
        assert not [line for axes in figure.axes for line in axes.lines if line.get_linewidth() == 4 and xs(line)]

    def test_a_study_shows_every_variant_of_every_model(self) -> None:
        given = study()
        with look():
            figure = seeds.study(given)
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
            panels = [axes for axes in seeds.study(given).axes if axes.get_title()]
        assert [len(self.dots(axes)) for axes in panels] == [3] * 3 + [2] * 7


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
