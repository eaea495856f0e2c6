"""Look at many tables at once, each in a thread of its own: most of it is waiting for stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


def at_once(
    items: Sequence[ItemT],
    look: Callable[[ItemT], FoundT],
    threads: int,
    looked: Callable[[FoundT], object] = lambda _: None,
) -> list[FoundT]:
    """Return what was found of each item, in their order.

    A store that is silent holds one thread, and no other table.

    Args:
        items: the tables, or what opens them.
        look: called in a thread; handles its own errors.
        threads: how many look at the same time; what ``look`` holds in memory, it holds that often.
        looked: called in this thread after each of them, in the order in which stores answer.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="firnline-look") as pool:
        asked = [pool.submit(look, item) for item in items]
        for done in as_completed(asked):
            looked(done.result())
    return [done.result() for done in asked]
