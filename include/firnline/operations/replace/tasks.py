"""The new rows of a replace as tasks of an engine: executors write the parts, the driver commits.

A task takes neighbouring files, as many as make a part or so. Only files in the table's bucket: a
path of this machine means nothing to an executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firnline import errors
from firnline.append.append import check_partition
from firnline.commit.base import Base
from firnline.commit.outputs import Outputs
from firnline.errors import FirnlineError
from firnline.kernel.engine import Engine, running
from firnline.kernel.task import Intake, KernelInput, KernelResult, KernelTask, SortKey
from firnline.operations.kernel_tasks import levels
from firnline.operations.replace.plan import Span
from firnline.operations.replace.rows import OP, NewRows, limits_of, no_row
from firnline.operations.replace.staged import StagedFile
from firnline.parquet.part import PartMetadata
from firnline.rows.source import CAST
from firnline.table import Table
from firnline.types.schema import SchemaUnion
from firnline.types.sql import fold_name

_BUFFER = (1 / 4, 32 * 2**20)
_LEAST_BUFFER = 1 / 16
"""Rows in memory: a quarter of ``kernel_memory`` less 32 MiB, at least a sixteenth. A part is held
twice while it is sorted, and Parquet is decoded and encoded beside it."""


def buffer_of(kernel_memory: int) -> int:
    """Return the bytes of rows that a task may keep in memory, in Arrow's size."""
    share, less = _BUFFER
    return int(max(kernel_memory * share - less, kernel_memory * _LEAST_BUFFER))


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

        Requests: one GET per file and one PUT per part (more for large ones).

        Args:
            engine: runs the tasks.
            files: in the bucket of the table, in order.
            new: gets the keys of the parts of each task that is done. A task that fails or is
                stopped deletes its own; those of one that dies are left to the orphan sweep.

        Raises as ``NewParts.write``, and KernelError if a task died.
        """
        batches = list(self._batches(files))
        tasks = [self._task(number, batch) for number, batch in enumerate(batches)]
        done: dict[int, KernelResult] = {}
        with running(engine, tasks) as found:
            for result in found:
                if result is None:
                    continue
                self.table.store.counters.add(result.requests)
                if result.error is not None:
                    raise _error_of(result)
                new.add(*(part.key for part in result.parts))
                done[result.group] = result
        parts = tuple(part for number in sorted(done) for part in done[number].parts)
        if not parts:
            raise no_row()
        columns = SchemaUnion()
        for number, batch in enumerate(batches):
            columns.add(f"the rows from {batch[0].name} on", done[number].columns, next_step=CAST)
        return NewRows(parts, columns.columns, since=self.base.seq)

    def _batches(self, files: Sequence[StagedFile]) -> Iterator[list[StagedFile]]:
        """Yield the files of each task.

        With a primary key there is one task: of two rows of a key the later file's counts, and
        only the names of parts that one task writes tell which came later.
        """
        settings = self.table.settings
        gathered: list[StagedFile] = []
        total = 0
        for file in files:
            full = total + file.bytes > settings.append.part_bytes
            if gathered and full and not settings.primary_key:
                yield gathered
                gathered, total = [], 0
            gathered.append(file)
            total += file.bytes
        if gathered:
            yield gathered

    def _task(self, number: int, files: Sequence[StagedFile]) -> KernelTask:
        table, settings, policy = self.table, self.table.settings, self.table.settings.merge
        now = table.clock.now_ms()
        partition = check_partition(table, self.partition)
        return KernelTask(
            group=number,
            partition=partition,
            inputs=tuple(
                KernelInput(key=str(file.key), bytes=file.bytes, rows=None) for file in files
            ),
            columns=tuple(self.base.snapshot.schema.items()),
            sort_by=tuple(SortKey(f.column, f.descending) for f in settings.sort_by),
            stats_columns=settings.statistics_columns,
            primary_key=settings.primary_key,
            version=settings.version,
            metadata=PartMetadata(
                table=table.paths.prefix,
                partition=partition,
                writer=OP,
                q=self.base.seq,
                o=(now, now),
                d=(self.delete,),
            ).to_pairs(),
            data_prefix=table.paths.data_dir,
            memory=policy.kernel_memory,
            threads=policy.kernel_threads,
            row_group_rows=policy.row_group_rows,
            compression_level=policy.compression_level,
            intake=self._intake(files[0]),
        )

    def _intake(self, file: StagedFile) -> Intake:
        settings = self.table.settings
        return Intake(
            table=settings.name,
            prefix=self.table.paths.prefix,
            place=file.name.removesuffix(str(file.key)),
            partition_by=levels(settings),
            limits=limits_of(self.span, self.base.snapshot.schema),
            part_bytes=settings.append.part_bytes,
            buffer_bytes=min(settings.append.buffer, buffer_of(settings.merge.kernel_memory)),
        )


def _error_of(result: KernelResult) -> FirnlineError:
    """Return the error that ended a task, as it was raised there."""
    kind = getattr(errors, result.error_type or "", FirnlineError)
    message = result.error or "a task with new rows failed"
    error: FirnlineError = kind(message, next_step=result.error_next_step or "run it again")
    return error
