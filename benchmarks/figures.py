"""The figures of docs/performance.md and the README, from the results alone.

python benchmarks/figures.py            # docs/figures/*.{svg,png}
"""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

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


def nodes(files: list[Path]) -> None:
    """Node-steps per second over the number of nodes, a panel for each device: engines, peers and the product alone."""
    strokes = {
        "cuda": ("o-", OURS),
        "native": ("o-", OURS),
        "xla": ("o-", "#d1663a"),
        "JAX loop": ("o--", "#8a8f94"),
        "PyTorch compiled, TF32": ("s--", "#4d5156"),
        "PyTorch eager": ("s--", "#4d5156"),
        "product alone": (":", OURS),
    }
    results = [json.loads(file.read_text()) for file in files]
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 3.4), sharex=True)
    for panel, device in zip(panels, ("gpu", "cpu"), strict=True):
        sizes = [size for result in results if result["device"] == device for size in result["sizes"]]
        for name, (stroke, colour) in strokes.items():
            found = [size for size in sizes if name in size["node_steps_per_second"]]
            own = sorted({size["nodes"]: size["node_steps_per_second"][name] for size in found}.items())
            if own:
                text = f"thermoment: {name}" if name in ENGINES else name
                panel.plot(*zip(*own, strict=True), stroke, color=colour, markersize=3, linewidth=1, label=text)
        panel.set_xscale("log", base=2)
        panel.set_xticks((64, 256, 1024, 4096), ("64", "256", "1024", "4096"))
        panel.set_yscale("log")
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel("nodes")
        panel.set_title(where(sizes[-1]["machine"]), loc="left", fontsize=9, fontweight="bold")
        panel.legend(frameon=False, fontsize=7, loc="lower left" if device == "gpu" else "upper right")
    panels[0].set_ylim(1e10, 1e12)
    panels[1].set_ylim(1e7, 5e9)
    panels[0].set_ylabel("node-steps per second")
    save(figure, "nodes")


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
        (nodes, "nodes-*.json"),
    ):
        if files := sorted(RESULTS.glob(pattern)):
            draw(files)


if __name__ == "__main__":
    main()
