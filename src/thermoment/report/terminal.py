"""What a person sees of a run on a terminal: a sentence and tables of its results, its settings, what it would cost.

Tables fit the terminal: a cell that is too long goes on in the next line, none is cut off.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table as Printed
from rich.text import Text

from thermoment.report import findings
from thermoment.report.formatting import FIT_MEANINGS, FIT_NAMES, duration, energy, percents, rounded
from thermoment.report.tables import written
from thermoment.results.machine import MachineResults
from thermoment.results.naming import FITS, REFITTED, Fit, ModelKey, all_orders, moments, plain_name
from thermoment.results.results import Accuracy, Baseline, Results, StudyResults
from thermoment.results.study import factors, headlines
from thermoment.results.table import Table

_LOG_WIDTH = 200
"""of what does not go to a terminal"""
_HEADS: Mapping[Fit, str] = {
    "sgd": "paper's\nreadout",
    "converged": "fully fitted\nreadout",
    "trained": "trained with\nthe machine",
    "predicted": "without\nsampling noise",
}
"""FIT_NAMES in two lines, for the head of a column."""


def console() -> Console:
    """Where results go: stdout, as wide as the terminal, and wide enough for any table elsewhere."""
    found = Console(highlight=False)
    if not found.is_terminal:
        found.width = _LOG_WIDTH
    return found


def show(items: Iterable[RenderableType]) -> None:
    """Prints sentences and tables, with an empty line between."""
    where = console()
    for number, item in enumerate(items):
        if number:
            where.print()
        where.print(item)


def page_of(results: Results | StudyResults | MachineResults) -> str:
    """The file of a run's folder that a person looks at first."""
    return f"figures/{results.machine}.png" if isinstance(results, MachineResults) else "report.html"


def result(results: Results | StudyResults | MachineResults, width: int) -> Iterator[RenderableType]:
    """A run in one sentence, then every model's accuracy in tables no wider than `width` where that can be."""
    if isinstance(results, MachineResults):
        yield from _numbers(results)
        return
    if isinstance(results, StudyResults):
        yield from _study(results)
        return
    found = Table.of(results.accuracy)
    data = results.dataset
    about = f"{data.name}: {data.n_train} training and {data.n_test} test samples, simulated by {results.engine}."
    yield Text(f"{findings.headline(results)}\n{about}")
    trained: list[Fit] = [fit for fit in found.fits if fit not in REFITTED]
    if trained:
        yield _accuracies(found, trained, width)
    if found.refitted:
        yield _accuracies(found, found.refitted, width, results.baseline)
    legend = [f"{FIT_NAMES[fit]} ({FIT_MEANINGS[fit]})" for fit in found.fits]
    if found.averaged:
        legend.append("averaged (the mean output of one readout per reservoir)")
    yield Text("Readouts: " + "; ".join(legend) + ".")
    if told := findings.cost(results):
        yield Text(told)
    if told := findings.clipped(results):
        yield Text(f"{told}: the moments are not those of the free dynamics.")


def _numbers(results: MachineResults) -> Iterator[RenderableType]:
    """A run of one of the other machines: every number with its standard error or its interval."""
    yield Text(f"{results.description}\nSampled by {results.engine}.")
    rows = []
    for one in results.numbers:
        share = f"{100 * one.value:.1f}\N{NO-BREAK SPACE}%"
        low, high = one.ci95 or (0.0, 0.0)
        error = "" if one.standard_error is None else f"{one.standard_error:.2g}"
        cells = (share, "", f"{100 * low:.1f} to {100 * high:.1f}\N{NO-BREAK SPACE}%")
        rows.append((one.what, *(cells if one.ci95 else (f"{one.value:.4g}", error, ""))))
    yield table("", ("", "value", "standard error", "95 % interval"), rows)


