"""Many clients and many requests: all are answered, and the memory stays what it was."""

import http.client
import json
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from support.page_server import serving
from support.small_machine import small_machine
from thermoment.web.app import Site

PIXELS = np.random.default_rng(3).random(64).round(3).tolist()
GOOD = json.dumps({"pixels": PIXELS, "engine": "xla", "n_replicas": 4})
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Site(small_machine())) as found:
        yield found.removeprefix("http://")


def asked(connection: http.client.HTTPConnection, kind: str, body: str) -> int:
    connection.request("POST", f"/api/{kind}", body, JSON)
    response = connection.getresponse()
    response.read()
    return response.status


def all_at_once(address: str, clients: int, each: int) -> Counter[int]:
    def client(_: int) -> list[int]:
        connection = http.client.HTTPConnection(address, timeout=600)
        found = [asked(connection, "predict", GOOD) for _ in range(each)]
        connection.close()
        return found

    with ThreadPoolExecutor(clients) as pool:
        return Counter(status for one in pool.map(client, range(clients)) for status in one)


def test_clients_at_once_are_all_answered(address: str) -> None:
    assert all_at_once(address, 20, 2) == {200: 40}


@pytest.mark.slow
def test_a_thousand_requests_from_fifty_clients_are_all_answered(address: str) -> None:
    idle = [socket.create_connection(address.split(":"), timeout=60) for _ in range(20)]  # type: ignore[arg-type]
    assert all_at_once(address, 50, 20) == {200: 1000}
    for one in idle:
        one.close()


def resident() -> float:
    """Memory of this process, in which the server runs, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_steady_over_ten_thousand_requests(address: str) -> None:
    """Bad ones of every kind, each twentieth good. What is kept is bounded: the second half adds next to nothing."""
    dice, connection, seen = random.Random(1), http.client.HTTPConnection(address, timeout=600), []
    bodies = ["{", '{"kT": NaN}', "[]", json.dumps({"pixels": PIXELS[:5]}), json.dumps({"strokes": [[[0, 0]]]})]
    for number in range(10_000):
        if number % 1000 == 0:
            seen.append(resident())
        kind = dice.choice(("predict", "node", "paths", "nothing"))
        body = dice.choice(bodies)
        if number % 20 == 0:
            noise = dice.randrange(2**32)
            body = json.dumps(
                {"pixels": PIXELS, "engine": "xla", "n_replicas": 2 ** dice.randrange(8), "sample_id": noise}
            )
        assert asked(connection, kind, body) in (200, 400, 404, 422)
    assert seen[-1] < seen[4] + 30, seen
    assert asked(connection, "predict", GOOD) == 200
    connection.close()
