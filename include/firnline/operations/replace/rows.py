"""Writes the new rows of a replace as parts, once it is sure that they belong to the interval."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pyarrow as pa

from firnline.append.append import check_partition
from firnline.append.run import AppendRun, Origin
from firnline.append.source import gather
from firnline.commit.base import Base
from firnline.commit.change import Change
from firnline.errors import SchemaConflictError, UsageError
from firnline.kernel.convert import RowCheck, row_check
from firnline.log.records import Marker, stats_json
from firnline.operations.replace.plan import Span
from firnline.parquet.part import WrittenPart
from firnline.predicate.tree import to_sql
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.schema import SchemaUnion

_LOG = logging.getLogger(__name__)
OP = "replace"


@dataclass(frozen=True, slots=True)
class NewRows:
    """Parts with the new rows, uploaded and not visible yet.

    Whoever writes them elsewhere (executors of Spark) answers for it that every row lies in the
    interval, and that the parts are younger than the replace that is to commit them.
    """

    parts: tuple[WrittenPart, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column -> SQL type, of all of them."""
    delete: str = ""
    """Id of the delete record that their footers name; empty: nobody has chosen one."""
    since: int = 0
    """Newest transaction of the table when somebody began to write them."""

    @property
    def rows(self) -> int:
        """Of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """Of all parts."""
        return sum(part.bytes for part in self.parts)

    def markers(self) -> tuple[Marker, ...]:
        """Without ``q``: the transaction that brings them puts its own sequence there."""
        return tuple(
            Marker(p=part.key, b=part.bytes, t=0, n=part.rows, s=stats_json(part.stats))
            for part in self.parts
        )

    def added_to(self, change: Change) -> Change:
        """A replace that also brings them."""
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
        """Raise SchemaConflictError where a rival renamed or dropped a column of the rows.

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
        """Of the parts."""
        return [part.key for part in self.parts]


@dataclass(frozen=True, slots=True)
class NewParts:
    """Writes parts for one replace.

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
                for rows in gather(tables, run.buffer.chunk_bytes):
                    run.add(rows)
                run.flush()
                if not run.parts:
                    raise UsageError(
                        "the rows to replace with are none",
                        next_step="to empty the interval ask for nothing (--nothing)",
                    )
        return NewRows(tuple(run.parts), dict(run.columns), since=self.base.seq)

    def _run(self, check: RowCheck) -> AppendRun:
        table = self.table
        known = SchemaUnion()
        known.add("the table", self.base.snapshot.schema)
        now = table.clock.now_ms()
        run = AppendRun(
            table,
            # No append id: who rebuilds the log must not take them for an append's.
            Origin("", OP, self.base.seq, self.base.began_ms, now),
            known,
            check_partition(table, self.partition),
            self.scratch,
            {"firnline.d": msgspec.json.encode([self.delete]).decode()},
        )
        run.check = lambda rows: self._refuse_others(check, rows, run.known.columns)
        return run

    def _refuse_others(self, check: RowCheck, rows: pa.Table, columns: Mapping[str, str]) -> None:
        span = self.span.bound(columns)
        for column in span.columns:
            if column not in rows.column_names:
                raise UsageError(
                    f"the new rows have no column {column!r}, so they do not lie in {span}",
                    next_step="add the column; nothing was changed",
                )
        condition = to_sql(span.predicate(columns), columns)
        count, values = check.breaking(rows, condition, span.columns)
        if count:
            has = ", ".join(f"{c} = {v}" for c, v in zip(span.columns, values, strict=True))
            raise UsageError(
                f"{count:,} of {rows.num_rows:,} new rows do not lie in {span}; the first has "
                f"{has}",
                next_step="leave them out or widen the interval; nothing was changed",
            )
