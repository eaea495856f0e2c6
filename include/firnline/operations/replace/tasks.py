"""The new rows of a replace by an engine: executors write the parts, the driver commits.

A file on this machine means nothing to an executor, so its rows are written by this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline.appends.append import check_partition
from firnline.commit.base import Base
from firnline.commit.outputs import Outputs
from firnline.kernel.engine import Engine
from firnline.operations.new_rows import NewRowTasks, RowFile, cut_large
from firnline.operations.replace.plan import Span
from firnline.operations.replace.rows import OP, NewRows, limits_of, no_row
from firnline.operations.replace.staged import StagedFile
from firnline.parquet.part import PartMetadata
from firnline.table import Table
from firnline.types.sql import fold_name


@dataclass(frozen=True, slots=True)
class NewTasks:
    """Makes and runs the tasks of one replace.

    Args:
        table: the table.
        base: its state when the replace began.
        span: where all rows have to lie.
        delete: id of the record that is to hide the old rows; it does not apply to these.
        partition: of all rows, when the table has no partition fields.
    """

    table: Table
    base: Base
    span: Span
    delete: str
    partition: str | None = None

    def can_take(self, files: Sequence[StagedFile]) -> bool:
        """Return True if executors can read the files and tell whether their rows lie inside.

        A table without the columns of the interval, as one that is to begin, learns their types
        from the rows.
        """
        known = {fold_name(name) for name in self.base.snapshot.schema}
        return all(file.key is not None for file in files) and all(
            fold_name(column) in known for column in self.span.columns
        )

    def write(self, engine: Engine, files: Sequence[StagedFile], new: Outputs) -> NewRows:
        """Check and write all rows; none are an error.

        Requests and errors as of ``NewRowTasks.write``, and those of ``cut_large``.

        Args:
            engine: runs the tasks.
            files: in the bucket of the table, in order.
            new: gets the keys of the parts of each task that is done.

        Raises UsageError besides: there is no row.
        """
        table, schema = self.table, self.base.snapshot.schema
        partition, now = check_partition(table, self.partition), table.clock.now_ms()
        tasks = NewRowTasks(
            table=table,
            columns=schema,
            place=files[0].name.removesuffix(str(files[0].key)),
            partition=partition,
            metadata=PartMetadata(
                table=table.paths.prefix,
                partition=partition,
                writer=OP,
                q=self.base.seq,
                o=(now, now),
                d=(self.delete,),
            ),
            limits=limits_of(self.span, schema),
        )
        files_cut = cut_large(table, (RowFile(str(file.key), file.bytes) for file in files))
        written = tasks.write(engine, list(files_cut), new)
        if not written.parts:
            raise no_row()
        return NewRows(written.parts, written.columns, since=self.base.seq)
