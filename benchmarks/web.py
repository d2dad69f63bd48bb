"""The page: how soon it is there, how fast it answers, how smoothly it moves, and what redrawn digits cost it.

    python benchmarks/web.py [PART ...] [--data-dir FOLDER] [--out benchmarks/results/web-NAME.json]

A server is started as a person would start it, and asked over HTTP on the same machine. Frames are counted in headless
Chromium where there is one, accuracy on MNIST's test images where they are. Times are medians and 95th percentiles.
"""

import argparse
import http.client
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from redrawn import strokes, thresholded

import thermoment as tm
from thermoment import data as datasets
from thermoment._support.host import describe
from thermoment.machines.classifier import Classifier

HERE = Path(__file__).parent
SEVEN = [[[0.27, 0.18], [0.72, 0.17], [0.58, 0.5], [0.47, 0.87]]]
CLIENTS, REQUESTS = 50, 1000
MEMORY = 10_000
_WARM = 3
"""Answers that are not counted, at the start of each series."""
REDRAWN = 500
"""Images that are drawn again as strokes, which takes longer than all else."""


@contextmanager
def served() -> Iterator[tuple[int, float, int]]:
    """The port of a server in a process of its own, the seconds until it answered, and its process id."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "thermoment", "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = int(process.stderr.readline().rpartition(":")[2].partition("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    connection.getresponse().read()
    seconds = time.perf_counter() - start
    try:
        yield port, seconds, process.pid
    finally:
        process.terminate()  # SIGINT may be ignored in the background of a shell
        process.wait()


def ask(connection: http.client.HTTPConnection, kind: str, **question: Any) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"strokes": SEVEN, **question})
    connection.request("POST", f"/api/{kind}", body, {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def processor_time(pid: int) -> float:
    """Milliseconds that a process has computed for, on all cores together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latency(port: int, pid: int, kind: str, questions: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds from question to answer, one after the other, and what each took of the processor.

    On a machine that does other things as well the fastest and the processor's time say more than the median.
    """
    connection, found = http.client.HTTPConnection("127.0.0.1", port), []
    for number, question in enumerate(questions):
        if number == _WARM:
            before = processor_time(pid)
        start = time.perf_counter()
        status, _ = ask(connection, kind, **question)
        assert status == 200
        found.append(1000 * (time.perf_counter() - start))
    found = found[_WARM:]
    return {
        "fastest_ms": round(min(found), 1),
        "median_ms": round(median(found), 1),
        "p95_ms": round(quantiles(found, n=20)[-1], 1),
        "processor_ms": round((processor_time(pid) - before) / len(found), 1),
    }


def in_other_noise(rounds: int, **question: Any) -> list[dict[str, Any]]:
    """The same question, each time with other noise."""
    return [{**question, "sample_id": number} for number in range(rounds + _WARM)]


def crowd(port: int) -> dict[str, Any]:
    """A thousand questions from fifty clients at once, of 32 replicas each."""

    def client(_: int) -> list[int]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        return [ask(connection, "predict", n_replicas=32)[0] for _ in range(REQUESTS // CLIENTS)]

    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = Counter(str(status) for one in pool.map(client, range(CLIENTS)) for status in one)
    return {"clients": CLIENTS, "statuses": dict(statuses), "seconds": round(time.perf_counter() - start, 1)}


def resident(pid: int) -> float:
    """Memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(port: int, pid: int) -> dict[str, Any]:
    """Memory over ten thousand requests, most of them refused or of fixed texts, each fiftieth an answer."""
    connection, seen = http.client.HTTPConnection("127.0.0.1", port), []
    for number in range(MEMORY):
        if number % 50 == 0:
            ask(connection, "predict", n_replicas=1, sample_id=number)
        elif number % 10 < 4:
            ask(connection, "predict", kT=-1)
        else:
            connection.request("GET", ("/", "/static/style.css", "/nothing", "/api/health", "/api/machine")[number % 5])
            connection.getresponse().read()
        if number % (MEMORY // 10) == 0:
            seen.append(round(resident(pid), 1))
    return {"requests": MEMORY, "megabytes": [*seen, round(resident(pid), 1)]}


def frames(port: int) -> dict[str, Any] | None:
    """Frames a second while all nodes and one well are animated, in headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return None
    found = {}
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        for name, width in (("desktop", 1280), ("phone", 390)):
            page = browser.new_page(viewport={"width": width, "height": 850})
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector("html[data-ready]")
            page.locator("#by-pen button").nth(3).click()
            page.wait_for_selector('html[data-state="shown"]')
            page.evaluate("thermoment.frames()")
            page.wait_for_timeout(4000)
            seen = page.evaluate("thermoment.frames()")
            found[name] = round(1000 * seen["count"] / seen["milliseconds"], 1)
        found["browser"] = browser.version
        browser.close()
    return found


def accuracy(data_dir: str | None) -> dict[str, Any] | None:
    """MNIST's test images, and the same redrawn, read by `meanfield` in the limit of many replicas."""
    if not datasets.is_here("mnist", data_dir):
        return None
    found = datasets.load("mnist", data_dir)
    machine = tm.pretrained("mnist")
    assert isinstance(machine, Classifier)
    limit = replace(machine, protocol=replace(machine.protocol, n_replicas=math.inf), engine="meanfield")
    images = found.x_test.reshape(-1, 28, 28).astype(float)

    def right(given: Any) -> int:
        read = limit.predict(np.clip(given.reshape(len(given), -1), 0, 1))
        return int((read == found.y_test[: len(given)]).sum())

    part = images[:REDRAWN]
    return {
        "images": {"right": right(images), "of": len(images)},
        "thresholded and centred again": {"right": right(thresholded(images)), "of": len(images)},
        "the first images": {"right": right(part), "of": len(part)},
        "the first images as strokes": {"right": right(strokes(part)), "of": len(part)},
    }


def speed(port: int, pid: int) -> dict[str, Any]:
    """Latencies, after everything is warm."""
    load = os.getloadavg()[0]
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/api/examples")
    connection.getresponse().read()
    while ask(connection, "predict", engine="meanfield")[1]["tables"] != "ready":
        time.sleep(0.5)
    native = {"engine": "native", "n_replicas": 128}
    nodes = [{"reservoir": "K1", "node": 7 * number} for number in range(33)]
    return {
        "load of the machine before": round(load, 1),
        "predict, meanfield": latency(port, pid, "predict", in_other_noise(30, engine="meanfield")),
        "predict, native, 128 replicas": latency(port, pid, "predict", in_other_noise(30, **native)),
        "predict, native, 1 replica": latency(port, pid, "predict", in_other_noise(20, engine="native", n_replicas=1)),
        "paths of all nodes, 128 replicas": latency(port, pid, "paths", in_other_noise(10)),
        "node, paths at hand": latency(port, pid, "node", nodes),
    }


PARTS = ("start", "speed", "crowd", "memory", "frames", "accuracy")


def main() -> None:
    """Measures the parts that are asked for, and puts them beside what the file has of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"of {', '.join(PARTS)}; all unless given")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    found["machine"] = describe("starlette", "uvicorn", checkout=HERE)
    with served() as (port, seconds, pid):
        measures: dict[str, Callable[[], Any]] = {
            "start": lambda: {"seconds until the page is there": round(seconds, 2)},
            "speed": lambda: speed(port, pid),
            "crowd": lambda: crowd(port),
            "memory": lambda: memory(port, pid),
            "frames": lambda: frames(port),
            "accuracy": lambda: accuracy(options.data_dir),
        }
        for part in options.parts:
            found[part] = measures[part]()
    text = json.dumps(found, indent=1) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
