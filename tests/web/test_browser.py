"""The page in a real browser: it reads ten drawn digits, every control changes what is shown, nothing is complained of.

Needs Chromium and Playwright for Python: `apt install chromium && pip install '.[test]'`. Playwright's own browser is
taken where there is no Chromium: `playwright install chromium`.
"""

import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.digits_by_hand import DIGITS
from support.page_server import serving
from thermoment.machines.classifier import Classifier
from thermoment.machines.pretrained import pretrained
from thermoment.web.app import Site

_HOW = "apt install chromium && pip install '.[test]'"
sync_api = pytest.importorskip("playwright.sync_api", reason=f"Playwright is not installed: {_HOW}")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60_000
"""Milliseconds; nothing is timed here."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The shipped machine with long steps, so that ten digits and their paths take seconds."""
    machine = pretrained("mnist")
    assert isinstance(machine, Classifier)
    with serving(Site(replace(machine, protocol=replace(machine.protocol, dt=1e-2)))) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        options = {"args": ["--no-sandbox"]} if hasattr(os, "geteuid") and os.geteuid() == 0 else {}
        try:
            found = playwright.chromium.launch(executable_path=CHROMIUM, **options)
        except sync_api.Error as error:
            pytest.skip(f"No Chromium can be started ({_HOW}): {str(error).splitlines()[0]}")
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page, open and still. Whatever it says in the console, or asks of any other host, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    found = context.new_page()
    found.set_default_timeout(PATIENCE)
    said: list[str] = []
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    found.on("requestfailed", lambda one: said.append(one.url) if "ERR_ABORTED" not in (one.failure or "") else None)

    def outside(route: Any) -> None:
        said.append(f"asked for {route.request.url}")
        route.abort()

    context.route(lambda url: not url.startswith(address), outside)
    found.goto(address)
    found.wait_for_selector("html[data-ready]")
    yield found
    context.close()
    assert said == []


def draw(page: Any, strokes: Any) -> None:
    """Draws with the mouse, in steps of at least a twentieth, and waits until all that follows from it is shown."""
    page.click("#clear")
    box = page.locator("#sheet").bounding_box()
    for stroke in strokes:
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*points[0])
        page.mouse.down()
        at = points[0]
        for point in points[1:]:
            if math.dist(point, at) >= box["width"] / 20 or point == points[-1]:
                page.mouse.move(*point)
                at = point
        page.mouse.up()
    shown(page)


def shown(page: Any) -> None:
    page.wait_for_selector('html[data-state="shown"]')


def pictures(page: Any, *names: str) -> dict[str, str]:
    return {name: page.evaluate(f"document.getElementById('{name}').toDataURL()") for name in names}


def test_it_reads_all_ten_digits_as_they_are_drawn(page: Any) -> None:
    for digit, strokes in DIGITS.items():
        draw(page, strokes)
        assert page.inner_text("#label") == str(digit)
        assert page.inner_text("#spoken").startswith(f"It reads {digit}")
        assert page.locator("#bars li.best").get_attribute("aria-label").startswith(f"{digit}: ")


def test_every_control_changes_what_is_shown(page: Any) -> None:
    draw(page, DIGITS[5])
    physics = ("well", "nodes")
    for name, keys in (("kT", "End"), ("t_final", "Home"), ("n_replicas", "Home")):
        before, text = pictures(page, *physics), page.inner_text(f"#{name}-out")
        page.focus(f"#{name}")
        page.keyboard.press(keys)
        shown(page)
        after = pictures(page, *physics)
        assert page.inner_text(f"#{name}-out") != text
        assert after["well"] != before["well"], name
        assert after["nodes"] != before["nodes"] or name == "n_replicas", name
    assert page.inner_text("#n_replicas-out") == "1"
    assert "1 replica" in page.inner_text("#how")
    page.click("#reset")
    shown(page)
    for name in ("K2", "1"):
        before_text = page.inner_text("#bars")
        page.uncheck(f"input[value='{name}']")
        shown(page)
        assert page.inner_text("#bars") != before_text, name
    assert page.locator("#shares tbody tr").nth(1).inner_text().split()[1:4] == ["+0.0", "+0.0", "+0.0"]
    page.select_option("#engine", "reference")
    shown(page)
    assert page.inner_text("#how").startswith("By reference")


def test_time_moves_nodes_and_replicas(page: Any) -> None:
    draw(page, DIGITS[2])
    seen = [pictures(page, "nodes", "well")]
    for key in ("Home", "PageUp"):
        page.focus("#time")
        page.keyboard.press(key)
        seen.append(pictures(page, "nodes", "well"))
    assert len({one["nodes"] for one in seen}) == len({one["well"] for one in seen}) == 3
    for show in ("mean", "votes"):
        before = pictures(page, "nodes")
        page.click(f"[data-show={show}]")
        assert pictures(page, "nodes") != before
    page.focus("#nodes")
    node, before = page.inner_text("#which-node"), page.inner_text("#node-facts")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("(text) => document.getElementById('node-facts').innerText !== text", arg=before)
    assert page.inner_text("#which-node") != node


def test_from_the_keyboard_alone(page: Any) -> None:
    """A one: the pen goes down, moves down the paper, and is lifted."""
    page.focus("#sheet")
    for key in (" ", *["ArrowDown"] * 24, " "):
        page.keyboard.press(key)
    shown(page)
    assert page.inner_text("#label") == "1"
    page.focus("#tab-draw")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#fields canvas")
    assert page.locator("#tables table").count() == 3
    page.keyboard.press("ArrowRight")
    assert page.locator("#view-how svg").is_visible()
    assert not page.locator("#view-draw").is_visible()


def test_an_image_to_click_and_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#by-pen button").nth(4).click()
    shown(page)
    assert page.inner_text("#label") == "4"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
