"""What runs report, what they cost, how often they may plan again: for all operations."""

from __future__ import annotations

import msgspec

from firnline.errors import CommitConflictError
from firnline.table import Table


class Effort:
    """Requests, seconds and new plans of one run, from when this is made.

    Args:
        table: the table; its store counts the requests.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._started_ms = table.clock.elapsed_ms()
        self._before = table.store.counters.as_dict()
        self.replans = 0
        """How often a rival took away what a plan was made on."""

    @property
    def requests(self) -> dict[str, int]:
        """Requests and bytes by kind, so far."""
        after = self.table.store.counters.as_dict()
        return {kind: after[kind] - self._before[kind] for kind in after}

    @property
    def seconds(self) -> float:
        """So far, by the monotonic clock."""
        return (self.table.clock.elapsed_ms() - self._started_ms) / 1000

    def replan(self, conflict: CommitConflictError | None = None) -> None:
        """Count a plan that came to nothing, before the next one is made.

        Args:
            conflict: what it met; without it, rivals took parts away.

        Raises CommitConflictError: more than ``merge.max_replans`` did.
        """
        self.replans += 1
        if self.replans <= self.table.settings.merge.max_replans:
            return
        raise conflict or CommitConflictError(
            f"rivals took parts of {self.table.settings.name} away {self.replans} times",
            next_step="see in `firnline history` who else maintains it, then run again",
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run planned and did."""

    def to_json(self) -> dict[str, object]:
        """Plain data for XCom and ``--json``."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


class TransactionReport(Report, frozen=True, kw_only=True):
    """Of a run that is one transaction, or none."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """The last one, as its ``to_json``."""
    transaction: int | None
    """None when nothing was committed."""
    replans: int
    """How often a rival changed what the plan was made on."""
    requests: dict[str, int]
    seconds: float
