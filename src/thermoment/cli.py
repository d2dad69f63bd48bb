"""The command line: results on stdout, progress on stderr.

Exit codes: 0, 1 for a failure, 2 for wrong usage, 130 for Ctrl-C. A failure is one line on stderr; with
THERMOMENT_DEBUG=1 in the environment the traceback comes before it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import thermoment
from thermoment._support.failures import fail, reported

if TYPE_CHECKING:
    from thermoment.experiments.experiment import AnyExperiment

# What computes is imported by the command that needs it, so that help and mistakes come back at once.


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(thermoment.__version__, prog_name="thermoment")
def main() -> None:
    """Langevin computers: simulate them, read their moments, classify with them."""


_RUN = click.Path(exists=True, file_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
_data_option = click.option("--data-dir", type=_FOLDER, help="A folder with the data set's files.")


@main.command()
@click.argument("experiment", default="digits")
@click.option("--out", type=_FOLDER, help="The run's folder.  [runs/EXPERIMENT]")
@click.option("--engine", help="The engine for the features.  [auto]")
@_data_option
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Another setting, such as protocol.n_replicas=64 or reservoirs.*.n_nodes=128.",
)
@click.option(
    "--store",
    envvar="THERMOMENT_STORE",
    metavar="FOLDER|URL",
    help="What runs share: a folder, or a URL such as s3://bucket/path.  [.stages beside the run]",
)
@click.option("--dask", metavar="ADDRESS", help="Compute on a Dask cluster: its scheduler's address, or local:N.")
@click.option("--part", metavar="K/N", help="Do the K-th of N shares, as one of N processes on one store.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what would be computed, how long it would take, and the price on a cluster.",
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="KIND=SECONDS",
    help="For --dry-run: what a task of a kind takes on a worker, in place of a trial here.",
)
@_json_option
@reported
def run(
    experiment: str,
    out: Path | None,
    engine: str | None,
    data_dir: Path | None,
    overrides: tuple[str, ...],
    store: str | None,
    dask: str | None,
    part: str | None,
    dry_run: bool,
    rates: tuple[str, ...],
    as_json: bool,
) -> None:
    """Do an experiment, or resume it.

    EXPERIMENT is a name that ships with the package (`thermoment info` lists them) or a TOML file. Interrupt it at any
    time: the same command continues, and the results are bit-identical. With --part the last process to finish puts the
    run together, and so does the same command without --part.
    """
    from thermoment.experiments.machine import MachineExperiment

    chosen = _experiment(experiment, overrides, engine)
    if dask and part:
        raise click.UsageError("--dask and --part are two ways to share the work: give one of them.")
    if isinstance(chosen, MachineExperiment):
        asked = click.get_current_context().get_parameter_source("store") == ParameterSource.COMMANDLINE
        with _usage():
            chosen.refuse(dask=dask, part=part, rate=rates, data_dir=data_dir, store=store if asked else None)
        store = None
    if dry_run:
        _dry_run(chosen, data_dir, rates, as_json)
        return
    from thermoment._support.progress import on_stderr
    from thermoment.report import terminal as display
    from thermoment.runs import executors
    from thermoment.runs import run as runner
    from thermoment.runs.folder import TIMINGS

    with _usage():
        share = executors.Part.parse(part) if part else None
    folder = out or Path("runs") / chosen.name
    results: runner.AnyResults | None
    common: dict[str, Any] = {"store": store, "data_dir": data_dir, "note": _note}
    with on_stderr() as listener, executors.connected(dask) if dask else nullcontext() as client:
        if share and not isinstance(chosen, MachineExperiment):
            results = runner.run_part(chosen, share, folder, listener=listener, **common)
        else:
            results = runner.run(chosen, folder, client=client, listener=listener, **common)
    if results is None:
        click.echo(f"Part {part} is done. Others are not: the last one puts the run together.", err=True)
        return
    seconds = json.loads((folder / TIMINGS).read_text("utf-8"))["seconds"]
    stages = ", ".join(f"{stage} {value:.1f} s" for stage, value in seconds.items())
    click.echo(f"{sum(seconds.values()):.1f} s: {stages}", err=True)
    if as_json:
        click.echo(results.to_json(), nl=False)
        return
    items = display.result(results, display.console().width)
    _show(results, False, lambda _: items, f"\n{folder / display.page_of(results)}")


@main.command()
@click.argument("run", type=_RUN)
@reported
def report(run: Path) -> None:
    """Make figures and report.html of a RUN again."""
    from thermoment.runs.folder import rewrite_report

    click.echo(str(rewrite_report(run)))


@main.command()
@click.argument("run", type=_RUN)
@_data_option
@reported
def verify(run: Path, data_dir: Path | None) -> None:
    """Check that a RUN is whole and consistent.

    Its files are compared with their checksums, its features with theirs, and every number that follows from its
    predictions is derived again. So is the cost of an answer, where the run keeps its features and its data set is
    on this machine.
    """
    from thermoment.results.machine import holds_machine
    from thermoment.runs.folder import verify as check

    told: dict[str, None] = {}  # once each, though a study may have many runs
    problems = check(run, data_dir, told.setdefault)
    for sentence in told:
        _note(sentence)
    for problem in problems:
        click.echo(problem)
    if problems:
        fail(f"{run} is not as it was written: {len(problems)} problem{'s' if len(problems) > 1 else ''}.")
    click.echo(f"{run} is whole{'' if holds_machine(run) else ', and its results follow from its predictions'}.")


@main.command()
@click.argument("run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", help="Another model of the run, by its key in results.json.  [the best]")
@click.option("--engine", help="The engine that simulates.  [the run's]")
@click.option(
    "--readings", type=int, default=8, show_default=True, help="How often each input is read, with new noise."
)
@click.option("--label", help="The column of a CSV file that holds the classes, to compare with.")
@click.option("--fit", is_flag=True, help="Take an image of any size: cut out what is drawn, centre it as in MNIST.")
@_json_option
@reported
def predict(
    run: str,
    file: Path,
    model: str | None,
    engine: str | None,
    readings: int,
    label: str | None,
    fit: bool,
    as_json: bool,
) -> None:
    """Classify what is in FILE with a finished RUN.

    RUN is the folder of a run, or the name of a machine that ships with the package, such as mnist. FILE is an image,
    an .npz file with the array x, an IDX file or a CSV file. Each input is read several times with independent noise:
    the table says by how much its probability varies, and how often the class stays the same.
    """
    from thermoment.data import inputs
    from thermoment.machines.answers import answer
    from thermoment.report import answers as display
    from thermoment.runs.load import columns, named

    machine = named(run, model)
    if engine is not None:
        from thermoment._engines.choice import MODULES

        _check_engine(engine, ["auto", *MODULES])
    read = inputs.read(
        file, machine.n_inputs, machine.n_classes, columns=(known := columns(machine)), label=label, fitted=fit
    )
    names = known.classes if known else tuple(map(str, range(machine.n_classes)))
    told = answer(machine, read.x, readings, engine=engine).plain(names, read.y)
    _show(told, as_json, display.items)


@main.command()
@click.argument("a", type=_RUN)
@click.argument("b", type=_RUN)
@_json_option
@reported
def compare(a: Path, b: Path, as_json: bool) -> None:
    """Compare the settings and accuracies of two runs.

    Of runs on the same test images, p is that of an exact McNemar test.
    """
    from thermoment.report import terminal as display
    from thermoment.runs import compare as comparison

    _show(comparison.compare(a, b), as_json, lambda found: display.comparison(found, a.name, b.name))


@main.command()
@click.argument("name", required=False)
@_data_option
@_json_option
@reported
def data(name: str | None, data_dir: Path | None, as_json: bool) -> None:
    """List the data sets, or get and check the one called NAME."""
    from thermoment import data as datasets
    from thermoment.report import terminal as display

    if name is not None:
        found = datasets.load(name, data_dir)
        keys = ("name", "n_train", "n_test", "image_shape", "n_classes", "sha256")
        facts = {key: getattr(found, key) for key in keys}
        _show(facts, as_json, after="\n".join(f"{key}: {value}" for key, value in facts.items()))
        return

    def tables(places: Any) -> Iterator[Any]:
        rows = display.places((place["name"], place["where"], place["present"], place["note"]) for place in places)
        yield display.table("data sets", ("name", "where", "there?"), rows)

    places = [{"name": known, **asdict(at)} for known in datasets.NAMES for at in datasets.locate(known, data_dir)]
    _show(places, as_json, tables)


@main.command()
@click.option("--engine", "names", multiple=True, help="Only this engine; may be given again.  [all that can run]")
@click.option("--seconds", type=float, default=3.0, show_default=True, help="How long each engine runs in a round.")
@_json_option
@reported
def bench(names: tuple[str, ...], seconds: float, as_json: bool) -> None:
    """Measure the speed of the engines on this machine.

    At the paper's size: node-steps (updates of one node) per second, and the time for the paper's whole experiment.
    """
    from thermoment._engines.choice import MODULES

    for name in names:
        _check_engine(name, MODULES)
    from thermoment import bench as benchmark
    from thermoment.report import terminal as display

    found = benchmark.measure(names or None, seconds=seconds, report=_note)

    def tables(rows: Any) -> Iterator[Any]:
        head = ("engine", "runs on", "node-steps/s", "images/s", "the paper's experiment")
        yield display.table("engines at N = 256, M = 128, 1000 steps", head, display.speed_rows(rows))

    _show(found, as_json, tables)


@main.command()
@_json_option
@reported
def info(as_json: bool) -> None:
    """Say what can run here, and which experiments there are."""
    from thermoment._engines.choice import engines
    from thermoment._support.files import cache_folder
    from thermoment._support.host import environment
    from thermoment.experiments.experiment import shipped
    from thermoment.report import terminal as display

    facts = {
        "environment": environment("auto"),
        "cache": str(cache_folder()),
        "experiments": shipped(),
        "engines": {name: found._asdict() for name, found in engines().items()},
    }

    def tables(facts: Any) -> Iterator[Any]:
        rows = [(name, "yes" if found["can_run"] else "no", found["note"]) for name, found in facts["engines"].items()]
        yield f"thermoment {thermoment.__version__}, cache in {facts['cache']}"
        yield display.table("engines", ("name", "runs here", "on, or why not"), rows)
        yield display.table("experiments", ("name", "what it is"), facts["experiments"].items())

    _show(facts, as_json, tables)


@main.command()
@click.argument("run", default="mnist")
@click.option("--port", type=click.IntRange(0, 65535), default=8128, show_default=True, help="0 for any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@_data_option
@reported
def serve(run: str, port: int, host: str, open_page: bool, data_dir: Path | None) -> None:
    """Open a page to draw on, and watch a computer read it.

    RUN is the folder of a finished run, or the name of a machine that ships with the package: mnist, unless another is
    named. Ctrl-C ends it.
    """
    try:
        from thermoment.web import server
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn"):
            raise
        fail(f"The page needs {missing}: pip install '.[web]' in a checkout of thermoment.")
    folder = Path(run) if Path(run).is_dir() else None
    if folder is None and run not in thermoment.pretrained():
        raise click.UsageError(f"RUN must be a folder or one of {', '.join(thermoment.pretrained())}, but was {run!r}.")
    machine = thermoment.pretrained(run) if folder is None else thermoment.load(folder)
    images = None if data_dir is None else str(data_dir)
    server.serve(machine, run=folder, host=host, port=port, data_dir=images, open_page=open_page, note=_note)


def _experiment(source: str, overrides: tuple[str, ...], engine: str | None) -> "AnyExperiment":
    """The experiment asked for; a mistake in it is wrong usage."""
    from thermoment._engines.choice import MODULES
    from thermoment.experiments.experiment import read_any

    with _usage():
        experiment = read_any(source, overrides)
        chosen = engine or experiment.engine
        _check_engine(chosen, ["auto", *MODULES])
        return replace(experiment, engine=chosen)


@contextmanager
def _usage() -> Iterator[None]:
    """What is refused inside is wrong usage."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _check_engine(name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise click.UsageError(f"The engine must be one of {', '.join(known)}, but was {name!r}.")


