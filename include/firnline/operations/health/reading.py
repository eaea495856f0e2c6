"""Read a table once for all figures of its health. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from firnline.commit.base import read_base
from firnline.errors import FirnlineError
from firnline.log.txn_file import TxnHeader
from firnline.operations.cleanup.plan import TXN_KEPT, CleanupPlan, plan_cleanup
from firnline.operations.merge.groups import MergePlan
from firnline.operations.merge.plan import plan_merge
from firnline.operations.ttl.plan import TtlPlan, plan_ttl
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.state.history import history
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.table import Table

HEADERS = 20
"""Newest transactions that are read, for the last one of each operation."""


@dataclass(frozen=True)
class Reading:
    """A table as it was read, once for all of its figures; plans are made on demand."""

    snapshot: Snapshot
    settings: TableSettings
    """In force: the table's own properties among them."""
    wanted: TableSettings
    """The caller's own."""
    properties: Properties | None
    headers: Sequence[TxnHeader]
    """Newest transactions, newest first."""
    old: Sequence[ObjectMeta]
    """Listing of ``_txn/`` from its beginning; empty for a short history."""
    now_ms: int

    @cached_property
    def merge(self) -> MergePlan | FirnlineError:
        """The plan of a merge, or why there is none."""
        try:
            return plan_merge(self.snapshot, self.settings, self.now_ms)
        except FirnlineError as error:
            return error

    @cached_property
    def ttl(self) -> TtlPlan | FirnlineError | None:
        """The plan of a TTL run, or why there is none; None for a table without a TTL."""
        if self.settings.ttl is None:
            return None
        try:
            return plan_ttl(self.snapshot, self.settings, self.now_ms)
        except FirnlineError as error:
            return error

    def cleanup(self, max_deletes: int | None = None) -> CleanupPlan:
        """Return the plan of a clean-up; ``max_deletes``: None for the bound of the settings."""
        return plan_cleanup(self.snapshot, self.old, self.settings, self.now_ms, max_deletes)


def read(table: Table, headers: int = HEADERS) -> Reading:
    """Read a table's log and the newest headers of its transactions.

    Requests: 2 LIST and one GET per log file that is not folded, with the newest transaction's; 1
    LIST and a ranged GET for each header; 1 LIST more once there are more than 100 transactions.

    Raises:
        FirnlineError: the log cannot be read.
    """
    base = read_base(table, everything=True)
    snapshot, table = base.snapshot, base.table
    long = snapshot.seq >= TXN_KEPT
    return Reading(
        snapshot=snapshot,
        settings=table.settings,
        wanted=table.wanted or table.settings,
        properties=base.properties,
        headers=history(table, headers),
        old=list(table.store.list(table.paths.txn_dir, table.paths.birth)) if long else [],
        now_ms=table.clock.now_ms(),
    )
