"""Machines that the page shows: that of a run with its report, images for any size, examples without a download."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from starlette.testclient import TestClient

import thermoment as tm
from support.digits_by_hand import DIGITS
from support.small_machine import small_machine
from thermoment import data as datasets
from thermoment.data.drawing import draw
from thermoment.machines.classifier import Classifier
from thermoment.web import examples
from thermoment.web.app import Site, application
from thermoment.web.images import drawn, enlarged, resized, side

ROW = {"model": "A+B", "fusion": "feature", "orders": [1, 2], "readout": "sgd", "correct": 45, "total": 60}
FACTS = {"results": {"dataset": {"name": "digits"}, "accuracy": [ROW]}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The page of a run, of which the server sees the classifier with its facts, and the report."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    folder.mkdir()
    (folder / "report.html").write_text("<!doctype html><title>The report</title>", "utf-8")
    with TestClient(application(Site(replace(small_machine(), facts=FACTS), folder)), base_url="http://[::1]") as found:
        yield found


def test_a_run_is_served_with_its_tables_and_its_report(client: TestClient) -> None:
    machine = client.get("/api/machine").json()
    assert (machine["name"], machine["side"], machine["n_classes"]) == ("tiny", 8, 3)
    found = client.get("/api/results").json()
    first = found["tables"][0]
    assert first["rows"] == [["A+B, feature, moments 1, 2, sgd", "45 of 60", "75.00%", "62.77% to 84.22%"]]
    assert found["report"]
    report = client.get("/report")
    assert (report.status_code, report.text) == (200, "<!doctype html><title>The report</title>")
    assert report.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "script" not in report.headers["content-security-policy"]


def test_8_by_8_digits_are_drawn_for_and_have_their_own_test_images(client: TestClient) -> None:
    answer = client.post("/api/predict", json={"strokes": DIGITS[1], "n_replicas": 2}).json()
    assert len(answer["image"]) == 64
    found = client.get("/api/examples").json()
    assert found["source"] == "test images of digits"
    assert {image["label"] == image["read"] for image in found["images"]} == {True, False}
    digits = datasets.load("digits")
    first = np.array(found["images"][0]["pixels"]) / 255
    assert np.abs(digits.x_test - first).max(axis=1).min() < 0.003


def test_the_shipped_machine_has_examples_without_any_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST is not in the tests' cache, so they are scikit-learn's, enlarged; most are read right, some are not."""
    machine = tm.pretrained("mnist")
    assert isinstance(machine, Classifier)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("urllib.request.urlopen", refused)
    source, images, labels = examples._images(machine, None)
    assert source == "the 8 x 8 digits of scikit-learn, enlarged"
    limit = replace(machine, protocol=replace(machine.protocol, n_replicas=math.inf), engine="meanfield")
    right = (limit.predict(images) == labels).mean()
    assert 0.85 < right < 1


def test_machines_that_see_no_images_have_no_examples_and_take_no_strokes() -> None:
    odd = replace(
        small_machine(),
        reservoirs={name: replace(one, K=one.K[:, :50].copy()) for name, one in small_machine().reservoirs.items()},
    )
    with TestClient(application(Site(odd)), base_url="http://localhost") as client:
        assert client.get("/api/machine").json()["side"] is None
        assert client.get("/api/examples").json()["images"] == []
        found = client.post("/api/predict", json={"strokes": DIGITS[1]})
        assert (found.status_code, "not 50 inputs" in found.json()["error"]) == (422, True)
        described = client.get("/api/openapi.json").json()["paths"]["/api/predict"]["post"]["requestBody"]
        assert "strokes" not in described["content"]["application/json"]["schema"]["properties"]


def test_sides() -> None:
    assert [side(n) for n in (784, 64, 50, 4, 1)] == [28, 8, None, None, None]


def test_a_drawing_for_mnist_is_that_of_the_library_and_a_small_one_fills_its_image() -> None:
    strokes = [np.array(stroke) for stroke in DIGITS[4]]
    np.testing.assert_array_equal(drawn(strokes, 784), draw(strokes).ravel())
    small = drawn(strokes, 64).reshape(8, 8)
    assert small.max() <= 1
    assert small[0].any()
    assert small[-1].any()


def test_resizing_keeps_the_mean() -> None:
    image = np.zeros((12, 12))
    image[3:9, 4:8] = np.random.default_rng(0).random((6, 4))
    for length in (4, 12, 20):
        assert resized(image, (0.0, 0.0, 12.0), length).mean() == pytest.approx(image.mean(), rel=0.02)


def test_an_enlarged_digit_lies_as_those_of_mnist_do() -> None:
    found = enlarged(datasets.load("digits").x_test[0].reshape(8, 8).astype(float))
    rows, columns = np.nonzero(found)
    assert max(np.ptp(rows), np.ptp(columns)) <= 20
    axis = np.arange(28) - 13.5
    assert abs(found.sum(axis=1) @ axis) / found.sum() < 0.75
    assert abs(found.sum(axis=0) @ axis) / found.sum() < 0.75
