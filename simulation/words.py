"""Descriptions of the objects of a world for the trace."""

from __future__ import annotations

from firnline.log.records import LogContent
from firnline.log.txn_file import TxnHeader


def in_words(header: TxnHeader, content: LogContent) -> str:
    """Return a description of a transaction for the trace."""
    alive = [m for m in content.markers if m.tmb is None and m.t == header.t]
    dead = [m for m in content.markers if m.tmb == header.t]
    purged = content.x.purged if content.x is not None else 0
    return (
        f"transaction {header.seq}, a {header.op} on {header.base}: {len(alive)} new parts, "
        f"{len(dead)} replaced, {sum(d.seq == header.seq for d in content.deletes)} delete "
        f"records, {len(content.tombstones)} log files folded, cleaned up to {purged}"
    )
