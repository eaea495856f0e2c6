"""Judge whether a table's history is gone, so that a rebuild may bring back what it removed.

With the newest transaction and those that it stands on every row is accounted for: each carries
what it has folded. Without one of them nobody knows any more what it deleted, erased, dropped or
replaced, and a person has to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firnline.operations.rebuild.elsewhere import Elsewhere
from firnline.paths import TablePaths
from firnline.state.effect import named_transactions, standing_of
from firnline.state.survey import LogSurvey, TxnSurvey


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest transaction that anything names."""

    seq: int
    named_by: str = ""
    """Subject of a sentence; empty if a log file or transaction does."""

    @classmethod
    def of(
        cls,
        log: LogSurvey,
        txns: TxnSurvey,
        elsewhere: Elsewhere,
        stated: Iterable[tuple[int, str]],
    ) -> Newest:
        """Return it. ``stated``: numbers that parts and records state, and who states each."""
        names = (item.name.seq for item in log.listing.values())
        there = max([txns.last, *txns.numbers, *names])
        others = [(elsewhere.newest, elsewhere.named_by), *stated]
        most, by = max(others, key=lambda pair: pair[0])
        return cls(most, by) if most > there else cls(there)


def lost_history(
    log: LogSurvey, txns: TxnSurvey, newest: Newest, paths: TablePaths, *, unborn: bool
) -> str:
    """Return evidence that transactions are lost that nobody carries; empty if there is none.

    Args:
        log: what is left of ``_log/``.
        txns: what is left of ``_txn/``, without those that do not count.
        newest: the newest transaction that anything names.
        paths: of the table.
        unborn: parts of this table are here that only their footers name, and writers of such parts
            write a birth record.
    """
    present: Mapping[int, tuple[int, ...] | None] = {**txns.standing, **standing_of(log)}
    if not newest.seq:
        if unborn and not txns.born:
            return "nothing is left under _txn/, not even a birth record, if it ever had one"
        return ""
    if newest.seq not in present:
        if newest.seq <= txns.last:
            return ""  # a downgrade has ended the history, and its log file was the whole table
        left = f"the newest that is left is {max(present)}" if present else "none is left"
        return f"{newest.named_by} names transaction {newest.seq}, and {left}"
    standing = present[newest.seq]
    missing = set(standing) - present.keys() if standing is not None else _gaps(log, txns, paths)
    if missing:
        return (
            f"transaction {min(missing)} is gone, and transaction {newest.seq} does not hold what "
            "it did"
        )
    return ""


def _gaps(log: LogSurvey, txns: TxnSurvey, paths: TablePaths) -> set[int]:
    """Return the numbers missing between those that are left and that nobody says to have folded.

    For transactions of versions that do not state on which others they stand.
    """
    there = {*txns.numbers, *standing_of(log)}
    named = named_transactions(log, txns, paths).keys()
    return set(range(min(there), max(there))) - there - named
