"""The paper's open questions, and what the rows of a study answer to each. For answers.py."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import reading_points
from judged import (
    Answer,
    Comparison,
    Family,
    Pair,
    Study,
    Values,
    capital,
    gain,
    judge,
    listed,
    more_than,
    percent,
    sd_interval,
)

RAW, CENTRAL, POWERS, REST = (
    ("m1", "m2", "m4"),
    ("m1", "mu2", "mu4"),
    ("m1", "m1^2", "m1^4"),
    ("x", "x^2", "x^4"),
)
EIGHT = tuple(f"m{p}" for p in range(1, 9))
PAIRED, MEANS = (*RAW, "pair"), (*RAW, "means")
DIFFERENCES = "Differences"
MAP = "time-and-temperature"
"""The study whose points are a map of two settings."""


@dataclass(frozen=True)
class Question:
    """One of the paper's open questions, and the study that answers it."""

    study: str
    asks: str
    answer: Callable[[Study], Answer]
    remains: str
    time: str
    """of the whole study on one GPU, as estimated"""


def seeds(study: Study) -> Answer:
    """How far the accuracy scatters over each kind of seed."""
    kinds = {
        "everything": "all seeds",
        "draw": "the draw of W, K and b",
        "batches": "the batches that train K",
        "noise": "the noise of the simulation",
        "fit": "the batches that fit the readout",
    }
    found = {kind: study.values(kind) for kind in kinds}
    spread = {kind: float(values.std(ddof=1)) for kind, values in found.items()}
    parts = {kind: value for kind, value in spread.items() if kind != "everything"}
    freedom = {kind: len(found[kind]) - 1 for kind in parts}
    added = math.sqrt(sum(sd**2 for sd in parts.values()))
    # Of a sum of variances: as many degrees of freedom as give its own variance (Satterthwaite).
    together = added**4 / sum(sd**4 / freedom[kind] for kind, sd in parts.items()) if added else 1.0
    table = [("what is varied", "seeds", "standard deviation, points", "95 % interval", "share of the four variances")]
    for kind, words in kinds.items():
        ends = _ends(spread[kind], len(found[kind]) - 1)
        share = f"{spread[kind] ** 2 / added**2:.0%}" if added and kind in parts else ""
        table.append((words, str(len(found[kind])), f"{100 * spread[kind]:.2f}", ends, share))
    table.append(("the four, their variances added", "", f"{100 * added:.2f}", _ends(added, together), "100%"))
    order = sorted(parts, key=lambda kind: -parts[kind])
    by_kind = ", ".join(f"{kinds[kind]} {100 * parts[kind]:.2f}" for kind in order)
    everything, ends = found["everything"], _ends(spread["everything"], len(found["everything"]) - 1)
    scatter = f"Accuracies of runs with other seeds scatter by {100 * spread['everything']:.2f} points"
    sentence = (
        f"{scatter} (standard deviation of all reservoirs together; 95 % interval {ends}, {len(everything)} seeds, "
        f"mean {percent(everything.mean())}). Each kind of seed alone gives, in points: {by_kind}; their variances "
        f"added make {100 * added:.2f} (95 % interval {_ends(added, together)})."
    )
    short = f"{scatter} (standard deviation, 95 % interval {ends})"
    families = []
    if any(row["model"] == "K1" for row in study.rows):
        reported = judge(_reported(study))
        parts_of = [f"{one.a} in place of {one.b}: {gain(one)}" for one in reported]
        sentence += f" Of the differences that the paper reports, {'; '.join(parts_of)}."
        families = [Family("Differences that the paper reports", reported)]
        short += f"; of the differences that the paper reports, {_verdicts(reported)}"
    return Answer(f"{short}.", sentence, families, tables=[("", table)])


