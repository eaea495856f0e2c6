"""Text of the log that may hold keys of an erase: records, bounds of parts, names of partitions.

It does not keep a certificate from being complete, because it goes by itself: clean-up deletes log
files, transactions and checkpoints by their retention. Until then the certificate names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from firnline.errors import CheckpointError
from firnline.log import codec, txn_file
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.schema_changes import is_change
from firnline.log.txn_file import TxnHeader
from firnline.operations.cleanup.retention import TXN_KEPT, kept_ms
from firnline.operations.erase.certificate import Remaining, remaining
from firnline.operations.erase.evidence import Search
from firnline.operations.hidden import may_name_keys
from firnline.predicate.tree import columns_of, parse_json
from firnline.types.sql import fold_name

_WHAT = "with delete records, or bounds or partitions of parts that held keys"


def find_text(search: Search) -> tuple[Remaining, ...]:
    """Return log files, transactions and checkpoints that may hold a key.

    Requests: one LIST of ``_txn/`` and one GET for each transaction there; the same of ``_ckpt/``.
    """
    judge = _Judge.of(search)
    name = search.table.settings.name
    contents = search.inventory.snapshot.contents
    logs = [key for key, content in contents.items() if judge.speaks(content)]
    keys, newest = _transactions(search, judge)
    return (
        *remaining(
            "log text",
            logs,
            f"log files {_WHAT}",
            f"regular runs of `firnline cleanup {name}` delete it: a record after append.ttl and "
            "the grace, a log file when it is folded and seen for the grace",
        ),
        *remaining(
            "log text",
            keys,
            f"transactions {_WHAT}",
            f"`firnline cleanup {name}` deletes it when {TXN_KEPT} newer ones are there",
            newest + kept_ms(search.waits.grace),
        ),
        *remaining(
            "log text",
            _checkpoints(search, judge),
            f"checkpoints {_WHAT}",
            f"`firnline cleanup {name}` deletes it when two newer ones are there; nothing is lost "
            "when it is deleted by hand",
        ),
    )


@dataclass(frozen=True, slots=True)
class _Judge:
    """Decides on one text after the other."""

    search: Search
    columns: frozenset[str]
    may_hold: Callable[[Marker], bool]

    @classmethod
    def of(cls, search: Search) -> _Judge:
        columns = frozenset(map(fold_name, search.certificate.columns))
        return cls(search, columns, search.may_hold())

    def speaks(self, content: LogContent) -> bool:
        return self.of_records(content.deletes) or self.of_parts(content.markers)

    def of_records(self, deletes: Iterable[Delete]) -> bool:
        """Return True if a record has a key: one of the erase, or an earlier one of its columns."""
        return any(
            delete.id in self.search.certificate.deletes
            or (delete.seq <= self.search.replaced.seq and self._names_columns(delete))
            for delete in deletes
        )

    def _names_columns(self, delete: Delete) -> bool:
        if is_change(delete):
            return False
        return not self.columns.isdisjoint(map(fold_name, columns_of(parse_json(delete.where))))

    def of_parts(self, markers: Iterable[Marker]) -> bool:
        """Return True if a marker states bounds, or the partition, of a part that may hold one."""
        start = len(self.search.table.paths.data_dir)
        return any(
            (marker.s or marker.h or "/" in marker.p[start:]) and self.may_hold(marker)
            for marker in markers
        )

    def of_header(self, header: TxnHeader) -> bool:
        """Return True if a transaction names a partition that may have the name of a key."""
        columns = self.search.certificate.columns
        return header.seq <= self.search.replaced.seq and any(
            may_name_keys(partition, columns) for partition in header.partitions
        )


def _transactions(search: Search, judge: _Judge) -> tuple[list[str], int]:
    """Return the transactions that speak of keys, and when the newest of them was written."""
    table = search.table
    listing = {meta.key: meta for meta in table.store.list(table.paths.txn_dir, table.paths.birth)}
    keys, newest = [], 0
    for key, data in table.store.get_many(list(listing)):
        if data is None:
            continue  # past its retention since the listing
        header, log_file = txn_file.decode(key, data, table.paths)
        content = codec.decode(header.log, log_file, table.paths)
        if judge.of_header(header) or judge.speaks(content):
            keys.append(key)
            newest = max(newest, listing[key].modified_ms)
    return keys, newest


def _checkpoints(search: Search, judge: _Judge) -> list[str]:
    table = search.table
    keys = [meta.key for meta in table.store.list(table.paths.checkpoint_dir)]
    if not keys:
        return []
    from firnline.log import checkpoint as checkpoint_file

    holding = []
    for key, data in table.store.get_many(keys):
        try:
            held = None if data is None else checkpoint_file.decode(key, data, table.paths)
        except CheckpointError:
            holding.append(key)  # its contents are unknown
            continue
        if held is not None and (
            judge.of_records(held.head.deletes) or judge.of_parts(held.with_newer(()).values())
        ):
            holding.append(key)
    return sorted(holding)
