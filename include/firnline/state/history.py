"""The linear history of a table's maintenance, from the heads of ``_txn/``."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from firnline.errors import LogCorruptError, SnapshotExpiredError, UsageError
from firnline.log import chain, txn_file
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.state.birth import last_number
from firnline.state.effect import first_of_run
from firnline.store.base import ObjectMeta
from firnline.table import Table

_HEAD_BYTES = 64 * 1024
"""First bytes of a transaction's file; a header that names 1,000 partitions fits."""
_CLOCKS_DIFFER_MS = 3_600_000


class Head(msgspec.Struct, frozen=True):
    """The newest transaction of a history or run, and its digest (``log.chain``)."""

    seq: int
    digest: str


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one run, summed over its transactions."""

    run: RunIdentity
    transactions: tuple[int, ...]
    counts: Counts
    partitions: tuple[str, ...]
    head: Head | None = None
    """Its newest transaction: a witness of the history up to there, wherever the report is kept."""

    def to_json(self) -> dict[str, object]:
        """Return plain data for XCom, asset events and ``--json``."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def by_whom(run: RunIdentity) -> str:
    """Return a DAG's run with its try and approver, or a person at a machine."""
    if run.dag_id:
        again = f" (try {run.try_number})" if run.try_number > 1 else ""
        approved = f", approved by {run.approved_by}" if run.approved_by else ""
        task = f" {run.task_id}" if run.task_id else ""
        return f"{run.dag_id} {run.run_id}{task}{again}{approved}"
    person = "@".join(name for name in (run.user, run.host) if name)
    return person or run.run_id or "?"


def history(
    table: Table, newest: int = 50, known: Mapping[int, TxnHeader] = MappingProxyType({})
) -> list[TxnHeader]:
    """Return the newest transactions, newest first.

    Requests: 1 LIST and one ranged GET per transaction returned, except those ``known`` before the
    newest of them: a transaction never changes, and that one shows that it is still the same table.

    Args:
        table: the table.
        newest: transactions at most.
        known: headers by number, as an earlier call returned them.

    Raises LogCorruptError for a transaction that does not read.
    """
    keys = heapq.nlargest(newest, (meta.key for meta in _transactions(table)))
    if not known:
        return _headers(table, keys)
    last = max(known)
    old = {key: known[n] for key in keys if (n := table.paths.parse_txn(key)) in known and n < last}
    read = heads(table, [key for key in keys if key not in old])
    same = any(header == known[last] for header, _ in read)  # it holds digests of all before it
    rest = list(old.values()) if same else _headers(table, list(old))
    after = {header.seq: header for header in rest}
    new = (header for header, _ in _effective(table, read, after))
    return sorted([*new, *rest], key=lambda header: -header.seq)


def history_since(table: Table, time_ms: int, most: int) -> list[TxnHeader]:
    """Return the transactions since a time (unix ms), newest first, at most the ``most`` newest.

    Requests: 1 LIST, and one ranged GET for each object that the store has had since an hour before
    that time: its clock is not the one that dates transactions.

    Raises LogCorruptError for a transaction that does not read.
    """
    recent = (m.key for m in _transactions(table) if m.modified_ms >= time_ms - _CLOCKS_DIFFER_MS)
    return [h for h in _headers(table, heapq.nlargest(most, recent)) if h.t >= time_ms]


def _transactions(table: Table, after: int = 0) -> list[ObjectMeta]:
    """Return the transactions after a number, oldest first, without those that were ended.

    What is no transaction is among them, for whoever reads it to refuse.

    Requests: 1 LIST; if a number is missing between them 1 GET of the birth record.
    """
    metas = list(table.store.list(table.paths.txn_dir, table.paths.txn(after)))
    numbers = [_number(table, meta) for meta in metas]
    present = {number for number in numbers if number is not None}
    if first_of_run(present) == min(present, default=0):
        return metas
    last = last_number(table.store, table.paths)
    pairs = zip(metas, numbers, strict=True)
    return [meta for meta, number in pairs if number is None or number >= last]


def _number(table: Table, meta: ObjectMeta) -> int | None:
    try:
        return table.paths.parse_txn(meta.key)
    except LogCorruptError:
        return None


def _effective(
    table: Table,
    pairs: Sequence[tuple[TxnHeader, str]],
    others: Mapping[int, TxnHeader] = MappingProxyType({}),
) -> list[tuple[TxnHeader, str]]:
    """Leave out what was created under numbers below a downgrade's, and is not in its history.

    Requests: if one was not committed on the one before it that is there, 1 GET of the birth
    record. What such a pair is elsewhere is for ``verify`` to say.

    Args:
        table: the table.
        pairs: headers and their digests.
        others: further headers by number, which may follow one of those.
    """
    after = {**others, **{header.seq: header for header, _ in pairs}}

    def is_other(seq: int, digest: str) -> bool:
        following = after.get(seq + 1)
        return following is not None and following.before not in ("", digest)

    torn = {header.seq for header, digest in pairs if is_other(header.seq, digest)}
    last = last_number(table.store, table.paths) if torn else 0
    return [pair for pair in pairs if not (pair[0].seq in torn and pair[0].seq < last)]