def _verdicts(reported: Sequence[Comparison]) -> str:
    """Which of the paper's differences are there, which are the other way round, and which cannot be told."""
    kinds: dict[str, list[str]] = {"established": [], "established the other way round": [], "not established": []}
    for one in reported:
        kind = one.verdict + " the other way round" * (one.established and one.mean < 0)
        kinds.setdefault(kind, []).append(f"{one.a} over {one.b}")
    always = ("established", "not established")
    return "; ".join(f"{kind}: {listed(found) or 'none'}" for kind, found in kinds.items()
                     if found or kind in always)  # fmt: skip


def _ends(sd: float, freedom: float) -> str:
    """The 95 % interval of a standard deviation, in points."""
    low, high = sd_interval(sd, freedom)
    return f"{100 * low:.2f} to {100 * high:.2f}"


def _reported(study: Study) -> list[Pair]:
    """The differences that the paper reports, over all seeds."""
    joined = study.values("everything")
    single = {name: study.values("everything", model=name) for name in ("K1", "K2", "K3")}
    best = max(single, key=lambda name: float(single[name].mean()))
    return [
        Pair("K2", "K1", single["K2"], single["K1"]),
        Pair("(m1, m2, m4)", "(m1, m2)", joined, study.values("everything", orders=(1, 2))),
        Pair("all three joined", f"the best of them ({best})", joined, single[best]),
        Pair("joined features", "averaged outputs", joined, study.values("everything", fusion="logit")),
    ]


def equal_resources(study: Study) -> Answer:
    """Whether three different reservoirs beat as many nodes or replicas spent otherwise."""
    names = {
        "one-recipe": "three draws of one recipe",
        "three-noises": "one reservoir with three noises",
        "more-replicas": "one reservoir with three times the replicas",
        "more-nodes": "one reservoir with three times the nodes",
    }
    different = study.values("different")
    names = {name: words + ", without sampling" * (name in study.unsampled) for name, words in names.items()}
    there = {row["variant"] for row in study.rows}
    pairs = [
        Pair("three different reservoirs", words, different, study.values(name))
        for name, words in names.items()
        if name in there
    ]
    noises, replicas = study.values("three-noises"), study.values("more-replicas")
    pairs.append(Pair(names["three-noises"], names["more-replicas"], noises, replicas))
    found = judge(pairs)
    parts = [f"of {one.b}: {gain(one)}" for one in found[:-1]]
    sentence = f"Three different reservoirs in place {'; '.join(parts)} ({len(different)} seeds)."
    other = {one.b: one for one in found[:-1]}
    told = [more_than(other[words], words) for name in ("one-recipe", "more-nodes", "more-replicas")
            if (words := names[name]) in other]  # fmt: skip
    short = f"Three different reservoirs get {listed(told)}."
    return Answer(short, sentence, [Family(DIFFERENCES, found)])


def moments(study: Study) -> Answer:
    """What raw moments carry beyond the mean, and beyond what needs no physics."""
    raw = study.reads(RAW)

    compared = [
        (RAW[:2], RAW[:1]),
        (RAW, RAW[:2]),
        (RAW[:2], POWERS[:2]),
        (RAW, POWERS),
        (RAW, CENTRAL),
        (RAW, REST),
        (RAW, EIGHT),
        (RAW, ("mu2",)),
        (RAW, ("mu4",)),
    ]
    found = judge(
        [
            Pair(" ".join(a), " ".join(b), study.reads(a), study.reads(b))
            for a, b in compared
            if b != EIGHT or study.has(EIGHT)  # these take longest to fit
        ]
    )
    second, fourth, squares, powers, _, physics, *_ = found
    groups = {"pairs": "128 replicas, sampled", "pairs-limit": "infinitely many replicas"}
    engines = {row.get("engine", study.engine) for row in study.rows if row.get("group") not in groups}
    short = (
        f"m1, m2 and m4 get {more_than(powers, 'powers of the mean, in which there is no fluctuation')}, and "
        f"{more_than(physics, 'powers of the stationary point, which need no physics')}"
        f"{'; all without sampling' * (engines == {'meanfield'})}."
    )
    sentence = (
        f"The mean square m2 beside the mean m1: {gain(second)}; m4 beside both: {gain(fourth)}; m2 in place of the "
        f"square of the mean: {gain(squares)}; all three moments in place of x, x^2 and x^4 of the stationary point, "
        f"which needs neither noise nor time nor coupling: {gain(physics)} ({len(raw)} seeds)."
    )
    families = [Family(DIFFERENCES, found)]
    if known := [group for group in groups if study.group(group)]:
        of_pairs = judge(
            [
                Pair(f"{' '.join(a)} ({groups[group]})", " ".join(b), study.reads(a, group), study.reads(b, group))
                for group in known
                for a, b in ((PAIRED, RAW), (PAIRED, MEANS), ((*MEANS, "pair"), MEANS))
            ]
        )
        said = [f"{groups[group]}: {gain(of_pairs[3 * k])} beside m1, m2 and m4, and in place of the products of the "
                f"means {gain(of_pairs[3 * k + 1])}" for k, group in enumerate(known)]  # fmt: skip
        sentence += (
            " Of one reservoir, K1, E[x_i x_j] of every node with the one that pushes it most strongly: "
            f"{'; '.join(said)}."
        )
        families.append(Family("Pairs of nodes, K1 alone", of_pairs))
    return Answer(short, sentence, families)


