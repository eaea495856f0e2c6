"""What a writer knows of a table's columns: read once, and again when that can have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from firnline.base import publish
from firnline.errors import SchemaConflictError
from firnline.log import codec, txn_file
from firnline.log.head import Head
from firnline.log.heads import read_schemas
from firnline.log.schema_changes import line_now, split
from firnline.schema import SchemaUnion
from firnline.table import Table

_AGAIN = "run the write again: it takes the columns that are there now; nothing was published"


class KnownColumns:
    """Columns of one table for its writers, which may be in several threads.

    Requests: none before the first question; then 1 LIST and one ranged GET per log file that no
    transaction has folded. Looking again costs 1 LIST and a GET per log file that is new. Where a
    transaction is committed and not published yet, it is published: a LIST, a GET and a PUT more.

    Args:
        table: the table.
        given: column -> SQL type, instead of reading them.
    """

    def __init__(self, table: Table, given: Mapping[str, str] | None = None) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._heads: dict[str, Head] = {}
        self._union: SchemaUnion | None = None
        self._given = given is not None
        self.seq = 0
        """Newest transaction whose columns are known, once they were read."""
        self.version = 0
        """Grows whenever the columns may be others than before."""
        if given is not None:
            self._union = SchemaUnion()
            self._union.add("the schema given", given)

    def read(self, newest: int = 0) -> SchemaUnion:
        """The columns, a union of the caller's own; those that were given stay.

        Args:
            newest: what this transaction, which is committed, made of them is to be known.

        Raises SchemaConflictError, LogCorruptError, SnapshotUnstableError, StoreError.
        """
        with self._lock:
            if self._union is None or (newest > self.seq and not self._given):
                return self._read(newest).copy()
            return self._union.copy()

    def look_again(self, newest: int = 0) -> SchemaUnion:
        """The columns as the log says now; as ``read``."""
        with self._lock:
            if self._given and self._union is not None:
                return self._union.copy()
            return self._read(newest).copy()

    def refuse(self, lines: Iterable[Mapping[str, str]], first: int, last: int) -> None:
        """Refuse an append that would contradict the table as the log says now.

        Requests: as ``look_again``.

        Args:
            lines: column -> SQL type, as each of its writers has them.
            first: the oldest transaction that any of its writers took for the newest: that is the
                sequence of its parts, and changes since then will apply to them.
            last: the newest one.

        Raises SchemaConflictError, and as ``read``.
        """
        with self._lock:
            union = self._read(last).copy()
            _, changes = split(record for head in self._heads.values() for record in head.changes)
        newer = next((change.seq for change in changes if first < change.seq <= last), None)
        if newer is not None:
            raise SchemaConflictError(
                f"transaction {newer} changed the table's columns while the rows were written: "
                "some have the names of before, and some those of now",
                next_step=_AGAIN,
            )
        for line in lines:
            union.add("the new rows", line_now(changes, line, first), next_step=_AGAIN)

    def published(self, log_key: str, columns: Mapping[str, str]) -> None:
        """Take in what a log file of this writer's own states."""
        with self._lock:
            if self._union is None or not columns.items() - self._union.columns.items():
                return
            try:
                self._union.add(f"log file {log_key}", columns)
            except SchemaConflictError:
                # Published it is, and no error of the append: whoever reads next is told.
                self._union = None
            self.version += 1

    def _read(self, newest: int) -> SchemaUnion:
        union = SchemaUnion()
        lines, self.seq = self._lines()
        if newest > self.seq:
            self._publish(newest)
            lines, self.seq = self._lines()
        for log_file, columns in lines:
            union.add(f"log file {log_file}", columns)
        self._union = union
        self.version += 1
        return union

    def _lines(self) -> tuple[list[tuple[str, Mapping[str, str]]], int]:
        """Schema lines, and the newest transaction among the log files that state them."""
        paths = self._table.paths
        lines = read_schemas(self._table.store, paths, self._heads)
        return lines, max((paths.parse_log(log_file).seq for log_file, _ in lines), default=0)

    def _publish(self, seq: int) -> None:
        """What a writer says that it knows (its ``q``) must not be newer than its columns.

        A transaction may have renamed a column, committed, and died before it was published: as
        whoever commits next, a writer does that then. (Of several that are newer than the log was
        when it was listed all but the newest are published, and that one will be at once.)
        """
        table = self._table
        if seq != self.seq + 1 or not self._heads:
            return
        read_at = table.clock.elapsed_ms()
        key = table.paths.txn(seq)
        header, log_file = txn_file.decode(key, table.store.get(key), table.paths)
        # Else the log is lost: a part of it must not look like a table.
        folded = txn_file.folded_by(codec.decode(header.log, log_file, table.paths))
        if header.op != "rebuild" and folded <= self._heads.keys():
            publish(table, header, log_file, read_at)
