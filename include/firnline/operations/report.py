"""Reports of runs, and what a run costs: the same for all operations."""

from __future__ import annotations

import msgspec

from firnline.table import Table


class RunMetrics:
    """Requests and seconds of one run, from when this is made.

    Args:
        table: the table; its store counts the requests.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._started_ms = table.clock.elapsed_ms()
        self._before = table.store.counters.as_dict()

    @property
    def requests(self) -> dict[str, int]:
        """Requests and bytes by kind, so far."""
        after = self.table.store.counters.as_dict()
        return {kind: after[kind] - self._before[kind] for kind in after}

    @property
    def seconds(self) -> float:
        """So far, by the monotonic clock."""
        return (self.table.clock.elapsed_ms() - self._started_ms) / 1000


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a run: its plan and what was done."""

    def to_json(self) -> dict[str, object]:
        """Plain data for XCom and ``--json``."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


class TransactionReport(Report, frozen=True, kw_only=True):
    """Report of a run that is one transaction, or none."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """The last plan, as its ``to_json``."""
    transaction: int | None
    """Sequence number of the transaction; None when nothing was committed."""
    replans: int
    """Times that the run planned again because another run changed the base of the plan."""
    requests: dict[str, int]
    seconds: float