def fusion(study: Study) -> Answer:
    """Whether joined features beat any late fusion."""
    rows = list(study.fits("training.optimiser"))
    several = len({row["readout"] for row in rows}) > 1

    def joined(row: Any) -> str:
        how = {"sgd": "SGD", "adam": "Adam"}.get(row["optimiser"], row["optimiser"])
        return f"joined features, K trained by {how}" + (f", readout {row['readout']}" if several else "")

    found = judge(
        [
            Pair(
                joined(row),
                f"{late} readouts",
                study.values(row["variant"], readout=row["readout"]),
                study.values(row["variant"], readout=row["readout"], fusion=key),
            )
            for row in rows
            for key, late in (
                ("logit", "averaged"),
                ("weighted", "weighted"),
                ("calibrated", "calibrated"),
                ("stacked", "stacked"),
            )
        ]
    )
    sentences = []
    for name in dict.fromkeys(one.a for one in found):
        parts = [f"of {one.b}: {gain(one)}" for one in found if one.a == name]
        sentences.append(f"{capital(name)}, in place {'; '.join(parts)} ({found[0].n} seeds).")
    spreads = [f"{joined(row)}, {_sd(study, row)}; averaged readouts, {_sd(study, row, 'logit')}" for row in rows]
    sentences.append(f"Standard deviations over the seeds, in points: {'; '.join(spreads)}.")
    told = "; ".join(f"{one.a}, get {more_than(one, one.b)}" for one in found if one.b.startswith("averaged"))
    return Answer(f"{capital(told)}.", " ".join(sentences), [Family(DIFFERENCES, found)])


def _sd(study: Study, row: Mapping[str, str], how: str = "feature") -> str:
    """How far one way to join reservoirs scatters over the seeds, in points."""
    found = study.values(row["variant"], readout=row["readout"], fusion=how)
    return f"{100 * found.std(ddof=1):.2f}"


