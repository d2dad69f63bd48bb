"""What the numbers of a run say, in sentences that hold for any machine and data set; the paper's are in beside.py.

Every sentence that states an accuracy names the readout it is of.
"""

import math
from collections.abc import Mapping
from typing import Any

from thermoment.report.formatting import (
    FIT_NAMES,
    all_of,
    energy,
    listing,
    more,
    percent,
    percents,
    points_interval,
    probability,
    rounded,
    scientific,
)
from thermoment.results.naming import REFITTED, Fit, moments
from thermoment.results.results import Accuracy, Baseline, Results, StudyResults
from thermoment.results.table import Table

_LEVEL = 0.05
_COPIES = "trained through their dynamics"
_WITH: Mapping[Fit, str] = {
    "sgd": "with the paper's readout",
    "converged": "with the fully fitted readout",
    "trained": "with the readout trained with the machine",
    "predicted": "with the readout trained with the machine, without sampling noise",
}


def headline(results: Results) -> str:
    """The run in one sentence: all reservoirs, the best single one, and what a readout gets without any."""
    table = Table.of(results.accuracy)
    row, fit = table.headline, table.main
    own = row.model.readout
    how = "" if own == fit else f", {_COPIES if _beside(results) else FIT_NAMES[own]}"
    said = [f"{all_of(row.model.reservoirs)}{how}: {_of(row)} test samples"]
    if own != fit and (joined := table.get(table.joined, fit)):
        said.append(f"{'trained as in the paper, ' if _beside(results) else ''}{_WITH[fit]} {_share(joined)}")
    if (best := table.best_single(fit)) and len(row.model.reservoirs) > 1:
        said.append(f"best single {best.model.name} {_share(best)}")
    inputs = [raw for raw in results.baseline if raw.model.startswith("raw")]
    said += [f"{raw.model} {_share(raw)}" for raw in inputs if raw.readout == fit]
    said[-1] += "" if own != fit else f" ({FIT_NAMES[fit]})"
    if not any(raw.readout == fit for raw in inputs):
        said += [f"{raw.model} {_share(raw)} ({FIT_NAMES[raw.readout]})" for raw in inputs]
    return "; ".join(said) + "."


def summary(results: Results) -> list[str]:
    """What was classified correctly, in a few plain sentences, the most important first."""
    table = Table.of(results.accuracy)
    return [
        *_whole(results, table),
        *_joining(results, table),
        *_without_reservoirs(results, table),
        *_averaging(table),
        *_orders(table),
    ]


def machine(results: Results) -> str:
    """Where the moments come from, and how good they are."""
    n_replicas = results.settings["protocol"]["n_replicas"]
    how = "in the limit of infinitely many replicas" if n_replicas == math.inf else f"from {n_replicas} replicas"
    text = f"Moments come from the {results.engine} engine, {how}"
    if results.error:
        parts = [f"{scientific(value)} in m{p}" for p, value in results.error.items()]
        text += f", with an estimated error of {listing(parts)}"
    return f"{text}; {clipped(results) or 'no update was clipped'}."


def clipped(results: Results) -> str:
    """How many updates went beyond the clip and what share of all that is; empty where none did."""
    if not results.clip_count:
        return ""
    protocol, reservoirs = results.settings["protocol"], results.settings["reservoirs"]
    images = results.dataset.n_train + results.dataset.n_test
    if results.settings.get("finite_time", {}).get("beside"):
        images += results.dataset.n_test  # which trained copies of the reservoirs see as well
    steps = round(protocol["t_final"] / protocol["dt"])
    updates = images * sum(one["n_nodes"] for one in reservoirs) * protocol["n_replicas"] * steps
    share = f"{100 * results.clip_count / updates:.2g}"
    return f"{results.clip_count} updates ({share} %) were clipped to |x| <= {protocol['clip']:g}"


def cost(results: Results) -> str:
    """What an answer takes, and what of it was counted; empty where it is not known."""
    found = results.cost
    if found is None:
        return ""
    cycle = sum(found.cycles.values())
    whose = "a cycle of the machine" if len(found.cycles) > 1 else "a cycle"
    counted = "switching the drive on and off"
    counted += ", and the directed coupling" if "work_path" in found.counted else ""
    left_out = [] if "work_path" in found.counted else ["the directed coupling"]
    if results.settings["protocol"].get("start", "zero") == "zero":
        left_out.append("putting the nodes to zero before")
    if found.answer is None:
        what = f"{whose[0].upper()}{whose[1:]} takes {energy(cycle)} of work"
    else:
        what = f"An answer takes {energy(found.answer)} of work, {energy(cycle)} for {whose}"
    return f"{what} ({counted}{f'; without {listing(left_out)}' if left_out else ''})."


