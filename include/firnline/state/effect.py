"""Find transactions under ``_txn/`` that count no more: they never took effect, or are left over.

A committer that slept for days may create a number that was used, superseded and removed while it
slept. It takes its transaction for committed, and nobody else ever will: whoever commits or reads
looks behind the newest one. In a rebuild, its parts would be live and those that it replaced dead.

The state of a table is what its newest transaction states, together with the transactions on whose
log files that was committed (``x.standing``) and appends since: each carries all that it has
folded. So nothing is lost by leaving any other transaction out, whatever its story.
(docs/format.md, "Transactions that never took effect")
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from firnline.errors import LogCorruptError
from firnline.log import fence
from firnline.log.reader import LogRead
from firnline.paths import TablePaths
from firnline.state.survey import LogSurvey, TxnSurvey, survey_transactions
from firnline.store.base import Store


@dataclass(frozen=True, slots=True)
class Ineffective:
    """A transaction that does not count."""

    reason: str
    """Clause on the object."""
    left_over: bool = False
    """It may have taken effect, and everything that it holds is carried by later ones."""
    txn: str = ""


def ineffective(log: LogSurvey, txns: TxnSurvey, paths: TablePaths) -> dict[int, Ineffective]:
    """Return the transactions that do not count, by number. Pure."""
    named = named_transactions(log, txns, paths)
    listed = {(item.name.seq, item.name.txn) for item in log.listing.values()}
    standing = _standing(log, txns)
    first = first_of_run({*txns.numbers, *(seq for seq, _ in listed if seq)})
    used = _used_before(txns, {seq for seq, _ in listed})
    without_effect: dict[int, Ineffective] = {}
    for seq, header in txns.headers.items():
        others = named[seq] - {header.txn}
        # A log file that is there and that nobody has folded may be one that came too late.
        is_named = header.txn in named[seq] and not (others and (seq, header.txn) in listed)
        after = txns.links.get(seq + 1)
        other = after is not None and after.before not in ("", txns.links[seq].digest)
        if seq <= used:
            without_effect[seq] = _of_before(seq, txns)
        elif not is_named and (others or other):
            instead = f"{min(others)}" if others else f"the one that transaction {seq + 1} names"
            without_effect[seq] = Ineffective(
                f"never took effect: transaction {seq} of this table is another one, {instead}",
                txn=header.txn,
            )
        elif standing is not None and seq < first and seq not in standing:
            without_effect[seq] = _below_gap(seq, txns)
    return without_effect


def _used_before(txns: TxnSurvey, logged: Collection[int]) -> int:
    """Return the last number that was used up before a downgrade, once it has deleted the history.

    Until then the newest one is its own, and each that is left holds what it always did. If the
    whole log was lost by then, the downgrade's own transaction still has the one before it.
    """
    if max(logged, default=0) == txns.last in txns.numbers:
        return 0
    own = txns.headers.get(txns.last)
    whole = own is not None and own.op == "downgrade" and _follows(txns, txns.last)
    return 0 if whole and not logged else txns.last


def _follows(txns: TxnSurvey, seq: int) -> bool:
    """Return True if a transaction was committed on the one before it that is there."""
    before, own = txns.links.get(seq - 1), txns.links[seq]
    return before is not None and own.before == before.digest != ""


def _of_before(seq: int, txns: TxnSurvey) -> Ineffective:
    txn = txns.headers[seq].txn
    if txns.modified[seq] >= txns.born_ms:
        return Ineffective(
            f"never took effect: it was created after a downgrade, which ended the history with "
            f"transaction {txns.last}",
            txn=txn,
        )
    return Ineffective("is left over from before a downgrade", left_over=True, txn=txn)


def never_effective(found: Mapping[int, Ineffective]) -> dict[int, Ineffective]:
    """Return those of which it is certain that they never took effect."""
    return {seq: one for seq, one in found.items() if not one.left_over}


def _below_gap(seq: int, txns: TxnSurvey) -> Ineffective:
    later = [n for n in txns.numbers if n > seq and txns.modified[n] < txns.modified[seq]]
    txn = txns.headers[seq].txn
    if later:
        return Ineffective(
            f"never took effect: it was created after transaction {max(later)}, under a number "
            "that had been used and removed by then",
            txn=txn,
        )
    return Ineffective("lies below a gap, and no later one stands on it", left_over=True, txn=txn)


def survey_effective(
    store: Store, paths: TablePaths, log: LogSurvey
) -> tuple[TxnSurvey, Mapping[int, Ineffective]]:
    """Return the union of the transactions that count, and those that do not.

    Requests: those of ``survey_transactions``, twice if there is one that does not count.
    """
    txns = survey_transactions(store, paths)
    without_effect = ineffective(log, txns, paths)
    if without_effect:
        txns = survey_transactions(store, paths, without=without_effect)
    return txns, without_effect


def named_transactions(
    log: LogSurvey, txns: TxnSurvey, paths: TablePaths
) -> Mapping[int, set[str]]:
    """Return number -> ids of the transactions whose log files are listed, or were folded."""
    keys = {*log.listing, *txns.folded}
    keys.update(item.p for content in log.contents.values() for item in content.tombstones)
    ids_by_number: dict[int, set[str]] = defaultdict(set)
    for key in keys:
        try:
            name = paths.parse_log(key)
        except LogCorruptError:
            continue
        if name.seq:
            ids_by_number[name.seq].add(name.txn)
    return ids_by_number


def counting(log: LogSurvey, txns: TxnSurvey, left_out: Mapping[int, Ineffective]) -> LogSurvey:
    """Return the log without the contents of log files that count for nobody.

    Those of transactions that never took effect, and those behind the fence (``log.fence``). While
    history is lost a log file of a transaction may be the last that knows something.

    Args:
        log: what is left of ``_log/``.
        txns: the transactions that count.
        left_out: those that do not, by number.
    """
    lost = _standing(log, txns) is None
    names = {key: item.name for key, item in log.listing.items()}
    never = {one.txn for one in left_out.values() if not one.left_over}
    out = {key for key, name in names.items() if name.seq and name.txn in never}
    behind = fence.behind(LogRead(log.listing, log.contents))
    out |= {key for key in behind if not (lost and names[key].seq)}
    return replace(log, contents={k: c for k, c in log.contents.items() if k not in out})


def _standing(log: LogSurvey, txns: TxnSurvey) -> frozenset[int] | None:
    """Return the transactions besides the newest whose content nobody else carries.

    None if the newest one, or one of these, is not there: then each that is left may be the last
    one that knows something.
    """
    present = {**txns.standing, **standing_of(log)}
    newest = max([txns.newest, *present])
    standing = present.get(newest)
    if standing is None or not present.keys() >= set(standing):
        return None
    return frozenset(standing)


def standing_of(log: LogSurvey) -> dict[int, tuple[int, ...] | None]:
    """Return number -> transactions on whose log files it stands, of the log files listed."""
    return {
        log.listing[key].name.seq: () if content.x is None else content.x.standing
        for key, content in log.contents.items()
        if log.listing[key].name.seq
    }


def first_of_run(there: Collection[int]) -> int:
    """Return the number from which to the highest none is missing; 0 without any."""
    first = max(there, default=0)
    while first - 1 in there:
        first -= 1
    return first
