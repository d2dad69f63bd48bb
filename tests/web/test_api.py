"""The JSON interface: answers as the library gives them and as the OpenAPI description says, refusals as sentences."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

import thermoment as tm
from support.digits_by_hand import DIGITS
from support.small_machine import small_machine
from thermoment.data.drawing import draw
from thermoment.machines.classifier import Classifier
from thermoment.web.app import Site, application
from thermoment.web.guard import MOST_BYTES
from thermoment.web.question import MOST_POINTS, RefusedError, ask, parse
from thermoment.web.workers import Tables, Workers

MACHINE = small_machine()
PIXELS = np.random.default_rng(3).random(64).round(3).tolist()
ASKED = {"pixels": PIXELS, "engine": "xla", "n_replicas": 16}


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(MACHINE)


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[TestClient]:
    with TestClient(application(site), base_url="http://127.0.0.1:8128") as found:
        yield found


def mnist() -> Classifier:
    found = tm.pretrained("mnist")
    assert isinstance(found, Classifier)
    return found


def test_the_answer_is_that_of_the_library(client: TestClient) -> None:
    for engine in ("reference", "xla"):
        found = client.post("/api/predict", json={**ASKED, "engine": engine, "sample_id": 7}).json()
        own = replace(MACHINE, engine=engine, protocol=replace(MACHINE.protocol, n_replicas=16))
        expected = own.predict_proba([PIXELS], sample_ids=[7])[0]
        np.testing.assert_allclose(found["probabilities"], expected, atol=2e-6)
        assert found["label"] == int(expected.argmax())
        assert (found["engine"], found["asked"], found["note"]) == (engine, engine, "")


def test_other_physics_is_that_of_the_library_too(client: TestClient) -> None:
    found = client.post("/api/predict", json={**ASKED, "kT": 0.4, "t_final": 0.3}).json()
    hot = {name: replace(one, dynamics=replace(one.dynamics, kT=0.4)) for name, one in MACHINE.reservoirs.items()}
    protocol = replace(MACHINE.protocol, n_replicas=16, t_final=0.3, dt=0.3 / 50)
    expected = replace(MACHINE, reservoirs=hot, protocol=protocol).predict_proba([PIXELS], engine="xla")[0]
    np.testing.assert_allclose(found["probabilities"], expected, atol=2e-6)
    assert found["probabilities"] != client.post("/api/predict", json=ASKED).json()["probabilities"]


def test_averaged_readouts_answer_as_the_library_does() -> None:
    averaged = small_machine(averaged=True)
    with TestClient(application(Site(averaged)), base_url="http://localhost") as client:
        found = client.post("/api/predict", json=ASKED).json()
    own = replace(averaged, engine="xla", protocol=replace(averaged.protocol, n_replicas=16))
    np.testing.assert_allclose(found["probabilities"], own.predict_proba([PIXELS])[0], atol=2e-6)


def test_shares_add_up_to_the_logits(client: TestClient) -> None:
    found = client.post("/api/predict", json=ASKED).json()
    bias = MACHINE.readouts[0].bias
    total = np.sum([share for orders in found["shares"].values() for share in orders.values()], axis=0)
    logits = np.array(found["logits"])
    np.testing.assert_allclose(total, logits - bias - (logits - bias).mean(), atol=1e-3)
    of_nodes = sum(sum(values) for orders in found["nodes"].values() for values in orders.values())
    assert of_nodes == pytest.approx(total[found["label"]], abs=1e-2)


def test_what_is_left_out_adds_nothing(client: TestClient) -> None:
    found = client.post("/api/predict", json={**ASKED, "reservoirs": ["B"], "orders": [2]}).json()
    heard = {(name, p) for name, orders in found["shares"].items() for p, share in orders.items() if any(share)}
    assert heard == {("B", "2")}
    assert found["logits"] != client.post("/api/predict", json=ASKED).json()["logits"]


@pytest.mark.slow
def test_nine_of_ten_intervals_hold_the_limit(site: Site) -> None:
    """120 answers in other noise, each class: 0.9 to 3.6 standard errors. Intervals of half the width hold 0.59."""
    many = replace(MACHINE, engine="xla", protocol=replace(MACHINE.protocol, n_replicas=2**16))
    limit = many.predict_proba([PIXELS], sample_ids=[10**6])[0]
    held, halved = np.zeros(3), np.zeros(3)
    for sample_id in range(120):
        found = site.predict({**ASKED, "n_replicas": 32, "sample_id": sample_id})
        low, p, high = (np.array(found[name]) for name in ("low", "probabilities", "high"))
        held += (low <= limit) & (limit <= high)
        halved += ((low + p) / 2 <= limit) & (limit <= (high + p) / 2)
    assert (np.abs(held / 120 - 0.9) < 0.1).all(), held
    assert (halved / 120 < 0.75).all(), halved


def test_an_interval_shrinks_with_the_replicas(site: Site) -> None:
    width = {}
    for M in (1, 256):
        found = site.predict({**ASKED, "n_replicas": M})
        assert all(a <= p <= b for a, p, b in zip(found["low"], found["probabilities"], found["high"], strict=True))
        width[M] = max(np.array(found["high"]) - found["low"])
    assert width[256] < width[1] / 4


def test_the_cost_is_the_work_of_the_drive(site: Site) -> None:
    found = site.predict(ASKED)
    work = 0.0
    for one in MACHINE.reservoirs.values():
        m1 = tm.simulate(one, [PIXELS], replace(MACHINE.protocol, n_replicas=16), engine="xla").order(1)
        work += float((one.drive([PIXELS]) * m1).sum()) * 16 / one.dynamics.kT
    assert found["cost"]["work_kT"] == pytest.approx(work, rel=1e-4)
    assert found["cost"]["updates"] == (6 + 8) * 16 * MACHINE.protocol.n_steps


def test_paths_are_those_of_the_answer(client: TestClient) -> None:
    """The mean of the replicas at the end is the first moment that the answer was read from, in the same noise."""
    found = client.post("/api/paths", json={**ASKED, "sample_id": 5}).json()
    for name, one in MACHINE.reservoirs.items():
        protocol = replace(MACHINE.protocol, n_replicas=16)
        m1 = tm.simulate(one, [PIXELS], protocol, engine="xla", sample_ids=[5]).order(1)[0]
        np.testing.assert_allclose(found["mean"][name][-1], m1, atol=1e-3)
        assert not any(found["one"][name][0])
    assert found["times"][-1] == MACHINE.protocol.t_final


def test_a_node_has_the_density_of_its_replicas(client: TestClient) -> None:
    asked = {**ASKED, "n_replicas": 128, "reservoir": "B", "node": 5}
    found = client.post("/api/node", json=asked).json()
    x, density, ends = np.array(found["x"]), np.array(found["density"]), np.array(found["paths"])[:, -1]
    step = x[1] - x[0]
    np.testing.assert_allclose(density[2:].sum(axis=1) * step, 1, atol=0.02)
    mean, deviation = (density[-1] @ x) * step, ends.std()
    assert abs(mean - ends.mean()) < 4 * deviation / np.sqrt(128)
    variance = (density[-1] @ x**2) * step - mean**2
    assert variance == pytest.approx(ends.var(), rel=0.5)  # four standard errors of a variance of 128
    reservoir = MACHINE.reservoirs["B"]
    assert found["drive"] == pytest.approx(reservoir.drive([PIXELS])[0, 5], abs=1e-5)
    h = found["drive"] + found["field"][-1]
    np.testing.assert_allclose(found["boltzmann"], reservoir.dynamics.boltzmann_density(x, h), atol=2e-3)


def test_the_shipped_machine_reads_strokes() -> None:
    with TestClient(application(Site(mnist())), base_url="http://127.0.0.1") as client:
        for digit in (3, 8):
            asked = {"strokes": DIGITS[digit], "n_replicas": 8}
            found = client.post("/api/predict", json=asked).json()
            assert found["label"] == digit
            np.testing.assert_allclose(found["image"], draw(DIGITS[digit]).ravel(), atol=1e-4)


def test_every_answer_is_as_described(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    node = {**ASKED, "reservoir": "A", "node": 2}
    bodies = {"/api/predict": ASKED, "/api/paths": ASKED, "/api/node": node}
    for path, methods in described["paths"].items():
        for method, what in methods.items():
            asked = bodies.get(path)
            if asked is not None:
                schema = what["requestBody"]["content"]["application/json"]["schema"]
                Draft202012Validator(schema).validate(asked)
            found = client.request(method, path, json=asked)
            assert found.status_code == 200, (path, found.text)
            Draft202012Validator(what["responses"]["200"]["content"]["application/json"]["schema"]).validate(
                found.json()
            )
    assert {"/api/predict", "/api/paths", "/api/node", "/api/machine", "/api/health"} <= set(described["paths"])


BAD: list[tuple[Any, str]] = [
    ({}, "given neither"),
    ({"pixels": PIXELS, "strokes": [[[0, 0]]]}, "given both"),
    ({"pixels": PIXELS[:-1]}, "`pixels` must be a list of 64 numbers, but was 63 of them"),
    ({"pixels": [*PIXELS[:-1], 1.5]}, "`pixels` must hold numbers from 0 to 1, but was 1.5"),
    ({"pixels": [*PIXELS[:-1], None]}, "but was null"),
    ({"pixels": [*PIXELS[:-1], True]}, "but was True"),
    ({"pixels": [*PIXELS[:-1], "0.5"]}, "but was '0.5'"),
    ({"pixels": "ink"}, '"ink"'),
    ({"strokes": []}, "`strokes` must be a list with at least one stroke"),
    ({"strokes": [[]]}, r"`strokes[0]` must be a list with at least one point"),
    ({"strokes": [[[0.1, 0.2, 0.3]]]}, "lists of 2 numbers, but was 3 of them"),
    ({"strokes": [[[0.1, -0.2]]]}, "numbers from 0 to 1, but was -0.2"),
    ({"strokes": [[[0.1, 0.2]] * (MOST_POINTS + 1)]}, "at most 20000 points"),
    ({"pixels": PIXELS, "engine": "quantum"}, "`engine` must be one of"),
    ({"pixels": PIXELS, "engine": ["xla"]}, "`engine` must be one of"),
    ({"pixels": PIXELS, "n_replicas": 0}, "`n_replicas` must be an integer from 1 to 1024, but was 0"),
    ({"pixels": PIXELS, "n_replicas": 2.5}, "but was 2.5"),
    ({"pixels": PIXELS, "n_replicas": 10**40}, "but was about 10^40"),
    ({"pixels": PIXELS, "engine": "xla", "n_replicas": 3}, "a power of two for xla"),
    ({"pixels": PIXELS, "kT": -1}, "`kT` must be a number from 0.005 to 2, but was -1"),
    ({"pixels": PIXELS, "kT": "hot"}, '"hot"'),
    ({"pixels": PIXELS, "t_final": 1000}, "`t_final` must be a number from 0.05 to 4"),
    ({"pixels": PIXELS, "sample_id": -1}, "`sample_id` must be an integer from 0"),
    ({"pixels": PIXELS, "reservoirs": []}, "at least one of A, B"),
    ({"pixels": PIXELS, "reservoirs": ["C"]}, "`reservoirs` must name only A, B, but was 'C'"),
    ({"pixels": PIXELS, "orders": [1, 1]}, "name nothing twice"),
    ({"pixels": PIXELS, "orders": [[1]]}, "`orders` must name only 1, 2, but was [1]"),
    ({"pixels": PIXELS, "colour": "red"}, "but was given 'colour'"),
    ([1, 2], "a JSON object, but was a list of 2"),
]


@pytest.mark.parametrize(("body", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_a_bad_field_is_refused_in_one_sentence(client: TestClient, body: Any, sentence: str) -> None:
    found = client.post("/api/predict", json=body)
    assert found.status_code == 422
    assert set(found.json()) == {"error"}
    assert sentence in found.json()["error"]
    assert found.json()["error"].count("\n") == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"pixels",
        b'{"kT": NaN}',
        b'{"kT": -Infinity}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kT": 1' + b"0" * 5000,
    ],
)
def test_what_is_no_json_is_refused(client: TestClient, body: bytes) -> None:
    found = client.post("/api/predict", content=body, headers={"content-type": "application/json"})
    assert (found.status_code, found.json()) == (400, {"error": "The body must be JSON in UTF-8."})


def test_infinity_spelt_as_a_number_is_refused(client: TestClient) -> None:
    body = json.dumps(ASKED)[:-1] + ', "kT": 1e999}'
    found = client.post("/api/predict", content=body, headers={"content-type": "application/json"})
    assert found.status_code == 422


def test_a_body_over_a_megabyte_is_refused_and_one_below_is_not(client: TestClient) -> None:
    for extra, status in ((1, 413), (0, 200)):
        text = json.dumps(ASKED)
        body = text + " " * (MOST_BYTES - len(text) + extra)
        found = client.post("/api/predict", content=body, headers={"content-type": "application/json"})
        assert found.status_code == status


def test_only_json_is_taken(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        found = client.post("/api/predict", content=json.dumps(ASKED), headers={"content-type": kind})
        assert found.status_code == 415


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/predict/", "/static/", "/static/app.py", "/report"])
def test_unknown_paths(client: TestClient, path: str) -> None:
    found = client.get(path, follow_redirects=False)
    assert found.status_code == 404
    assert set(found.json()) == {"error"}


def test_a_wrong_method(client: TestClient) -> None:
    assert client.get("/api/predict").status_code == 405
    assert client.delete("/api/machine").status_code == 405
    assert client.get("/api/predict").headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/..%2f..%2fetc"],
)
def test_no_path_leads_out_of_the_pages_files(client: TestClient, path: str) -> None:
    found = client.get(path)
    assert found.status_code == 404
    assert "import" not in found.text


def test_a_host_of_elsewhere_is_refused(site: Site) -> None:
    here = TestClient(application(site))
    for host, status in (
        ("127.0.0.1:8128", 200),
        ("localhost", 200),
        ("[::1]:8128", 200),
        ("example.org", 421),
        ("127.0.0.1.example.org", 421),
        ("192.168.0.7", 421),
        ("", 421),
    ):
        assert here.get("/api/health", headers={"host": host}).status_code == status, host
    wide = TestClient(application(site, "0.0.0.0"))
    assert wide.get("/api/health", headers={"host": "192.168.0.7:8128"}).status_code == 200
    assert wide.get("/api/health", headers={"host": "example.org"}).status_code == 421


def test_every_response_has_the_policy(client: TestClient) -> None:
    for path in ("/", "/static/style.css", "/api/health", "/nothing"):
        found = client.get(path)
        policy = found.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
    assert client.get("/").headers["content-type"].startswith("text/html")


def test_a_mistake_of_ours_is_not_told_to_the_client(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("thermoment.web.answer.answer", broken)
    found = client.post("/api/predict", json=ASKED)
    assert found.status_code == 500
    assert "secret" not in found.text
    assert "Traceback" not in found.text
    assert "secret" in caplog.text


@pytest.mark.slow
def test_meanfield_is_sampled_until_its_tables_are_built(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables(MACHINE)
    monkeypatch.setattr(site, "tables", tables)
    monkeypatch.setattr(tables, "_build", lambda: None)  # no thread builds: this test does
    asked = {"pixels": PIXELS, "engine": "meanfield"}
    first = site.predict(asked)
    assert (first["asked"], first["engine"], first["tables"]) == ("meanfield", site.offer.default, "building")
    assert "are being built. Sampled meanwhile." in first["note"]
    tables.build(site.question(asked))
    then = site.predict(asked)
    assert (then["engine"], then["note"], then["tables"]) == ("meanfield", "", "ready")
    limit = replace(MACHINE, engine="meanfield", protocol=replace(MACHINE.protocol, n_replicas=np.inf))
    np.testing.assert_allclose(then["probabilities"], limit.predict_proba([PIXELS])[0], atol=2e-6)


async def _fill(workers: Workers) -> int:
    gate, refused = threading.Event(), 0
    waiting = [asyncio.ensure_future(workers.run(gate.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    try:
        await workers.run(lambda: True)
    except RefusedError as error:
        refused = error.status
    gate.set()
    await asyncio.gather(*waiting)
    await asyncio.sleep(0)
    assert await workers.run(lambda: 5) == 5
    return refused


def test_more_questions_than_there_is_room_for_are_refused() -> None:
    assert asyncio.run(_fill(Workers(threads=1, most_waiting=2))) == 503


def test_fields_take_whole_floats() -> None:
    found = ask(parse(json.dumps({**ASKED, "n_replicas": 4.0}).encode()), MACHINE, ("xla",), "xla")
    assert found.n_replicas == 4


def test_the_machines_own_replicas_are_the_default_and_for_xla_the_power_of_two_below() -> None:
    odd = replace(MACHINE, protocol=replace(MACHINE.protocol, n_replicas=24))
    for engine, n_replicas in (("native", 24), ("xla", 16)):
        assert ask({"pixels": PIXELS, "engine": engine}, odd, ("native", "xla"), "xla").n_replicas == n_replicas
