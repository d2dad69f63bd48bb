"""Accuracy against energy: the figure and the tables of docs/energy.md, from the results alone.

python studies/frontier.py            # docs/figures/frontier.{svg,png}, and the tables in docs/energy.md
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from thermoment.plot.style import COLOURS, INK, WIDTH, grid, look, write

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
ROOM = 300 * 1.380649e-23
"""kT at 300 K, in joules"""
MULTIPLY_ADD = 0.23e-12
"""joules: 0.2 pJ for the product and 0.03 pJ for the sum of 8-bit integers at 45 nm (Horowitz 2014), without memory"""

Published = tuple[str, float, float]
"""name, kT an answer, % right"""
NAMES = {
    "paper": "the paper: 128 trajectories",
    "mnist": "mnist, shipped: 128 trajectories",
    "thermo_gd": "thermo_gd: one trajectory",
}
"""The machines of results/costs.json, as the figure calls them."""
DIGITAL: list[Published] = [
    ("784-800-10, digital", 635_200 * MULTIPLY_ADD / ROOM, 98.4),
    ("the same, distorted images", 635_200 * MULTIPLY_ADD / ROOM, 99.3),
]
"""Simard, Steinkraus and Platt, ICDAR 2003: one hidden layer of 800 units, 1.6 % and 0.7 % wrong."""


def others() -> dict[str, dict[str, dict[str, Any]]]:
    """What studies/costs.py found: by machine, then by start."""
    rows = json.loads((RESULTS / "costs.json").read_text("utf-8"))["rows"]
    return {name: {row["start"]: row for row in rows if row["machine"] == name} for name in NAMES}


def costs() -> str:
    """The machines that were not trained to save work, as a Markdown table."""
    heads = ("machine", "right, %", "trajectories", "nodes", "kT a node", "kT an answer", "J at 300 K", "from rest, kT")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, starts in others().items():
        found, (cost, _) = starts["zero"], starts["zero"]["cost"]
        lines.append(
            f"| {name if name == 'thermo_gd' else f'`{name}`'} | {100 * found['right']:.2f} | {found['replicas']} | "
            f"{found['nodes']} | {found['cycle'][0] / found['nodes']:.3g} | {uncertain(*found['cost'])} | "
            f"{cost * ROOM:.1e} | {uncertain(*starts['rest']['cost'])} |"
        )
    return "\n".join(lines)


def uncertain(value: float, error: float) -> str:
    """A number with its standard error, to two digits of the error."""
    digits = 1 - int(np.floor(np.log10(error)))
    return f"{round(value, digits):,.{max(digits, 0)}f} ± {round(error, digits):,.{max(digits, 0)}f}"


def settings() -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Every setting that was tested, with the rows of its seeds, in the order of its cost."""
    rows = json.loads((RESULTS / "frugal-test.json").read_text("utf-8"))["rows"]
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(json.dumps(row["setting"], sort_keys=True), []).append(row)
    groups = [(group[0]["setting"], group) for group in found.values()]
    return sorted(groups, key=lambda one: -np.mean([row["work"] for row in one[1]]))


def percent(group: list[dict[str, Any]]) -> Any:
    """Right answers of every seed, in per cent."""
    return np.array([100 * row["correct"] / row["total"] for row in group])


def work(group: list[dict[str, Any]]) -> float:
    """kT an answer, the mean over seeds."""
    return float(np.mean([row["work"] for row in group]))


def table() -> str:
    """The tested machines as a Markdown table."""
    lines = ["| work_penalty | distortion | right, % (three seeds) | kT an answer | kT a node | J at 300 K |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for setting, group in settings():
        cost, seeds = work(group), percent(group)
        lines.append(
            f"| {setting['finite_time.work_penalty']:g} | {setting['distortion']:g} | **{seeds.mean():.2f}** "
            f"({', '.join(f'{one:.2f}' for one in seeds)}) | {cost:,.0f} | {cost / 768:.2g} | {cost * ROOM:.1e} |"
        )
    return "\n".join(lines)


def in_joules(kT: Any) -> Any:
    """Energies in kT at 300 K as joules."""
    return kT * ROOM


def in_thermal(joules: Any) -> Any:
    """The other way round."""
    return joules / ROOM


def figure() -> Figure:
    """Wrong answers over the energy of an answer."""
    drawn = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    panel = drawn.subplots()
    groups = settings()
    costs, wrong = np.array([work(group) for _, group in groups]), [100 - percent(group) for _, group in groups]
    panel.plot(costs, [one.mean() for one in wrong], "-", color=COLOURS[0], linewidth=1)
    for cost, seeds in zip(costs, wrong, strict=True):
        panel.plot(np.full(len(seeds), cost), seeds, "o", color=COLOURS[0], markersize=3)
    panel.annotate(
        "one trajectory from rest,\ntrained to save work", (costs[-3], wrong[-3].mean()), xytext=(8, 8),
        textcoords="offset points", color=COLOURS[0], fontsize=8,
    )  # fmt: skip
    known = [(name, others()[key]["zero"]) for key, name in NAMES.items()]
    sampled = [(name, found["cost"][0], 100 * found["right"]) for name, found in known]
    for points, colour, marker in ((sampled, COLOURS[1], "s"), (DIGITAL, INK, "D")):
        for name, cost, right in points:
            panel.plot(cost, 100 - right, marker, color=colour, markersize=4)
            left = cost > 1e9
            panel.annotate(
                name, (cost, 100 - right), xytext=(-6 if left else 6, 4), textcoords="offset points", color=colour,
                fontsize=8, ha="right" if left else "left",
            )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(50, 5e14)
    panel.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    panel.set_yticks([], minor=True)
    panel.set_ylim(0.45, 12)
    panel.set_xlabel("energy of an answer (kT)")
    panel.set_ylabel("wrong of 10000 test images (%)")
    grid(panel, "both")
    joules = panel.secondary_xaxis("top", functions=(in_joules, in_thermal))
    joules.set_xlabel("joules at 300 K")
    return drawn


def put(text: str, name: str, table: str) -> str:
    """The page with a table between the marks of this name."""
    marks = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    assert len(re.findall(marks, text, re.DOTALL)) == 1
    return re.sub(marks, lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text, flags=re.DOTALL)


def main() -> None:
    """Draws, and puts the tables into the page."""
    with look():
        write(figure(), DOCS / "figures" / "frontier")
    page = DOCS / "energy.md"
    text = page.read_text("utf-8")
    text = put(text, "frontier", table())
    text = put(text, "costs", costs())
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
