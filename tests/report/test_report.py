"""The report: every number, every comparison, no markup from outside, no request to anywhere."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.made_up import DIGITS, MNIST, results, study
from support.pages import Page, report
from thermoment.report import formatting
from thermoment.report.captions import captions
from thermoment.report.page import write
from thermoment.report.tables import written
from thermoment.results import paper
from thermoment.results.node import N_PATHS, N_REPLICAS, N_STATES
from thermoment.results.results import from_json


def expected_numbers(given: dict[str, Any]) -> set[str]:
    """Every number of a results.json as the report writes it."""
    found = set()
    for row in given["accuracy"]:
        found |= {str(row["correct"]), f"{100 * row['accuracy']:.2f}", formatting.percents(row["ci95"])}
        found.add(str(row["n_features"]) if row["fusion"] == "feature" else "48 + 48 + 48")
    for row in given["mcnemar"]:
        found |= {str(row["a_only_wrong"]), str(row["b_only_wrong"]), formatting.probability(row["p"])}
    for row in given["differences"]:
        found |= {formatting.points(row["difference"]), formatting.points_interval(row["ci95"])}
    for row in given["jaccard"]:
        found |= {str(row[key]) for key in ("wrong_a", "wrong_b", "intersection", "union")}
        found.add(f"{row['jaccard']:.4f}")
    found |= {str(row["count"]) for row in given["regions"]}
    for row in given.get("repeats", ()):
        found |= {f"{100 * row['mean']:.2f}", f"{100 * row['sd']:.2f}", formatting.percents(row["ci95"])}
        found |= {formatting.percents(row["range95"]), " ".join(map(str, row["correct"]))}
    return found


def put_figures(folder: Path) -> None:
    """A file for every figure that any report shows."""
    (folder / "figures").mkdir()
    for name in ("potential", "paths", "density", "errors", "fusion", "repeats", "study"):
        (folder / "figures" / f"{name}.svg").write_text("<svg/>")


class TestNumbers:
    @pytest.mark.parametrize("dataset", [DIGITS, MNIST])
    def test_every_number_of_the_results_is_there(self, tmp_path: Path, dataset: dict[str, Any]) -> None:
        given = results(dataset=dataset, repeats=4)
        assert expected_numbers(given) - report(tmp_path, given).cells == set()

    def test_each_readout_has_its_own_best_single_reservoir(self, tmp_path: Path) -> None:
        given = results()
        for row in given["accuracy"]:
            if len(row["model"]) == 2:
                row["correct"] = {"K2sgd": 490, "K3converged": 491}.get(row["model"] + row["readout"], 400)
        assert {"K2 490", "K3 491"} < report(tmp_path, given).cells

    def test_every_setting_is_there(self, tmp_path: Path) -> None:
        given = results()
        words = report(tmp_path, given).words
        for group in ("dynamics", "protocol", "training", "readout"):
            for key, value in given["settings"][group].items():
                assert f"|{key}|{written(key, value)}" in words
        for text in ("|sha256|" + "cd" * 32, "|20260613|", "|surrogate polynomial, epochs 60, learning_rate 0.001"):
            assert text in words

    def test_the_papers_numbers_on_mnist(self, tmp_path: Path) -> None:
        words = report(tmp_path, results(dataset=MNIST)).words
        for count in paper.CORRECT.values():
            assert f"|{count}|{count / 100:.2f}|" in words
        for row in paper.TABLE_III.values():
            assert f"|The paper|{row.wrong_a}|{row.wrong_b}|{row.intersection}|{row.union}|{row.jaccard:.4f}" in words
        assert "|The paper|68|55|0.279|" in words
        assert "|ours, paper's readout|" in words

    @pytest.mark.parametrize(
        "given",
        [results(), results(dataset=MNIST | {"n_train": 1000}), results(("A", "B", "C"), MNIST)],
        ids=["digits", "part of MNIST", "other reservoirs"],
    )
    def test_no_number_of_the_paper_elsewhere(self, tmp_path: Path, given: dict[str, Any]) -> None:
        words = report(tmp_path, given).words
        assert "No comparison with the paper: its numbers are for MNIST" in words
        assert "Beside the paper" not in words
        assert "The paper" not in words
        ours = {row["correct"] for row in given["accuracy"]}
        for count in set(paper.CORRECT.values()) - ours:
            assert str(count) not in words

    def test_few_numbers_come_first_each_with_its_readout(self, tmp_path: Path) -> None:
        given = results(baseline=True)
        joined, averaged = given["accuracy"][6], given["accuracy"][7]
        best = max(given["accuracy"][:3], key=lambda row: row["correct"])
        tiles = [
            f"|{name}|{row['accuracy']:.2%}paper's readout{row['correct']} of 500"
            for name, row in (
                ("All three reservoirs", joined),
                (f"Best single, {best['model']}", best),
                ("Averaged outputs", averaged),
                ("Raw pixels", given["baseline"][0]),
            )
        ]
        words = report(tmp_path, given).words.replace(" %", "%")
        places = [words.index(tile) for tile in tiles]
        assert places == sorted(places)
        assert places[-1] < words.index("All three reservoirs classify")

    def test_the_highest_count_of_each_readout_is_bold(self, tmp_path: Path) -> None:
        given = results()
        for row in given["accuracy"][:7]:
            row["correct"] = 490 if row["model"] == "K1+K3" else 400
        for row in given["accuracy"][10:17]:
            row["correct"] = 480 if row["model"] == "K2" else 400
        report(tmp_path, given)
        html = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert re.findall(r'<td class="best">(\d+)</td>', html) == ["480", "490"]

    def test_both_readouts_side_by_side(self, tmp_path: Path) -> None:
        given = results()
        words = report(tmp_path, given).words
        for row, other in zip(given["accuracy"][:10], given["accuracy"][10:], strict=True):
            ours, theirs = (
                f"{r['correct']}|{100 * r['accuracy']:.2f}|{formatting.percents(r['ci95'])}" for r in (row, other)
            )
            assert f"{ours}|{theirs}" in words

    def test_a_machine_as_trained_comes_first(self, tmp_path: Path) -> None:
        given = results(trained=True)
        given["settings"]["finite_time"] = {"epochs": 100}
        words = report(tmp_path, given).words
        row = next(row for row in given["accuracy"] if row["readout"] == "trained")
        percent = f"{100 * row['accuracy']:.2f}"
        first = words.index(f"|All three reservoirs|{percent} %trained with the machine{row['correct']} of 500")
        assert first < words.index("%paper's readout") < words.index("Best single")
        said = f"{row['correct']} of {row['total']} test samples correctly with the readout trained with the machine"
        assert f"{said}: {percent}" in words
        assert f"K1+K2+K3|144|{row['correct']}|{percent}|{formatting.percents(row['ci95'])}" in words
        # No head was trained for single reservoirs, so there are no regions of it.
        assert "Wrong in|Paper's readout|Fully fitted readout ||K1|" in words

    def test_one_readout_alone(self, tmp_path: Path) -> None:
        given = results()
        for key in ("accuracy", "mcnemar", "differences", "jaccard", "regions"):
            given[key] = [row for row in given[key] if row["readout"] == "converged"]
        words = report(tmp_path, given).words
        assert "paper's readout" not in words.lower()
        assert f"{given['accuracy'][6]['correct']} of 500 test samples" in words


class TestShapes:
    def test_one_reservoir(self, tmp_path: Path) -> None:
        words = report(tmp_path, results(("K1",))).words
        assert "Reservoir K1 classifies" in words
        assert "One Langevin reservoir of 16 nodes" in words
        assert "Best single" not in words
        assert "How reservoirs are put together" not in words

    def test_many_reservoirs(self, tmp_path: Path) -> None:
        words = report(tmp_path, results(tuple(f"K{k}" for k in range(1, 6)))).words
        assert "All five reservoirs classify" in words
        assert "48 + 48 + 48 + 48 + 48" in words

    def test_zero_errors(self, tmp_path: Path) -> None:
        words = report(tmp_path, results(rate=0.0)).words
        assert "500 of 500 test samples correctly with the paper's readout: 100.00 % (95 % interval 99.24 to" in words
        assert "|K1 and K2|paper's readout|0|0|0|0|none" in words
        assert "get as much as the best single reservoir, K1 (100.00 %); that may be chance" in words

    def test_all_wrong(self, tmp_path: Path) -> None:
        words = report(tmp_path, results(rate=1.0)).words
        assert "0 of 500 test samples correctly with the paper's readout: 0.00 %" in words
        assert "|K1 and K2|paper's readout|500|500|500|500|1.0000" in words

    def test_raw_pixels_stand_beside_the_reservoirs(self, tmp_path: Path) -> None:
        given = results(baseline=True)
        page = report(tmp_path, given)
        one, two = given["baseline"]
        counts = [
            f"{row['correct']}|{100 * row['accuracy']:.2f}|{formatting.percents(row['ci95'])}" for row in (one, two)
        ]
        assert f"|raw pixels, no reservoir|64|{counts[0]}|{counts[1]}" in page.words
        gain = 100 * (given["accuracy"][6]["accuracy"] - one["accuracy"])
        said = f"raw pixels without reservoirs give {100 * one['accuracy']:.2f} %; all reservoirs get {gain:.2f} points"
        assert f"With the paper's readout, {said} more than that." in page.words

    def test_a_run_is_called_by_its_data(self, tmp_path: Path) -> None:
        """The experiment is called digits and speaks of digits, but was run on other data."""
        given = results(dataset=DIGITS | {"name": "wine01", "n_inputs": 13, "n_classes": 3})
        given |= {"experiment": "digits", "description": "On the 8x8 digits."}
        page = report(tmp_path, given)
        head = page.words[: page.words.index("In short")]
        assert "Classifying wine01" in head
        assert "classify wine01: 1297 training and 500 test samples of 13 inputs, 3 classes" in head
        assert "8x8" not in head
        assert head.count("digits") == 2  # the experiment's name, in the title and above it
        assert "describes itself so: “On the 8x8 digits.”" in page.words

    def test_the_limit_of_many_replicas(self, tmp_path: Path) -> None:
        given = results()
        given["settings"]["protocol"]["n_replicas"] = None
        given |= {"engine": "meanfield", "error": {"1": 4.4e-4, "2": 3.6e-4, "4": 3.4e-4}, "clip_count": 7}
        words = report(tmp_path, given).words
        assert "from the meanfield engine, in the limit of infinitely many replicas" in words
        one, two, four = (formatting.scientific(value) for value in given["error"].values())
        assert f"error of {one} in m1, {two} in m2 and {four} in m4; 7 updates (" in words
        assert "|n_replicas|infinitely many" in words

    def test_one_seed_has_no_spread(self, tmp_path: Path) -> None:
        given = results(dataset=MNIST, repeats=1)
        words = report(tmp_path, given).words
        assert "seeds" not in words.replace("It gives seeds", "")
        assert "the range in which one more run" not in words

    def test_a_study(self, tmp_path: Path) -> None:
        given = study()
        put_figures(tmp_path)
        page = report(tmp_path, given)
        for variant in given["study"]:
            assert f"|{variant['variant']}|{variant['description']}|3" in page.words
            for row in variant["accuracy"]:
                assert f"{100 * row['mean']:.2f}± {100 * row['sd']:.2f}" in page.cells
        assert "|The paper|||96.51|96.82|96.03|96.58|96.83|96.80|96.95|96.84|93.77|96.82" in page.words
        assert len(page.all("img")) == 1

    def test_a_study_elsewhere_than_mnist(self, tmp_path: Path) -> None:
        words = report(tmp_path, study(DIGITS)).words
        assert "The paper" not in words
        assert "Distance" not in words

    def test_captions_count_what_is_drawn(self) -> None:
        found = captions(from_json(results()))
        assert f"the mean of {N_REPLICAS} (thick)" in found["paths"].text
        assert N_PATHS == 6
        assert "six replicas each" in found["paths"].text
        assert f"from {N_STATES} simulated replicas" in found["density"].text

    def test_a_readout_that_only_some_models_have(self, tmp_path: Path) -> None:
        given = results()
        given["accuracy"] = [r for r in given["accuracy"] if r["readout"] == "converged" or r["model"] == "K1"]
        words = report(tmp_path, given).words
        joined = next(row for row in given["accuracy"] if row["model"] == "K1+K2+K3")
        assert f"All three reservoirs classify {joined['correct']} of 500" in words
        assert "with the fully fitted readout" in words


class TestSafety:
    HOSTILE = '<script>alert("1")</script>'

    def hostile(self) -> dict[str, Any]:
        names = (self.HOSTILE, "<img src=x onerror=alert(1)>", "'\"&amp;")
        given = results(names, DIGITS | {"name": self.HOSTILE, "sha256": self.HOSTILE}, repeats=2)
        given |= {"experiment": self.HOSTILE, "description": "</style>" + self.HOSTILE, "engine": self.HOSTILE}
        given["settings"]["training"] = {self.HOSTILE: self.HOSTILE, "list": [self.HOSTILE]}
        given["settings"]["reservoirs"][0][self.HOSTILE] = self.HOSTILE
        return given

    def test_names_stay_text(self, tmp_path: Path) -> None:
        page = report(tmp_path, self.hostile())
        plain = report(tmp_path / "plain", results(("K1", "K2", "K3"), repeats=2))
        assert {tag for tag, _ in page.tags} == {tag for tag, _ in plain.tags}
        assert page.all("img") == []
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        assert page.words.count(self.HOSTILE) > 10

    def test_a_hostile_study(self, tmp_path: Path) -> None:
        given = study()
        given["study"][0] |= {"variant": self.HOSTILE, "description": self.HOSTILE}
        page = report(tmp_path, given)
        assert "script" not in {tag for tag, _ in page.tags}
        assert page.words.count(self.HOSTILE) >= 3

    def test_a_hostile_figure_stays_an_image(self, tmp_path: Path) -> None:
        (tmp_path / "figures").mkdir()
        (tmp_path / "figures" / "errors.svg").write_text(f"<svg>{self.HOSTILE}</svg>")
        page = report(tmp_path, results())
        (image,) = page.all("img")
        assert str(image["src"]).startswith("data:image/svg+xml;base64,")
        assert self.HOSTILE not in page.text

    def test_nothing_is_requested_and_the_same_bytes_are_written_every_time(self, tmp_path: Path) -> None:
        given = results(repeats=2)
        put_figures(tmp_path)
        page = report(tmp_path, given)
        first = (tmp_path / "report.html").read_bytes()
        report(tmp_path, given)
        assert (tmp_path / "report.html").read_bytes() == first
        assert len(page.all("img")) == 6
        for tag, attributes in page.tags:
            for name in ("src", "href", "srcset", "data", "action", "poster", "background"):
                value = attributes.get(name)
                assert value is None or value.startswith(("data:image/svg+xml;base64,", "#")), (tag, value)
        html = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "@import" not in html
        assert "url(" not in html
        assert "://" not in html
        assert {"link", "script", "iframe", "object", "embed", "base"}.isdisjoint({tag for tag, _ in page.tags})
        (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
        assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class TestAccess:
    @pytest.fixture(params=["run", "study"])
    def page(self, request: pytest.FixtureRequest, tmp_path: Path) -> Page:
        given = results(dataset=MNIST, repeats=2) if request.param == "run" else study()
        put_figures(tmp_path)
        return report(tmp_path, given)

    def test_images_have_words(self, page: Page) -> None:
        assert page.all("img")
        assert all(len(str(image["alt"])) > 30 for image in page.all("img"))
        assert len({image["alt"] for image in page.all("img")}) == len(page.all("img"))
        assert len(page.all("figcaption")) == len(page.all("img"))

    def test_tables_have_headers(self, page: Page) -> None:
        assert len(page.all("thead")) == len(page.all("table"))
        assert all("scope" in header for header in page.all("th"))
        regions = [d for d in page.all("div") if d.get("role") == "region"]
        assert len(regions) == len(page.all("table"))
        assert all(d.get("aria-label") and d.get("tabindex") == "0" for d in regions)

    def test_all_rows_of_a_table_are_equally_wide(self, page: Page) -> None:
        """Counting cells that span several columns, and those that reach down from rows above."""
        for table in page.spans:
            widths: set[int] = set()
            hanging: list[tuple[int, int]] = []
            for row in table:
                widths.add(sum(columns for _, columns in [*row, *hanging]))
                hanging = [(rows - 1, columns) for rows, columns in [*row, *hanging] if rows > 1]
            assert len(widths) == 1

    def test_anchors_lead_somewhere(self, page: Page) -> None:
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert {str(a["href"]) for a in page.all("a")} == {f"#{name}" for name in ids}

    def test_tables_and_figures_are_numbered_in_order(self, page: Page) -> None:
        for kind in ("Table", "Figure"):
            numbers = [int(n) for n in re.findall(rf"{kind} (\d+)\.", page.text)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert numbers


class TestWriting:
    def test_without_figures_there_are_none(self, tmp_path: Path) -> None:
        page = report(tmp_path, results())
        assert page.all("figure") == []
        assert "drawn from node.safetensors, which this run does not have" in page.words

    def test_a_figure_left_by_another_run_is_not_shown(self, tmp_path: Path) -> None:
        (tmp_path / "figures").mkdir()
        (tmp_path / "figures" / "repeats.svg").write_text("<svg/>")
        assert report(tmp_path, results()).all("img") == []

    def test_refusals(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"holds no results\.json: it is not a run, or not a finished one"):
            write(tmp_path)
        (tmp_path / "results.json").write_text("{")
        with pytest.raises(ValueError, match=r"results\.json is damaged: Expecting property name"):
            write(tmp_path)
        assert not (tmp_path / "report.html").exists()
