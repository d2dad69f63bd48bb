"""A report as a reader's program sees it: tags, text, cells of tables."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from thermoment.report.page import write

VOID = {"meta", "img", "wbr"}


class Page(HTMLParser):
    """A parsed page: its tags with their attributes, its text with "|" between cells, the cells of every table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.tables: list[list[list[str]]] = []
        self.spans: list[list[list[tuple[int, int]]]] = []
        """rows and columns of every cell"""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
            self.spans.append([])
        elif tag == "tr":
            self.tables[-1].append([])
            self.spans[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            rows, columns = (int(dict(attrs).get(name) or 1) for name in ("rowspan", "colspan"))
            self.spans[-1][-1].append((rows, columns))
        if tag in ("td", "th", "tr", "dt", "dd"):
            self.text += "|"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def cells(self) -> set[str]:
        return {cell for table in self.tables for row in table for cell in row}

    @property
    def words(self) -> str:
        return " ".join(self.text.replace("\N{NO-BREAK SPACE}", " ").split())


def report(folder: Path, given: dict[str, Any]) -> Page:
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps(given))
    return Page(write(folder).read_text(encoding="utf-8"))
