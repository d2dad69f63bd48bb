"""What the numbers of a run say: sentences and comparisons with the paper, derived from results.json alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    signed,
)
from thermoment.results import paper
from thermoment.results.analysis import model_of
from thermoment.results.naming import FITS, Fit, ModelKey, all_orders, label
from thermoment.results.statistics import Interval

Results = Mapping[str, Any]
Row = Mapping[str, Any]
_LEVEL = 0.05
REFITTED: tuple[Fit, ...] = ("sgd", "converged")

_OPEN = {
    "optimiser": "which optimiser trains the input projections",
    "head": "where the head that trains them starts",
    "standardise": "whether that head sees standardised features",
}
"""What the paper does not say about the training of K, by the key of this package's setting."""


@dataclass(frozen=True)
class Table:
    """Rows of `accuracy` or of a summary by model and readout."""

    rows: Mapping[ModelKey, Mapping[Fit, Row]]
    """models with the readout "sgd" standing for any"""
    full: tuple[int, ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Table":
        table: dict[ModelKey, dict[Fit, Row]] = {}
        for row in rows:
            table.setdefault(_any_readout(model_of(row)), {})[row["readout"]] = row
        return cls(table, all_orders(table))

    @property
    def fits(self) -> list[Fit]:
        return [fit for fit in FITS if any(fit in group for group in self.rows.values())]

    @property
    def refitted(self) -> list[Fit]:
        """Readouts that were fitted to the features of a finished machine."""
        return [fit for fit in self.fits if fit in REFITTED]

    @property
    def as_trained(self) -> list[ModelKey]:
        """Models under the head that their reservoirs were trained with."""
        return [model for model, group in self.rows.items() if "trained" in group]

    @property
    def joined(self) -> ModelKey:
        """The model with most reservoirs that joins all orders in one readout."""
        return max(self.ablation or self.rows, key=lambda model: len(model.reservoirs))

    @property
    def main(self) -> Fit:
        """The readout that headlines are about: the first that the joined model has."""
        return next(fit for fit in FITS if fit in self.rows[self.joined])

    @property
    def ablation(self) -> list[ModelKey]:
        """Joined features of all orders: the paper's Table I."""
        return [m for m in self.rows if m.fusion == "feature" and m.orders == self.full]

    @property
    def averaged(self) -> ModelKey | None:
        return next((m for m in self.rows if m.fusion == "logit" and m.orders == self.full), None)

    @property
    def orders(self) -> list[ModelKey]:
        """The joined model from few orders to all: the paper's Table IV."""
        same = [m for m in self.rows if m.reservoirs == self.joined.reservoirs and m.fusion == "feature"]
        return sorted(same, key=lambda model: (len(model.orders), model.orders))

    def best_single(self, fit: Fit) -> Row | None:
        """The most accurate single reservoir; the first of equals."""
        singles = [self.rows[m][fit] for m in self.ablation if len(m.reservoirs) == 1 and fit in self.rows[m]]
        return max(singles, key=lambda row: row["correct"], default=None)

    def label(self, model: ModelKey) -> str:
        return label(model, self.full)


@dataclass(frozen=True)
class Compared:
    """A number of the paper beside ours."""

    name: str
    paper: int
    ours: int
    verdict: str
    """where the paper's number lies: "inside", "above" or "below" the 95 % interval of ours"""
    over_seeds: str | None
    """the same for the range of one more run; None without repeats"""


def place(share: float, interval: Sequence[float]) -> str:
    """Where a number lies: "inside", "above" or "below" the interval."""
    if share in Interval(*interval):
        return "inside"
    return "above" if share > interval[1] else "below"


def compare(results: Results) -> list[Compared]:
    """Every published accuracy beside ours with the paper's readout; nothing where the data set is another."""
    if not paper.applies_to(results["dataset"]):
        return []
    table, repeats = Table.of(results["accuracy"]), results.get("repeats")
    spread = Table.of(repeats).rows if repeats else {}
    found = []
    for model, group in table.rows.items():
        published = paper.correct(model)
        if published is None or "sgd" not in group:
            continue
        share, ours = published / paper.N_TEST, group["sgd"]
        range95 = spread.get(model, {}).get("sgd", {}).get("range95")
        found.append(
            Compared(
                table.label(model),
                published,
                ours["correct"],
                place(share, ours["ci95"]),
                None if range95 is None else place(share, range95),
            )
        )
    return found


def summary(results: Results) -> list[str]:
    """The run in a few plain sentences, the most important first."""
    table = Table.of(results["accuracy"])
    fit = table.main
    sentences = [_headline(table, fit), *_joining(results, table, fit), *_orders(table, fit)]
    return [*sentences, _beside_the_paper(results), *_machine(results)]


def differences(results: Results) -> list[str]:
    """Where our results part from the paper's, in sentences; the reasons are those of `reasons`."""
    compared = compare(results)
    if not compared:
        return []
    sentences = []
    for attribute, what in (
        ("verdict", "the 95 % interval of ours"),
        ("over_seeds", f"the range in which one more run of ours would fall ({n_repeats(results)} seeds)"),
    ):
        where = [(row.name, getattr(row, attribute)) for row in compared if getattr(row, attribute) is not None]
        if not where:
            continue
        inside = sum(verdict == "inside" for _, verdict in where)
        outside = [f"{name} ({verdict})" for name, verdict in where if verdict != "inside"]
        tail = f"; outside: {listing(outside)}" if outside else ""
        sentences.append(f"{inside} of the paper's {len(where)} accuracies lie inside {what}{tail}.")
    higher, lower = sum(row.ours > row.paper for row in compared), sum(row.ours < row.paper for row in compared)
    sentences.append(f"Ours is higher in {higher} of {len(compared)} and lower in {lower}.")
    return [*sentences, *_shape(results)]


def reasons(results: Results) -> list[str]:
    """Why a faithful run can differ from the paper: what it leaves open, with what was chosen here, and chance."""
    joined = Table.of(results["accuracy"])
    row = next(iter(joined.rows[joined.joined].values()))
    scatter = (row["total"] * row["accuracy"] * (1 - row["accuracy"])) ** 0.5
    return [
        *_training(results["settings"]),
        "It gives seeds, but not the generators they feed: W, K, b, the order of the batches and the noise have the "
        "same laws here, but they are other draws.",
        f"A test set of {row['total']} samples alone scatters a count like that of {row['model']} by {scatter:.0f} "
        "samples (one standard deviation).",
    ]


def _training(settings: Mapping[str, Any]) -> list[str]:
    """How K came about, where that may differ from the paper."""
    if settings.get("finite_time"):
        return ["The paper trains K through a static stand-in; here K was trained through the finite-time moments."]
    training = settings.get("training", {})
    left_open = [f"{what} (here: {training[key]})" for key, what in _OPEN.items() if key in training]
    return [f"The paper does not say {listing(left_open, 'or')}. Each choice gives another K."] if left_open else []


def study_summary(results: Results, parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """A study in a few plain sentences: the best variant of each readout, and the one nearest to the paper."""
    seeds = sorted({len(row["correct"]) for variant in results["study"] for row in variant["accuracy"]})
    sentences = [
        f"{len(results['study'])} variants of one experiment on {results['dataset']['name']}, each over "
        f"{listing([str(n) for n in seeds], 'or')} seeds, with the {results['engine']} engine."
    ]
    for part in parts:
        tops = [
            (cell["mean"], row["variant"], name)
            for row in part["rows"]
            for name, cell in zip(part["models"], row["cells"], strict=True)
            if cell
        ]
        mean, variant, name = max(tops, key=lambda top: top[0])
        sentences.append(
            f"The highest mean is {percent(mean)}, of {name} in “{variant}” ({FIT_NAMES[part['fit']]} readout)."
        )
        near = [row for row in part["rows"] if row["distance"] is not None]
        if near and part["fit"] == "sgd":
            nearest = min(near, key=lambda row: row["distance"])
            inside = f"; {nearest['inside']} of its {nearest['of']} numbers lie inside the range of one more run"
            sentences.append(
                f"Nearest to the paper is “{nearest['variant']}”, {100 * nearest['distance']:.2f} points away (root "
                f"mean square){inside if nearest['inside'] is not None else ''}."
            )
    return sentences


def n_repeats(results: Results) -> int:
    """Over how many seeds there are results."""
    repeats = results.get("repeats")
    return len(repeats[0]["correct"]) if repeats else 1


def _headline(table: Table, fit: Fit) -> str:
    rows, names = table.rows[table.joined], table.joined.reservoirs
    several = len(names) > 1
    who = f"All {len(names)} reservoirs joined classify" if several else f"Reservoir {names[0]} classifies"
    first: Fit = "trained" if "trained" in rows else fit
    row = rows[first]
    text = (
        f"{who} {row['correct']} of {row['total']} test samples correctly: {percent(row['accuracy'])} "
        f"(95 % interval {percents(row['ci95'])})"
    )
    if first == "trained":
        text += f" with the head {'they were' if several else 'it was'} trained with"
    others: dict[Fit, str] = {
        "predicted": f"{'their' if several else 'its'} moments without sampling predict",
        "sgd": "with the paper's readout fitted to the finished machine,",
        "converged": "with the readout fitted to convergence,",
    }
    parts = [f"{words} {percent(rows[f]['accuracy'])}" for f, words in others.items() if f in rows and f != first]
    return "; ".join([text, *parts]) + "."


def _joining(results: Results, table: Table, fit: Fit) -> list[str]:
    best, sentences = table.best_single(fit), []
    if best is None or len(table.joined.reservoirs) < 2:
        return []
    tests = {(row["a"], row["readout"]): row for row in results["mcnemar"]}
    gains = {(row["a"], row["readout"]): row for row in results["differences"]}
    key = best["model"], fit
    if key in tests:
        p, gain = tests[key]["p"], gains[key]
        proof = "is established" if p < _LEVEL else "is not established"
        sentences.append(
            f"The best single reservoir is {best['model']} with {percent(best['accuracy'])}. Joining all changes that "
            f"by {points(gain['difference'])} points (95 % interval {points_interval(gain['ci95'])}); the difference "
            f"{proof} at the 5 % level (exact McNemar p = {probability(p)})."
        )
    if table.averaged and fit in table.rows[table.averaged]:
        row = table.rows[table.averaged][fit]
        sentences.append(f"Averaging the logits of one readout per reservoir gives {percent(row['accuracy'])}.")
    return sentences


def _orders(table: Table, fit: Fit) -> list[str]:
    steps = [table.rows[model][fit] for model in table.orders if fit in table.rows[model]]
    if len(steps) < 2:
        return []
    parts = [f"{', '.join(f'm{p}' for p in row['orders'])}: {percent(row['accuracy'])}" for row in steps]
    return [f"By moment orders read, {'; '.join(parts)}."]


def _beside_the_paper(results: Results) -> str:
    compared = compare(results)
    if not compared:
        return (
            "The paper's numbers are for MNIST with 60000 training and 10000 test images and its three reservoirs, so "
            "none stand beside these."
        )
    inside = sum((row.over_seeds or row.verdict) == "inside" for row in compared)
    repeated = compared[0].over_seeds is not None
    what = f"the 95 % range of one more run over {n_repeats(results)} seeds" if repeated else "our 95 % intervals"
    joined = next((row for row in compared if row.name == paper.JOINED.name), None)
    first = f"The paper reports {joined.paper} for all joined, {joined.verdict} our interval. " if joined else ""
    return f"{first}Of its {len(compared)} accuracies, {inside} lie inside {what}."


def _machine(results: Results) -> list[str]:
    n_replicas = results["settings"]["protocol"]["n_replicas"]
    how = "in the limit of infinitely many replicas" if n_replicas is None else f"from {n_replicas} replicas"
    text = f"Moments come from the {results['engine']} engine, {how}"
    if results.get("error"):
        parts = [f"{scientific(value)} in m{p}" for p, value in results["error"].items()]
        text += f", with an estimated error of {listing(parts)}"
    count = results.get("clip_count", 0)
    clipped = "no update was clipped" if not count else f"{count} updates were clipped"
    return [f"{text}; {clipped}."]


def _shape(results: Results) -> list[str]:
    """Whether the paper's two observations on shape hold: m1 < (m1, m2), and K1+K2 below K2 alone."""
    correct = {m: group["sgd"]["correct"] for m, group in Table.of(results["accuracy"]).rows.items() if "sgd" in group}
    one, two = ModelKey(paper.JOINED.reservoirs, (1,)), ModelKey(paper.JOINED.reservoirs, (1, 2))
    pair, single = ModelKey(("K1", "K2"), paper.JOINED.orders), ModelKey(("K2",), paper.JOINED.orders)
    found = []
    if one in correct and two in correct:
        ours, theirs = (signed(f"{n[two] - n[one]:+d}") for n in (correct, paper.CORRECT))
        found.append(f"The second moment changes what the mean alone gets right by {ours} (in the paper {theirs}).")
    if pair in correct and single in correct:
        holds = "as" if correct[pair] < correct[single] else "unlike"
        word = "below" if correct[pair] < correct[single] else "not below"
        found.append(f"K1+K2 is {word} K2 alone ({correct[pair]} and {correct[single]}), {holds} in the paper.")
    return found


def _any_readout(model: ModelKey) -> ModelKey:
    return replace(model, readout="sgd")
