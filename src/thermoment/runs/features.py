"""The stage that simulates: features of all images through every reservoir, chunk by chunk.

Sample ids number the training images first, then the test images.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.choice import choose
from thermoment._engines.task import Engine
from thermoment._support.files import write_whole
from thermoment._support.progress import Progress
from thermoment.data.dataset import Dataset
from thermoment.experiments.experiment import Experiment
from thermoment.moments import Moments
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.runs.context import Context, digest
from thermoment.runs.feature_store import FeatureStore
from thermoment.runs.store import FACTS, Stage, locked
from thermoment.simulation import compute, prepare


def agreed_engine(experiment: Experiment, reservoirs: Sequence[Reservoir], *images: NDArray[Any]) -> Engine:
    """The engine for the features, after it has agreed to drive every reservoir with these images.

    Where the engine is "auto" the largest network decides, since that is what an engine may be too small for.
    """
    chosen = None
    for reservoir in sorted(reservoirs, key=lambda one: -one.n_nodes):
        for part in images:
            task = prepare(reservoir, part, experiment.protocol)
            chosen = chosen or choose(experiment.engine, task)[0]
            chosen.check(task)
    assert chosen is not None
    return chosen


def features_stage(
    reservoir: Reservoir,
    engine: Engine,
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
        engine=engine.name,
        chunk=experiment.features.chunk,
        images=digest(dataset, "x_train", "x_test"),
        first=first,
    )


def open_features(
    stage: Stage, reservoir: Reservoir, experiment: Experiment, dataset: Dataset, first: int = 0
) -> FeatureStore:
    """The features of a stage, which need not be there yet."""
    n_samples = dataset.n_train + dataset.n_test - first
    orders, chunk = experiment.protocol.orders, experiment.features.chunk
    return FeatureStore(stage.folder, n_samples, orders, reservoir.n_nodes, chunk)


def simulate_chunk(
    reservoir: Reservoir,
    inputs: NDArray[Any],
    protocol: Protocol,
    engine: str | Engine,
    first_id: int,
    progress: Progress = False,
) -> Moments:
    """Moments of the images of one chunk, whose sample ids count up from `first_id`. Clipping is left to the counts."""
    ids = np.arange(first_id, first_id + len(inputs), dtype=np.uint64)
    return compute(prepare(reservoir, inputs, protocol, ids), engine, progress)


def complete(
    stages: Mapping[str, Stage],
    reservoirs: Mapping[str, Reservoir],
    engine: Engine,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    first: int = 0,
) -> None:
    """Simulates what is missing of the features of all reservoirs, after the engine has agreed to every image."""
    if any(not stage.folder.exists() for stage in stages.values()):
        images = (dataset.x_test,) if first == dataset.n_train else (dataset.x_train, dataset.x_test)
        agreed_engine(experiment, list(reservoirs.values()), *images)
    for name, stage in stages.items():
        with locked(stage.folder, context.note):
            store = open_features(stage, reservoirs[name], experiment, dataset, first)
            store.prepare()
            write_whole(stage.folder / FACTS, stage.facts_text.encode())
            _simulate_missing(name, store, reservoirs[name], engine, experiment, dataset, context, first)


def _simulate_missing(
    name: str,
    store: FeatureStore,
    reservoir: Reservoir,
    engine: Engine,
    experiment: Experiment,
    dataset: Dataset,
    context: Context,
    first: int,
) -> None:
    missing = store.missing()
    total = sum(store.size(number) for number in missing)
    done, telling = dict.fromkeys(missing, 0), Lock()

    def simulated(number: int) -> Moments:
        def progress(count: int, _: int) -> None:
            with telling:
                done[number] = count
                context.listener(f"{engine.name} {name}, images", sum(done.values()), total)

        rows = store.rows(number)
        inputs = _inputs(dataset, first + rows.start, first + rows.stop)
        return simulate_chunk(reservoir, inputs, experiment.protocol, engine, first + rows.start, progress)

    # While the engine is busy with a chunk, the last one goes to disk.
    with ThreadPoolExecutor(1) as writer:
        written: list[Future[None]] = []
        for number, moments in zip(missing, _in_turn(simulated, missing, engine.tasks_at_once), strict=True):
            while written:
                written.pop().result()
            written.append(writer.submit(store.write, number, moments.raw, moments.info.clip_count, moments.info.error))
        for writing in written:
            writing.result()


def _in_turn(work: Callable[[int], Moments], numbers: Sequence[int], at_once: int) -> Iterator[Moments]:
    """Results of work(n) in order, with up to `at_once` running in threads; at_once = 1 runs in the calling thread."""
    if at_once == 1:
        yield from map(work, numbers)
        return
    with ThreadPoolExecutor(at_once) as pool:
        begun: deque[Future[Moments]] = deque()
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