def time_of(table: Table, seq: int) -> int:
    """Return the time of a transaction, unix ms: the state at that time is the one right after it.

    ``seq`` 0 stands for the state before the first transaction. Requests: 1 ranged GET, and 1 LIST
    for a transaction that does not exist.

    Raises:
        UsageError: there is no such transaction yet.
        SnapshotExpiredError: the record of the transaction is past its retention.
    """
    paths = table.paths
    for header in _headers(table, [paths.txn(seq or 1)]):
        return header.t if seq else header.t - 1
    numbers = [paths.parse_txn(meta.key) for meta in _transactions(table)]
    if not numbers or seq > max(numbers):
        raise no_transaction(table.settings.name, seq, max(numbers, default=0))
    raise SnapshotExpiredError(
        f"the record of transaction {seq} of table {table.settings.name} is past its retention, "
        f"the oldest that is kept is {min(numbers)}",
        next_step="give a time instead, or a later transaction",
    )


def no_transaction(name: str, seq: int, newest: int) -> UsageError:
    """Return the error for a transaction that a table does not have yet.

    Args:
        name: of the table.
        seq: number of the transaction.
        newest: number of its newest one; 0 if it has none.
    """
    if not newest:
        return UsageError(
            f"table {name} has no transaction at all",
            next_step=f"there is no earlier state to return to yet; see `firnline history {name}`",
        )
    return UsageError(
        f"table {name} has no transaction {seq}, the newest is {newest}",
        next_step=f"see them with `firnline history {name}`",
    )


def newest_at(table: Table, time_ms: int, effective: Callable[[int], int]) -> int:
    """Return the newest transaction at or before a time (unix ms), or 0 if there is none.

    Requests: 1 LIST and one ranged GET per step of a binary search in the listing.

    Args:
        table: the table.
        time_ms: the time by the clock.
        effective: ``Snapshot.effective`` of the newest state; maps a date to when it took effect.

    Raises SnapshotExpiredError where the record of that transaction is past its retention.
    """
    keys = sorted(meta.key for meta in _transactions(table))
    count = bisect_right(keys, time_ms, key=lambda key: effective(_headers(table, [key])[0].t))
    if count:
        return table.paths.parse_txn(keys[count - 1])
    if keys and table.paths.parse_txn(keys[0]) > 1:
        raise SnapshotExpiredError(
            f"the records of table {table.settings.name} before {keys[0]} are past their retention",
            next_step="give a later time",
        )
    return 0


def headers_of(table: Table, numbers: Iterable[int]) -> list[TxnHeader]:
    """Return the headers of these transactions that are not past their retention, newest first.

    Requests: one ranged GET each. Raises LogCorruptError.
    """
    return _headers(table, [table.paths.txn(number) for number in numbers])


def run_report(table: Table, run: RunIdentity, since_seq: int = 0) -> RunReport:
    """Sum up the transactions of a run (by DAG id and run id) after transaction ``since_seq``.

    Requests: 1 LIST and one ranged GET per transaction after ``since_seq``; where one is missing or
    was not committed on the one before it that is there, 1 GET of the birth record for each.
    """
    pairs = _of_run(table, run, since_seq)
    mine = [header for header, _ in pairs]
    return RunReport(
        run=run,
        transactions=tuple(sorted(h.seq for h in mine)),
        counts=add_counts([h.counts for h in mine]),
        partitions=tuple(sorted({p for h in mine for p in h.partitions})),
        head=_head(pairs),
    )


def newest_head(table: Table) -> Head | None:
    """Return the newest transaction and its digest; None for a table without transactions.

    Requests: 1 LIST and 1 ranged GET. Raises LogCorruptError.
    """
    return _head(heads(table, heapq.nlargest(1, (m.key for m in _transactions(table)))))


def _head(pairs: Sequence[tuple[TxnHeader, str]]) -> Head | None:
    return Head(pairs[0][0].seq, pairs[0][1]) if pairs else None


def transactions_of(table: Table, run: RunIdentity, since_seq: int = 0) -> list[TxnHeader]:
    """Return the transactions of a run (by DAG id and run id) after ``since_seq``, newest first.

    Requests: as for ``run_report``.
    """
    return [header for header, _ in _of_run(table, run, since_seq)]


def _of_run(table: Table, run: RunIdentity, since_seq: int) -> list[tuple[TxnHeader, str]]:
    keys = [meta.key for meta in _transactions(table, since_seq)]
    return [
        (header, digest)
        for header, digest in _effective(table, heads(table, keys))
        if header.run.is_run_of(run)
    ]


def add_counts(counts: Sequence[Counts]) -> Counts:
    """Add counts field by field."""
    return Counts(
        **{name: sum(getattr(c, name) for c in counts) for name in Counts.__struct_fields__}
    )


def _headers(table: Table, keys: Sequence[str]) -> list[TxnHeader]:
    return [header for header, _ in _effective(table, heads(table, keys))]


def heads(table: Table, keys: Sequence[str]) -> list[tuple[TxnHeader, str]]:
    """Return headers and their digests (``log.chain``), newest first, of those that are there.

    Requests: one ranged GET each; one GET more for a header that is longer.

    Args:
        table: the table.
        keys: of transactions.

    Raises LogCorruptError for a transaction that does not read.
    """
    pairs: list[tuple[TxnHeader, str]] = []
    longer: list[str] = []
    for key, head in table.store.get_heads(keys, _HEAD_BYTES):
        if head is None:
            continue  # past its retention since the listing
        header = txn_file.decode_header(key, head, table.paths)
        if header is None:
            longer.append(key)
        else:
            pairs.append((header, chain.header_digest(key, head.partition(b"\n")[0])))
    pairs += [
        (
            txn_file.decode(key, data, table.paths)[0],
            chain.header_digest(key, data.partition(b"\n")[0]),
        )
        for key, data in table.store.get_many(longer)
        if data is not None
    ]
    return sorted(pairs, key=lambda pair: -pair[0].seq)
