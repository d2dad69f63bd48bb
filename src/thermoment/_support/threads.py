"""Work on all cores."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Event, Lock
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_limiting = Lock()


def cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1


def in_blocks(work: Callable[[slice], Any], n: int, size: int = 256) -> list[Any]:
    """`work` of every block of `size` of n items, on all cores: for work that NumPy does outside of the interpreter."""
    blocks = [slice(first, min(first + size, n)) for first in range(0, n, size)]
    if len(blocks) == 1:
        return [work(blocks[0])]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(work, blocks))


def at_the_same_time(
    work: Callable[[T, Callable[[], None]], R], items: Sequence[T], at_once: int | None = None
) -> list[R]:
    """`work` of every item, in up to `at_once` threads, one for every core unless given.

    `work` is also given a function that it calls now and then: the function raises once another item has failed, or
    the caller was interrupted, so that nobody waits for work that is not wanted any more.
    """
    failed = Event()

    def stop() -> None:
        if failed.is_set():
            raise CancelledError("Something beside this failed.")

    def one(item: T) -> R:
        stop()
        try:
            return work(item, stop)
        except BaseException:
            failed.set()
            raise

    at_once = min(at_once or cores(), len(items))
    if at_once <= 1:
        return [one(item) for item in items]
    with ThreadPoolExecutor(at_once) as pool:
        begun = [pool.submit(one, item) for item in items]
        try:
            wait(begun, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() for future in begun):
                failed.set()
    # The error to be told is the first one that is not the end of work which another error has stopped.
    errors = [error for future in begun if (error := future.exception())]
    if errors:
        raise next((error for error in errors if not isinstance(error, CancelledError)), errors[0])
    return [future.result() for future in begun]


def multiply_in_threads(work: Callable[[int], float], items: Sequence[int]) -> list[float]:
    """`work` of all items, on all cores, with matrix products of one thread each.

    A BLAS that shares a product between threads has other bits for another number of them, and with many small products
    it takes several times as long.
    """
    with _limiting, _products_of_one_thread():
        if len(items) == 1:
            return [work(items[0])]
        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(work, items))


def _products_of_one_thread() -> AbstractContextManager[Any]:
    """For the whole process: only one at a time may enter."""
    blas = _blas()
    return blas.limit(limits=1) if blas else nullcontext()


@cache
def _blas() -> Any:
    """The BLAS that NumPy has loaded. None in an environment without threadpoolctl, where it keeps its threads."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController().select(user_api="blas")