def _accuracies(found: Table[Accuracy], fits: Sequence[Fit], width: int, baseline: Sequence[Baseline] = ()) -> Printed:
    """Models down, readouts across: correct answers and per cent, with intervals where they fit into `width`."""
    lines: list[tuple[str, str, Mapping[Fit, Accuracy | Baseline]]] = [
        (plain_name(model), moments(model), rows) for model, rows in found.rows.items() if rows.keys() & set(fits)
    ]
    for name in dict.fromkeys(raw.model for raw in baseline):
        readouts = {raw.readout: raw for raw in baseline if raw.model == name}
        if "trained" in readouts:  # a perceptron, which has a training of its own
            readouts = {fits[0]: readouts["trained"]}
        lines.append((name, "", readouts))
    for intervals in (True, False):
        head, body = ["model", "moments"], [[name, read] for name, read, _ in lines]
        for fit in fits:
            head += [_HEADS[fit], "95 %"] if intervals else [_HEADS[fit]]
            for cells, (_, _, rows) in zip(body, lines, strict=True):
                row = rows.get(fit)
                cells.append(f"{row.correct}  {rounded(row.accuracy, row.total)}" if row else "")
                if intervals:
                    cells.append(percents(row.ci95) if row else "")
        if _width(head, body) <= width:
            break
    return table("", head, body)


def _width(head: Iterable[str], body: Iterable[Iterable[str]]) -> int:
    """Columns that a table takes when no cell is wrapped, two spaces apart."""
    columns = list(zip(head, *body, strict=True))
    return sum(max(len(line) for cell in column for line in cell.split("\n")) + 2 for column in columns) - 2


def _study(results: StudyResults) -> Iterator[RenderableType]:
    """Mean and deviation over seeds of all reservoirs and of the best single one: variants down, readouts across.

    Of a scan, and of variants that have other reservoirs, what all reservoirs of each get.
    """
    yield Text(findings.study(results))
    if factors(results) or len({line.row.model for line in headlines(results)}) > 1:
        yield _headlines(results)
        return
    found = Table.of(row for variant in results.study for row in variant.accuracy)  # its rows are those of one variant
    columns = [(f"{found.joined.name}\n{_HEADS[fit]}", [replace(found.joined, readout=fit)]) for fit in found.fits]
    if len(found.singles) > 1:
        singles = [replace(model, readout=found.fits[0]) for model in found.singles]
        columns.append((f"best single\n{_HEADS[found.fits[0]]}", singles))
    body = []
    for variant in results.study:
        cells = [variant.variant]
        for _, models in columns:
            rows = [row for model in models if (row := variant.row(model))]
            best = max(rows, key=lambda row: row.mean, default=None)
            spread = "" if best is None or best.sd is None else f" ± {100 * best.sd:.2f}"
            cells.append("" if best is None else f"{100 * best.mean:.2f}{spread}")
        body.append(cells)
    yield table("test accuracy in per cent", ["variant", *(name for name, _ in columns)], body)
    yield Text("The report has every model.")


def _headlines(results: StudyResults) -> Printed:
    """The points of a scan down: what each sets, what all its reservoirs get, and what that is less the first."""
    body = []
    for line in headlines(results):
        what = line.point.description or line.point.variant
        interval = percents(line.row.ci95) if line.row.ci95 else ""
        beside = line.beside
        less = f"{100 * beside.mean:+.2f}" if beside else ""
        within = " to ".join(f"{100 * end:+.2f}" for end in beside.ci95) if beside and beside.ci95 else ""
        cost = "" if line.point.cost is None else f"{line.point.cost:.3g}"
        body.append([what, f"{100 * line.row.mean:.2f}", interval, less, within, cost])
    head = ("what is set", "accuracy, %", "95 %", "less the first", "95 %", "kT an answer")
    return table("all reservoirs, mean over the seeds", head, body)


