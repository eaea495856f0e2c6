"""What one table needs: benefit and cost of its next merge, and the other operations to start.

A scan pays at least one request for each live part. What a merge saves is therefore the parts that
it takes away, and what it costs is the bytes that it rewrites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firnline.errors import FirnlineError
from firnline.operations.fleet.chores import Due
from firnline.operations.merge.plan import MergePlan

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Need:
    """The merge of one table, as its plan has it, its mirror, and what else is due."""

    table: str
    seq: int = 0
    """Transaction that it was planned on."""
    parts_in: int = 0
    """Parts that go: those that are read, and those whose rows deletes hide."""
    parts_out: int = 0
    bytes: int = 0
    """Bytes to read, and at most about as many to write."""
    least_bytes: int = 0
    """Bytes of the smallest group; a run that may read fewer does nothing."""
    requests: int = 0
    """Estimate of the merge's own store requests, the log reads aside."""
    spent: int = 0
    """Bytes that merges which the planner started have read of the table in the last 24 hours."""
    mirror: bool = False
    """Its mirror lacks something for longer than ``mirror.every``."""
    ends_wait: bool = False
    """A mirror waits for parts that the merge rewrites, and shows nothing newer until then."""
    due: tuple[Due, ...] = ()
    """Other operations to start: drops by age, clean-ups, verifications."""

    @classmethod
    def of(
        cls,
        table: str,
        plan: MergePlan,
        spent: int,
        *,
        mirror: bool = False,
        ends_wait: bool = False,
        due: tuple[Due, ...] = (),
    ) -> Need:
        """Return the need of a table with this plan."""
        sizes = [group.bytes for group in plan.groups]
        return cls(
            table=table,
            seq=plan.seq,
            parts_in=plan.parts_in + plan.parts_hidden,
            parts_out=plan.parts_out,
            bytes=plan.bytes_in,
            # Parts that go unread need no byte of the budget.
            least_bytes=0 if plan.hidden else min(sizes, default=0),
            requests=plan.requests,
            spent=spent,
            mirror=mirror,
            ends_wait=ends_wait,
            due=due,
        )

    @property
    def idle(self) -> bool:
        """Return True if a merge would do nothing."""
        return not self.parts_in

    @property
    def saved(self) -> int:
        """Return the requests that every scan of the whole table saves after the merge."""
        return self.parts_in - self.parts_out

    @property
    def rank(self) -> tuple[bool, float, str]:
        """Return the place among others, the least first: waiting mirrors, then by the score."""
        return not self.ends_wait, -self.score, self.table

    @property
    def score(self) -> float:
        """Return the requests saved per GiB rewritten; infinite if no byte is."""
        if not self.bytes:
            return float("inf") if self.parts_in else 0.0
        return self.saved * GIB / self.bytes

    def to_json(self) -> dict[str, Any]:
        """Return plain data; ``score`` is None if no byte is rewritten."""
        return {
            "table": self.table,
            "seq": self.seq,
            "parts_in": self.parts_in,
            "parts_out": self.parts_out,
            "saved": self.saved,
            "bytes": self.bytes,
            "score": round(self.score, 3) if self.bytes else None,
            "requests": self.requests,
            "ends_wait": self.ends_wait,
        }


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A table whose merge could not be planned."""

    table: str
    message: str
    next_step: str
    kind: str = ""
    """Of the error: its class."""
    due: tuple[Due, ...] = ()
    """Other operations to start although the table could not be read or its merge be planned."""

    @classmethod
    def of(cls, table: str, error: FirnlineError, due: tuple[Due, ...] = ()) -> Unreadable:
        """Return the table with the sentence of the error."""
        return cls(table, error.message, error.next_step, type(error).__name__, due)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"table": self.table, "message": self.message, "next_step": self.next_step}
