"""Take new rows in: files of anybody's become checked, sorted parts of their partitions.

The counterpart of an append within a task of an engine: what it writes is not visible, and a
transaction of the driver brings it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa

from firnline.errors import KernelError, PartSchemaError, SchemaConflictError, UsageError
from firnline.kernel.convert import RowCheck, row_check
from firnline.kernel.staging import InputError
from firnline.kernel.task import (
    InputFault,
    Intake,
    KernelInput,
    KernelResult,
    KernelTask,
    Limits,
)
from firnline.kernel.workplace import Workplace
from firnline.next_steps import WIDEN
from firnline.parquet.excerpt import Excerpt
from firnline.parquet.part import read_pairs
from firnline.paths import TablePaths
from firnline.rows.conform import conform_rows
from firnline.rows.foreign import fitted
from firnline.rows.given import Fitting
from firnline.rows.parts import Layout, PartWriter, Place
from firnline.rows.source import gather
from firnline.rows.staged import ABOUT_A_FILE, staged_batches
from firnline.store.base import Store
from firnline.types.schema import SchemaUnion
from firnline.types.untyped import Waiting

_LOG = logging.getLogger(__name__)
_AS_IT_IS = Fitting()
_LEAVE_OUT = "leave the file out, or write it anew with values that fit"


@dataclass(frozen=True, slots=True)
class TakeIn:
    """One task with new rows. After an error none of its parts stays.

    Args:
        task: with an ``intake``.
        store: of the files and of the table.
        place: of the worker: source of the parts' names and dates.
        folder: scratch folder of this task.
        stopped: called before each batch; if it returns True the task ends with an error.
    """

    task: KernelTask
    store: Store
    place: Workplace
    folder: Path
    stopped: Callable[[], bool]
    uploaded: list[str] = field(default_factory=list)

    def run(self) -> KernelResult:
        """Write the parts.

        Requests: a GET per input, of which some row groups are read those of ``fetch_excerpt``, and
        a PUT per part (more for large ones). With ``every_fault`` a GET more of each input that
        comes after the first one that does not fit.

        Raises:
            UsageError: a row outside of the limits, columns that do not go with the settings, a
                file that is gone.
            InputError: a file that does not fit, with a PartUnreadableError, PartSchemaError or
                SchemaConflictError; with ``every_fault`` the result names it.
            StoreError, ScratchFullError: the store or the disk failed.
            KernelError: it was stopped.
        """
        intake = self.task.intake
        assert intake is not None
        try:
            return self._written(intake)
        except InputError as first:
            if not intake.every_fault:
                raise
            return KernelResult(group=self.task.group, faults=tuple(self._faults(intake, first)))

    def _written(self, intake: Intake) -> KernelResult:
        try:
            writer = self._writer(intake)
            with self._checked(writer, intake.limits):
                inputs = (self._rows(source, intake) for source in self.task.inputs)
                tables = chain.from_iterable(inputs)
                for rows in gather(tables, writer.buffer.chunk_bytes):
                    writer.add(rows)
                writer.flush()
        except BaseException:
            self._withdraw()
            raise
        rows_in = sum(part.rows for part in writer.parts)
        return KernelResult(
            group=self.task.group,
            parts=tuple(writer.parts),
            rows_in=rows_in,
            columns=writer.columns,
        )

    @contextmanager
    def _checked(self, writer: PartWriter, limits: Limits | None) -> Iterator[None]:
        """Let the writer refuse rows outside of the limits."""
        if limits is None:
            yield
            return
        with row_check(self.folder) as check:
            writer.check = lambda rows: refuse_outside(check, rows, limits)
            yield

    def _rows(self, source: KernelInput, intake: Intake) -> Iterator[pa.Table]:
        """Yield the rows of one input as its table has them. Raises InputError: they do not fit."""
        name, fitting = intake.place + source.key, source.fitting
        columns, excerpt = self._known(fitting), None
        if source.row_groups is not None:
            excerpt = Excerpt(source.bytes, source.row_groups, source.rows)
        try:
            for batch in staged_batches(
                self.store, source.key, name, columns, self.folder, excerpt
            ):
                if self.stopped():
                    raise KernelError(
                        "the reading of new rows was stopped", next_step="run it again"
                    )
                yield self._conformed(fitted(pa.Table.from_batches([batch]), fitting, name), name)
        except ABOUT_A_FILE as error:
            raise InputError(source.key, error) from None

    def _conformed(self, rows: pa.Table, name: str) -> pa.Table:
        """Return the rows in the types of the table: while it is known which file has them."""
        try:
            return conform_rows(rows, self._known(), Waiting(tells=False)).rows
        except (PartSchemaError, SchemaConflictError) as error:
            message = error.message.replace("the rows to append", "the file")
            raise type(error)(f"{name}: {message}", next_step=_LEAVE_OUT) from None

    def _faults(self, intake: Intake, first: InputError) -> Iterator[InputFault]:
        """Yield the first input that does not fit, and all after it."""
        yield _fault(first)
        keys = [source.key for source in self.task.inputs]
        for source in self.task.inputs[keys.index(first.key) + 1 :]:
            try:
                for _ in self._rows(source, intake):
                    pass
            except InputError as error:
                yield _fault(error)

    def _writer(self, intake: Intake) -> PartWriter:
        task = self.task
        pairs = {name.encode(): text.encode() for name, text in task.metadata.items()}
        metadata = read_pairs(f"group {task.group}", pairs)
        assert metadata is not None
        layout = Layout(
            table=intake.table,
            partition_by=intake.partition_by,
            partition=task.partition,
            sort_by=task.sort_by,
            primary_key=task.primary_key,
            version=task.version,
            stats_columns=task.stats_columns,
            part_bytes=intake.part_bytes,
            buffer_bytes=intake.buffer_bytes,
            compression_level=task.compression_level,
            row_group_rows=task.row_group_rows,
        )
        paths = TablePaths(intake.prefix)
        place = Place(self.store, paths, self.place.ids, self.place.clock, self.folder)
        told, cores = self.uploaded.append, self.place.cores
        return PartWriter(layout, place, metadata, {}, self._known(), told, cores)

    def _known(self, fitting: Fitting = _AS_IT_IS) -> SchemaUnion:
        """Return the table's columns, for rows as they are before they are fitted."""
        cast, union = dict(fitting.casts), SchemaUnion()
        union.add("the table", {n: kind for n, kind in self.task.columns if n not in cast})
        return union

    def _withdraw(self) -> None:
        """Delete what this task has uploaded, as far as it can: nobody else knows of it."""
        if not self.uploaded:
            return
        try:
            for answer in self.store.delete_many(self.uploaded):
                if answer.error is not None:
                    _LOG.warning("%s is left to the orphan sweep: %s", answer.key, answer.error)
        except Exception as error:  # noqa: BLE001 - the error that ended the task matters more
            _LOG.warning(
                "%d new objects are left to the orphan sweep: %r", len(self.uploaded), error
            )


def _fault(fault: InputError) -> InputFault:
    return InputFault(
        key=fault.key,
        error=fault.error.message,
        error_type=type(fault.error).__name__,
        error_next_step=fault.error.next_step,
    )


def lacks_column(column: str, interval: str) -> UsageError:
    """Return the error for new rows without a column of the interval."""
    return UsageError(
        f"the new rows have no column {column!r}, so they do not lie in {interval}",
        next_step="add the column; nothing was changed",
    )


def refuse_outside(check: RowCheck, rows: pa.Table, limits: Limits) -> None:
    """Refuse new rows outside of their limits.

    Raises UsageError: they lack a column, or some do not lie in the limits; names the first.
    """
    for column in limits.columns:
        if column not in rows.column_names:
            raise lacks_column(column, limits.text)
    count, values = check.breaking(rows, limits.condition, limits.columns)
    if count:
        has = ", ".join(f"{c} = {v}" for c, v in zip(limits.columns, values, strict=True))
        raise UsageError(
            f"{count:,} of {rows.num_rows:,} new rows do not lie in {limits.text}; the first has "
            f"{has}",
            next_step=WIDEN,
        )
