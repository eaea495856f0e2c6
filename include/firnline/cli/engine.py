"""What runs the kernels of a merge started by hand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.table import Table

_MEMORY_SHARE = 0.6
"""Of the machine's memory that kernels may plan with; the rest is the disk cache's and others'."""


@contextmanager
def engine_for(table: Table, scratch: Path | None) -> Iterator[Callable[[], Engine]]:
    """Gives the factory for ``run_merge``."""
    yield lambda: _local(table, scratch)


def _local(table: Table, scratch: Path | None) -> Engine:
    from firnline.kernel.local import LocalEngine
    from firnline.store.access import StoreAccess
    from firnline.store.client import open_store

    access, root = StoreAccess.from_env(), table.settings.root
    return LocalEngine(
        open_store=lambda: open_store(root, access, clock=table.clock),
        scratch=scratch or Path(tempfile.gettempdir()) / "firnline",
        ids=table.ids,
        clock=table.clock,
        parallel=parallel_kernels(table, os.cpu_count() or 1, _memory()),
    )


def parallel_kernels(table: Table, cores: int, memory: int) -> int:
    """Kernels at a time: as many as keep the cores busy and fit 60 % of memory, at least one."""
    policy = table.settings.merge
    by_memory = int(memory * _MEMORY_SHARE) // policy.kernel_memory
    return max(1, min(cores // policy.kernel_threads, by_memory))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
