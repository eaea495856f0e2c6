"""The new rows of a replace: written as parts in this process, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pyarrow as pa

from firnline.appends.append import check_partition
from firnline.appends.run import AppendRun, Origin
from firnline.commit.base import Base
from firnline.commit.change import Change
from firnline.errors import (
    SchemaConflictError,
    UsageError,
)
from firnline.kernel.convert import RowCheck, row_check
from firnline.kernel.intake import refuse_outside
from firnline.kernel.task import Limits
from firnline.log.records import Marker, marker_of
from firnline.operations.replace.plan import Span
from firnline.parquet.part import WrittenPart
from firnline.predicate.tree import to_sql
from firnline.rows.source import gather
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.schema import SchemaUnion

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse


OP = "replace"


@dataclass(frozen=True, slots=True)
class NewRows:
    """Parts with the new rows, uploaded and not visible yet.

    A caller that writes them elsewhere (executors of Spark) guarantees that every row lies in the
    interval, and that the parts are younger than the replace that is to commit them.
    """

    parts: tuple[WrittenPart, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of all parts, column -> SQL type."""
    delete: str = ""
    """Id of the delete record that their footers name; empty: none was chosen."""
    since: int = 0
    """Newest transaction of the table when the writing of the parts began."""

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.bytes for part in self.parts)

    def markers(self) -> tuple[Marker, ...]:
        """Markers without ``q``: the transaction that brings them sets its own sequence there."""
        return tuple(marker_of(part) for part in self.parts)

    def added_to(self, change: Change) -> Change:
        """Return the change with these parts added."""
        counts = change.counts
        return replace(
            change,
            adds=(*change.adds, *self.markers()),
            columns=self.columns,
            partitions=tuple(sorted({*change.partitions, *(p.partition for p in self.parts)})),
            counts=msgspec.structs.replace(
                counts,
                parts_out=counts.parts_out + len(self.parts),
                rows_out=counts.rows_out + self.rows,
                rows_added=self.rows,
                bytes_out=counts.bytes_out + self.bytes,
            ),
        )

    def refuse_old_names(self, snapshot: Snapshot) -> None:
        """Raise SchemaConflictError where another run renamed or dropped a column of the rows.

        They are above every record, so under the old name they would be another column.
        """
        for change in snapshot.changes:
            gone = [c for c in (*change.what.rename, *change.what.drop) if c in self.columns]
            if change.seq > self.since and gone:
                raise SchemaConflictError(
                    f"transaction {change.seq} renamed or dropped column {gone[0]!r} of the new "
                    "rows while they were written",
                    next_step="give the rows the table's columns and run it again",
                )

    @property
    def keys(self) -> list[str]:
        """Keys of the parts."""
        return [part.key for part in self.parts]


def no_row() -> UsageError:
    """Return the error for new rows of which there are none."""
    return UsageError(
        "the rows to replace with are none",
        next_step="to empty the interval ask for nothing (--nothing)",
    )


@dataclass(frozen=True, slots=True)
class NewParts:
    """Writes the new parts of one replace.

    Args:
        table: the table.
        base: its state when the replace began.
        span: where all rows have to lie.
        delete: id of the record that is to hide the old rows; it does not apply to these.
        scratch: folder for files on their way.
        partition: of all rows, when the table has no partition fields.
    """

    table: Table
    base: Base
    span: Span
    delete: str
    scratch: Path
    partition: str | None = None

    def write(self, tables: Iterable[pa.Table]) -> NewRows:
        """Check and write all rows; none are an error.

        Requests: one PUT per part (more for large ones). Memory: as an append.

        Raises:
            UsageError: a row outside of the interval; no row; columns that do not go with the
                settings.
            PartSchemaError, SchemaConflictError, StoreError, ScratchFullError: as an append.

        After any error no part stays.
        """
        with row_check(self.scratch) as check:
            run = self._run(check)
            with run.new:
                for rows in gather(tables, run.chunk_bytes):
                    run.add(rows)
                run.flush()
                if not run.parts:
                    raise no_row()
        return NewRows(tuple(run.parts), dict(run.columns), since=self.base.seq)

    def _run(self, check: RowCheck) -> AppendRun:
        table = self.table
        union = SchemaUnion()
        union.add("the table", self.base.snapshot.schema)
        now = table.clock.now_ms()
        run = AppendRun(
            table,
            # No append id: a rebuild of the log must not take them for an append's.
            Origin("", OP, self.base.seq, self.base.began_ms, now),
            union,
            check_partition(table, self.partition),
            self.scratch,
            {"firnline.d": msgspec.json.encode([self.delete]).decode()},
        )
        run.writer.check = lambda rows: refuse_outside(
            check, rows, limits_of(self.span, run.writer.known.columns)
        )
        return run


def limits_of(span: Span, columns: Mapping[str, str]) -> Limits:
    """Return where new rows have to lie. ``columns``: of table and rows. Raises UsageError."""
    bound = span.bound(columns)
    return Limits(
        columns=bound.columns,
        condition=to_sql(bound.predicate(columns), columns),
        text=str(bound),
    )
