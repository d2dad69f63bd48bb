"""The error of the deterministic engine, against sampling, beside the engine's own estimate of it.

The scan is over coupling, temperature, time and well (scan.py).

    python studies/accuracy.py compare SAMPLES.npz [--out studies/results/accuracy.json]
    python studies/accuracy.py page studies/results/accuracy.json [--out docs/accuracy.md]

sample_scan.py writes SAMPLES.npz. The first `compare` takes minutes: it builds the tables of 36 dynamics.
"""

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scan import EYE, KINDS, NODES, ORDERS, S_W, STEPS, Array, Point, points

import thermoment as tm
from thermoment._engines.meanfield.engine import MeanField
from thermoment._support.host import describe

HERE = Path(__file__).parent

ENGINE = MeanField("float64")
# An error counts as seen above this many times its own noise; below, it may be the noise of a few nodes.
SEEN = 1.5
PAPER = {"J2": 1.0, "kT": 0.1, "t_final": 1.0}
# Goals for the paper's dynamics, by s_W: the largest distance from sampling, in standard errors of sampling (WITHIN),
# and the largest rms error (BELOW).
WITHIN = {0.1: 1.2, 0.2: 1.2}
BELOW = {0.5: 7e-4, 1.0: 2e-3}


def compare(point: Point, samples: dict[str, Array]) -> dict[str, Any]:
    """One row of results: for each order the rms over images and nodes.

    `samples` is what sample_scan.py keeps of the point.
    """
    row: dict[str, Any] = {"kind": point.kind, "J2": point.J2, "kT": point.kT, "t_final": point.t_final}
    row["s_W"] = point.s_W
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = tm.simulate(point.reservoir(), EYE, point.protocol(math.inf), engine=ENGINE)
        except RuntimeError:
            return row | {"refused": True}
    coupled, alone = samples["coupled"], samples["alone"]
    own, both, other = samples["scatter"].mean(axis=1)
    plain = mean_square(found.raw - coupled)
    if point.s_W:
        known = tm.simulate(point.nodes(samples["drive"]), EYE, point.protocol(math.inf), engine=ENGINE).raw
        # The uncoupled nodes are a control variate: the error of their samples is known, and beta times it is removed.
        beta = both / other
        square = mean_square(found.raw - coupled + beta[:, None] * (alone - known))
        noise = own - both * beta
    else:
        square, noise = plain, own
    assert found.info.error is not None
    columns = {
        "error": np.sqrt(np.maximum(square - noise, 0.0)),
        "estimate": [found.info.error[p] for p in ORDERS],
        "standard_error": np.sqrt(own),
        "resolution": np.sqrt(noise),
        "distance": np.sqrt(plain / own),
    }
    return row | {name: rounded(values) for name, values in columns.items()} | {"warned": bool(warned)}


def mean_square(difference: Array) -> Array:
    """Mean over images and nodes of the squares, for each order: (len(ORDERS),)."""
    return np.asarray((difference**2).mean(axis=(0, 2)))


def rounded(values: Any) -> list[float]:
    """Rounded to three digits; the noise leaves fewer."""
    return [float(f"{value:.2e}") for value in values]


def page(result: dict[str, Any]) -> str:
    """The text of docs/accuracy.md."""
    rows, facts, replicas = result["rows"], result["machine"], result["replicas"]
    lines = [
        "# Accuracy of the deterministic engine",
        "",
        f"The `meanfield` engine (commit {facts['commit']}) beside {replicas} sampled replicas of every image: "
        f"N = {NODES}, {STEPS} Euler steps, a random and a trained reservoir, three images each with drives up to 3, 8 "
        "and 20. Sampled by `studies/sample_scan.py` on an NVIDIA H200, compared by `studies/accuracy.py`. The "
        "trained K is that of `studies/trained_drives.py`. Each cell is m1, m2, m4: rms over images and nodes.",
        "",
        "- *error*: the distance from sampling, less the noise. Sampled with the same noise, uncoupled nodes at the "
        "effective drives have known moments; what they are off by is taken off. That leaves a smaller standard "
        "error, the *resolution*, and little of Euler's bias. An error below about the resolution is not seen. At "
        "s_W = 0 there is nothing to take off: the error is mostly Euler's bias, which the engine, a solution "
        "for dt -> 0, does not have.",
        "- *estimate*: `moments.info.error`.",
        "- *standard error*: that of plain sampling.",
        "- *warned*: the engine advised to sample.",
        "",
        "## The paper's dynamics",
        "",
        "J2 = 1, kT = 0.1, t_final = 1. *Distance*: from plain sampling, in its standard errors; noise alone is 1.",
        "",
        "| reservoir | s_W | distance | error | wanted |",
        "| --- | --- | --- | --- | --- |",
    ]
    paper = [row for row in rows if all(row[name] == value for name, value in PAPER.items())]
    for row in sorted(paper, key=lambda row: (KINDS.index(row["kind"]), row["s_W"])):
        lines.append(
            f"| {row['kind']} | {row['s_W']} | {cell(row['distance'], '.2f')} | {cell(row['error'])} | {wanted(row)} |"
        )
    lines += ["", "## Estimate and error", "", *judged(rows), ""]
    for kind in KINDS:
        lines += [f"## {kind.capitalize()} reservoir", "", *table([row for row in rows if row["kind"] == kind]), ""]
    return "\n".join(lines)


