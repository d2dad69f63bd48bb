"""An experiment as tasks that any process or machine can do: trainings, chunks of features, fits, readouts.

A task takes what it needs from the store, claims what it makes, and writes it whole to the store. So it may be done
anywhere, again, and by two at once: the store is the same. What variants and repeats have in common is one task.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from thermoment import __version__, data
from thermoment._support.identity import identity
from thermoment._support.progress import Listener, Note, silent
from thermoment.data.dataset import Dataset
from thermoment.data.table import Split
from thermoment.experiments.experiment import Experiment
from thermoment.learning.options import trained_name
from thermoment.reads import PAIR
from thermoment.runs.check import check
from thermoment.runs.context import Context
from thermoment.runs.features import engine_name, present
from thermoment.runs.fits import BASELINE, SGD, fitted_models
from thermoment.runs.reservoirs import (
    are_made,
    distinct,
    draw,
    finite_time_groups,
    make,
    make_one,
    make_static,
    together,
    train_finite_time,
    train_static,
)
from thermoment.runs.stages import Pass
from thermoment.runs.store import Store, is_kept

_OTHER_VERSION = "A worker has thermoment {}, but the run was started by {}: install the same version everywhere."
KINDS = ("static", "finite-time", "features", "baseline", "sgd", "converged", "readouts")
"""Of tasks: trainings, chunks of features, fits (runs/fits.py), and what makes readouts and predictions of them."""
SHARED, _FITS = KINDS[:3], KINDS[3:6]
_LAST, _SECOND, _FIRST = range(3)
"""Priorities of tasks. Fits wait for all training images, so those come before the test images."""


@dataclass(frozen=True, eq=False)
class Job:
    """What all tasks of an experiment have in common. Two jobs are equal where they are the same object."""

    experiment: Experiment
    store: str
    """a folder or a URL, which must be the same on all machines"""
    data: str
    data_dir: str | None
    sha256: str
    """of the data set"""
    version: str = __version__
    """of thermoment"""
    engines: dict[str, str] = field(default_factory=dict)
    """by the name of the experiment, or of the variant"""
    accelerated: bool = False
    """whether JAX has an accelerator"""

    @property
    def variants(self) -> list[str]:
        """The names of a study's points; "" stands for an experiment that is no study."""
        return list(self.experiment.points) or [""]

    def context(self, listener: Listener = silent, note: Note = lambda _: None) -> Context:
        """For the stages of this job."""
        return Context(Store.at(self.store), listener, note, engines=self.engines, accelerated=self.accelerated)

    def load(self) -> Dataset:
        """The data set on this machine, which must be that of the job."""
        chosen = self.experiment.data
        found = _load(self.data, self.data_dir, chosen.split, chosen.n_train, chosen.n_test)
        if found.sha256 != self.sha256:
            raise RuntimeError(f"The data set {self.data} on this machine is not that of where the run was started.")
        return found


@dataclass(frozen=True)
class Task:
    """A part of a job. Its key names what it makes by the settings that enter."""

    key: str
    kind: str
    variant: str
    repeats: tuple[int, ...]
    """one, or those that are trained side by side"""
    number: int = 0
    """of the reservoir, the head or the chunk"""
    name: str = ""
    """of the features or of the fit"""
    needs: tuple[str, ...] = ()
    """keys of the tasks that come before"""
    shares: tuple[tuple[str, int], ...] = ()
    """of features and readouts: variants and repeats that read the same features"""
    priority: int = _FIRST
    """higher ones come first, where there is a choice"""


def prepare(job: Job, dataset: Dataset | None = None) -> Job:
    """The job with the engines that this machine chooses, after everything that can be refused has been checked."""
    import jax

    if job.version != __version__:
        raise RuntimeError(_OTHER_VERSION.format(__version__, job.version))
    context = Context(Store.at(job.store))
    if context.store.remote:
        context.store.remote.check()
    dataset = dataset or job.load()
    check(job.experiment, dataset)
    chosen = {
        one.name: engine_name(one, list(draw(one, dataset.n_inputs).values()), dataset, context)
        for one in (_variant(job, name) for name in job.variants)
    }
    accelerated = jax.default_backend() != "cpu"
    return Job(job.experiment, job.store, job.data, job.data_dir, job.sha256, job.version, chosen, accelerated)


