"""Do something now and then, from a thread of its own, while something else is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(step: Callable[[], None], every: float, name: str) -> Iterator[None]:
    """Call ``step`` repeatedly until the context ends; it is not called after that.

    Args:
        step: first called once ``every`` has passed.
        every: seconds between the calls.
        name: of the thread.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            step()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
