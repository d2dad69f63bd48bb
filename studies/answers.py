"""What the studies that ship with the package found: every sentence of docs/studies.md, from the committed JSON alone.

    python studies/answers.py            writes docs/studies.md and docs/figures/studies/*

The input is studies/results/STUDY.json, or STUDY-WHERE.json for another data set: the study.json of a finished run. A
study without such a file is listed as not yet run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judged import Answer, Comparison, data_name, interval, load, points
from questions import QUESTIONS, Question

from thermoment.experiments.experiment import read

ROOT = Path(__file__).parents[1]
RESULTS, PAGE, FIGURES = ROOT / "studies/results", ROOT / "docs/studies.md", ROOT / "docs/figures/studies"


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
    short = ["## In short", "", *(_in_short(question, done[question.study]) for question in QUESTIONS), ""]
    missing = [
        question for question in QUESTIONS if not any(path.stem == question.study for path in done[question.study])
    ]
    return "\n".join([_HEAD, *short, *sections, _missing(missing), _times(folder), _QUICK])


def _in_short(question: Question, paths: Sequence[Path]) -> str:
    """The question with one sentence for every data set."""
    studies = [load(path) for path in paths]
    told = [f"On {study.data}: {question.answer(study).short}" for study in studies]
    return f"- **{question.asks}** {' '.join(told) or 'Not yet run.'}"


def _section(question: Question, paths: Sequence[Path]) -> str:
    lines = [f"## {question.asks}", ""]
    if not paths:
        lines += [f"Not yet run (`thermoment run {question.study}`).", ""]
    answers: dict[str, Answer] = {}
    every = read(question.study).points
    for path in paths:
        study = load(path)
        answers[study.data] = answer = question.answer(study)
        lines += [f"**On {study.where}.** {answer.sentence}", ""]
        there = {row["variant"] for row in study.rows}
        left = [f"`{name}`" for name in every if name not in there]
        if 0 < len(left) < len(every):
            lines += [f"Still to be run of its {len(every)} points: {', '.join(left)}.", ""]
        lines += [f"![{question.asks}](figures/studies/{path.stem}.svg)", ""]
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
    return "\n".join([*lines, f"What remains open: {question.remains}", ""])


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
`studies/results`, and a test compares it with them.

How to read it: a difference is taken seed by seed (two machines with the same seeds on the same test images) and has
the 95 % interval of its mean by the t distribution. *Established* means that p is below 0.05 after Holm's correction
for all comparisons of its table. Everything else is *not established*: that is not the same as no difference. A
difference below 0.3 points is judged from ten seeds on; with fewer the table says *too few seeds*. In the figures a
filled dot is an established difference, a line its interval.

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
    """Writes the page and its figures."""
    from answer_figures import draw

    PAGE.write_text(page(), "utf-8")
    for question in QUESTIONS:
        for path in files(question.study):
            study = load(path)
            draw(study, question.answer(study), FIGURES / path.stem)


if __name__ == "__main__":
    main()
