"""The table's columns as a writer knows them: read once, and again if they may have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from firnline.commit.base import take_base
from firnline.errors import SchemaConflictError
from firnline.log.heads import Head, read_schemas
from firnline.log.reader import list_log, newest_seq
from firnline.log.schema_changes import line_now, split
from firnline.table import Table
from firnline.types.schema import SchemaUnion, union_of

_DECLARED = "correct the rows, or columns in the settings; nothing was written"
_AGAIN = "run the write again: it takes the current columns; nothing was published"


class KnownColumns:
    """Columns of one table for its writers, which may be in several threads.

    Requests: none before the first call; then 1 LIST, and unless columns are given one ranged GET
    per log file that no transaction has folded. Reading again costs 1 LIST and a GET per new log
    file. If a transaction is committed and not published yet, if the log is empty, or if a part of
    it seems to be lost, those of ``take_base`` in addition, which publishes or refuses, and 1 LIST.

    Args:
        table: the table.
        given: SQL type by column, instead of reading them.
    """

    def __init__(self, table: Table, given: Mapping[str, str] | None = None) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._heads: dict[str, Head] = {}
        self._union: SchemaUnion | None = None
        self._given = given is not None
        self._listed = self._files = False
        self.seq = 0
        """Newest transaction whose columns are known, once they have been read."""
        self.version = 0
        """Incremented whenever the columns may have changed."""
        self.declared: Mapping[str, str] = {}
        """SQL type by column, of those of the settings while the table has no column."""
        if given is not None:
            self._union = SchemaUnion()
            self._union.add("the schema given", given)

    def read(self, newest: int = 0) -> SchemaUnion:
        """Return the columns, as a copy that the caller may change; given ones are never replaced.

        Args:
            newest: a committed transaction whose effect on the columns must be included.

        Raises SchemaConflictError, LogCorruptError, SnapshotUnstableError, StoreError; LogLostError
        if the log is lost, as far as its columns and ``newest`` show.
        """
        with self._lock:
            if self._union is None or (newest > self.seq and not self._given):
                return self._read(newest).copy()
            if self._given and not self._listed:
                self._list()
            return self._union.copy()

    def look_again(self, newest: int = 0) -> SchemaUnion:
        """Return the columns after reading the log again; as ``read``."""
        with self._lock:
            if self._given and self._union is not None:
                self._list()
                return self._union.copy()
            return self._read(newest).copy()

    def refuse(self, lines: Iterable[Mapping[str, str]], first: int, last: int) -> None:
        """Refuse an append that would contradict the table's current log.

        Requests: as ``look_again``.

        Args:
            lines: SQL type by column, one mapping per writer of the append.
            first: the oldest transaction that a writer took for the newest: it becomes the sequence
                of its parts, and changes since then will apply to them.
            last: the newest such transaction.

        Raises SchemaConflictError, and as ``read``.
        """
        with self._lock:
            union = self._read(last).copy()
            _, changes = split(record for head in self._heads.values() for record in head.changes)
        newer = next((change.seq for change in changes if first < change.seq <= last), None)
        if newer is not None:
            raise SchemaConflictError(
                f"transaction {newer} changed the table's columns while the rows were written: "
                "some rows have the old names and some the new ones",
                next_step=_AGAIN,
            )
        for line in lines:
            union.add("the new rows", line_now(changes, line, first), next_step=_AGAIN)

    def published(self, log_key: str, columns: Mapping[str, str]) -> None:
        """Add the columns of a log file that this writer published."""
        with self._lock:
            self.declared = {}
            if self._union is None or not columns.items() - self._union.columns.items():
                return
            try:
                self._union.add(f"log file {log_key}", columns)
            except SchemaConflictError:
                # It is published, so this is not an error of the append: the next reader gets it.
                self._union = None
            self.version += 1

    @property
    def logged(self) -> bool:
        """True if the log has log files, once it has been listed."""
        return self._listed and self._files

    def _list(self) -> None:
        """Look only which transactions the log has, for a writer whose columns are given."""
        listing, _ = list_log(self._table.store, self._table.paths)
        self._listed, self._files = True, bool(listing)
        self.seq = newest_seq(listing)

    def _read(self, newest: int) -> SchemaUnion:
        lines = self._lines()
        if newest > self.seq or not self._is_whole():
            # The transaction that a writer states as known (its ``q``) must not be newer than its
            # columns: a transaction may have renamed one, committed, and died before it was
            # published. A writer then publishes it, like the next committer; or the log is lost.
            take_base(self._table, tolerant=True, doubled=True)
            lines = self._lines()
        self._union = union = union_of(lines)
        self.declared = {} if union.columns else self._table.settings.columns
        union.add("the settings of the table", self.declared, next_step=_DECLARED)
        self.version += 1
        return union

    def _lines(self) -> list[tuple[str, Mapping[str, str]]]:
        """Read the schema lines, and the newest transaction among the log files that state them."""
        paths = self._table.paths
        lines = read_schemas(self._table.store, paths, self._heads)
        self._listed, self._files = True, bool(lines)
        self.seq = max((paths.parse_log(log_file).seq for log_file, _ in lines), default=0)
        return lines

    def _is_whole(self) -> bool:
        """Return False if the heads show that the log must be checked (``state.health``)."""
        marks = [head.x for head in self._heads.values() if head.x is not None]
        newest = max(marks, key=lambda mark: mark.seq, default=None)
        standing = newest.standing if newest is not None else None
        there = {mark.seq for mark in marks}
        began_after = max((head.q or 0 for head in self._heads.values()), default=0)
        if began_after > self.seq:
            return False
        return bool(self._heads) and there.issuperset(standing or ())
