"""The pages about the accuracy of the deterministic engine, from studies/results/accuracy.json.

    python studies/accuracy_pages.py

writes docs/accuracy.md, what to conclude, and studies/results/accuracy.md, every point of the scan.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scan import J2, KINDS, KT, NODES, ORDERS, S_W, STEPS, STRONGEST, T_FINAL

HERE = Path(__file__).parent

Row = dict[str, Any]
"""A point of the scan with what accuracy.py found; without those where the engine refused the point."""

SEEN = 1.5
"""An error counts as seen above this many times its own noise; below, it may be the noise of a few nodes."""
PAPER = {"J2": 1.0, "kT": 0.1, "t_final": 1.0}
WITHIN = {0.1: 1.2, 0.2: 1.2}
"""Goals for the paper's dynamics, by s_W: the largest distance from sampling, in standard errors of sampling."""
BELOW = {0.5: 7e-4, 1.0: 2e-3}
"""Goals for the paper's dynamics, by s_W: the largest rms error."""


def conclusions(result: dict[str, Any]) -> str:
    """The text of docs/accuracy.md."""
    rows, replicas = result["rows"], result["replicas"]
    solved, refused = ([row for row in rows if bool(row.get("refused")) is wanted] for wanted in (False, True))
    coupled = [row for row in solved if row["s_W"] > 0]
    paper = [row for row in coupled if of_paper(row)]
    weak = [row for row in paper if row["s_W"] <= 1]
    single = [row for row in coupled if row["J2"] > 0 and row["s_W"] <= 0.5]
    double, strong = ([row for row in coupled if row["J2"] < 0 and (row["s_W"] > 0.2) is s] for s in (False, True))
    warned = [row for row in solved if row["warned"]]
    distances = [value for row in paper if row["s_W"] in WITHIN for value in row["distance"]]
    met = all(goal(row).endswith("met") for row in paper if goal(row))
    seen = errors_by_estimates(coupled)
    ratios = np.array([ratio for ratio, _, _ in seen])
    return f"""# Accuracy of the deterministic engine

The `meanfield` engine computes moments without sampling ([theory.md](theory.md)). This page compares its moments with
sampled ones, and the errors found with the errors that the engine itself estimates.

## What to conclude

- **The paper's dynamics** (J2 = 1, kT = 0.1, t_final = 1) with a coupling up to s_W = 1: use `meanfield` in place of
  sampling. Its error is at most {worst(weak):.2e}, and at most {worst_share(weak):.2f} times the standard error of
  {replicas} sampled replicas.
- **Other single wells** (J2 > 0) with a coupling up to s_W = 0.5: the same advice holds for every temperature and time
  tried. The error is at most {worst(single):.2e}, and at most {worst_share(single):.2f} times that standard error.
- **Double wells** (J2 < 0): up to s_W = 0.2 the error is at most {worst(double):.2e}. With a stronger coupling it
  reaches {worst(strong):.2e}, and the engine refuses some cold points. Sample there.
- **Anything else**: look at `moments.info.error`, the engine's estimate of its own error. Where the scan can see an
  error, the error is {np.median(ratios):.2f} times the estimate in the median and {ratios.max():.2f} times at worst.
- **The warning to sample instead** came at {len(warned)} of {len(solved)} points, all of them with a coupling of
  s_W = {min(row["s_W"] for row in warned):g} or more. Follow it.

## What is compared

A *point* of the scan is one choice of well, temperature, reading time, coupling and drives, for N = {NODES} nodes. The
scan has {len(rows)} points, all combinations of

| setting | values |
| --- | --- |
| well: J2, with J4 = 1 | {listed(J2)} |
| temperature: kT | {listed(KT)} |
| reading time: t_final | {listed(T_FINAL)} |
| coupling: s_W; W is drawn with the standard deviation s_W / sqrt(N) | {listed(S_W)} |
| drives | random; those of a trained reservoir |

At each point three images drive the nodes, with strongest drives of {listed(STRONGEST)}. Each image is sampled with
{replicas} replicas and {STEPS} Euler steps on an NVIDIA H200 (`studies/sample_scan.py`; the trained drives are from
`studies/trained_drives.py`). `studies/accuracy.py` compares, with `meanfield` at commit {result["machine"]["commit"]}.

- *Error*: the rms difference between the engine and sampling, over images and nodes, with the sampling noise removed in
  two steps. First, uncoupled nodes at the same effective drives are sampled with the same random numbers. Their moments
  are known, so it is known by how much their samples are off, and this is subtracted. It also removes most of the bias
  of the Euler steps. Second, the noise that is left is subtracted as a variance. Its standard deviation is the
  *resolution*: an error below about the resolution cannot be seen.
- *Estimate*: the engine's own estimate of its error, `moments.info.error`.
- *Standard error*: the noise of plain sampling with {replicas} replicas.
- *Warned*: the engine advised to sample instead.
- *Refused*: the engine raised an error, because its self-consistent iteration did not converge.

Without coupling (s_W = 0) the first step is not possible. The error found there is mostly the bias of the Euler steps.
The engine has no such bias: it computes the limit dt -> 0.

## The scan

Each row stands for {len(rows) // len(J2) // len(S_W)} points. Errors and estimates are the largest among them, for m1,
m2, m4 in this order. The last two columns count points.

{as_lines(summary(rows))}

Refused were, with random and with trained drives alike ({len(refused)} points in all):

{as_lines(refusals(refused))}

For the paper's dynamics goals had been set. At s_W = 0.1 and 0.2, the distance from plain sampling should be within
{WITHIN[0.1]:g} standard errors, where noise alone gives 1; it is {min(distances):.2f} to {max(distances):.2f}. The
error should be below {BELOW[0.5]:g} at s_W = 0.5 and below {BELOW[1.0]:g} at s_W = 1.
{"All" if met else "Not all"} goals are met.

## Is the estimate right?

With coupling there are {len(ORDERS) * len(coupled)} errors ({len(coupled)} points, three moments each). {len(seen)} of
them are above {SEEN} times the resolution and count as seen. Errors above twice their estimate: {(ratios > 2).sum()}.
The errors that are seen, divided by their estimates:

| errors | error / estimate |
| --- | --- |
| median of all | {np.median(ratios):.2f} |
{as_lines(f"| largest at t_final = {t:g} | {ratio:.2f} |" for t, ratio in by_time(seen))}

The five largest ratios:

{as_lines(f"- {ratio:.2f}: m{p} with {in_words(row)}" for ratio, p, row in seen[:5])}

Two factors of the estimate were fitted to a comparison of this kind, so this section is not an independent test of it.

## Every point

[studies/results/accuracy.md](../studies/results/accuracy.md) has all columns for every point, and
[accuracy.json](../studies/results/accuracy.json) has the same numbers for programs.
"""


