"""Draws the pictures of docs/gallery.md by the code that stands above each of them there.

thermoment run                          runs/digits, where the gallery expects it
python tools/gallery.py                 docs/figures/gallery/*.png
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n!\[[^\]]+\]\((\S+)\))?", re.DOTALL)


def drawn() -> Iterator[tuple[str, Any]]:
    """Runs every piece of Python in the gallery, one after the other: the name of each picture, and its axes."""
    names: dict[str, Any] = {}
    for code, picture in _BLOCK.findall((DOCS / "gallery.md").read_text("utf-8")):
        exec(code, names)
        if picture:
            yield picture, names["ax"]


def main() -> None:
    """Writes the pictures."""
    for picture, axes in drawn():
        axes.figure.savefig(DOCS / picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
