"""Work beside the event loop: a few threads, a queue of bounded length, and tables of `meanfield` built one by one."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Generic, TypeVar

from thermoment.machines.classifier import Classifier
from thermoment.web.answer import answer
from thermoment.web.question import Question, RefusedError

T = TypeVar("T")
_Key = tuple[float, float, bool]

THREADS = 2
MOST_WAITING = 64
_MOST_TABLES = 64
"""Temperatures and times for which one server builds tables: they stay in memory and on disk."""


_STRONG = 0.97
"""The share of the first tables' largest drive up to which they are enough, with a field as weak as usual."""


class Once(Generic[T]):
    """The result of a function that is called when it is first needed; who needs it meanwhile waits."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: tuple[T] | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._made is None:
                self._made = (self._make(),)
            return self._made[0]


def give_way() -> None:
    """From now on this thread, and those that it starts, run when no other wants to: on Linux alone."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)


class Workers:
    """Runs functions in threads. Where too many wait already, a request is refused with status 503."""

    def __init__(self, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answers")
        self._free = asyncio.Semaphore(threads)
        self._room = threads + most_waiting

    async def run(self, work: Callable[[], T], gone: Callable[[], Awaitable[bool]] | None = None) -> T:
        """The result of `work`, which runs while the event loop goes on.

        `gone` is asked, when its turn comes, whether the client has left: then nothing is computed.
        """
        if self._room <= 0:
            raise RefusedError(503, "The server has as many questions as it can hold: ask again in a second.")
        self._room -= 1
        try:
            async with self._free:
                if gone is not None and await gone():
                    raise RefusedError(400, "The client has left.")
                return await asyncio.wrap_future(self._pool.submit(work))
        finally:
            self._room += 1


class Tables:
    """Knows for which temperatures and times `meanfield` can answer at once, and has tables built for others.

    Tables take seconds. So a question for which there are none is sampled, while they are built in a thread. Of the
    questions that come meanwhile the last one is next.
    """

    def __init__(self, machine: Classifier) -> None:
        self.machine = machine
        self._lock = threading.Lock()
        self._state: dict[_Key, str] = {}
        self._next: Question | None = None
        self._building: threading.Thread | None = None

    def ready(self, question: Question) -> bool:
        """Whether there are tables for this question. If there are none, they will be built."""
        key = self._key(question)
        with self._lock:
            state = self._state.get(key)
            if state is None and len(self._state) < _MOST_TABLES:
                self._next = question
                if self._building is None:
                    self._building = threading.Thread(target=self._build, name="tables", daemon=True)
                    self._building.start()
            return state == "ready"

    def state(self, question: Question) -> str:
        """ready; building, also where other tables come first; or none, for the reason that `sentence` has."""
        with self._lock:
            known = self._state.get(self._key(question))
            if known is not None:
                return "ready" if known == "ready" else "none"
            return "building" if len(self._state) < _MOST_TABLES else "none"

    def sentence(self, question: Question) -> str:
        """Why `meanfield` does not answer."""
        where = f"kT = {question.kT:g} and t_final = {question.t_final:g}"
        with self._lock:
            known = self._state.get(self._key(question))
            if known is None and len(self._state) < _MOST_TABLES:
                return f"The tables of meanfield for {where} are being built. Sampled meanwhile."
            if known is None:
                return f"This server has built tables for {_MOST_TABLES} settings and builds no more. Sampled instead."
            return f"{known} Sampled instead."

    def build(self, question: Question) -> None:
        """Builds the tables of a question here and now."""
        try:
            answer(self.machine, replace(question, engine="meanfield"))
            state = "ready"
        except RefusedError as refusal:
            state = str(refusal)
        with self._lock:
            self._state[self._key(question)] = state

    def rest(self) -> None:
        """Builds nothing more, and waits for what is being built."""
        with self._lock:
            self._next, thread = None, self._building
        if thread is not None:
            thread.join()

    def _key(self, question: Question) -> _Key:
        """Temperature, time, and whether the drive is so strong that it has tables of its own."""
        from thermoment._engines.meanfield.tables import RANGES  # SciPy, for which the start does not wait

        strongest = max(float(abs(one.drive(question.image[None])).max()) for one in self.machine.reservoirs.values())
        return question.kT, question.t_final, strongest > _STRONG * RANGES[0]

    def _build(self) -> None:
        give_way()
        while True:
            with self._lock:
                question, self._next = self._next, None
                if question is None:
                    self._building = None
                    return
            if self._key(question) not in self._state:
                self.build(question)
