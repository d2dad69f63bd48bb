"""The figures of docs/performance.md, docs/training.md and the README, from the results alone.

python benchmarks/figures.py            # docs/figures/*.{svg,png}
"""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from thermoment.results.statistics import spread

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[1] / "docs" / "figures"
OURS, PEER = "#0b6e8f", "#b9c0c6"
ENGINES = ("native", "cuda", "xla", "reference")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Text stays text, and the same data give the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "thermoment",
}


def peers(files: list[Path]) -> None:
    """Bars of node-steps per second, a panel for each machine, with the time of the paper's experiment."""
    results = [json.loads(file.read_text()) for file in files]
    counts = [len(result["contestants"]) for result in results]
    figure, panels = plt.subplots(
        len(results), figsize=(7.2, 0.27 * sum(counts) + 0.75 * len(results)), height_ratios=counts, squeeze=False
    )
    for panel, result in zip(panels[:, 0], results, strict=True):
        rows = sorted(result["contestants"].items(), key=lambda row: row[1]["node_steps_per_second"])
        rates = [row["node_steps_per_second"] for _, row in rows]
        names = [f"thermoment: {name}" if name in ENGINES else name for name, _ in rows]
        panel.barh(names, rates, color=[OURS if name in ENGINES else PEER for name, _ in rows], height=0.72)
        for place, (_, row) in enumerate(rows):
            panel.text(row["node_steps_per_second"] * 1.08, place, duration(row["paper_seconds"]), va="center")
        panel.set_xscale("log")
        panel.set_xlim(min(rates) / 2, max(rates) * 6)
        panel.set_title(where(result["machine"]), loc="left", fontsize=9, fontweight="bold")
        panel.tick_params(axis="y", length=0)
    panels[-1, 0].set_xlabel("node-steps per second, and how long the paper's whole experiment would take")
    save(figure, "peers")


def scaling(files: list[Path]) -> None:
    """Seconds over samples, replicas, nodes and steps, a line for each engine; dotted, in proportion to its last."""
    results = [json.loads(file.read_text()) for file in files]
    figure, panels = plt.subplots(1, 4, figsize=(10, 2.9), sharey=True)
    for panel, varied in zip(panels, ("samples", "replicas", "nodes", "steps"), strict=True):
        for result, colour in zip(results, (OURS, "#d1663a", "#6b8e23"), strict=False):
            scan = result["scans"][varied]
            sizes, seconds = [p[varied] for p in scan], [p["seconds"] for p in scan]
            panel.plot(sizes, seconds, "o-", color=colour, markersize=3, linewidth=1, label=label(result))
            panel.plot(sizes, [seconds[-1] * s / sizes[-1] for s in sizes], ":", color=colour, linewidth=0.8)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel(varied)
    panels[0].set_ylabel("seconds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper left", frameon=False, ncols=len(results))
    figure.subplots_adjust(top=0.85)
    save(figure, "scaling", tight=False)


def ingredients(files: list[Path]) -> None:
    """Errors on images held out, a row for each machine: every seed, their mean and its 95 % interval."""
    counts, total = training_rows(files, "name")
    figure, panel = plt.subplots(figsize=(7.2, 0.3 * len(counts) + 0.8))
    for place, (_, correct) in enumerate(reversed(counts.items())):
        wrong = 100 * (1 - np.array(correct) / total)
        mean, low, high = interval(wrong)
        panel.plot(wrong, np.full(len(wrong), place), "o", color=PEER, markersize=3)
        panel.errorbar(mean, place, xerr=[[mean - low], [high - mean]], fmt="o", color=OURS, markersize=5, capsize=2)
    panel.set_yticks(range(len(counts)), [name for (name,) in reversed(counts)])
    panel.tick_params(axis="y", length=0)
    panel.set_xlim(left=0)
    panel.grid(axis="x", linewidth=0.4, color=PEER)
    panel.set_xlabel(f"wrong of {total} images held out, %: every seed, mean, 95 % interval over seeds")
    save(figure, "ingredients")


def conditions(files: list[Path]) -> None:
    """Errors over replicas, temperature and time: as it is, with its head refitted, trained for it."""
    counts, total = training_rows(files, "name", "how", "value")
    looks = {"as it is": (PEER, "s:"), "head refitted": ("#d1663a", "^--"), "trained for it": (OURS, "o-")}
    axes = {"n_replicas": "replicas M", "kT": "temperature kT", "t_final": "time t_final"}
    figure, panels = plt.subplots(1, len(axes), figsize=(10, 3.1), sharey=True)
    for panel, (name, label) in zip(panels, axes.items(), strict=True):
        for how, (colour, style) in looks.items():
            points = {value: correct for (n, h, value), correct in counts.items() if (n, h) == (name, how)}
            values = sorted(points)
            found = np.array([interval(100 * (1 - np.array(points[value]) / total)) for value in values])
            bars = np.abs(found[:, 1:] - found[:, :1]).T
            panel.errorbar(values, found[:, 0], bars, fmt=style, color=colour, label=how, capsize=2, markersize=4)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel(label)
    panels[0].set_ylabel(f"wrong of {total} images held out, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper left", frameon=False, ncols=len(looks))
    figure.subplots_adjust(top=0.87)
    save(figure, "conditions", tight=False)


def interval(values: Any) -> tuple[float, float, float]:
    """The mean over seeds and its 95 % interval; nothing but the mean where there are fewer than three."""
    found = spread(values)
    return (found.mean, *(found.ci95 if found.ci95 and len(values) > 2 else (found.mean, found.mean)))


def training_rows(files: list[Path], *keys: str) -> tuple[dict[tuple[Any, ...], list[int]], int]:
    """Images right for every seed, by `keys`, in the order of the files; and how many images there are."""
    results = [json.loads(file.read_text()) for file in files]
    counts: dict[tuple[Any, ...], list[int]] = {}
    for row in (row for result in results for row in result["rows"]):
        counts.setdefault(tuple(row[key] for key in keys), []).append(row["correct"])
    return counts, results[0]["held_out"]


def label(result: dict[str, Any]) -> str:
    """The engine, what it runs on, and how many samples it has where they are not varied."""
    base = result["scans"]["steps"][0]["samples"]
    return f"{result['engine']}, {result['runs_on']}, {base} samples"


def where(machine: dict[str, Any]) -> str:
    """The device that did the work."""
    return (
        machine["accelerator"]
        if machine["accelerator"] != "none"
        else f"{machine['cores']} cores, {machine['processor']}"
    )


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.2g} {name}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def save(figure: Any, name: str, *, tight: bool = True) -> None:
    """As SVG and PNG, without the date."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    if tight:
        figure.tight_layout()
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    figure.savefig(FIGURES / f"{name}.png", dpi=160, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Draws everything there are results for."""
    plt.switch_backend("agg")
    plt.rcParams.update(STYLE)
    for draw, pattern in (
        (peers, "peers-*.json"),
        (scaling, "scaling-*.json"),
        (ingredients, "training-ingredients*.json"),
        (conditions, "training-conditions*.json"),
    ):
        if files := sorted(RESULTS.glob(pattern)):
            draw(files)


if __name__ == "__main__":
    main()
