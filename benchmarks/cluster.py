"""The price of company: overhead of a task, speed-up with workers, and a thousand workers in simulated time.

    python benchmarks/cluster.py overhead speedup price simulated --out benchmarks/results/cluster-NAME.json

overhead    a task that does nothing but what every task does (claim, look, write, release), in this process, and the
            same through a Dask scheduler and one worker process on loopback
speedup     chunks of features by `native` on 1, 2, ... workers with a core each, as far as there are cores
price       what `--dry-run` names beside what three runs took, both in seconds of processor time, which other programs
            on the machine do not change; each in a process of its own
simulated   a thousand workers and the paper's experiment times 100, in a clock that only counts: a free worker takes
            the ready task of the highest priority, for the time that such a task takes by `native` on two cores. Then
            the same through a real Dask scheduler: a thousand tasks under way at a time, by twenty workers of fifty
            places each in one process, which sleep for these times in place of computing. That takes 20 minutes. It
            shows what the scheduler and the shape of the graph cost, not what a network or a shared disk do.
"""

import argparse
import asyncio
import heapq
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import distributed
import numpy as np
from sklearn.datasets import load_breast_cancer

from thermoment import data
from thermoment._support.files import write_whole
from thermoment._support.host import describe
from thermoment._support.threads import cores
from thermoment.experiments.experiment import Experiment, read
from thermoment.moments import Info, Moments
from thermoment.results.naming import ModelKey
from thermoment.runs import executors, features
from thermoment.runs.run import run
from thermoment.runs.tasks import Job, Task, do, prepare, tasks

ROOT = Path(__file__).parents[1]
N_WORKERS, N_PROCESSES, N_REPEATS = 1000, 20, 100
N_TIMES = 5
STATIC_SECONDS = (33.0, 87.0, 44.0)
PAPER_SECONDS = {"features": 105.7, "baseline": 14.0, "sgd": 82.0, "readouts": 3.0}
CONVERGED_SECONDS = {1: 5.0, 2: 13.0, 3: 22.0}
"""of the paper's tasks on two cores of an AMD EPYC (Zen 4), by `native`: docs/reproduction.md, performance.md. Those of
fits are half of their processor time, and add up to the 190 s that they take together on the wall. A fit to convergence
takes so long with 768 features, twice and three times as many."""


