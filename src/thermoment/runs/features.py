"""The stage that simulates: features of all images through every reservoir, chunk by chunk.

Sample ids number the training images first, then the test images.
"""

import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine
from thermoment._support.files import write_whole
from thermoment._support.progress import Progress
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.machines.classifier import with_pairs
from thermoment.moments import Moments
from thermoment.protocol import Protocol
from thermoment.reads import PAIR, pairs_of
from thermoment.reservoir import Reservoir
from thermoment.runs.claims import Claim, is_live, take, wait_for
from thermoment.runs.context import Context, digest
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.store import FACTS, Stage
from thermoment.simulation import compute, prepare

T = TypeVar("T")
_READER = ".reader-"
"""In the names of claims of processes that read features."""
_SHARED = "shared-"
"""Before the name of features: a file of the store that says that they stay."""


def agreed_engine(experiment: Experiment, reservoirs: Sequence[Reservoir], *images: NDArray[Any]) -> Engine:
    """The engine for the features, after it has agreed to drive every reservoir with these images.

    Where the engine is "auto" the largest network decides, since that is what an engine may be too small for.
    """
    chosen = None
    for reservoir in sorted(reservoirs, key=lambda one: -one.n_nodes):
        for part in images:
            task = prepare(reservoir, part, experiment.protocol)
            task = replace(task, pairs=pairs_of(experiment.readout.reads, reservoir.W))
            chosen = chosen or choose(experiment.engine, task)[0]
            chosen.check(task)
    assert chosen is not None
    return chosen


def features_stage(
    reservoir: Reservoir,
    engine: str,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    first: int = 0,
) -> Stage:
    """Where the store has the features of all images from number `first` on through a reservoir."""
    return context.stage(
        "features",
        W=reservoir.W,
        K=reservoir.K,
        b=reservoir.b,
        dynamics=reservoir.dynamics,
        stream=reservoir.stream,
        protocol=experiment.protocol,
        engine=engine,
        chunk=experiment.features.chunk,
        images=digest(dataset, "x_train", "x_test"),
        first=first,
        **({"pairs": True} if PAIR in experiment.readout.reads else {}),
    )


def open_features(
    stage: Stage, reservoir: Reservoir, experiment: Experiment, dataset: Dataset, first: int = 0
) -> FeatureStore:
    """The features of a stage, which need not be there yet."""
    n_samples = dataset.n_train + dataset.n_test - first
    orders, chunk, pairs = experiment.protocol.orders, experiment.features.chunk, PAIR in experiment.readout.reads
    return FeatureStore(stage.folder, n_samples, orders, reservoir.n_nodes, chunk, pairs)


def simulate_chunk(
    reservoir: Reservoir,
    inputs: NDArray[Any],
    protocol: Protocol,
    engine: str | Engine,
    first_id: int,
    progress: Progress = False,
    pairs: tuple[tuple[int, int], ...] = (),
) -> Moments:
    """Moments of the images of one chunk, whose sample ids count up from `first_id`. Clipping is left to the counts."""
    ids = np.arange(first_id, first_id + len(inputs), dtype=np.uint64)
    return compute(replace(prepare(reservoir, inputs, protocol, ids), pairs=pairs), engine, progress)


def engine_name(experiment: Experiment, reservoirs: Sequence[Reservoir], dataset: Dataset, context: Context) -> str:
    """The engine of the features, which need not be one of this machine where others compute."""
    known = context.engines.get(experiment.name)
    return known or agreed_engine(experiment, reservoirs, dataset.x_train[:1]).name


def complete(
    stages: Mapping[str, Stage],
    stores: Mapping[str, FeatureStore],
    reservoirs: Mapping[str, Reservoir],
    engine: str,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    first: int = 0,
    only: Sequence[int] | None = None,
) -> None:
    """Simulates what is missing of the features of all reservoirs, after the engine has agreed to every image.

    Of chunks that other processes have under way the results are waited for. `only` these chunks, all where None.
    """
    chosen = replace(experiment, engine=engine)
    if any(not stage.folder.exists() for stage in stages.values()) and only is None:
        images = (dataset.x_test,) if first == dataset.n_train else (dataset.x_train, dataset.x_test)
        agreed_engine(chosen, list(reservoirs.values()), *images)
    for name, stage in stages.items():
        features = stores[name]
        _prepare(stage, features, context)
        numbers = range(features.n_chunks) if only is None else only
        fetch(stage, features, numbers)
        missing = [number for number in numbers if not features.has(number)]
        if missing:
            _Simulation(name, stage, features, reservoirs[name], chosen, dataset, context, first).do(missing)


def _prepare(stage: Stage, features: FeatureStore, context: Context) -> None:
    """Makes the stage's folder ready for chunks."""
    facts, text = stage.folder / FACTS, stage.facts_text.encode()

    def leftovers() -> Iterator[Path]:
        return stage.folder.glob(f".{FACTS}.*.partial")

    if features.is_prepared() and facts.is_file() and facts.read_bytes() == text and not any(leftovers()):
        return
    with stage.store.claimed(stage.name, context.note):
        for partial in leftovers():
            partial.unlink(missing_ok=True)
        features.prepare()
        write_whole(facts, text)