def mistakes(results: Results, most: int = 3) -> str:
    """Which class was most often taken for which, by the model that the run is judged by; empty if not counted."""
    if results.confusion is None:
        return ""
    counts = results.confusion.counts
    wrong = [(n, is_, taken) for is_, row in enumerate(counts) for taken, n in enumerate(row) if n and is_ != taken]
    total = sum(n for n, _, _ in wrong)
    if not total:
        return "No test sample was taken for another class."
    if total == 1:
        return f"The one mistake: {wrong[0][1]} taken for {wrong[0][2]}."
    first = sorted(wrong, key=lambda one: (-one[0], *one[1:]))[:most]
    if first[0][0] == 1:
        return f"None of the {total} mistakes happened twice."
    parts = [f"{is_} taken for {taken} ({n} times)" for n, is_, taken in first if n > 1]
    return f"Most common of {total} mistakes: {listing(parts)}."


def study(results: StudyResults) -> str:
    """What a study consists of."""
    seeds = sorted({len(row.correct) for variant in results.study for row in variant.accuracy})
    many = "1 seed" if seeds == [1] else f"{listing([str(n) for n in seeds], 'or')} seeds"
    return (
        f"{len(results.study)} variants of one experiment on {results.dataset.name}, each over {many}, with the "
        f"{results.engine} engine."
    )


def highest(part: Mapping[str, Any]) -> str:
    """The best variant and model of one table of a study."""
    tops = [
        (cell.mean, row["variant"], name)
        for row in part["rows"]
        for name, cell in zip(part["models"], row["cells"], strict=True)
        if cell
    ]
    mean, variant, name = max(tops, key=lambda top: top[0])
    return f"The highest mean is {percent(mean)}, of {name} in “{variant}” ({FIT_NAMES[part['fit']]})."


def _share(row: Accuracy | Baseline) -> str:
    return rounded(row.accuracy, row.total)


def _of(row: Accuracy) -> str:
    return f"{_share(row)} of {row.total}"


def _beside(results: Results) -> bool:
    """Whether the trained machine is made of copies of the reservoirs that the other readouts read."""
    return bool(results.settings.get("finite_time", {}).get("beside"))


def _whole(results: Results, table: Table[Accuracy]) -> list[str]:
    """All reservoirs together, with each of their readouts."""
    row = table.headline
    verb = "classify" if len(row.model.reservoirs) > 1 else "classifies"
    averaged = " (averaged)" if row.model.fusion == "logit" else ""
    first = (
        f"{all_of(row.model.reservoirs)} {verb} {row.correct} of {row.total} test samples correctly "
        f"{_WITH[row.model.readout]}{averaged}: {percent(row.accuracy)} (95 % interval {percents(row.ci95)})."
    )
    others = {
        fit: f"{percent(other.accuracy)} {_WITH[fit]}"
        for fit, other in table.rows[table.joined].items()
        if other != row
    }
    if _beside(results):
        refitted = [words for fit, words in others.items() if fit in REFITTED]
        return [
            f"{first} These are copies of the reservoirs, {_COPIES}.",
            *([f"The reservoirs themselves, trained as in the paper, get {listing(refitted)}."] if refitted else []),
        ]
    who = "They get" if len(row.model.reservoirs) > 1 else "It gets"
    return [first, f"{who} {listing(list(others.values()))}."] if others else [first]


def _joining(results: Results, table: Table[Accuracy]) -> list[str]:
    """Whether several reservoirs are better than the best of them."""
    fit = table.main
    best = table.best_single(fit)
    if best is None or len(table.joined.reservoirs) < 2:
        return []
    key = best.model.name, fit
    test = next((row for row in results.mcnemar if (row.a, row.readout) == key), None)
    gain = next((row for row in results.differences if (row.a, row.readout) == key), None)
    if test is None or gain is None:
        return []
    chance = "that is more than chance" if test.p < _LEVEL else "that may be chance"
    return [
        f"{_WITH[fit].capitalize()}, {all_of(table.joined.reservoirs).lower()} together get {more(gain.difference)} "
        f"the best single reservoir, {best.model.name} ({percent(best.accuracy)}); {chance} (95 % interval "
        f"{points_interval(gain.ci95)} points, exact McNemar p = {probability(test.p)})."
    ]


def _without_reservoirs(results: Results, table: Table[Accuracy]) -> list[str]:
    """What the same readout gets from the raw inputs, and what the reservoirs add to that."""
    fit = table.main
    raw = next((row for row in results.baseline if row.readout == fit), None)
    if raw is None:
        return []
    gain = table.rows[table.joined][fit].accuracy - raw.accuracy
    who = "all reservoirs get" if len(table.joined.reservoirs) > 1 else "the reservoir gets"
    return [
        f"{_WITH[fit].capitalize()}, {raw.model} without reservoirs give {percent(raw.accuracy)}; {who} "
        f"{more(gain)} that."
    ]


def _averaging(table: Table[Accuracy]) -> list[str]:
    row = table.get(table.averaged, table.main)
    if row is None:
        return []
    return [f"Averaging the outputs of one readout per reservoir gives {percent(row.accuracy)} {_WITH[table.main]}."]


def _orders(table: Table[Accuracy]) -> list[str]:
    steps = [row for model in table.orders if (row := table.get(model, table.main))]
    if len(steps) < 2:
        return []
    parts = [f"{moments(row.model)}: {percent(row.accuracy)}" for row in steps]
    return [f"By the moments that are read, {_WITH[table.main]}: {'; '.join(parts)}."]