def _dry_run(experiment: "AnyExperiment", data_dir: Path | None, rates: tuple[str, ...], as_json: bool) -> None:
    from thermoment import data as datasets
    from thermoment.experiments.experiment import to_toml
    from thermoment.experiments.machine import MachineExperiment
    from thermoment.report import terminal as display
    from thermoment.runs import plan
    from thermoment.runs.price import parse_rates

    if isinstance(experiment, MachineExperiment):
        text = to_toml(experiment)
        _show({"experiment": text}, as_json, after=f"One task, in about a minute:\n\n{text}")
        return
    with _usage():
        given = parse_rates(rates)

    def tables(found: Any) -> Iterator[Any]:
        yield display.table(f"{experiment.name}: what would be computed", ("", ""), display.rows(found).items())
        yield display.table("features on this machine", ("engine", "time"), display.times(found).items())
        yield from display.cluster(found)

    whole = datasets.load(experiment.data.name, data_dir, split=experiment.data.split)
    dataset = whole.first(experiment.data.n_train, experiment.data.n_test)
    _show(asdict(plan.plan(experiment, dataset, given)), as_json, tables)


def _note(sentence: str) -> None:
    click.echo(sentence, err=True)


def _show(value: Any, as_json: bool, items: Callable[[Any], Iterable[Any]] = lambda _: (), after: str = "") -> None:
    """Prints `value` as JSON, or else the tables and sentences that `items` makes of it and a text `after` them."""
    if as_json:
        click.echo(json.dumps(value, indent=1))
        return
    from thermoment.report import terminal as display

    display.show(items(value))
    if after:
        click.echo(after)
