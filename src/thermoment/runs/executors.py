"""Who does the tasks of an experiment: this process its share of them, or the workers of a Dask cluster all of them.

Both fill the store. Then the run is put together from the store, here, as a run that was done here all along. Only this
module imports Dask.
"""

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from thermoment import __version__
from thermoment._support.checks import invalid
from thermoment._support.progress import Listener, Note
from thermoment.runs.claims import take
from thermoment.runs.context import Context
from thermoment.runs.tasks import KINDS, SHARED, Job, Task, do, is_fitted, is_ready, prepare, tasks

Client = Any
"""distributed.Client, which is imported when it is used."""

_CONNECT_SECONDS = 20.0
_RETRIES = 2
_SECONDS_WITHOUT_SCHEDULER = 600.0
"""How long a scheduler that went away is waited for."""
_ATTEMPTS = 20
_CUDA = "cuda"
"""The engine, and the Dask resource of workers that have it."""


@dataclass(frozen=True)
class Part:
    """Share `number` of `total`."""

    number: int
    total: int

    @classmethod
    def parse(cls, text: str) -> "Part":
        """The share that "7/100" stands for: the seventh of a hundred."""
        number, _, total = text.partition("/")
        if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
            raise invalid("part", "be k/n with 1 <= k <= n, such as 7/100", repr(text))
        return cls(int(number), int(total))


def do_part(job: Job, part: Part, n_train: int, n_test: int, context: Context) -> bool:
    """Does a share of the trainings and chunks, and the readouts that are ready then. Says whether all readouts are.

    Readouts are fitted by whoever makes the last chunk that they read, so no process waits for another's share.
    """
    every, mine = tasks(job, n_train, n_test), set()
    for kind in SHARED:
        own = [task for task in every if task.kind == kind][part.number - 1 :: part.total]
        for number, task in enumerate(own):
            context.listener(f"part {part.number} of {part.total}, {kind}", number, len(own))
            do(job, task, context)
            mine.add(task.key)
    readouts = [task for task in every if task.kind == "readouts"]
    for task in readouts:
        if not mine & set(task.needs) or is_fitted(job, task, context) or not is_ready(job, task, context):
            continue
        if claim := take(context.store.board, f"fit-{task.key}"):  # else another process is at it
            try:
                do(job, task, context)
            finally:
                claim.release()
    return all(is_fitted(job, task, context) for task in readouts)


