"""What the studies that ship with the package found: two pages, every sentence from the committed JSON alone.

    python studies/answers.py            writes docs/studies.md, docs/studies-numbers.md and docs/figures/studies/*

The input is studies/results/STUDY.json, or STUDY-WHERE.json for another data set: the study.json of a finished run. A
study without such a file is listed as not yet run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judged import Answer, Comparison, Study, data_name, interval, load, points
from questions import MAP, QUESTIONS, Question

from thermoment.experiments.experiment import read

ROOT = Path(__file__).parents[1]
RESULTS, FIGURES = ROOT / "studies/results", ROOT / "docs/figures/studies"
PAGE, NUMBERS = ROOT / "docs/studies.md", ROOT / "docs/studies-numbers.md"


def files(study: str, folder: Path = RESULTS) -> list[Path]:
    """The results of a study: on MNIST first, then by name."""
    found = [path for path in sorted(folder.glob(f"{study}*.json")) if _experiment(path) == study]
    return sorted(found, key=lambda path: (path.stem != study, path.stem))


def _experiment(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")).get("experiment")


def page(folder: Path = RESULTS) -> str:
    """The text of docs/studies.md: every question with its answer in short and its figure."""
    done = {question: files(question.study, folder) for question in QUESTIONS}
    sections = [_answered(question, paths) for question, paths in done.items()]
    missing = [one for one, paths in done.items() if not any(path.stem == one.study for path in paths)]
    return "\n".join([_HEAD, *sections, _missing(missing), _times(folder), _QUICK])


def numbers(folder: Path = RESULTS) -> str:
    """The text of docs/studies-numbers.md: every comparison."""
    return "\n".join([_NUMBERS_HEAD, *(_compared(one, files(one.study, folder)) for one in QUESTIONS)])


def _answered(question: Question, paths: Sequence[Path]) -> str:
    """A question with one sentence for every data set, its figure, and what remains open."""
    lines = [f"## {question.asks}", ""]
    for path in paths:
        study = load(path)
        some = " More points are still to be run." * bool(_left(question, study))
        lines += [f"**{study.data}**: {question.answer(study).short}{some}", ""]
        if study.name == MAP:
            lines += _picture(question, path.stem)
    if paths and question.study != MAP:
        lines += _picture(question, question.study)
    if not paths:
        lines += [f"Not yet run (`thermoment run {question.study}`).", ""]
    lines.append(f"What remains open: {question.remains} [All numbers](studies-numbers.md#{question.study}).")
    return "\n".join([*lines, ""])


def _picture(question: Question, name: str) -> list[str]:
    return [f"![{question.asks}](figures/studies/{name}.svg)", ""]


def _left(question: Question, study: Study) -> list[str]:
    """The points of a study that are still to be run, where it is not complete."""
    every, there = read(question.study).points, {row["variant"] for row in study.rows}
    found = [f"`{name}`" for name in every if name not in there]
    return found if len(found) < len(every) else []


def figures(study: str, paths: Sequence[Path]) -> list[str]:
    """The names of the figures of a study: one for all data sets, or one each where it is a map."""
    return [path.stem for path in paths] if study == MAP else [study] * bool(paths)


def _compared(question: Question, paths: Sequence[Path]) -> str:
    """All that a study says: how it was run, its tables, and its comparisons with the data sets side by side."""
    lines = [f"## {question.study}", "", question.asks, ""]
    answers: dict[str, Answer] = {}
    for path in paths:
        study = load(path)
        answers[study.data] = answer = question.answer(study)
        lines += [f"**On {study.where}.** {answer.sentence}", ""]
        if left := _left(question, study):
            total = len(read(question.study).points)
            lines += [f"Still to be run of its {total} points: {', '.join(left)}.", ""]
        for title, table in answer.tables:
            lines += [*([f"{title}:", ""] if title else []), *_markdown(table)]
    for title in dict.fromkeys(family.title for answer in answers.values() for family in answer.families):
        beside = {
            name: {(one.a, one.b): one for one in family.comparisons}
            for name, answer in answers.items()
            for family in answer.families
            if family.title == title
        }
        lines += [f"{title}:", "", *_markdown(_beside(beside))]
    return "\n".join(lines)


def _beside(found: dict[str, dict[tuple[str, str], Comparison]]) -> list[tuple[str, ...]]:
    """The comparisons of one family down, the data sets across."""
    head = ["this", "less this"]
    for name in found:
        of = f"{name}: " if len(found) > 1 else ""
        head += [f"{of}points", "95 % interval", "seeds", "p (Holm)", "verdict"]
    rows = [tuple(head)]
    for names in dict.fromkeys(key for one in found.values() for key in one):
        cells = [_cells(one[names]) if names in one else ("",) * 5 for one in found.values()]
        rows.append((*names, *(cell for part in cells for cell in part)))
    return rows


def _cells(one: Comparison) -> tuple[str, ...]:
    return points(one.mean), interval(one.ci95), str(one.n), f"{one.holm:.2g}", one.verdict


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"|{' --- |' * len(rows[0])}", *body, ""]


def _missing(questions: Sequence[Question]) -> str:
    if not questions:
        return ""
    rows = [("study", "command", "time on one GPU, estimated")]
    rows += [(one.study, f"`thermoment run {one.study}`", one.time) for one in questions]
    return "\n".join(["## Not yet run on MNIST", "", *_markdown(rows)])


def _times(folder: Path) -> str:
    """How long the studies took, machine by machine."""
    rows = [("data", "engine of what is sampled", "seeds", "machine", "parts", "minutes")]
    for path in sorted(folder.glob("times-*.json")):
        found = json.loads(path.read_text("utf-8"))
        seeds = f"at most {found['repeats']}" if found["repeats"] else "all"
        for one in found["machines"]:
            host = f"{one['cores']} cores of {one['processor']}"
            machine = host if one["accelerator"] == "none" else f"{one['accelerator']}, {host}"
            done = f"{one['parts']} of {found['parts']}"
            rows.append((data_name(found["data"]), found["engine"], seeds, machine, done, f"{one['minutes']:.0f}"))
    if len(rows) == 1:
        return ""
    head = "Minutes in which a machine was at work on the parts of all studies, several of them at a time:"
    return "\n".join(["## How long it takes", "", head, "", *_markdown(rows)])


_HEAD = """# Studies