def every_point(result: dict[str, Any]) -> str:
    """The text of studies/results/accuracy.md."""
    rows = result["rows"]
    paper = [
        f"| {kind} | {row['s_W']} | {cell(row['distance'], '.2f')} | {cell(row['error'])} | {goal(row)} |"
        for kind in KINDS
        for row in rows
        if row["kind"] == kind and of_paper(row)
    ]
    tables = [
        f"## {kind.capitalize()} drives\n\n{as_lines(table([row for row in rows if row['kind'] == kind]))}\n"
        for kind in KINDS
    ]
    return f"""# Every point of the accuracy scan

[docs/accuracy.md](../../docs/accuracy.md) says what is compared and what the columns mean. Each cell has the numbers of
m1, m2, m4: the rms over images and nodes.

## The paper's dynamics

J2 = 1, kT = 0.1, t_final = 1. *Distance*: from plain sampling, in its standard errors; noise alone gives 1.

| drives | s_W | distance | error | goal |
| --- | --- | --- | --- | --- |
{as_lines(paper)}

{as_lines(tables)}"""


def as_lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def cell(values: Sequence[float], form: str = ".1e") -> str:
    """m1, m2, m4 in one cell."""
    return ", ".join(f"{value:{form}}" for value in values)


def in_words(row: Row) -> str:
    return f"{row['kind']} drives, J2 = {row['J2']}, kT = {row['kT']}, t_final = {row['t_final']}, s_W = {row['s_W']}"


