"""What the numbers of a run say beside the paper's: where each published number lies, and why ours may differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thermoment.report.formatting import listing, signed
from thermoment.results import paper
from thermoment.results.naming import ModelKey
from thermoment.results.results import Results
from thermoment.results.statistics import Interval
from thermoment.results.table import Table

_OPEN = {
    "optimiser": "which optimiser trains the input projections",
    "head": "where the head that trains them starts",
    "standardise": "whether that head sees standardised features",
}
"""What the paper does not say about the training of K, by the key of this package's setting."""


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


def place(share: float, interval: Interval) -> str:
    """Where a number lies: "inside", "above" or "below" the interval."""
    if share in interval:
        return "inside"
    return "above" if share > interval.high else "below"


def compare(results: Results) -> list[Compared]:
    """Every published accuracy beside ours with the paper's readout; nothing where the data set is another."""
    table, published = Table.of(results.accuracy), paper.beside(results)
    spread = {row.model: row.range95 for row in results.repeats}
    found = []
    for model in table.models("sgd"):
        count, ours, range95 = published.correct(model), table.rows[model]["sgd"], spread.get(model)
        if count is not None:
            share = count / paper.N_TEST
            over_seeds = None if range95 is None else place(share, range95)
            found.append(Compared(table.label(model), count, ours.correct, place(share, ours.ci95), over_seeds))
    return found


def sentence(results: Results) -> str:
    """How the paper's numbers lie, or why there are none."""
    compared = compare(results)
    if not compared:
        return (
            "No comparison with the paper: its numbers are for MNIST with 60000 training and 10000 test images and its "
            "three reservoirs."
        )
    inside = sum((row.over_seeds or row.verdict) == "inside" for row in compared)
    repeated = compared[0].over_seeds is not None
    what = f"the 95 % range of one more run over {results.n_repeats} seeds" if repeated else "our 95 % intervals"
    joined = next((row for row in compared if row.name == paper.JOINED.name), None)
    first = (
        f"The paper reports {joined.paper} for all three, {joined.verdict} our interval with its readout. "
        if joined
        else ""
    )
    return f"{first}Of its {len(compared)} accuracies, {inside} lie inside {what}."


def differences(results: Results) -> list[str]:
    """Where our results part from the paper's, in sentences; the reasons are those of `reasons`."""
    compared = compare(results)
    if not compared:
        return []
    sentences = []
    for attribute, what in (
        ("verdict", "the 95 % interval of ours"),
        ("over_seeds", f"the range in which one more run of ours would fall ({results.n_repeats} seeds)"),
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
    table = Table.of(results.accuracy)
    row = next(iter(table.rows[table.joined].values()))
    scatter = (row.total * row.accuracy * (1 - row.accuracy)) ** 0.5
    return [
        *_training(results.settings),
        "It gives seeds, but not the generators they feed: W, K, b, the order of the batches and the noise have the "
        "same laws here, but they are other draws.",
        f"A test set of {row.total} samples alone scatters a count like that of {row.model.name} by {scatter:.0f} "
        "samples (one standard deviation).",
    ]


def nearest(part: Mapping[str, Any]) -> list[str]:
    """The variant of a study that is nearest to the paper, where its readout is the paper's."""
    near = [row for row in part["rows"] if row["distance"] is not None]
    if not near or part["fit"] != "sgd":
        return []
    best = min(near, key=lambda row: row["distance"])
    inside = f"; {best['inside']} of its {best['of']} numbers lie inside the range of one more run"
    return [
        f"Nearest to the paper is “{best['variant']}”, {100 * best['distance']:.2f} points away (root mean square)"
        f"{inside if best['inside'] is not None else ''}."
    ]


def _training(settings: Mapping[str, Any]) -> Sequence[str]:
    """How K came about, where that may differ from the paper."""
    if settings.get("finite_time"):
        return ["The paper trains K through a static stand-in; here K was trained through the finite-time moments."]
    training = settings.get("training", {})
    left_open = [f"{what} (here: {training[key]})" for key, what in _OPEN.items() if key in training]
    return [f"The paper does not say {listing(left_open, 'or')}. Each choice gives another K."] if left_open else []


def _shape(results: Results) -> list[str]:
    """Whether the paper's two observations on shape hold: m1 < (m1, m2), and K1+K2 below K2 alone."""
    correct = {row.model: row.correct for row in results.accuracy}
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
