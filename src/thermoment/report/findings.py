"""What the numbers of a run say, in sentences that hold for any machine and data set; the paper's are in beside.py."""

from collections.abc import Mapping
from typing import Any

from thermoment.report.formatting import (
    FIT_NAMES,
    listing,
    percent,
    percents,
    points,
    points_interval,
    probability,
    scientific,
)
from thermoment.results.naming import Fit
from thermoment.results.results import Accuracy, Results, StudyResults
from thermoment.results.table import Table

_LEVEL = 0.05


def summary(results: Results) -> list[str]:
    """What was classified correctly, in a few plain sentences, the most important first."""
    table = Table.of(results.accuracy)
    return [_headline(table), *_joining(results, table), *_orders(table)]


def machine(results: Results) -> str:
    """Where the moments come from, and how good they are."""
    n_replicas = results.settings["protocol"]["n_replicas"]
    how = "in the limit of infinitely many replicas" if n_replicas == float("inf") else f"from {n_replicas} replicas"
    text = f"Moments come from the {results.engine} engine, {how}"
    if results.error:
        parts = [f"{scientific(value)} in m{p}" for p, value in results.error.items()]
        text += f", with an estimated error of {listing(parts)}"
    clipped = f"{results.clip_count} updates were clipped" if results.clip_count else "no update was clipped"
    return f"{text}; {clipped}."


def study(results: StudyResults) -> str:
    """What a study consists of."""
    seeds = sorted({len(row.correct) for variant in results.study for row in variant.accuracy})
    return (
        f"{len(results.study)} variants of one experiment on {results.dataset.name}, each over "
        f"{listing([str(n) for n in seeds], 'or')} seeds, with the {results.engine} engine."
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
    return f"The highest mean is {percent(mean)}, of {name} in “{variant}” ({FIT_NAMES[part['fit']]} readout)."


def _headline(table: Table[Accuracy]) -> str:
    rows, names = table.rows[table.joined], table.joined.reservoirs
    several = len(names) > 1
    who = f"All {len(names)} reservoirs joined classify" if several else f"Reservoir {names[0]} classifies"
    first: Fit = "trained" if "trained" in rows else table.main
    row = rows[first]
    text = (
        f"{who} {row.correct} of {row.total} test samples correctly: {percent(row.accuracy)} "
        f"(95 % interval {percents(row.ci95)})"
    )
    if first == "trained":
        text += f" with the head {'they were' if several else 'it was'} trained with"
    others: dict[Fit, str] = {
        "predicted": f"{'their' if several else 'its'} moments without sampling predict",
        "sgd": "with the paper's readout fitted to the finished machine,",
        "converged": "with the readout fitted to convergence,",
    }
    parts = [f"{words} {percent(rows[f].accuracy)}" for f, words in others.items() if f in rows and f != first]
    return "; ".join([text, *parts]) + "."


def _joining(results: Results, table: Table[Accuracy]) -> list[str]:
    fit, sentences = table.main, []
    best = table.best_single(fit)
    if best is None or len(table.joined.reservoirs) < 2:
        return []
    key = best.model.name, fit
    test = next((row for row in results.mcnemar if (row.a, row.readout) == key), None)
    gain = next((row for row in results.differences if (row.a, row.readout) == key), None)
    if test and gain:
        proof = "is established" if test.p < _LEVEL else "is not established"
        sentences.append(
            f"The best single reservoir is {best.model.name} with {percent(best.accuracy)}. Joining all changes that "
            f"by {points(gain.difference)} points (95 % interval {points_interval(gain.ci95)}); the difference "
            f"{proof} at the 5 % level (exact McNemar p = {probability(test.p)})."
        )
    if row := table.get(table.averaged, fit):
        sentences.append(f"Averaging the logits of one readout per reservoir gives {percent(row.accuracy)}.")
    return sentences


def _orders(table: Table[Accuracy]) -> list[str]:
    steps = [row for model in table.orders if (row := table.get(model, table.main))]
    if len(steps) < 2:
        return []
    parts = [f"{', '.join(f'm{p}' for p in row.model.orders)}: {percent(row.accuracy)}" for row in steps]
    return [f"By moment orders read, {'; '.join(parts)}."]