The paper ends with open questions. Each has a study here, an experiment that ships with the package: `thermoment run
STUDY` does it, and its report has every model. This page is written by `studies/answers.py` from the files in
`studies/results`, and a test compares it with them. [Studies: all numbers](studies-numbers.md) has every comparison.

A difference is taken seed by seed, between two machines with the same seeds on the same test images, and has the 95 %
interval of its mean. It is *established* if p is below 0.05 after Holm's correction for all comparisons of its study or
table. Everything else is *not established*, which is not the same as no difference. Below 0.3 points ten seeds are
needed to judge; with fewer the page says so. In the figures a filled dot is an established difference.

The distance to equilibrium is how far the means of the nodes are from their stationary values when they are read: 1 at
the start, 0 in equilibrium. Other words are in the [glossary](glossary.md).
"""
_NUMBERS_HEAD = """# Studies: all numbers

Every comparison behind [the answers](studies.md), written by `studies/answers.py` from the files in `studies/results`.

Intervals are those of the t distribution, over the seeds. The p of a comparison is corrected by Holm's method for all
comparisons of its table. *Established* is a p below 0.05. *Too few seeds*: the difference is below 0.3 points, and
fewer than ten seeds are there to judge it.

Engines `cuda`, `native` and `xla` sample; `meanfield` does not, and adds the fluctuation of the replicas
([accuracy](accuracy.md)). A study may have both: study.json says for every row which it was. The distance to
equilibrium is how far the means of the nodes are from their stationary values when they are read, as a share of these
(rms over nodes and 128 test images): 1 at the start, 0 in equilibrium.

The paper's readout is fitted by SGD. Where machines or what is read of them differ much, SGD gets nearer to its end
with some than with others. There readouts are fully fitted: the same loss is minimised to its end.
"""
_QUICK = """## Do them yourself

```sh
python studies/run_all.py --data-dir DIR --engine cuda --processes 8    # all of them, on one GPU
python studies/run_all.py --data-dir DIR --engine meanfield --repeats 3  # not sampled: hours of two cores
python studies/run_all.py --data-dir DIR --engine cuda --data fashion-mnist --out runs/fashion
python studies/run_all.py --data-dir DIR --engine cuda time-and-temperature/map seeds   # one variant, and one study
thermoment run fusion --dry-run                             # one of them: what it would compute, and how long
thermoment run fusion --engine meanfield                    # without sampling: for a laptop
thermoment run fusion --set data.name=fashion-mnist --out runs/fusion-fashion-mnist
thermoment run fusion --part 3/10 --store /shared/stages    # a tenth of it, as one of ten jobs
```

`run_all.py` does what studies have in common once, goes on where it was stopped, and leaves STUDY.json of each in the
folder `--results`. On one GPU several processes are faster than one, and faster still under NVIDIA's multi-process
service (`nvidia-cuda-mps-control -d`): while one samples, others fit. Let them end by themselves then: a process that
is killed there takes the others with it. Without sampling, the variants that only sampling can do are left out: strong
coupling, double wells, sampled pairs.

OUT/parts has a file for every part that is done. Those of studies that are not complete yet are in
`studies/results/parts`: copied to OUT/parts, they are not done again.

`study.json` of a finished run goes to `studies/results/STUDY.json` (another data set: `STUDY-NAME.json`); then
`python studies/answers.py` writes this page.
"""


def main() -> None:
    """Writes the pages and the figures."""
    from answer_figures import draw

    PAGE.write_text(page(), "utf-8")
    NUMBERS.write_text(numbers(), "utf-8")
    for question in QUESTIONS:
        studies = {path.stem: load(path) for path in files(question.study)}
        answered = {name: (study, question.answer(study)) for name, study in studies.items()}
        for name in figures(question.study, files(question.study)):
            shown = [answered[name]] if question.study == MAP else list(answered.values())
            draw(shown, FIGURES / name)


if __name__ == "__main__":
    main()