def paper_seconds(task: Task) -> float:
    """What a task of the paper's experiment takes."""
    if task.kind == "static":
        return STATIC_SECONDS[task.number]
    if task.kind == "converged":
        model = ModelKey.parse(task.name)
        return CONVERGED_SECONDS[len(model.reservoirs) * len(model.orders) // 3]
    return PAPER_SECONDS[task.kind]


def paper_tasks(n_repeats: int) -> list[Task]:
    """The tasks of the paper's experiment with so many repeats."""
    return tasks(Job(replace(read("paper"), repeats=n_repeats), "", "", None, ""), 60_000, 10_000)


def small(chunk: int, **protocol: Any) -> Experiment:
    """Digits with chunks of features by `native` that take as long as `protocol` makes them."""
    digits = read("digits", ["engine=native", f"features.chunk={chunk}", "readout.converged=false", "readout.epochs=2"])
    plans = tuple(replace(one, stages=()) for one in digits.reservoirs)
    return replace(digits, finite_time=None, reservoirs=plans, protocol=replace(digits.protocol, **protocol))


def job_of(experiment: Experiment, store: Path) -> tuple[Job, list[Task]]:
    """The job of an experiment in an empty store, and its tasks."""
    dataset = data.load("digits")
    job = prepare(Job(experiment, str(store), "digits", None, dataset.sha256), dataset)
    return job, tasks(job, dataset.n_train, dataset.n_test)


def no_work(reservoir: Any, inputs: Any, protocol: Any, *_: Any) -> Moments:
    """Moments that cost nothing."""
    raw = np.zeros((len(inputs), len(protocol.orders), reservoir.n_nodes))
    ids, info = np.arange(len(inputs), dtype=np.uint64), Info("native", "asked for", 0, protocol.n_steps, 0.0)
    return Moments(raw, protocol.orders, protocol.n_replicas, ids, info)


def overhead() -> dict[str, Any]:
    """Seconds of a task beside its work, several times over: other programs on the machine lengthen them."""
    runs = [_overhead() for _ in range(N_TIMES)]
    together = [one["together"] for one in runs]
    return {"best": min(together), "median": median(together), "runs": runs}


def _overhead() -> dict[str, float]:
    """Seconds of a task beside its work: here, and handed out by a scheduler."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        job, every = job_of(small(10, n_replicas=1), Path(folder) / "store")
        context = job.context()
        for task in every:
            if task.kind == "static":
                do(job, task, context)
        real = features.simulate_chunk
        vars(features)["simulate_chunk"] = no_work
        chunks = [task for task in every if task.kind == "features"]
        do(job, chunks[0], context)
        start, began = time.perf_counter(), time.process_time()
        for task in chunks[1:]:
            do(job, task, context)
        found["in_process"] = (time.perf_counter() - start) / len(chunks[1:])
        found["in_process_cpu"] = (time.process_time() - began) / len(chunks[1:])
        vars(features)["simulate_chunk"] = real
        found["chunks"] = len(chunks) - 1
    with executors.connected("local:1") as client:
        client.submit(_nothing, -1).result()
        start = time.perf_counter()
        count = 2000
        client.gather(client.map(_nothing, range(count), pure=False))
        found["dask"] = (time.perf_counter() - start) / count
    found["together"] = found["in_process"] + found["dask"]
    return found


def _nothing(_: int) -> None:
    return None


def speedup() -> dict[str, Any]:
    """Seconds for the tasks of a run on 1, 2, ... workers that share all cores, and how many times faster than one."""
    one = small(100, n_replicas=128)
    counts = [n for n in (1, 2, 4) if n <= cores()]
    seconds = {}
    for n in counts:
        with tempfile.TemporaryDirectory() as folder, executors.connected(f"local:{n}") as client:
            warm = replace(one, protocol=replace(one.protocol, seed=1, n_replicas=1))
            run(warm, Path(folder) / "warm", store=Path(folder) / "store", client=client)
            times: list[float] = []

            def listen(what: str, done: int, total: int, *_: str) -> None:
                if what == "tasks" and done in (0, total):
                    times.append(time.perf_counter())  # noqa: B023

            run(one, Path(folder) / "run", store=Path(folder) / "store", client=client, listener=listen)
            seconds[n] = times[-1] - times[0]
    return {"seconds": seconds, "speedup": {n: seconds[counts[0]] / value for n, value in seconds.items()}}


PRICED = {
    "digits": ["digits"],
    "table: breast cancer": ["{table}", "data.label=target"],
    "study: digits, three variants, two repeats": [
        "digits",
        "repeats=2",
        "finite_time.epochs=40",
        "variants.asis.description=As it is",
        "variants.longer.protocol.t_final=2.0",
        "variants.smaller.protocol.n_replicas=32",
    ],
}
_TRIAL = """
import json, sys, time
from dataclasses import asdict
from types import SimpleNamespace
from thermoment import data
from thermoment.experiments.experiment import read
from thermoment.runs import plan, price
price.time = plan.time = SimpleNamespace(perf_counter=time.process_time)
experiment = read(sys.argv[1], sys.argv[2:])
print(json.dumps(asdict(plan.plan(experiment, data.load(experiment.data.name, split=experiment.data.split)).price)))
"""
_RUN = """
import sys, tempfile, time
import thermoment as tm
from thermoment.experiments.experiment import read
with tempfile.TemporaryDirectory() as folder:
    tm.run(read(sys.argv[1], sys.argv[2:]), folder + "/run")
print(time.process_time())
"""


def priced() -> dict[str, Any]:
    """Processor seconds named and taken, of three runs."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        rows = load_breast_cancer()
        names = ",".join([*rows.feature_names, "target"])
        np.savetxt(table, np.column_stack([rows.data, rows.target]), "%g", ",", header=names, comments="")
        for name, arguments in PRICED.items():
            said, took = (_said(program, [one.format(table=table) for one in arguments]) for program in (_TRIAL, _RUN))
            named = sum(said["seconds"].values()) + said["start_seconds"] + said["together_seconds"]
            found[name] = {"named": named, "took": took, "ratio": named / took, **said}
    return found


def _said(program: str, arguments: Sequence[str]) -> Any:
    """What a Python program prints last, as JSON."""
    command = [sys.executable, "-c", program, *arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


async def _simulated(n_workers: int, n_repeats: int) -> dict[str, Any]:
    every = paper_tasks(n_repeats)
    scheduler = distributed.Scheduler(dashboard_address=":0", protocol="inproc://")
    async with scheduler:
        scheduler.WORKER_SATURATION = 1.0  # as docs/cluster.md advises
        places = n_workers // N_PROCESSES
        workers = [distributed.Worker(scheduler.address, nthreads=places, dashboard=False) for _ in range(N_PROCESSES)]
        await asyncio.gather(*workers)
        async with distributed.Client(scheduler.address, asynchronous=True) as client:
            common = client.submit(_nothing, 0)
            await common
            start, began = time.perf_counter(), time.process_time()
            futures = executors.submit(client, every, _sleep, common)
            await distributed.wait(futures)
            elapsed, used = time.perf_counter() - start, time.process_time() - began
        await asyncio.gather(*(worker.close() for worker in workers))
    work = sum(map(paper_seconds, every))
    return {
        "workers": n_workers,
        "repeats": n_repeats,
        "tasks": len(every),
        "seconds": elapsed,
        "busy": work / (elapsed * n_workers),
        "cpu_seconds": used,
    }


async def _sleep(_: None, task: Task, needs: Sequence[None]) -> None:  # noqa: ARG001
    await asyncio.sleep(paper_seconds(task))


def greedy(n_workers: int, n_repeats: int, seconds_for_a_task: float) -> dict[str, Any]:
    """Workers in a clock that only counts: a free one takes the ready task of the highest priority.

    The scheduler hands out one task at a time, `seconds_for_a_task` each.
    """
    every = paper_tasks(n_repeats)
    waits = {task.key: len(task.needs) for task in every}
    place = {task.key: (-task.priority, number) for number, task in enumerate(every)}
    by_key = {task.key: task for task in every}
    after: dict[str, list[str]] = {task.key: [] for task in every}
    for task in every:
        for key in task.needs:
            after[key].append(task.key)
    ready = [(place[task.key], task.key) for task in every if not task.needs]
    heapq.heapify(ready)
    running: list[tuple[float, str]] = []
    free, now, handed = n_workers, 0.0, 0.0
    while ready or running:
        while ready and free:
            _, key = heapq.heappop(ready)
            handed = max(handed, now) + seconds_for_a_task
            heapq.heappush(running, (handed + paper_seconds(by_key[key]), key))
            free -= 1
        now, done = heapq.heappop(running)
        free += 1
        for key in after[done]:
            waits[key] -= 1
            if not waits[key]:
                heapq.heappush(ready, (place[key], key))
    busy = sum(map(paper_seconds, every)) / (now * n_workers)
    return {"workers": n_workers, "repeats": n_repeats, "tasks": len(every), "seconds": now, "busy": busy}


def simulated() -> dict[str, Any]:
    """A thousand workers in a clock that only counts, and a thousand that sleep."""
    return {
        "task_seconds": {"static": STATIC_SECONDS, **PAPER_SECONDS, "converged": CONVERGED_SECONDS},
        "counted": [greedy(N_WORKERS, n, 1e-3) for n in (N_REPEATS, 3 * N_REPEATS, 10 * N_REPEATS)],
        "dask": asyncio.run(_simulated(N_WORKERS, N_REPEATS)),
    }


def main() -> None:
    """Measures what is asked for and writes it down."""
    parts: dict[str, Callable[[], Any]] = {
        "overhead": overhead,
        "speedup": speedup,
        "price": priced,
        "simulated": simulated,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="+", choices=list(parts))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    known = json.loads(arguments.out.read_text("utf-8")) if arguments.out and arguments.out.exists() else {}
    measured = {name: parts[name]() for name in arguments.what}
    found = {**known, "environment": describe("distributed", checkout=ROOT), **measured}
    text = json.dumps(found, indent=1) + "\n"
    print(text)
    if arguments.out:
        write_whole(arguments.out, text.encode())


if __name__ == "__main__":
    main()
