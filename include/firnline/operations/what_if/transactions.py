"""What transactions of maintenance have sent and moved, added up from their headers. Pure.

A header has no requests: they are those that its operation promises (``Ledger``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline.log.txn_file import TxnHeader
from firnline.operations.what_if.ledger import Ledger

REMOVALS = frozenset({"ttl", "drop"})
"""Operations that take whole parts away."""
COUNTED = REMOVALS | {"merge", "cleanup"}
"""Operations whose requests are counted; all others only fold the log."""


@dataclass
class Transactions:
    """Adds up transactions; they have to come in their order."""

    reads_of_merge: int
    """Times that a run of a merge reads the log."""
    reads_of_cleanup: int
    """Times that a clean-up does."""
    reads_of_removal: int
    """Times that a TTL run or a drop does."""
    grace_ms: int
    """``cleanup.grace``."""
    ledger: Ledger = field(default_factory=Ledger)
    dropped: int = 0
    """Bytes of parts that were taken away."""
    shrunk: int = 0
    """Bytes by which merges have written less than they read."""
    _runs: set[tuple[str, ...]] = field(default_factory=set)

    def take(self, header: TxnHeader) -> None:
        """Count a transaction."""
        counts, ledger = header.counts, self.ledger
        if header.op == "merge":
            self._begin(header)
            ledger.merge(counts.parts_in, counts.bytes_in)
            ledger.write(counts.parts_out, counts.bytes_out)
            self.shrunk += counts.bytes_in - counts.bytes_out
        elif header.op == "cleanup":
            ledger.clean_up(header.t, self.grace_ms, self.reads_of_cleanup, idle=False)
            return
        elif header.op in REMOVALS:
            ledger.read_log(self.reads_of_removal)
            self.dropped += counts.bytes_in
        else:
            ledger.fold(header.t, lines_of(header))
            return
        ledger.commit(header.t, counts.parts_in, counts.parts_out)

    def _begin(self, header: TxnHeader) -> None:
        """Count a run at its first transaction; a run without an id is one of its own."""
        key = header.run.key if header.run.run_id else (header.txn,)
        if key not in self._runs:
            self._runs.add(key)
            self.ledger.runs += 1
            self.ledger.read_log(self.reads_of_merge)


def lines_of(header: TxnHeader) -> int:
    """Return the markers that a transaction writes besides those that it folds."""
    counts = header.counts
    return 0 if header.op == "cleanup" else counts.parts_in + counts.parts_out


def in_order(header: TxnHeader) -> tuple[int, int]:
    """Return the key that sorts transactions by time."""
    return header.t, header.seq
