"""What runs tell of themselves: the same for every operation."""

from __future__ import annotations

import msgspec


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