def of_paper(row: Row) -> bool:
    """Whether the row has the paper's dynamics."""
    return all(row[name] == value for name, value in PAPER.items())


def worst(rows: list[Row]) -> float:
    """The largest error of any moment."""
    return float(max(max(row["error"]) for row in rows))


def worst_share(rows: list[Row]) -> float:
    """The largest error in units of the standard error of plain sampling."""
    return float(max((np.array(row["error"]) / row["standard_error"]).max() for row in rows))


def goal(row: Row) -> str:
    """The goal of a row of the paper's dynamics, and whether it is met."""
    for goals, name, text in ((WITHIN, "distance", "distance within"), (BELOW, "error", "error below")):
        if row["s_W"] in goals:
            wanted = goals[row["s_W"]]
            return f"{text} {wanted:g}: {'met' if max(row[name]) <= wanted else 'missed'}"
    return ""


def errors_by_estimates(rows: list[Row]) -> list[tuple[float, int, Row]]:
    """Every error that is seen divided by its estimate, with its order and row; the largest first."""
    found = [
        (row["error"][k] / row["estimate"][k], p, row)
        for row in rows
        for k, p in enumerate(ORDERS)
        if row["error"][k] > SEEN * row["resolution"][k]
    ]
    return sorted(found, key=lambda one: -one[0])


def by_time(seen: list[tuple[float, int, Row]]) -> list[tuple[float, float]]:
    """Reading times, and the largest ratio of error and estimate at each."""
    return [(t, max(ratio for ratio, _, row in seen if row["t_final"] == t)) for t in sorted(T_FINAL)]


def summary(rows: list[Row]) -> list[str]:
    """The table of the scan: a row for each well and coupling."""
    lines = [
        "| J2 | s_W | largest error | largest estimate | warned | refused |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for well, s_W in itertools.product(J2, S_W[1:]):
        these = [row for row in rows if row["J2"] == well and row["s_W"] == s_W]
        solved = [row for row in these if not row.get("refused")]
        cells = " | ".join(cell(np.max([row[name] for row in solved], axis=0)) for name in ("error", "estimate"))
        warned, refused = sum(row["warned"] for row in solved), len(these) - len(solved)
        lines.append(f"| {well:g} | {s_W:g} | {cells} | {warned} | {refused} |")
    return lines


def refusals(rows: list[Row]) -> list[str]:
    """The refused points as a list, couplings of the same dynamics together."""
    couplings: dict[tuple[float, ...], dict[str, list[float]]] = {}
    for row in rows:
        kinds = couplings.setdefault((row["J2"], row["kT"], row["t_final"]), {kind: [] for kind in KINDS})
        kinds[row["kind"]].append(row["s_W"])
    assert all(kinds[KINDS[0]] == kinds[KINDS[1]] for kinds in couplings.values()), "the page says: alike"
    return [
        f"- J2 = {well:g}, kT = {kT:g}, t_final = {t:g}: s_W = {listed(kinds[KINDS[0]])}"
        for (well, kT, t), kinds in couplings.items()
    ]


def table(rows: list[Row]) -> list[str]:
    """All columns of all rows."""
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


def main() -> None:
    """Writes both pages."""
    result = json.loads((HERE / "results" / "accuracy.json").read_text())
    (HERE.parent / "docs" / "accuracy.md").write_text(conclusions(result))
    (HERE / "results" / "accuracy.md").write_text(every_point(result))


if __name__ == "__main__":
    main()