def fetch(stage: Stage, features: FeatureStore, numbers: Iterable[int]) -> None:
    """Fetches chunks that object storage has and this machine has not; sends those that it has not."""
    if (remote := stage.store.remote) is None:
        return
    sizes = remote.sizes(stage.name)
    for number in numbers:
        names = features.chunk_files(number)
        if features.has(number):
            if any(sizes.get(name) != (stage.folder / name).stat().st_size for name in names):
                send(stage, features, number)
        elif names[-1] in sizes:
            for name in names:
                (stage.folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_whole(stage.folder / name, remote.read(f"{stage.name}/{name}") or b"")


def present(stage: Stage, features: FeatureStore) -> set[int]:
    """Chunks that are there, whole or damaged."""
    sizes = stage.store.remote.sizes(stage.name) if stage.store.remote else {}
    last = {number: features.chunk_files(number)[-1] for number in range(features.n_chunks)}
    return {number for number, name in last.items() if name in sizes or (stage.folder / name).is_file()}


def send(stage: Stage, features: FeatureStore, number: int) -> None:
    """Sends a chunk to object storage, its moments last: without them it is not there."""
    if stage.store.remote:
        for name in features.chunk_files(number):
            stage.store.remote.write(f"{stage.name}/{name}", (stage.folder / name).read_bytes())


@dataclass(frozen=True)
class _Simulation:
    """Simulates missing chunks of one reservoir's features, those that other processes are not at work on first."""

    name: str
    stage: Stage
    features: FeatureStore
    reservoir: Reservoir
    experiment: Experiment
    dataset: Dataset
    context: Context
    first: int

    def do(self, missing: Sequence[int]) -> None:
        """Leaves when all of them are there."""
        engine, _ = choose(self.experiment.engine)
        total = sum(map(self.features.size, missing))
        done, telling = dict.fromkeys(missing, 0), Lock()
        busy: list[int] = []

        def tell(number: int, count: int) -> None:
            with telling:
                done[number] = count
                self.context.listener(f"{engine.name} {self.name}, images", sum(done.values()), total)

        def simulated(wait: bool, number: int) -> tuple[Claim, Moments] | None:
            board, name = self.stage.store.board, f"{self.stage.name}.{number}"
            claim = wait_for(board, name, self.context.note) if wait else take(board, name)
            if claim is None:
                busy.append(number)
                return None
            held.callback(claim.release)
            if wait:
                fetch(self.stage, self.features, [number])
            if self.features.has(number):  # another process made it
                claim.release()
                tell(number, self.features.size(number))
                return None
            self.features.remove_partial(number)
            rows = self.features.rows(number)
            start, stop = self.first + rows.start, self.first + rows.stop
            inputs, protocol = _inputs(self.dataset, start, stop), self.experiment.protocol
            pairs = pairs_of(self.experiment.readout.reads, self.reservoir.W)
            return claim, simulate_chunk(
                self.reservoir, inputs, protocol, engine, start, lambda count, _: tell(number, count), pairs
            )

        # While the engine is busy with a chunk, the last one goes to disk.
        with ExitStack() as held:
            submit = held.enter_context(ThreadPoolExecutor(1)).submit if len(missing) > 1 else _at_once
            written: Future[None] | None = None
            for wait in (False, True):
                numbers, work = (list(busy) if wait else missing), partial(simulated, wait)
                for number, found in zip(numbers, _in_turn(work, numbers, engine.tasks_at_once), strict=True):
                    if written:
                        written.result()
                    written = submit(self._write, number, *found) if found else None
                if written:
                    written.result()

    def _write(self, number: int, claim: Claim, moments: Moments) -> None:
        try:
            self.features.write(number, with_pairs(moments), moments.info.clip_count, moments.info.error)
            send(self.stage, self.features, number)
        finally:
            claim.release()


@contextmanager
def used(stages: Iterable[Stage], context: Context) -> Iterator[None]:
    """Keeps other processes from removing these features."""
    with ExitStack() as readers:
        for stage in stages:
            with stage.store.claimed(stage.name, context.note):
                claim = take(stage.store.board, f"{stage.name}{_READER}{secrets.token_hex(4)}")
            if claim:
                readers.callback(claim.release)
        yield


def share(stages: Iterable[Stage]) -> None:
    """Says in the store that these features stay there for other experiments."""
    for stage in stages:
        stage.folder.parent.mkdir(parents=True, exist_ok=True)
        stage.folder.with_name(f"{_SHARED}{stage.name}").touch()


def remove_unused(stages: Iterable[Stage], context: Context) -> None:
    """Removes features that nobody reads any more, and that are not shared."""
    for stage in stages:
        store = stage.store
        if stage.folder.with_name(f"{_SHARED}{stage.name}").exists():
            continue
        if not stage.folder.exists() and not (store.remote and store.remote.sizes(stage.name)):
            continue
        with store.claimed(stage.name, context.note):
            readers = [name for name in store.board.names() if name.startswith(f"{stage.name}{_READER}")]
            if any(is_live(store.board, name) for name in readers):
                continue
            for name in readers:
                store.board.remove(name)
            if store.remote:
                store.remote.remove(stage.name)
            shutil.rmtree(stage.folder, ignore_errors=True)


def _at_once(work: Callable[..., T], *arguments: Any) -> Future[T]:
    """What a pool's `submit` gives, without a thread."""
    done: Future[T] = Future()
    done.set_result(work(*arguments))
    return done


def _in_turn(work: Callable[[int], T], numbers: Sequence[int], at_once: int) -> Iterator[T]:
    """Results of work(n) in order, with up to `at_once` running in threads; at_once = 1 runs in the calling thread."""
    if at_once == 1:
        yield from map(work, numbers)
        return
    with ThreadPoolExecutor(at_once) as pool:
        begun: deque[Future[T]] = deque()
        for number in numbers:
            begun.append(pool.submit(work, number))
            if len(begun) > at_once:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _inputs(dataset: Dataset, start: int, stop: int) -> NDArray[np.float32]:
    """Images `start` to `stop` - 1 of the training images followed by the test images."""
    in_test = slice(max(start - dataset.n_train, 0), max(stop - dataset.n_train, 0))
    return np.concatenate([dataset.x_train[start:stop], dataset.x_test[in_test]])
