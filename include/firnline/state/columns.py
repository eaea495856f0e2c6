"""What the parts of a state hold in the names and types of its columns: ``Snapshot``'s other half.

Every reader asks here; the rules are those of ``log.schema_changes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from firnline.log.reader import LogObject
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.schema_changes import (
    AS_IT_IS,
    PartColumns,
    SchemaChange,
    line_now,
    part_columns,
    pending,
    record_of,
    stats_now,
)
from firnline.log.schema_lines import first_sequence, line_sequence, newest_before
from firnline.paths import LogName
from firnline.types.values import Stats


class StateColumns:
    """The part of a state that is about columns; its fields are ``Snapshot``'s."""

    listing: Mapping[str, LogObject]
    contents: Mapping[str, LogContent]
    schema: Mapping[str, str]
    deletes: Mapping[str, Delete]
    changes: tuple[SchemaChange, ...]
    times: tuple[tuple[int, int], ...]
    dated: Mapping[int, int]
    _columns: dict[tuple[str, ...], PartColumns]

    def sequence_of(self, marker: Marker) -> int:
        """Data sequence of a part; for markers without one, the newest transaction below ``t``."""
        if marker.q is not None:
            return marker.q
        if not self.dated:
            return newest_before(self.times, marker.t)
        return newest_before(self._clock_times, self.dated.get(marker.t, marker.t))

    @cached_property
    def _clock_times(self) -> tuple[tuple[int, int], ...]:
        """(when it took effect, seq) of the transactions that are known, sorted.

        They may be dated years ahead; a client of version 1 dates its parts by its own clock.
        """
        return tuple(sorted((self.dated.get(t, t), seq) for t, seq in self.times))

    @property
    def records(self) -> Mapping[str, Delete]:
        """All records with a sequence, by id: deletes, and changes of the schema."""
        return {**self.deletes, **{change.id: record_of(change) for change in self.changes}}

    def pending_changes(self, marker: Marker) -> tuple[SchemaChange, ...]:
        """Changes of the schema that a part does not show: a merge writes it in the new form."""
        if not self.changes:
            return ()
        return pending(self.changes, self.sequence_of(marker), marker.d or ())

    def columns_of(self, marker: Marker) -> PartColumns:
        """How the columns that a part holds become the table's."""
        changes = self.pending_changes(marker)
        if not changes:
            return AS_IT_IS
        ids = tuple(change.id for change in changes)
        found = self._columns.get(ids)
        if found is None:
            found = self._columns[ids] = part_columns(changes)
        return found

    def stats_of(self, marker: Marker) -> Stats:
        """A part's statistics, by the names and in the types of the table."""
        if not self.changes:
            return marker.stats()
        return stats_now(self.columns_of(marker), marker.stats(), self.schema)

    def types_in_parts(self) -> dict[str, str]:
        """Types of columns by the names that they may have in parts, and by those of the table."""
        found: dict[str, str] = {}
        for column, names in part_columns(self.changes).made_of.values():
            if column in self.schema:
                found.update(dict.fromkeys(names, self.schema[column]))
        return {**found, **self.schema}

    def line(self, key: str) -> Mapping[str, str]:
        """What a log file that was read says of the columns, in the words of today."""
        return self.line_of(self.listing[key].name, self.contents[key])

    def line_of(self, name: LogName, content: LogContent) -> Mapping[str, str]:
        """The same of one that this state may not have read."""
        if not self.changes:
            return content.schema
        q = line_sequence(name, first_sequence(content.markers), self.times)
        return line_now(self.changes, content.schema, q)
