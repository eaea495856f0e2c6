"""Run an operation in this process: its engine, and who runs it."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from firnline.clock import Clock, SystemClock
from firnline.ids import Ids, SystemIds
from firnline.kernel.engine import Engine
from firnline.log.txn_file import RunIdentity
from firnline.paths import Root
from firnline.store.client import open_store
from firnline.table import Table

if TYPE_CHECKING:
    from firnline.kernel.beside.process import Beside

_MEMORY_SHARE = 0.6
"""Share of the machine's memory for kernels; the rest is for the disk cache and others."""


def local_engine(table: Table, scratch: Path | None = None) -> Engine:
    """Return an engine of as many kernels as fit the cores and 60 % of the machine's memory.

    Args:
        table: the table; each kernel opens its store again, with the table's access.
        scratch: local folder; None: below the system's.
    """
    from firnline.parquet.footers import begin

    begin()  # it starts while this process imports what kernels need
    from firnline.kernel.local import LocalEngine
    from firnline.kernel.staging import default_parent

    root, access, clock = table.settings.root, table.access, table.clock
    cores, folder = os.cpu_count() or 1, scratch or default_parent()
    return LocalEngine(
        open_store=lambda: open_store(root, access, clock=clock),
        scratch=folder,
        ids=table.ids,
        clock=clock,
        parallel=parallel_kernels(table, cores, _memory()),
        cores=cores,
        beside=_beside(table, folder),
    )


def _beside(table: Table, scratch: Path) -> Beside | None:
    """Return what other processes need; None where they have not the store, the clock or the ids.

    Theirs are those of the system.
    """
    from firnline.kernel.beside.process import Beside

    root, access = table.settings.root, table.access
    if Root.parse(root).scheme == "memory":
        return None
    if type(table.clock) is not SystemClock or type(table.ids) is not SystemIds:
        return None
    text = None if access is None else access.to_json()
    return Beside(root=root, access=text, scratch=str(scratch))


def parallel_kernels(table: Table, cores: int, memory: int) -> int:
    """Return the number of parallel kernels that fit the cores and 60 % of memory, at least 1."""
    policy = table.settings.merge
    by_memory = int(memory * _MEMORY_SHARE) // policy.kernel_memory
    return max(1, min(cores // policy.kernel_threads, by_memory))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def identity_here(table: Table, by: str) -> RunIdentity:
    """Return the identity of the user at this machine, for the history.

    Args:
        table: the table, whose ids the run's id is made of.
        by: what starts the run: ``cli`` or ``python``.
    """
    return identity_of(table.ids, table.clock, by)


def identity_of(ids: Ids, clock: Clock, by: str) -> RunIdentity:
    """Return the identity of the user at this machine, for what is of no single table.

    Args:
        ids: what the run's id is made of.
        clock: likewise.
        by: what starts the run: ``cli`` or ``python``.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    run_id = f"{by}-{ids.uuid7(clock.now_ms())}"
    return RunIdentity(run_id=run_id, user=user, host=socket.gethostname())
