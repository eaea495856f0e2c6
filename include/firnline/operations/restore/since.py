"""Read the effects of the transactions that a restore undoes.

They are read one after the other in bounded memory; what cannot be undone is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline.errors import SnapshotExpiredError, UsageError
from firnline.log import codec, txn_file
from firnline.log.records import Delete, Marker
from firnline.log.schema_changes import split
from firnline.log.txn_file import NAMED_PARTITIONS, TxnHeader
from firnline.state.history import time_of
from firnline.state.snapshot import Snapshot
from firnline.table import Table

_NOT_UNDONE = {
    "schema-fix": "changed the columns of the table",
    "evolve": "changed the columns of the table",
    "rebuild": "wrote the log anew",
    "downgrade": "applied deletes and gave the history up",
}
"""Operations -> why states before them cannot be restored."""


@dataclass(frozen=True, slots=True)
class Since:
    """The effects of the transactions after ``seq``, oldest first."""

    seq: int
    t: int
    """Time of the state to restore, unix ms."""
    headers: tuple[TxnHeader, ...]
    born: frozenset[str]
    """Parts that they added."""
    buried: frozenset[str]
    """Parts that they tombstoned."""
    deletes: tuple[Delete, ...]
    """Deletes whose records their log files carry, forgotten by now or not."""


def refuse_deleted(snapshot: Snapshot, since: Since, globs: Sequence[str]) -> None:
    """Raise SnapshotExpiredError if parts of that state are deleted."""
    # At the horizon itself nothing that was live is deleted: all of that has a later tombstone.
    if since.t < snapshot.purged:
        which = f"partition {', '.join(globs)}" if globs else "the partitions"
        # One exists: at least the transaction of the clean-up itself is younger.
        whole = next((h.seq for h in since.headers if h.t >= snapshot.purged), None)
        later = "a later transaction" if whole is None else f"{whole} or later"
        raise SnapshotExpiredError(
            f"parts that {which} held after transaction {since.seq} are deleted: the table under "
            f"{snapshot.paths.data_dir} is cleaned up to {snapshot.purged} ms",
            next_step=f"restore to {later}, or from a backup",
        )


def refuse_impossible(
    since: Since, partitions: Sequence[str], *, whole: bool = False
) -> frozenset[int]:
    """Return sequence numbers of erases that leave these partitions alone.

    Args:
        since: what is to be undone.
        partitions: those to restore.
        whole: they are all of the table.

    Raises UsageError for what cannot be undone.
    """
    shown = ", ".join(name or "-" for name in partitions[:3])
    erased = set()
    for header in since.headers:
        if header.op in _NOT_UNDONE:
            raise UsageError(
                f"transaction {header.seq} ({header.op}) {_NOT_UNDONE[header.op]}, and what was "
                "before it cannot be restored",
                next_step=f"restore to {header.seq} or later",
            )
        if header.op == "repartition" and not whole:
            _refuse_half(header, partitions)
        if header.op == "erase":
            erased.add(header.seq)
            hit = set(header.partitions) & set(partitions)
            if hit or len(header.partitions) >= NAMED_PARTITIONS:
                raise UsageError(
                    f"transaction {header.seq} erased rows of partition "
                    f"{min(hit, default=shown) or '-'}, and they must not come back",
                    next_step=f"restore to {header.seq} or later, or leave the partition out",
                )
    return frozenset(erased)


def _refuse_half(header: TxnHeader, partitions: Sequence[str]) -> None:
    """Raise UsageError if only some of the partitions that rows were moved between come back.

    In the others these rows would stay, or be missing.
    """
    moved, chosen = set(header.partitions), set(partitions)
    rest = moved - chosen
    if moved & chosen and (rest or len(moved) >= NAMED_PARTITIONS):
        raise UsageError(
            f"transaction {header.seq} (repartition) moved rows between the partition "
            f"{min(moved & chosen) or '-'} and others, of which not all are restored",
            next_step="restore the whole table, or restore to "
            f"{header.seq} or later" + (f", or name {min(rest) or '-'} too" if rest else ""),
        )


def refuse_foreign(since: Since, partition: str, markers: Sequence[Marker]) -> None:
    """Raise UsageError if a client of log version 1 has replaced one of the parts."""
    for m in markers:
        if m.tmb is not None and m.tmb > since.t and m.p not in since.buried:
            raise UsageError(
                f"part {m.p} of partition {partition or '-'} was replaced by a client of log "
                "version 1, which keeps no record of what it put in its place",
                next_step="restore to a later transaction, or leave the partition out",
            )


def read_since(table: Table, seq: int, newest: int) -> Since:
    """Return the effects of the transactions after ``seq`` up to ``newest``.

    Requests: 1 GET for each of them, and 1 ranged GET.

    Raises:
        UsageError: there is no transaction ``seq``; for 0: none at all.
        SnapshotExpiredError: the record of one is past its retention.
    """
    t = time_of(table, seq)
    headers: list[TxnHeader] = []
    born: set[str] = set()
    buried: set[str] = set()
    deletes: dict[str, Delete] = {}
    keys = [table.paths.txn(number) for number in range(seq + 1, newest + 1)]
    for key, data in table.store.get_many(keys):
        if data is None:
            raise SnapshotExpiredError(
                f"the record {key} of a transaction in between is past its retention",
                next_step="restore to a later transaction",
            )
        header, log_file = txn_file.decode(key, data, table.paths)
        headers.append(header)
        content = codec.decode(header.log, log_file, table.paths)
        deletes.update((delete.id, delete) for delete in content.deletes)
        # Its own markers are those of its own time: every log file that it folded is older.
        for marker in content.markers:
            if marker.tmb == header.t:
                buried.add(marker.p)
            elif marker.t == header.t:
                born.add(marker.p)
    headers.sort(key=lambda header: header.seq)
    # What changed columns is none of the rows' (and refuses a restore to before it).
    rows, _ = split(deletes.values())
    return Since(seq, t, tuple(headers), frozenset(born), frozenset(buried), tuple(rows.values()))
