"""Reads the effects of the transactions that a restore undoes."""

from __future__ import annotations

from firnline.errors import SnapshotExpiredError
from firnline.log import codec, txn_file
from firnline.log.records import Delete
from firnline.log.schema_changes import split
from firnline.log.txn_file import TxnHeader
from firnline.operations.since.plan import Since
from firnline.state.history import time_of
from firnline.table import Table


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
