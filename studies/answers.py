"""What the studies that ship with the package found: every sentence of docs/studies.md, from the committed JSON alone.

    python studies/answers.py            writes docs/studies.md and docs/figures/studies/*

The input is studies/results/STUDY.json, or STUDY-WHERE.json for another data set: the study.json of a finished run. A
study without such a file is listed as not yet run.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judged import Comparison, Pair, Study, gain, interval, judge, load, percent, points, sd_interval

ROOT = Path(__file__).parents[1]
RESULTS, PAGE, FIGURES = ROOT / "studies/results", ROOT / "docs/studies.md", ROOT / "docs/figures/studies"
RAW, CENTRAL, POWERS, REST = (
    ("m1", "m2", "m4"),
    ("m1", "mu2", "mu4"),
    ("m1", "m1^2", "m1^4"),
    ("x", "x^2", "x^4"),
)
EIGHT = tuple(f"m{p}" for p in range(1, 9))
PAPER_POINT = {"dynamics.kT": 0.1, "protocol.t_final": 1.0}


@dataclass(frozen=True)
class Answer:
    """What one run of a study says."""

    sentence: str
    comparisons: Sequence[Comparison] = ()
    table: Sequence[Sequence[str]] = ()
    """a head and rows, where there is more to show than comparisons"""


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
    total = spread["everything"]
    table = [("what is varied", "seeds", "standard deviation, points", "95 % interval", "share of the variance")]
    for kind, words in kinds.items():
        low, high = sd_interval(spread[kind], len(found[kind]))
        ends = f"{100 * low:.2f} to {100 * high:.2f}"
        share = f"{spread[kind] ** 2 / total**2:.0%}" if total else ""
        table.append((words, str(len(found[kind])), f"{100 * spread[kind]:.2f}", ends, share))
    low, high = sd_interval(total, len(found["everything"]))
    parts = {kind: value for kind, value in spread.items() if kind != "everything"}
    order = sorted(parts, key=lambda kind: -parts[kind])
    by_kind = ", ".join(f"{kinds[kind]} {100 * parts[kind]:.2f}" for kind in order)
    sentence = (
        f"One more run with other seeds differs by {100 * total:.2f} points (standard deviation of all reservoirs "
        f"together; 95 % interval {100 * low:.2f} to {100 * high:.2f}, {len(found['everything'])} seeds, mean "
        f"{percent(found['everything'].mean())}); each kind of seed alone gives, in points: {by_kind}."
    )
    return Answer(sentence, table=table)


def equal_resources(study: Study) -> Answer:
    """Whether three different reservoirs beat as many nodes or replicas spent otherwise."""
    names = {
        "one-recipe": "three draws of one recipe",
        "three-noises": "one reservoir with three noises",
        "more-replicas": "one reservoir with three times the replicas",
        "more-nodes": "one reservoir with three times the nodes",
    }
    different = study.values("different")
    pairs = [Pair("three different reservoirs", words, different, study.values(name)) for name, words in names.items()]
    noises, replicas = study.values("three-noises"), study.values("more-replicas")
    pairs.append(Pair(names["three-noises"], names["more-replicas"], noises, replicas))
    found = judge(pairs)
    parts = [f"of {one.b}: {gain(one)}" for one in found[:-1]]
    return Answer(f"Three different reservoirs in place {'; '.join(parts)} ({len(different)} seeds).", found)


def moments(study: Study) -> Answer:
    """What raw moments carry beyond the mean, and beyond what needs no physics."""
    raw = study.reads(RAW)

    def pair(a: Sequence[str], b: Sequence[str]) -> Pair:
        return Pair(" ".join(a), " ".join(b), study.reads(a), study.reads(b))

    found = judge(
        [
            pair(RAW[:2], RAW[:1]),
            pair(RAW, RAW[:2]),
            pair(RAW[:2], POWERS[:2]),
            pair(RAW, POWERS),
            pair(RAW, CENTRAL),
            pair(RAW, REST),
            pair(RAW, EIGHT),
            pair(RAW, ("mu2",)),
            pair(RAW, ("mu4",)),
        ]
    )
    second, fourth, squares, _, _, physics, *_ = found
    sentence = (
        f"The mean square m2 beside the mean m1: {gain(second)}; m4 beside both: {gain(fourth)}; m2 in place of the "
        f"square of the mean: {gain(squares)}; all three moments in place of x, x^2 and x^4 of the stationary point, "
        f"which needs neither noise nor time nor coupling: {gain(physics)} ({len(raw)} seeds)."
    )
    return Answer(sentence, found)


def time_and_temperature(study: Study) -> Answer:
    """Where the machine is best read."""
    every = {tuple(row["settings"].values()): row["variant"] for row in study.rows}
    home = tuple(PAPER_POINT.values())
    at_home = study.values(every[home])
    pairs = [
        Pair(f"kT = {kT:g}, t = {t:g}", "the paper's kT = 0.1, t = 1", study.values(name), at_home)
        for (kT, t), name in every.items()
        if (kT, t) != home
    ]
    found = judge(pairs)
    best = max(found, key=lambda one: one.mean)
    early = next(one for one in found if one.a == f"kT = 0.1, t = {min(t for _, t in every):g}")
    times = sorted({t for _, t in every})
    table = [("kT", *(f"t = {t:g}" for t in times))]
    for kT in sorted({kT for kT, _ in every}):
        table.append((f"{kT:g}", *(f"{100 * study.values(every[kT, t]).mean():.2f}" for t in times)))
    sentence = (
        f"Read at kT = 0.1 and t = 1, as in the paper, the machine gets {percent(at_home.mean())}; at {best.a}, the "
        f"highest mean of the {len(found)} other points: {gain(best)}; at {early.a}: {gain(early)} "
        f"({len(at_home)} seeds)."
    )
    return Answer(sentence, found, table)


def fusion(study: Study) -> Answer:
    """Whether joined features beat any late fusion."""
    found = judge(
        [
            Pair(
                f"joined features ({row['optimiser']}, {row['readout']})",
                f"{late} readouts",
                study.values(row["variant"], readout=row["readout"]),
                study.values(row["variant"], readout=row["readout"], fusion=key),
            )
            for row in study.fits("training.optimiser")
            for key, late in (
                ("logit", "averaged"),
                ("weighted", "weighted"),
                ("calibrated", "calibrated"),
                ("stacked", "stacked"),
            )
        ]
    )
    parts = [f"of {one.b}: {gain(one)}" for one in found if one.a == found[0].a]
    return Answer(
        f"With the paper's training, joined features in place {'; '.join(parts)} ({found[0].n} seeds).", found
    )


def beside_others(study: Study) -> Answer:
    """What the machine gets beside classifiers that need no physics."""
    paper, trained = study.values("paper"), study.values("trained", readout="trained")
    adam = study.values("adam")
    others = study.baselines("paper")
    pairs = [Pair("the paper's machine", name, paper, values) for name, values in others.items()]
    pairs += [Pair("K trained with Adam", name, adam, values) for name, values in others.items() if "MLP" in name]
    pairs += [
        Pair("the machine trained through its moments", name, trained, values)
        for name, values in others.items()
        if "distorted" in name
    ]
    found = judge(pairs)
    random = next(one for one in found if one.b == _largest(others, "random"))
    sentence = (
        f"The paper's machine in place of {found[0].b}: {gain(found[0])}; of {random.b}: {gain(random)}; "
        f"{found[-1].a} in place of {found[-1].b}: {gain(found[-1])} ({len(paper)} seeds)."
    )
    return Answer(sentence, found)


def _largest(names: Iterable[str], word: str) -> str:
    return max((name for name in names if word in name), key=lambda name: int(name.split()[0]))


QUESTIONS = (
    Question(
        "seeds",
        "By how much does the paper's accuracy scatter, and which seeds does that come from?",
        seeds,
        "The test set is one and the same in all runs: what another test set would change is not in these numbers.",
        "30 minutes",
    ),
    Question(
        "equal-resources",
        "Do three different reservoirs get more than the same number of nodes, or of replicas, spent otherwise?",
        equal_resources,
        "Recipes other than the paper's three.",
        "20 minutes",
    ),
    Question(
        "what-the-moments-carry",
        "Is the gain of the higher moments due to fluctuations, or to powers of the mean?",
        moments,
        "Moments of pairs of nodes, E[x_i x_j].",
        "20 minutes",
    ),
    Question(
        "time-and-temperature",
        "At which reading time and temperature is the machine best?",
        time_and_temperature,
        "K is trained by the paper's surrogate, which knows neither time nor temperature; "
        "[training.md](training.md) has machines trained for each.",
        "45 minutes",
    ),
    Question(
        "fusion",
        "Do joined features get more than late fusion that is calibrated, weighted or learned?",
        fusion,
        "Late fusion that is not linear in the outputs.",
        "20 minutes",
    ),
    Question(
        "beside-others",
        "What does the machine get beside classifiers that need no physics?",
        beside_others,
        "Convolutional networks, which get more than any of these.",
        "30 minutes",
    ),
)


def files(study: str, folder: Path = RESULTS) -> list[Path]:
    """The results of a study: on MNIST first, then by name."""
    found = [path for path in sorted(folder.glob(f"{study}*.json")) if _experiment(path) == study]
    return sorted(found, key=lambda path: (path.stem != study, path.stem))


def _experiment(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")).get("experiment")


def page(folder: Path = RESULTS) -> str:
    """The text of docs/studies.md."""
    done = {question.study: files(question.study, folder) for question in QUESTIONS}
    sections = [_section(question, done[question.study]) for question in QUESTIONS]
    missing = [
        question for question in QUESTIONS if not any(path.stem == question.study for path in done[question.study])
    ]
    return "\n".join([_HEAD, *sections, _missing(missing), _QUICK])


def _section(question: Question, paths: Sequence[Path]) -> str:
    lines = [f"## {question.asks}", ""]
    if not paths:
        lines += [f"Not yet run (`thermoment run {question.study}`).", ""]
    for path in paths:
        study = load(path)
        answer = question.answer(study)
        lines += [f"**On {study.where}.** {answer.sentence}", ""]
        lines += [f"![{question.asks}](figures/studies/{path.stem}.svg)", ""]
        if answer.table:
            lines += _markdown(answer.table)
        if answer.comparisons:
            lines += _markdown(_comparison_rows(answer.comparisons))
    return "\n".join([*lines, f"What remains open: {question.remains}", ""])


def _comparison_rows(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    head = ("this", "less this", "points", "95 % interval", "seeds", "p (Holm)", "verdict")
    return [
        head,
        *(
            (one.a, one.b, points(one.mean), interval(one.ci95), str(one.n), f"{one.holm:.2g}", one.verdict)
            for one in comparisons
        ),
    ]


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"|{' --- |' * len(rows[0])}", *body, ""]


def _missing(questions: Sequence[Question]) -> str:
    if not questions:
        return ""
    rows = [("study", "command", "time on one GPU, estimated")]
    rows += [(one.study, f"`thermoment run {one.study}`", one.time) for one in questions]
    return "\n".join(["## Not yet run on MNIST", "", *_markdown(rows)])


_HEAD = """# Studies

