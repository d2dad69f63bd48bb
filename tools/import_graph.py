"""Which part of the package may import which, checked; and the imports that there are, drawn as an SVG.

    python tools/import_graph.py            draws docs/figures/imports.svg
    python tools/import_graph.py --check    exit code 1 for an import that is not allowed, or an outdated picture

A part is a folder of the package or a module that lies in none, such as physics.py. Every import counts: inside a
function and under TYPE_CHECKING too.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/thermoment"
PICTURE = ROOT / "docs/figures/imports.svg"

ORDER = """
_support < wells < physics < protocol reads < reservoir moments < _engines < simulation < phases twin < thermodynamics
thermodynamics < learning < machines
_support < noise < protocol
_support < data
physics < learning.options < learning
data physics protocol reads learning.options < experiments
data protocol reads < results
machines results < plot < report
data experiments report < runs
runs < thermoment < bench web < cli < __main__
"""
"""A part may import every part that stands to its left in one of these lines, and what such a part may import.

`learning.options` is a part of its own, because settings are read without anything that computes. `thermoment` is the
package's `__init__.py`, the public names; the string `__version__` may be imported from it anywhere.
"""

LIBRARIES = {
    "jax": "_engines learning machines runs _support.compilation _support.host",
    "optax": "learning machines",
    "cupy": "_engines.cuda",
    "matplotlib": "plot report.figures",
    "zarr": "runs",
    "pandas": "results",
    "sklearn": "data machines.estimators",
    "starlette": "web",
    "uvicorn": "web",
    "dask": "runs.executors",
    "distributed": "runs.executors",
    "fsspec": "runs.remote",
}
"""Libraries that take long to import, and the only places where they are imported."""


class Import(NamedTuple):
    """A line of a module that imports another module, or a name of it."""

    module: str
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.module} (line {self.line}) imports {self.target}"


def imports(package: Path = PACKAGE) -> Iterator[Import]:
    """Every import statement of the package, by dotted names; those of the package itself name a module."""
    files = {_module(path, package): path for path in sorted(package.rglob("*.py"))}
    for module, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = _above(module, path, node.level) if node.level else []
                full = ".".join([*start, *([node.module] if node.module else [])])
                inner = {alias.name: f"{full}.{alias.name}" for alias in node.names}
                names = [one if one in files else full for name, one in inner.items() if name != "__version__"]
            else:
                continue
            yield from (Import(module, node.lineno, name) for name in dict.fromkeys(names))


def part(module: str) -> str:
    """The part of the package that a module belongs to."""
    inner = module.split(".")[1:3]
    return "learning.options" if inner == ["learning", "options"] else inner[0] if inner else "thermoment"


def allowed() -> dict[str, set[str]]:
    """Every part of ORDER, in order of rank, with all parts that it may import."""
    direct: dict[str, set[str]] = {}
    for line in ORDER.strip().splitlines():
        groups = [group.split() for group in line.split("<")]
        for left, right in zip([[], *groups], groups, strict=False):
            for name in right:
                direct.setdefault(name, set()).update(left)
    closed: dict[str, set[str]] = {}
    while len(closed) < len(direct):
        ready = [name for name in direct if name not in closed and direct[name] <= closed.keys()]
        if not ready:
            raise ValueError("ORDER goes round in a circle.")
        for name in ready:
            closed[name] = direct[name].union(*(closed[other] for other in direct[name]))
    return closed


def mistakes(found: list[Import]) -> list[str]:
    """A sentence for each import that ORDER or LIBRARIES does not allow."""
    may = allowed()
    wrong = []
    for one in found:
        library, here = one.target.split(".")[0], part(one.module)
        if library == "thermoment":
            there = part(one.target)
            if here not in may or there not in may:
                wrong.append(f"{one}: {here if here not in may else there} has no place in ORDER.")
            elif there != here and there not in may[here]:
                wrong.append(f"{one}: {here} may import {', '.join(sorted(may[here])) or 'nothing'}.")
        elif library in LIBRARIES:
            places = [f"thermoment.{place}" for place in LIBRARIES[library].split()]
            if not any(one.module == place or one.module.startswith(f"{place}.") for place in places):
                wrong.append(f"{one}: {library} is imported only in {', '.join(places)}.")
    return wrong


def graph(found: list[Import]) -> dict[str, set[str]]:
    """For every part the parts that it imports, as far as it may: so no circle is in it."""
    may = allowed()
    edges: dict[str, set[str]] = {part(one.module): set() for one in found if part(one.module) in may}
    for one in found:
        here = part(one.module)
        if one.target.split(".")[0] == "thermoment" and part(one.target) in may.get(here, ()):
            edges[here].add(part(one.target))
    return edges


def _module(path: Path, package: Path) -> str:
    inner = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(inner[:-1] if inner[-1] == "__init__" else inner)


def _above(module: str, path: Path, level: int) -> list[str]:
    """The package that a relative import starts from."""
    parts = module.split(".")
    return parts[: len(parts) - level + (path.name == "__init__.py")]


# The picture: boxes in rows by rank, what is imported below what imports it.

_BOX, _GAP, _ROW, _MARGIN = (112, 26), 20, 74, 16
_SWEEPS = 24
_COLOURS = {"science": "#d9e8f5", "product": "#fbe6cf", "top": "#e4e4e4"}
_PRODUCT = ("data", "experiments", "results", "report", "runs", "machines", "plot")
_TOP = ("thermoment", "bench", "web", "cli", "_support")

Place = tuple[str, int]
"""A part in a row; where a line passes a row, "from>to" in that row."""


def draw(edges: Mapping[str, set[str]]) -> str:
    """The SVG. An import that follows from others, of parts that import it in turn, is not drawn."""
    shown = {name: _direct(edges, name) for name in edges}
    row = _rows(edges)
    lines = {(name, other): _passed(name, other, row) for name in shown for other in sorted(shown[name])}
    rows = _sorted(row, lines)
    x = _across(rows, lines)
    width = max(x.values()) + _BOX[0] // 2 + _MARGIN
    height = (len(rows) - 1) * _ROW + _BOX[1] + 2 * _MARGIN

    box = f'viewBox="0 0 {width} {height}"'

    def y(number: int) -> int:
        return height - _MARGIN - _ROW * number - _BOX[1]

    def body() -> Iterator[str]:
        for passed in lines.values():
            yield _line([(x[place], y(place[1])) for place in passed])
        for name, number in sorted(row.items(), key=lambda item: (item[1], item[0])):
            kind = "product" if name in _PRODUCT else "top" if name in _TOP else "science"
            left, top = x[name, number] - _BOX[0] // 2, y(number)
            yield f'<rect x="{left}" y="{top}" width="{_BOX[0]}" height="{_BOX[1]}" rx="5" fill="{_COLOURS[kind]}"/>'
            yield f'<text x="{x[name, number]}" y="{top + 17}">{name}</text>'

    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {box}>',
            "<title>Imports between the parts of thermoment: an arrow points to what is imported</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0.5 8 4 0 7.5z" fill="#555"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            '<g font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" text-anchor="middle" fill="#111">',
            *body(),
            "</g>",
            "</svg>\n",
        ]
    )


def _direct(edges: Mapping[str, set[str]], name: str) -> set[str]:
    """What `name` imports, without what it would reach through another part that it imports."""

    def reached(start: str) -> set[str]:
        return edges.get(start, set()).union(*(reached(other) for other in edges.get(start, ())))

    return edges[name] - set().union(*(reached(other) for other in edges[name]))


def _rows(edges: Mapping[str, set[str]]) -> dict[str, int]:
    """The row of every part: one above the highest that it imports."""
    row: dict[str, int] = {}
    for name in allowed():
        if name in edges:
            row[name] = 1 + max((row[other] for other in edges[name] if other in row), default=-1)
    return row


def _passed(name: str, other: str, row: Mapping[str, int]) -> list[Place]:
    """The places of a line from an importing part down to the imported one, one in each row."""
    between = [(f"{name}>{other}", number) for number in range(row[name] - 1, row[other], -1)]
    return [(name, row[name]), *between, (other, row[other])]


def _sorted(row: Mapping[str, int], lines: Mapping[tuple[str, str], list[Place]]) -> list[list[Place]]:
    """The places of each row from left to right, each near the mean of those that it is joined to: few crossings."""
    rows: list[list[Place]] = [[] for _ in range(1 + max(row.values()))]
    for place in [*((name, number) for name, number in row.items()), *(p for line in lines.values() for p in line)]:
        if place not in rows[place[1]]:
            rows[place[1]].append(place)
    joined: dict[Place, list[Place]] = {place: [] for places in rows for place in places}
    for line in lines.values():
        for upper, lower in pairwise(line):
            joined[upper].append(lower)
            joined[lower].append(upper)
    for sweep in range(_SWEEPS):
        for number in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            at = {p: k / max(1, len(places) - 1) for places in rows for k, p in enumerate(places)}

            def mean(place: Place, at: Mapping[Place, float] = at) -> float:
                others = joined[place]
                return sum(at[other] for other in others) / len(others) if others else at[place]

            rows[number].sort(key=mean)
    return rows


def _across(rows: list[list[Place]], lines: Mapping[tuple[str, str], list[Place]]) -> dict[Place, int]:
    """The middle of each place: boxes beside each other, a line that passes takes less room than a box."""
    names = {end for line in lines.values() for end in (line[0], line[-1])}
    widths = [sum((_BOX[0] if place in names else 0) + _GAP for place in places) - _GAP for places in rows]
    x: dict[Place, int] = {}
    for places, width in zip(rows, widths, strict=True):
        left = _MARGIN + (max(widths) - width) // 2
        for place in places:
            room = _BOX[0] if place in names else 0
            x[place] = left + room // 2
            left += room + _GAP
    return x


def _line(points: list[tuple[int, int]]) -> str:
    """A smooth line from the lower edge of the first box to the upper edge of the last, with an arrow there."""
    (x0, y0), *rest = points
    path = f"M{x0} {y0 + _BOX[1]}"
    before = (x0, y0 + _BOX[1])
    for number, (x, y) in enumerate(rest):
        last = number == len(rest) - 1
        end = (x, y - 1 if last else y)
        half = (end[1] - before[1]) // 2
        path += f"C{before[0]} {before[1] + half} {x} {end[1] - half} {x} {end[1]}"
        if not last:
            path += f"V{y + _BOX[1]}"
        before = (x, y + _BOX[1])
    return f'<path d="{path}" fill="none" stroke="#555" stroke-width="1" marker-end="url(#tip)"/>'


def main() -> None:
    """Checks or draws."""
    parser = argparse.ArgumentParser(description="Check or draw which part of the package imports which.")
    parser.add_argument("--check", action="store_true", help="Change nothing; exit code 1 where something is wrong.")
    check = parser.parse_args().check
    found = list(imports())
    wrong = mistakes(found)
    picture = draw(graph(found))
    if check and (not PICTURE.exists() or PICTURE.read_text("utf-8") != picture):
        wrong.append(f"{PICTURE.relative_to(ROOT)} is out of date: run python tools/import_graph.py.")
    if not check:
        PICTURE.write_text(picture, "utf-8")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
