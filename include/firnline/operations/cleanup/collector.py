"""Python's collector of cycles, while a run holds very many objects that form none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Look for no cycles in this context: a fifth of the CPU of a large clean-up went there.

    A log of 100,000 markers is some million objects, each collection walks all of them, and nothing
    of it is ever part of a cycle. It is paused for the whole process; whatever else runs in it
    keeps its cycles until the end of the context.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