def wanted(row: dict[str, Any]) -> str:
    """The goal of this row and whether it is met."""
    for goals, name, text in ((WITHIN, "distance", "distance within"), (BELOW, "error", "error below")):
        if row["s_W"] in goals:
            goal = goals[row["s_W"]]
            return f"{text} {goal:g}: {'met' if max(row[name]) <= goal else 'missed'}"
    return ""


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """The section that compares estimates with the errors that are seen."""
    solved = [row for row in rows if not row.get("refused") and row["s_W"] > 0]
    seen = [
        (row["error"][k] / row["estimate"][k], f"m{p} at {name(row)}")
        for row in solved
        for k, p in enumerate(ORDERS)
        if row["error"][k] > SEEN * row["resolution"][k]
    ]
    refused = [name(row) for row in rows if row.get("refused")]
    times = sorted({row["t_final"] for row in solved})
    worst = sorted(seen, reverse=True)[:5]
    ratios = np.array([ratio for ratio, _ in seen] or [0.0])
    return [
        f"{len(seen)} of {len(ORDERS) * len(solved)} errors with coupling are above {SEEN} times the resolution. "
        f"The error is {np.median(ratios):.2f} times its estimate in the middle, {ratios.max():.2f} times at "
        f"worst, and above 2 times in {(ratios > 2).sum()}. The largest:",
        "",
        *(f"- {ratio:.2f}: {where}" for ratio, where in worst),
        "",
        "The largest ratio by time:",
        "",
        *(f"- t_final = {t}: {max(ratio for ratio, where in seen if f't_final = {t},' in where):.2f}" for t in times),
        "",
        f"Refused, without self-consistency: {len(refused)} of {len(rows)}"
        + (f" ({'; '.join(refused)})." if refused else "."),
    ]


def name(row: dict[str, Any]) -> str:
    """A row in words."""
    return f"{row['kind']}, J2 = {row['J2']}, kT = {row['kT']}, t_final = {row['t_final']}, s_W = {row['s_W']}"


def cell(values: list[float], form: str = ".1e") -> str:
    """m1, m2, m4 in one cell."""
    return ", ".join(f"{value:{form}}" for value in values)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """All rows of one reservoir."""
    lines = [
        "| J2 | kT | t_final | s_W | error | estimate | standard error | resolution | warned |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        head = f"| {row['J2']} | {row['kT']} | {row['t_final']} | {row['s_W']} |"
        if row.get("refused"):
            lines.append(f"{head} refused: no self-consistency | | | | |")
            continue
        cells = [cell(row[name]) for name in ("error", "estimate", "standard_error", "resolution")]
        lines.append(f"{head} {' | '.join(cells)} | {'yes' if row['warned'] else ''} |")
    return lines


def dump(result: dict[str, Any]) -> str:
    """JSON with a line for each row."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in result["rows"])
    head = json.dumps({name: value for name, value in result.items() if name != "rows"}, indent=1)
    return head.rstrip("}\n") + f',\n "rows": [\n{rows}\n ]\n}}\n'


def main() -> None:
    """Compares, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("step", choices=("compare", "page"))
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.step == "page":
        text = page(json.loads(options.source.read_text()))
    else:
        samples = dict(np.load(options.source))
        rows = []
        for point in points():
            names = {name: f"{point.key}/{name}" for name in ("coupled", "alone", "scatter", "drive")}
            if names["drive"] in samples:
                rows.append(compare(point, {name: samples[key] for name, key in names.items()}))
                if point.s_W == S_W[-1] and point.kind == KINDS[-1]:
                    print(rows[-1], flush=True)
        text = dump({"machine": describe(checkout=HERE), "replicas": int(samples["replicas"]), "rows": rows})
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