def tasks(job: Job, n_train: int, n_test: int) -> list[Task]:
    """All tasks of a job, each after those that it needs."""
    found: dict[str, Task] = {}
    readers: dict[str, dict[tuple[str, int], None]] = {}
    for variant in job.variants:
        for task in _of_variant(job, variant, n_train, n_test):
            if found.setdefault(task.key, task) is task and task.kind == "readouts":
                for key in task.needs:
                    readers.setdefault(key, {})[variant, task.repeats[0]] = None
    shares = {
        task.key: tuple(dict.fromkeys(chain(*(readers[key] for key in task.needs if found[key].kind == "features"))))
        for task in found.values()
        if task.kind == "readouts"
    }
    shares |= {task.key: tuple(readers[task.key]) for task in found.values() if task.kind == "features"}
    every = sorted(found.values(), key=lambda task: KINDS.index(task.kind))
    return [replace(task, shares=shares.get(task.key, ())) for task in every]


def _of_variant(job: Job, variant: str, n_train: int, n_test: int) -> Iterator[Task]:
    experiment = _variant(job, variant)
    repeats = [experiment.repeat(number) for number in range(experiment.repeats)]
    options, protocol = experiment.finite_time, experiment.protocol
    static: dict[tuple[int, str], str] = {}
    numbers, places = distinct(repeats)
    for group in together(len(numbers), job.accelerated):
        for number, own in enumerate(experiment.reservoirs):
            draws = [_draw_facts(number, repeats[numbers[k]]) for k in group]
            key = _key("static", draws, own.stages, experiment.training)
            yield Task(key, "static", variant, tuple(numbers[k] for k in group), number)
            static |= {(k, own.name): f"{key}.{place}" for place, k in enumerate(group)}
    for k, repeat in enumerate(repeats):
        made = {one.name: static[places[k], one.name] for one in repeat.reservoirs}
        trained: dict[str, str] = {}
        for number, names in enumerate(finite_time_groups(repeat)):
            assert options is not None
            start = [_draw_facts(at, repeat) if options.beside else made[one.name] for at, one in _of(names, repeat)]
            facts = (protocol.t_final, protocol.n_replicas, protocol.orders, protocol.clip)
            key = _key("finite-time", names, start, repeat.finite_time, number, experiment.dynamics, facts)
            needs = () if options.beside else tuple(_task(made[name]) for name in names)
            yield Task(key, "finite-time", variant, (k,), number, needs=needs)
            trained |= {name: f"{key}.{name}" for name in names}
        first = {**made, **({} if options and options.beside else trained)}
        parts = [(name, source, n_train + n_test, 0) for name, source in first.items()]
        if options and options.beside:
            parts += [(trained_name(name, options), source, n_test, n_train) for name, source in trained.items()]
        chunks: dict[str, list[str]] = {name: [] for name, *_ in parts}
        size, n_first = experiment.features.chunk, -(-n_train // experiment.features.chunk)
        for name, source, n_samples, start_at in parts:
            for number in range(-(-n_samples // size)):
                engine = job.engines.get(experiment.name, experiment.engine)
                pairs = [PAIR] if PAIR in repeat.readout.reads else []
                key = _key("features", source, repeat.protocol, engine, size, start_at, number, *pairs)
                chunks[name].append(key)
                priority = _SECOND if start_at + number * size < n_train else _LAST
                yield Task(key, "features", variant, (k,), number, name, needs=(_task(source),), priority=priority)
        made_by = [*map(_task, made.values()), *map(_task, trained.values())]
        key = _key("readouts", made_by, chunks, repeat.readout, repeat.baselines)
        inputs = _once(one for name in first for one in chunks[name][:n_first])
        sgd = Task(_key("sgd", key), "sgd", variant, (k,), name=SGD, needs=inputs)
        fits = [sgd, Task(_key("baseline", key), "baseline", variant, (k,), name=BASELINE, needs=_once(made_by))]
        if repeat.readout.converged:
            fits += [
                Task(_key("converged", key, one.key), "converged", variant, (k,), name=one.key, needs=(sgd.key,))
                for one in fitted_models(repeat)
            ]
        yield from fits
        needs = _once([*made_by, *chain(*chunks.values()), *(task.key for task in fits)])
        yield Task(key, "readouts", variant, (k,), needs=needs)


def _once(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(keys))


def read_later(
    experiment: Experiment, n_train: int, n_test: int, accelerated: bool = False
) -> dict[tuple[str, int], set[str]]:
    """For every point and repeat of an experiment, in order, which of its features a later one reads too, by name."""
    job = Job(experiment, "", "", None, "", accelerated=accelerated)
    keys: dict[tuple[str, int], dict[str, str]] = {}
    for variant in job.variants:
        for task in _of_variant(job, variant, n_train, n_test):
            if task.kind == "features" and task.number == 0:
                keys.setdefault((variant, task.repeats[0]), {})[task.name] = task.key
    last = {key: reader for reader, own in keys.items() for key in own.values()}
    return {reader: {name for name, key in own.items() if last[key] != reader} for reader, own in keys.items()}


def _of(names: Sequence[str], experiment: Experiment) -> list[tuple[int, Any]]:
    return [(number, one) for number, one in enumerate(experiment.reservoirs) if one.name in names]


def _draw_facts(number: int, experiment: Experiment) -> list[Any]:
    """What a reservoir as drawn depends on."""
    own = experiment.reservoirs[number]
    source = next(one for one in experiment.reservoirs if one.name == (own.start or own.name))
    draws = (source.n_nodes, source.s_W, source.s_K, source.s_b, source.symmetric, source.seed)
    return [number, own.training_seed, draws, experiment.dynamics, experiment.data]


def _key(kind: str, *facts: Any) -> str:
    return f"{kind}-{identity(*facts)[:24]}"


def _task(source: str) -> str:
    """The key of the task that makes a reservoir."""
    return source.partition(".")[0]


def do(job: Job, task: Task, context: Context) -> None:
    """Does a task, unless it is done. Whatever it needs and is not there it makes first."""
    if job.version != __version__:
        raise RuntimeError(_OTHER_VERSION.format(__version__, job.version))
    if task.kind == "static":
        repeats = [_variant(job, task.variant).repeat(number) for number in task.repeats]
        train_static(task.number, repeats, job.load(), context)
    elif task.kind == "finite-time":
        repeats, place = _side_by_side(job, task.variant, task.repeats[0])
        static = make_static(repeats, job.load(), context)[place].reservoirs
        train_finite_time(task.number, static, repeats[place], job.load(), context)
    elif task.kind == "features":
        work = _chunks(job, context, task.variant, task.repeats[0], task.name)
        gone = not work.experiment.features.keep and not work.stages[task.name].folder.exists()
        if not (gone and all(_is_fitted(job, context, *other) for other in task.shares)):
            work.simulate([task.name], [task.number])
    elif task.kind in _FITS:
        _pass(job, context, task.variant, task.repeats[0]).fit_one(task.name)
    else:
        work = _pass(job, context, task.variant, task.repeats[0])
        work.fit()
        if all(_is_fitted(job, context, *other) for other in task.shares):
            work.remove_features()


def is_ready(job: Job, task: Task, context: Context) -> bool:
    """Whether all is there that readouts need, by the names of files."""
    if not _are_made(job, context, task.variant, task.repeats[0]):
        return False
    work = _pass(job, context, task.variant, task.repeats[0])
    return all(len(present(work.stages[name], store)) == store.n_chunks for name, store in work.stores.items())


def is_fitted(job: Job, task: Task, context: Context) -> bool:
    """Whether readouts are in the store."""
    return _is_fitted(job, context, task.variant, task.repeats[0])


def _is_fitted(job: Job, context: Context, variant: str, repeat: int) -> bool:
    return _are_made(job, context, variant, repeat) and is_kept(_pass(job, context, variant, repeat).readouts)


def _are_made(job: Job, context: Context, variant: str, repeat: int) -> bool:
    return are_made(_side_by_side(job, variant, repeat)[0], job.load(), context)


def _side_by_side(job: Job, variant: str, repeat: int) -> tuple[list[Experiment], int]:
    """The repeats that are trained with this one, and its place among them."""
    experiment = _variant(job, variant)
    group = next(group for group in together(experiment.repeats, job.accelerated) if repeat in group)
    return [experiment.repeat(number) for number in group], group.index(repeat)


@lru_cache(maxsize=1000)
def _variant(job: Job, name: str) -> Experiment:
    return job.experiment.variant(name) if name else job.experiment


@lru_cache(maxsize=16)
def _pass(job: Job, context: Context, variant: str, repeat: int) -> Pass:
    """What a repeat needs and gives, with its reservoirs trained."""
    repeats, place = _side_by_side(job, variant, repeat)
    made = make(repeats, job.load(), context)[place]
    return Pass.of(repeats[place], made, job.load(), context)


@lru_cache(maxsize=16)
def _chunks(job: Job, context: Context, variant: str, repeat: int, name: str) -> Pass:
    """The same for the features `name` alone, with their reservoir trained."""
    repeats, place = _side_by_side(job, variant, repeat)
    reservoir = make_one(name, repeats, place, job.load(), context)
    return Pass.of_one(name, reservoir, repeats[place], job.load(), context)


@lru_cache(maxsize=2)
def _load(source: str, data_dir: str | None, split: Split | None, n_train: int | None, n_test: int | None) -> Dataset:
    return data.load(source, data_dir, split=split).first(n_train, n_test)