def beside_others(study: Study) -> Answer:
    """What the machine gets beside classifiers that need no physics."""
    paper, trained = study.values("paper"), study.values("trained", readout="trained")
    adam = study.values("adam")
    unsampled = "; the paper's machine without sampling" * ("paper" in study.unsampled)
    others = study.baselines("paper")
    others |= {name: values for name, values in study.baselines("trained").items() if name not in others}
    pairs = [Pair("the paper's machine", name, paper, values) for name, values in others.items()]
    pairs += [Pair("K trained with Adam", name, adam, values) for name, values in others.items() if "MLP" in name]
    pairs += [
        Pair("the machine trained through its moments", name, trained, values)
        for name, values in others.items()
        if "distorted" in name
    ]
    pairs.append(Pair("K trained with Adam", "the paper's machine", adam, paper))
    found = judge(pairs)
    *found, learnt = found
    largest = max((name for name in others if "random" in name), key=lambda name: int(name.split()[0]))
    random = next(one for one in found if one.b == largest)
    sentence = (
        f"The paper's machine in place of {found[0].b}: {gain(found[0])}; of {random.b}: {gain(random)}; "
        f"{found[-1].a} in place of {found[-1].b}: {gain(found[-1])} ({found[-1].n} seeds, else {len(paper)}); "
        f"K trained with Adam in place of SGD: {gain(learnt)}{unsampled}."
    )
    machines = {
        "the paper's machine": ("paper", paper),
        "K trained with Adam": ("adam", adam),
        "the machine trained through its moments": ("trained", trained),
    }
    table = [("machine", "accuracy, %", "seeds", "multiply-adds an answer, outside of the physics", "kT an answer")]
    for name, (variant, values) in machines.items():
        cost = study.cost(variant)
        table.append((*_line(name, values, _products(name, study)), "" if cost is None else f"{cost:.3g}"))
    table += [(*_line(name, values, _products(name, study)), "") for name, values in others.items()]
    perceptron = found[-1].b.replace("MLP, ", "an MLP of ").replace(", distorted", " on distorted")
    beside = more_than(found[-1], perceptron)
    short = f"The paper's machine gets {more_than(random, random.b)}; {found[-1].a} gets {beside}{unsampled}."
    tables = [("What each gets, and what it costs", table)]
    return Answer(short, sentence, [Family(DIFFERENCES, [*found, learnt])], tables)


def _line(name: str, values: Values, products: int) -> tuple[str, str, str, str]:
    return name, f"{100 * values.mean():.2f}", str(len(values)), f"{products:,}".replace(",", " ")


def _products(name: str, study: Study) -> int:
    """Multiplications and additions that an answer takes beside the physics: K I of a machine, and the readout."""
    inputs, classes = int(study.dataset["n_inputs"]), int(study.dataset["n_classes"])
    size = int(next((word for word in name.replace(",", "").split() if word.isdecimal()), 0))
    if "machine" in name or "Adam" in name:
        nodes = sum(study.n_nodes)
        return inputs * nodes + len(RAW) * nodes * classes
    if "PCA" in name:
        return inputs * size + 2 * size * classes
    return inputs * size + size * classes if size else inputs * classes


QUESTIONS = (
    Question(
        "seeds",
        "By how much does the paper's accuracy scatter, and which seeds does that come from?",
        seeds,
        "The test set is one and the same in all runs: what another test set would change is not in these numbers.",
        "10 minutes",
    ),
    Question(
        "equal-resources",
        "Do three different reservoirs get more than the same number of nodes, or of replicas, spent otherwise?",
        equal_resources,
        "Recipes other than the paper's three.",
        "10 minutes",
    ),
    Question(
        "what-the-moments-carry",
        "Is the gain of the higher moments due to fluctuations, or to powers of the mean?",
        moments,
        "The same of sampled paths; pairs of nodes in three reservoirs together, and more pairs than nodes.",
        "7 minutes",
    ),
    Question(
        MAP,
        "At which reading time and temperature is the machine best, how far is it from equilibrium then, and what do "
        "replicas, coupling and wells change?",
        reading_points.answer,
        "Strong coupling and double wells with more than three seeds; two factors at a time away from the paper's "
        "point; K trained there with sampling.",
        "15 minutes",
    ),
    Question(
        "fusion",
        "Do joined features get more than late fusion that is calibrated, weighted or learned?",
        fusion,
        "Late fusion that is not linear in the outputs, and fully fitted readouts: the study has them now, and had "
        "them not when it was run.",
        "5 minutes",
    ),
    Question(
        "beside-others",
        "What does the machine get beside classifiers that need no physics?",
        beside_others,
        "The same with fully fitted readouts; convolutional networks, which get more than any of these; distortions "
        "made for other images than digits.",
        "10 minutes",
    ),
)
