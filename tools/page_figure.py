"""Takes the picture of the page in docs/page.md: a drawn 3, read by the machine for MNIST.

    python tools/page_figure.py            # docs/figures/page.png

Needs Chromium and Playwright: `apt install chromium && pip install '.[test]'`. The page says how long its answer took,
so the machine should do nothing else meanwhile.
"""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

TARGET = Path(__file__).resolve().parents[1] / "docs/figures/page.png"
SIZE = {"width": 1280, "height": 960}
COLOURS = 256
PATIENCE = 120_000
"""milliseconds"""


def shown(page: Page) -> str:
    """What the page says of its answer, once all that belongs to it is drawn."""
    page.wait_for_selector('html[data-state="shown"]')
    return page.inner_text("#how")


def take(address: str) -> bytes:
    """The page as a PNG, with the third answer: by then everything is loaded."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        context = browser.new_context(viewport=SIZE, color_scheme="dark", reduced_motion="reduce")  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_selector("#by-others button")
        page.locator("#by-pen button").nth(3).click()
        for _ in range(2):
            print(shown(page))
            page.click("#again")
        print(shown(page))
        page.locator("#time").fill("870")
        found = page.screenshot()
        browser.close()
    return found


def main() -> None:
    """Serves the page as a person would, and keeps what it shows."""
    command = [sys.executable, "-m", "thermoment", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = "http://" + server.stderr.readline().partition("http://")[2].partition(" ")[0]
            picture = Image.open(io.BytesIO(take(address))).convert("RGB").quantize(COLOURS)
        finally:
            server.terminate()
    picture.save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
