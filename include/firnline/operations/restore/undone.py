"""Tell which transactions restores have undone, by the history alone. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from firnline.log.txn_file import NAMED_PARTITIONS, TxnHeader

OP = "restore"
_STAYS = frozenset({"cleanup", "erase", "sweep"})
_WHY = "to "


@dataclass(frozen=True, slots=True)
class Undone:
    """The newest restore that undid a transaction and is still in force."""

    by: int
    """Transaction of the restore."""
    partly: bool
    """True if the transaction also changed partitions that were not restored, as far as known."""


def why(to: int) -> str:
    """Return the description of a restore to a transaction, for its header."""
    return f"{_WHY}{to}"


def goal(header: TxnHeader) -> int | None:
    """Return the transaction that a restore went back to; None for any other transaction."""
    number = header.why.removeprefix(_WHY)
    return int(number) if header.op == OP and number.isdecimal() else None


def touched(headers: Iterable[TxnHeader], partitions: Set[str]) -> tuple[int, ...]:
    """Return those of the transactions that a restore of these partitions undoes."""
    return tuple(
        header.seq
        for header in headers
        if header.op not in _STAYS
        and (not header.partitions or not partitions.isdisjoint(header.partitions))
    )


def undone(headers: Sequence[TxnHeader]) -> dict[int, Undone]:
    """Return the transactions that are undone, by number.

    A restore that a later one undid in some partitions counts in the others only.

    Args:
        headers: newest transactions, newest first, without a gap.
    """
    lost: dict[int, set[str]] = defaultdict(set)
    undoings: dict[int, Undone] = {}
    for at, header in enumerate(headers):
        to = goal(header)
        restored = frozenset(header.partitions) - lost[header.seq]
        if to is None or not restored:
            continue
        before = [other for other in headers[at + 1 :] if other.seq > to]
        hit = set(touched(before, restored))
        for other in before:
            if other.seq in hit:
                lost[other.seq] |= restored
                rest = not other.partitions or set(other.partitions) - lost[other.seq]
                partly = bool(rest) and len(header.partitions) < NAMED_PARTITIONS
                newest = undoings.get(other.seq, Undone(header.seq, partly)).by
                undoings[other.seq] = Undone(newest, partly)
    return undoings
