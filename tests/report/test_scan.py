"""What a scan shows: a curve over its numbers or a row for each point, the table of its points, the terminal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.made_up import MNIST, study
from support.pages import report
from thermoment.plot.style import look
from thermoment.report import terminal
from thermoment.report.figures.draw import draw
from thermoment.report.figures.scan import scan
from thermoment.report.formatting import percents, points, points_interval
from thermoment.results.results import StudyResults
from thermoment.results.statistics import paired


def scanned(values: list[dict[str, Any]]) -> StudyResults:
    """The made-up study with so many of its points, which set these values; raw pixels get 92 %."""
    given = study(MNIST)
    rows = [given["study"][k % 3] for k in range(len(values))]
    raw = {"model": "raw pixels", "readout": "sgd", "total": 10_000, "correct": [9200] * 3}
    given["study"] = [
        {
            **row,
            "variant": f"point-{k}",
            "description": str(changes),
            "changes": changes,
            "baseline": [{**raw, "mean": 0.92, "sd": 0.0, "ci95": [0.92, 0.92]}],
        }
        for k, (row, changes) in enumerate(zip(rows, values, strict=True))
    ]
    return StudyResults.from_json(given)


CROSSED = [{"dynamics.kT": kT, "protocol.t_final": t} for kT in (0.1, 1.0) for t in (0.1, 0.3, 1.0)]


def headline(results: StudyResults, k: int) -> list[float]:
    row = next(row for row in results.study[k].accuracy if row.model.key == "K1+K2+K3|feature|1,2,4|sgd")
    return [correct / row.total for correct in row.correct]


def test_curves_run_over_the_factor_with_most_values() -> None:
    results = scanned(CROSSED)
    with look():
        (axes,) = scan(results).axes
    curves = {str(line.get_label()): line for line in axes.lines if not str(line.get_label()).startswith("_")}
    assert list(curves) == ["kT 0.1", "kT 1", "raw inputs"]
    for name, first in (("kT 0.1", 0), ("kT 1", 3)):
        np.testing.assert_array_equal(curves[name].get_xdata(), [0.1, 0.3, 1.0])
        means = [100 * np.mean(headline(results, k)) for k in range(first, first + 3)]
        np.testing.assert_allclose(np.asarray(curves[name].get_ydata(), float), means)
    assert (axes.get_xlabel(), axes.get_xscale()) == ("protocol.t_final", "log")


@pytest.mark.parametrize(
    "values",
    [
        [{"readout.reads": ["m1"]}, {"readout.reads": ["m1", "mu2"]}],
        [{"protocol.n_replicas": 128}, {"protocol.n_replicas": None}],
        [{"protocol.n_replicas": n, "reservoirs.*.n_nodes": m} for n, m in ((1, 3), (2, 2), (3, 1))],
        [{"dynamics.kT": 0.1}],
    ],
)
def test_what_is_no_curve_is_a_row_for_each_point(values: list[dict[str, Any]]) -> None:
    with look():
        (axes,) = scan(scanned(values)).axes
    assert axes.get_xlabel() == "test accuracy (%)"
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(one) for one in values]


def test_the_figure_is_drawn_and_the_page_has_every_point(tmp_path: Path) -> None:
    results = scanned(CROSSED)
    (tmp_path / "figures").mkdir()
    assert [path.name for path in draw(results, tmp_path / "figures")] == ["study.svg", "study.png"]
    page = report(tmp_path, results.plain())
    for k, point in enumerate(results.study):
        assert point.description in page.words
        row = next(row for row in point.accuracy if row.model.key == "K1+K2+K3|feature|1,2,4|sgd")
        assert row.ci95 is not None
        assert f"{100 * row.mean:.2f} {percents(row.ci95)}" in page.cells
        if k:
            found = paired(headline(results, 0), headline(results, k))
            assert found.ci95 is not None
            assert f"{points(found.mean)} {points_interval(found.ci95)}" in page.cells
    assert "Test accuracy over dynamics.kT and protocol.t_final" in page.words


def test_the_terminal_has_them_too() -> None:
    results = scanned(CROSSED)
    lines = [str(item) for item in terminal.result(results, 100)]
    assert "6 variants of one experiment on mnist, each over 3 seeds" in lines[0]
    assert terminal._headlines(results).row_count == 6
