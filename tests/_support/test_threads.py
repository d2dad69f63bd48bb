"""Work in threads: results in order, as many at a time as asked for, and an end to all of it where one fails."""

import threading
from collections.abc import Callable

import pytest

from thermoment._support.threads import at_the_same_time


def test_results_come_in_the_order_of_the_items_whoever_is_done_first() -> None:
    second_is_done = threading.Event()

    def work(item: int, _: Callable[[], None]) -> int:
        if item == 1:
            second_is_done.set()
        assert item or second_is_done.wait(30)
        return 10 * item

    assert at_the_same_time(work, [0, 1, 2], 2) == [0, 10, 20]


def test_one_at_a_time_stays_in_the_thread_that_asks() -> None:
    threads = at_the_same_time(lambda *_: threading.current_thread(), "ab", 1)
    assert threads == 2 * [threading.current_thread()]


@pytest.mark.parametrize("at_once", [1, 2])
def test_where_one_fails_the_others_end_and_its_error_is_told(at_once: int) -> None:
    begun, ended = threading.Event(), []

    def work(item: str, stop: Callable[[], None]) -> None:
        ended.append(item)
        if item == "fails":
            assert at_once == 1 or begun.wait(30)
            raise KeyError("the reason")
        begun.set()
        for _ in range(10**7):
            stop()

    with pytest.raises(KeyError, match="the reason"):
        at_the_same_time(work, ["fails", "goes on", "never begins"], at_once)
    assert sorted(ended) == (["fails"] if at_once == 1 else ["fails", "goes on"])