def table(title: str, head: Iterable[str], body: Iterable[Iterable[str]]) -> Printed:
    """A table with numbers to the right and words to the left. Brackets in a cell are no markup."""
    head, rows = list(head), [list(row) for row in body]
    made = Printed(title=Text(title) if title else None, title_justify="left", box=None, pad_edge=False)
    made.header_style = "bold"
    lines = max(name.count("\n") for name in head)
    for number, name in enumerate(head):
        numbers = all(not row[number] or row[number][0] in "0123456789+-" for row in rows)
        low = "\n" * (lines - name.count("\n")) + name  # heads stand on the line above the first row
        made.add_column(Text(low), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def times(plan: Mapping[str, Any]) -> dict[str, str]:
    """The time on every engine as it is shown, or why it cannot; `plan` has the fields of runs.plan.Plan."""
    return {name: value if isinstance(value, str) else duration(value) for name, value in plan["seconds"].items()}


def rows(plan: Mapping[str, Any]) -> dict[str, str]:
    """What an experiment would compute as it is shown: what, and how much."""
    sampled = "" if math.isinf(plan["node_steps"]) else f"{plan['node_steps']:.2e}"
    return {
        "images through a reservoir": f"{plan['n_images']:,}",
        "node-steps (updates of one node), if sampled": sampled or "infinitely many replicas: only meanfield",
        "epochs of training, times reservoirs": f"{plan['epochs']:,}",
        "readouts": f"{plan['n_readouts']:,}",
        "chunks of features": f"{plan['chunks']:,}",
        "disk for features": f"{plan['disk_bytes'] / 1e6:,.0f} MB",
    }


def cluster(plan: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What an experiment costs on a cluster, from the price of a plan."""
    price = plan["price"]
    body = [
        [kind, f"{count:,}", duration(price["seconds"][kind] / count), duration(price["seconds"][kind])]
        for kind, count in price["tasks"].items()
        if count
    ]
    body.append(["all", f"{sum(price['tasks'].values()):,}", "", duration(sum(price["seconds"].values()))])
    head = ("task", "how many", "each", "together")
    yield table(f"tasks for a cluster, by {price['engine']} on machines like this one", head, body)
    spent = f"{price['gpu_hours']:.3g} GPU-hours" if price["gpu_hours"] else f"{price['core_hours']:.3g} core-hours"
    moved = (
        f"{price['written_bytes'] / 1e9:.3g} GB written to the store, {price['read_bytes'] / 1e9:.3g} GB read from it"
    )
    yield Text(f"{spent}, {moved}; each worker starts for {duration(price['start_seconds'])}.")
    hours = [[f"{int(n):,}", duration(3600 * value)] for n, value in price["hours"].items()]
    yield table("from the start to the end", ("workers", "time"), hours)


def comparison(found: Mapping[str, Any], a: str, b: str) -> Iterator[RenderableType]:
    """Two runs called a and b: their headlines, every model of either, and the settings that differ."""
    head = found["headline"]
    said = []
    for name, side, total, key in zip((a, b), "ab", found["total"], head["models"], strict=True):
        model = ModelKey.parse(key)
        answer = found["cost"]["ab".index(side)]
        cost = "" if answer is None else f", {energy(answer)} an answer"
        who = f"{plain_name(model)}, {FIT_NAMES[model.readout]}"
        said.append(f"{name}: {head[side]} of {total} correct{cost} ({who})")
    test = "Not the same test samples, so no test." if head["p"] is None else f"Exact McNemar p = {head['p']:.3g}."
    yield Text(f"{'; '.join(said)}. {test}")
    rows = {ModelKey.parse(row["model"]): row for row in found["accuracy"]}
    full = all_orders(rows)
    for fit in FITS:
        body = []
        for model, row in rows.items():
            if model.readout == fit:
                name = plain_name(model) if model.orders == full else f"{plain_name(model)} ({moments(model)})"
                counts = [row["a"], row["b"]]
                missing = [run for run, count in zip((b, a), counts, strict=True) if count is None]
                change = f"only in {missing[0]}" if missing else f"{row['b'] - row['a']:+d}"
                p = "" if row["p"] is None else f"{row['p']:.3g}"
                body.append([name, *("" if count is None else str(count) for count in counts), change, p])
        if body:
            yield table(FIT_NAMES[fit], ("correct", a, b, "change", "p"), body)
    settings = [
        [key.removeprefix("settings."), *("not set" if v is None else written(key.split(".")[-1], v) for v in values)]
        for key, values in found["settings"].items()
    ]
    if settings:
        yield table("settings that differ", ("", a, b), settings)


def places(found: Iterable[tuple[str, str, bool, str]]) -> list[list[str]]:
    """Data set, where it may be, and whether it is there: from (name, where, present, note)."""
    return [
        [name, where, f"here: {note}" if present else "would be downloaded" if note == "not asked" else note]
        for name, where, present, note in found
    ]


def speed_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Engine, what it runs on, node-steps and images per second, time for the paper; then those that cannot run."""
    ran = [
        [
            row["engine"],
            row["runs_on"],
            f"{row['node_steps_per_second']:.2g}" if row["node_steps_per_second"] else "none taken",
            f"{row['images_per_second']:.3g}",
            duration(row["paper_seconds"]),
        ]
        for row in found["speeds"]
    ]
    return ran + [[engine, f"cannot run: {why}", "", "", ""] for engine, why in found["absent"].items()]