@contextmanager
def connected(where: str) -> Iterator[Client]:
    """A client of the cluster at the address `where`; "local:N" starts N workers on this machine for the time being."""
    distributed = _distributed()
    kind, _, count = where.partition(":")
    if kind == "local":
        if not count.isdecimal() or not 1 <= int(count) <= 1024:
            raise invalid("dask", "be local:N with N workers from 1 to 1024, or a scheduler's address", repr(where))
        with (
            distributed.LocalCluster(
                n_workers=int(count), threads_per_worker=1, dashboard_address=":0", memory_limit=0, silence_logs=50
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.register_plugin(_own_cores(int(count)))
            yield client
        return
    client = _connect(where, _CONNECT_SECONDS)
    try:
        yield client
    finally:
        client.close()


def do_on_cluster(
    client: Client, job: Job, n_train: int, n_test: int, store: Path | None, listener: Listener, note: Note
) -> Job:
    """Does all tasks of a job on the workers of a cluster, and returns the job as the workers see it.

    store: the folder of the store where it is one; workers must see the same folder. A scheduler that goes away is
    waited for: what is done is in the store, and the rest is submitted again.
    """
    _distributed()
    own = None
    try:
        for _ in range(_ATTEMPTS):
            try:
                return _do_all(client, job, n_train, n_test, store, listener)
            except _TaskError as failed:
                raise failed.error from None
            except _lost() as error:
                if isinstance(error, OSError) and _is_connected(client):
                    raise
            note("The scheduler went away. Waiting for it; what was computed is kept.")
            client = own = _reconnected(client)
        raise RuntimeError(f"The scheduler {_address(client)} went away {_ATTEMPTS} times. What was computed is kept.")
    finally:
        if own is not None:
            own.close()


def _do_all(client: Client, job: Job, n_train: int, n_test: int, store: Path | None, listener: Listener) -> Job:
    import distributed

    _check_workers(client)
    gpus = any(_CUDA in info.get("resources", {}) for info in client.scheduler_info(n_workers=-1)["workers"].values())
    wanted = job.experiment.engine
    with _probe(store) as probe:
        resources = {_CUDA: 1} if wanted == _CUDA or (wanted == "auto" and gpus) else None
        prepared = client.submit(_prepared, job, probe, resources=resources, pure=False, retries=0)
        found: Job = _result(prepared)
    every = tasks(found, n_train, n_test)
    # A GPU rounds in another way than a processor: all tasks of an experiment are done where its engine is.
    on_gpu = {task.key for task in every if _engine(found, task) == _CUDA}
    kinds = {task.key: task.kind for task in every}
    futures = submit(client, every, _do, prepared, on_gpu)
    total, done = Counter(task.kind for task in every), Counter[str]()
    try:
        listener("tasks", 0, len(every))
        for future in distributed.as_completed(futures, loop=client.loop):
            _result(future)
            done[kinds[_key(future)]] += 1
            detail = ", ".join(f"{kind} {done[kind]}/{total[kind]}" for kind in KINDS if total[kind])
            listener("tasks", sum(done.values()), len(every), detail)
    except BaseException:
        with suppress(Exception):
            client.cancel(futures)
        raise
    return found


def submit(
    client: Client, every: Sequence[Task], work: Callable[..., Any], common: Any, on_gpu: Set[str] = frozenset()
) -> list[Any]:
    """Futures of work(common, task, ...) for all tasks, each after those that it needs.

    common: a future
    on_gpu: keys of the tasks that need a worker with the resource `cuda`

    Tasks wait at the scheduler and go to a worker when it is free, by their priority. Unless told that they are such
    tasks ("data producers"), Dask would hand each at once to the worker that did what it needs, behind others.
    """
    from dask._task_spec import List, TaskRef
    from dask._task_spec import Task as Node
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    run = secrets.token_hex(4)
    names = {task.key: f"{task.key}-{run}" for task in every}
    graph, priority, resources = {}, {}, {}
    for number, task in enumerate(every):
        name, needs = names[task.key], List(*(TaskRef(names[key]) for key in task.needs))
        graph[name] = Node(name, work, TaskRef(common.key), task, needs, _data_producer=True)
        priority[name] = task.priority * len(every) - number
        resources[name] = {_CUDA: 1} if task.key in on_gpu else {}
    notes: dict[str, Any] = {"priority": priority.__getitem__, "retries": _RETRIES}
    if on_gpu:
        notes["resources"] = resources.__getitem__
    layers = {"thermoment": MaterializedLayer(graph, annotations=notes)}
    futures: list[Any] = client.get(HighLevelGraph(layers, {"thermoment": set()}), list(graph), sync=False)
    return futures


def _key(future: Any) -> str:
    """Of the task."""
    return str(future.key.rpartition("-")[0])


def _engine(job: Job, task: Task) -> str:
    name = f"{job.experiment.name}-{task.variant}" if task.variant else job.experiment.name
    return job.engines[name]


def _do(job: Job, task: Task, _: list[None]) -> None:
    """A task on a worker."""
    do(job, task, _context(job))


@lru_cache(maxsize=2)
def _context(job: Job) -> Context:
    return job.context()


def _prepared(job: Job, probe: str) -> Job:
    """The job as a worker sees it, after the worker has found the store."""
    if probe and not Path(probe).exists():
        raise RuntimeError(
            f"The workers do not see {job.store}: give --store a folder that all machines share, or a URL such as "
            "s3://bucket/path."
        )
    return prepare(job)


@contextmanager
def _probe(store: Path | None) -> Iterator[str]:
    """A file in the store by which workers see that theirs is the same."""
    if store is None:
        yield ""
        return
    path = store / ".locks" / f".probe-{secrets.token_hex(4)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


class _TaskError(Exception):
    """A task failed, not the cluster."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _result(future: Any) -> Any:
    """What a task gave."""
    from distributed import KilledWorker

    found = future.exception()
    if isinstance(found, KilledWorker):
        said = str(found).rstrip(".")
        raise _TaskError(RuntimeError(f"{_key(future)} was given up: {said}. What was computed is kept."))
    if future.status == "error":
        raise _TaskError(found)
    return future.result()


def _check_workers(client: Client) -> None:
    """Refuses a cluster without workers, and workers without thermoment or with another version of it."""
    distributed = _distributed()
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
    except (TimeoutError, distributed.TimeoutError):
        raise RuntimeError(f"The scheduler {_address(client)} has no workers.") from None

    def version() -> str:  # sent to the workers by value, so that one without thermoment can answer
        import importlib

        try:
            return f"thermoment {importlib.import_module('thermoment').__version__}"
        except ImportError:
            return "no thermoment"

    found = client.run(version, on_error="return")
    for worker, has in found.items():
        if has != f"thermoment {__version__}":
            raise RuntimeError(
                f"The worker {worker} has {has}, but this is thermoment {__version__}: install the same version there."
            )


def _connect(where: str, seconds: float) -> Client:
    distributed = _distributed()
    try:
        return distributed.Client(where, timeout=seconds, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise RuntimeError(f"No Dask scheduler answers at {where}: {str(error).splitlines()[0].rstrip('.')}.") from None


def _reconnected(client: Client) -> Client:
    """A client of the same scheduler, once it answers and has workers."""
    where, until = _address(client), time.monotonic() + _SECONDS_WITHOUT_SCHEDULER
    with suppress(Exception):
        client.close(timeout=1)
    while True:
        try:
            found = _connect(where, 5)
            _check_workers(found)
            return found
        except RuntimeError as error:
            if time.monotonic() > until:
                raise RuntimeError(
                    f"The scheduler {where} went away and did not come back. What was computed is kept: the same "
                    "command continues."
                ) from error
            time.sleep(1)


def _address(client: Client) -> str:
    return str(client.scheduler.addr if client.scheduler else client._start_arg)


def _is_connected(client: Client) -> bool:
    return client.status == "running" and client.scheduler_comm is not None and not client.scheduler_comm.comm.closed()


def _lost() -> tuple[type[BaseException], ...]:
    """What Dask raises when a scheduler goes away."""
    from concurrent.futures import CancelledError

    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    return (CancelledError, FutureCancelledError, CommClosedError, OSError, TimeoutError)


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError:
        raise RuntimeError("A cluster needs the extra `cluster`: pip install 'thermoment[cluster]'.") from None
    return distributed


def _own_cores(n_workers: int) -> Any:
    """A plugin that gives each worker of this machine cores of its own, where the system can."""
    from distributed import WorkerPlugin

    class OwnCores(WorkerPlugin):  # type: ignore[misc]
        name = "thermoment-cores"

        def setup(self, worker: Any) -> None:
            if hasattr(os, "sched_setaffinity") and isinstance(worker.name, int):
                every = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, every[worker.name % len(every) :: n_workers])

    return OwnCores()