The paper ends with open questions. Each has a study here, an experiment that ships with the package: `thermoment run
STUDY` does it, and its report has every model. This page is written by `studies/answers.py` from the files in
`studies/results`, and a test compares it with them.

How to read it: a difference is taken seed by seed (two machines with the same seeds on the same test images) and has
the 95 % interval of its mean by the t distribution. *Established* means that p is below 0.05 after Holm's correction
for all comparisons of the study, and that there are at least ten seeds where the difference is below 0.3 points.
Everything else is *not established*: that is not the same as no difference. In the figures a filled dot is an
established difference, a line its interval.
"""
_QUICK = """## Do one yourself

```sh
thermoment run fusion --dry-run                             # what it would compute, and how long
thermoment run fusion --engine meanfield                    # without sampling: for a laptop
thermoment run fusion --set data.name=fashion-mnist --out runs/fusion-fashion-mnist
thermoment run fusion --part 3/10 --store /shared/stages    # a tenth of it, as one of ten jobs
thermoment run time-and-temperature --engine meanfield --set data.name=digits --set 'reservoirs.*.n_nodes=16'
```

The last is a quick check on the digits that come with the package. `study.json` of a finished run goes to
`studies/results/STUDY.json` (another data set: `STUDY-NAME.json`); then `python studies/answers.py` writes this page.
"""


def main() -> None:
    """Writes the page and its figures."""
    from answer_figures import draw

    PAGE.write_text(page(), "utf-8")
    for question in QUESTIONS:
        for path in files(question.study):
            study = load(path)
            draw(study, question.answer(study), FIGURES / path.stem)


if __name__ == "__main__":
    main()
