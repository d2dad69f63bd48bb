"""The deterministic engine's error and its own estimate of it beside sampling, over coupling, temperature, time, well.

    python benchmarks/accuracy.py [--replicas 131072] [--nodes 256] [--quick] [--out docs/accuracy.md]

One random reservoir and one input a row. The sampled moments have the noise of uncoupled nodes at the effective drives
taken off (same noise, known moments), which leaves a standard error several times below that of plain sampling and
hardly any Euler bias; both standard errors are given. Errors are rms over nodes, less the noise.
"""

import argparse
import itertools
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe

import thermoment as tm
from thermoment.engines.meanfield import MeanField

ORDERS = (1, 2, 4)
SCAN = {
    "J2": (1.0, 0.3, -1.0),
    "kT": (0.02, 0.1, 1.0),
    "t_final": (0.05, 0.2, 1.0, 3.0),
    "s_W": (0.0, 0.1, 0.2, 0.5, 1.0, 2.0),
}
QUICK = {"J2": (1.0, -1.0), "kT": (0.1,), "t_final": (0.2, 1.0), "s_W": (0.2, 1.0)}
STEPS = 1000
ONE = [[1.0]]


def draw(J2: float, kT: float, s_W: float, nodes: int) -> tm.Reservoir:
    """Drives of about 5, up to about 15."""
    return tm.Reservoir.draw(nodes, 1, s_W=s_W, s_K=5.0, s_b=0.02, seed=1, dynamics=tm.Dynamics(J2=J2, kT=kT))


def row(J2: float, kT: float, t_final: float, s_W: float, nodes: int, replicas: int) -> dict[str, Any]:
    """One point of the scan: errors, estimates, standard errors for each order."""
    reservoir = draw(J2, kT, s_W, nodes)
    limit = tm.Protocol(dt=t_final / STEPS, t_final=t_final, n_replicas=math.inf, clip=math.inf)
    found: dict[str, Any] = {"J2": J2, "kT": kT, "t_final": t_final, "s_W": s_W}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            moments = tm.simulate(reservoir, ONE, limit, engine=MeanField("float64"))
        except RuntimeError:
            return found | {"refused": True}
    field = moments.raw[0, 0] @ reservoir.W.T
    drives = reservoir.drive(ONE)[0] + field
    alone = tm.Reservoir(np.zeros_like(reservoir.W), drives[:, None], np.zeros(nodes), reservoir.dynamics)
    known = tm.simulate(alone, ONE, limit, engine=MeanField("float64")).raw[0]
    sampling = tm.Protocol(dt=t_final / STEPS, t_final=t_final, n_replicas=replicas, clip=math.inf)
    x, y = (tm.final_states(r, ONE, sampling)[0] for r in (reservoir, alone))
    errors, own, reduced = [], [], []
    for k, p in enumerate(ORDERS):
        a, b = x**p, y**p
        beta = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).sum(axis=0) / ((b - b.mean(axis=0)) ** 2).sum(axis=0)
        rest = a - beta * b
        noise = (rest.var(axis=0) / replicas).mean()
        square = ((moments.raw[0, k] - rest.mean(axis=0) - beta * known[k]) ** 2).mean()
        errors.append(math.sqrt(max(square - noise, 0.0)))
        own.append(math.sqrt((a.var(axis=0) / replicas).mean()))
        reduced.append(math.sqrt(noise))
    assert moments.info.error is not None
    estimate = [moments.info.error[p] for p in ORDERS]
    return found | {
        "error": errors,
        "estimate": estimate,
        "standard_error": own,
        "resolution": reduced,
        "warned": bool(warned),
    }


def page(rows: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """docs/accuracy.md."""
    where = facts["processor"] if facts["accelerator"] == "none" else facts["accelerator"]
    lines = [
        "# Accuracy of the deterministic engine",
        "",
        f"Made by `benchmarks/accuracy.py` on {where}, commit {facts['commit']}: "
        f"N = {facts['nodes']}, {facts['replicas']} replicas, {STEPS} steps, one random reservoir and input a row. "
        "Each cell is m1, m2, m4: rms over nodes. *Error* is the distance from sampling, less the noise; *estimate* is "
        "`moments.info.error`; *standard error* is that of plain sampling; *resolution* that of sampling with the "
        "noise of uncoupled nodes taken off, below which an error is not seen; at s_W = 0 nothing is left of it, and "
        "the tables are judged by tests/test_single_node.py. *Warned*: the engine advised to sample.",
        "",
        "| J2 | kT | t_final | s_W | error | estimate | standard error | resolution | warned |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for found in rows:
        head = f"| {found['J2']} | {found['kT']} | {found['t_final']} | {found['s_W']} |"
        if found.get("refused"):
            lines.append(f"{head} refused: no self-consistency | | | | |")
            continue
        cells = [
            ", ".join(f"{value:.1e}" for value in found[name])
            for name in ("error", "estimate", "standard_error", "resolution")
        ]
        lines.append(f"{head} {' | '.join(cells)} | {'yes' if found['warned'] else ''} |")
    seen = [
        (error, estimate)
        for found in rows
        if not found.get("refused")
        for error, estimate, limit in zip(found["error"], found["estimate"], found["resolution"], strict=True)
        if error > 1.5 * limit
    ]
    worst = max((error / estimate for error, estimate in seen), default=0.0)
    lines += [
        "",
        f"Of the {len(seen)} errors above 1.5 times the resolution (a few nodes may carry most of the noise, so below "
        f"that an error may be noise) the largest is {worst:.2f} times its estimate.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Runs the scan, prints each row, writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--replicas", type=int, default=2**17)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="a small part of the scan")
    parser.add_argument("--out", type=Path, help="the page")
    options = parser.parse_args()
    rows = []
    for point in itertools.product(*(QUICK if options.quick else SCAN).values()):
        start = time.perf_counter()
        J2, kT, t_final, s_W = point
        rows.append(row(J2, kT, t_final, s_W, options.nodes, options.replicas))
        print(f"{rows[-1]} in {time.perf_counter() - start:.1f} s", flush=True)
    facts = {**describe(), "nodes": options.nodes, "replicas": options.replicas}
    text = page(rows, facts)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
