"""New rows by an engine: tasks read files in the bucket and write parts, the driver commits them.

A task takes neighbouring files, as many as make a part or so, and of a file that is larger than
that some row groups. Only files in the table's bucket: a path of this machine means nothing to an
executor. A replace and an import use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from firnline.commit.outputs import Outputs
from firnline.errors import raised_elsewhere
from firnline.kernel.engine import Engine, running
from firnline.kernel.task import (
    InputFault,
    Intake,
    KernelInput,
    KernelResult,
    KernelTask,
    Limits,
)
from firnline.operations.kernel_tasks import levels
from firnline.parquet.footers import FooterTask, FooterWanted, many_facts
from firnline.parquet.part import PartMetadata, WrittenPart
from firnline.rows.given import Fitting
from firnline.rows.source import CAST
from firnline.table import Table
from firnline.types.order import SortKey
from firnline.types.schema import SchemaUnion

_BUFFER = (1 / 4, 32 * 2**20)
_LEAST_BUFFER = 1 / 16
"""Rows in memory: a quarter of ``kernel_memory`` less 32 MiB, at least a sixteenth. A part is held
twice while it is sorted, and Parquet is decoded and encoded beside it."""


def buffer_of(kernel_memory: int) -> int:
    """Return the bytes of rows that a task may keep in memory, in Arrow's size."""
    share, less = _BUFFER
    return int(max(kernel_memory * share - less, kernel_memory * _LEAST_BUFFER))


@dataclass(frozen=True, slots=True)
class RowFile:
    """A Parquet file with new rows in the bucket of the table, or some of its row groups."""

    key: str
    bytes: int
    """Size of the whole object."""
    row_groups: tuple[int, ...] | None = None
    """Numbers of the row groups; None: all."""
    rows: int | None = None
    """Rows of these row groups."""
    weight: int | None = None
    """About how many bytes the row groups have; None: ``bytes``."""
    partition: str | None = None
    """Partition of its rows; None: that of all, or the one that the rows say."""
    fitting: Fitting = field(default_factory=Fitting)

    @property
    def share(self) -> int:
        """About how many bytes are to be read."""
        return self.bytes if self.weight is None else self.weight


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Parts with all new rows, uploaded and not visible yet."""

    parts: tuple[WrittenPart, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of all rows, column -> SQL type."""
    tasks: int = 0
    faults: tuple[InputFault, ...] = ()
    """Files that do not read or fit. If they were not to be left out, there are no parts."""


@dataclass(frozen=True, slots=True)
class _Done:
    files: list[RowFile]
    result: KernelResult


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRowTasks:
    """Makes and runs the tasks of one operation.

    Args:
        table: the table.
        columns: of the table, or those that it is to have, column -> SQL type.
        place: URL of the bucket, ending in ``/``, for errors.
        partition: of all rows, when the table has no partition fields.
        metadata: of every part, but for its partition and rows.
        limits: where all rows have to lie; None: anywhere.
        every_fault: name all files that do not read or fit, and do not raise the first one's error.
    """

    table: Table
    columns: Mapping[str, str]
    place: str
    partition: str
    metadata: PartMetadata
    limits: Limits | None = None
    every_fault: bool = False

    def write(
        self,
        engine: Engine,
        files: Sequence[RowFile],
        new: Outputs,
        tell: Callable[[int, int], None] = lambda _done, _total: None,
        *,
        skip_bad: bool = False,
    ) -> WrittenRows:
        """Check and write all rows.

        Requests: one GET per file and one PUT per part (more for large ones); for a file of which
        several tasks read row groups, per task those of ``parquet.excerpt.fetch_excerpt`` instead.
        The tasks of files that do not fit are run once more without them.

        Args:
            engine: runs the tasks.
            files: in order; see ``cut_large``.
            new: gets the keys of the parts of each task that is done. A task that fails or is
                stopped deletes its own; those of one that dies are left to the orphan sweep.
            tell: called with the number of tasks that are done, and of all tasks.
            skip_bad: with ``every_fault``, leave out the files that do not fit.

        Raises:
            UsageError: a row outside of the limits; columns that do not go with the settings; a
                file that is gone.
            PartUnreadableError, PartSchemaError, SchemaConflictError: a file that does not fit.
            StoreError, ScratchFullError: as an append.
            KernelError: a task died.
        """
        faults: dict[str, InputFault] = {}
        finished: list[_Done] = []
        todo, ended = list(self._batches(files)), 0
        while todo:
            done = self._run(engine, todo, new, _after(ended, tell))
            ended += len(done)
            faults |= {fault.key: fault for each in done for fault in each.result.faults}
            if faults and not skip_bad:
                return WrittenRows(tasks=ended, faults=tuple(faults.values()))
            every, finished, todo = [*finished, *done], [], []
            for each in every:
                if each.result.faults or any(file.key in faults for file in each.files):
                    # Another task may have found that a file is bad of which this one had a share.
                    new.delete(part.key for part in each.result.parts)
                    rest = [file for file in each.files if file.key not in faults]
                    todo += [rest] if rest else []
                else:
                    finished.append(each)
        columns = SchemaUnion()
        for each in finished:
            where = f"the rows from {self.place}{each.files[0].key} on"
            columns.add(where, each.result.columns, next_step=CAST)
        parts = tuple(part for each in finished for part in each.result.parts)
        return WrittenRows(parts, columns.columns, ended, tuple(faults.values()))

    def _run(
        self,
        engine: Engine,
        batches: Sequence[list[RowFile]],
        new: Outputs,
        tell: Callable[[int, int], None],
    ) -> list[_Done]:
        """Run a task for each batch of files; return them in order."""
        tasks = [self._task(number, batch) for number, batch in enumerate(batches)]
        done: dict[int, KernelResult] = {}
        with running(engine, tasks) as found:
            for result in found:
                if result is None:
                    continue
                self.table.store.counters.add(result.requests)
                if result.error is not None:
                    step = result.error_next_step or "run it again"
                    raise raised_elsewhere(result.error_type, result.error, step)
                new.add(*(part.key for part in result.parts))
                done[result.group] = result
                tell(len(done), len(tasks))
        return [_Done(batch, done[number]) for number, batch in enumerate(batches)]

    def _batches(self, files: Sequence[RowFile]) -> Iterator[list[RowFile]]:
        """Yield the files of each task, which lie in one partition as far as that is known.

        With a primary key there is one task: of two rows of a key the later file's counts, and
        only the names of parts that one task writes tell which came later.
        """
        settings = self.table.settings
        gathered: list[RowFile] = []
        total = 0
        for file in files:
            full = total + file.share > settings.append.part_bytes and not settings.primary_key
            elsewhere = bool(gathered) and gathered[0].partition != file.partition
            if gathered and (full or elsewhere):
                yield gathered
                gathered, total = [], 0
            gathered.append(file)
            total += file.share
        if gathered:
            yield gathered

    def _task(self, number: int, files: Sequence[RowFile]) -> KernelTask:
        table, settings, policy = self.table, self.table.settings, self.table.settings.merge
        return KernelTask(
            group=number,
            partition=self.partition if files[0].partition is None else files[0].partition,
            inputs=tuple(
                KernelInput(
                    key=each.key,
                    bytes=each.bytes,
                    rows=each.rows,
                    row_groups=each.row_groups,
                    fitting=each.fitting,
                )
                for each in files
            ),
            columns=tuple(self.columns.items()),
            sort_by=tuple(SortKey(f.column, f.descending) for f in settings.sort_by),
            stats_columns=settings.statistics_columns,
            primary_key=settings.primary_key,
            version=settings.version,
            metadata=self.metadata.to_pairs(),
            data_prefix=table.paths.data_dir,
            memory=policy.kernel_memory,
            threads=policy.kernel_threads,
            row_group_rows=policy.row_group_rows,
            compression_level=policy.compression_level,
            intake=Intake(
                table=settings.name,
                prefix=table.paths.prefix,
                place=self.place,
                partition_by=levels(settings),
                limits=self.limits,
                part_bytes=settings.append.part_bytes,
                buffer_bytes=min(settings.append.buffer, buffer_of(policy.kernel_memory)),
                every_fault=self.every_fault,
            ),
        )


def _after(ended: int, tell: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Return a function to be told of more tasks, after some have ended."""
    return lambda done, total: tell(ended + done, ended + total)


def cut_large(table: Table, files: Iterable[RowFile]) -> Iterator[RowFile]:
    """Yield the files; those larger than ``append.part_bytes`` as runs of row groups.

    Requests: a ranged GET per such file (two for a very wide table). None with a primary key, for
    then one task reads all files.
    """
    whole = list(files)
    large = [FooterTask(file.key, file.bytes) for file in whole if is_large(table, file.bytes)]
    found = {f.key: f for f in many_facts(table.store, large, FooterWanted(row_groups=True))}
    for file in whole:
        facts = found.get(file.key)
        # What is wrong with a footer says the task that reads the file.
        yield from runs_of(table, file, () if facts is None else facts.row_groups)


def is_large(table: Table, size: int) -> bool:
    """Return True if several tasks may read a file of this size."""
    return size > table.settings.append.part_bytes and not table.settings.primary_key


def runs_of(table: Table, file: RowFile, groups: Sequence[tuple[int, int]]) -> Iterator[RowFile]:
    """Yield runs of row groups of about ``append.part_bytes`` each; the file itself if it is one.

    Args:
        table: the table.
        file: a whole file.
        groups: rows and uncompressed bytes of its row groups; none if they are not known.
    """
    limit, whole = table.settings.append.part_bytes, sum(size for _, size in groups)
    if not is_large(table, file.bytes) or len(groups) < 2 or not whole:
        yield file
        return
    first = 0
    while first < len(groups):
        end, rows, weight = first, 0, 0.0
        while end < len(groups):
            more = file.bytes * groups[end][1] / whole
            if end > first and weight + more > limit:
                break
            end, rows, weight = end + 1, rows + groups[end][0], weight + more
        if rows:
            groups_of = tuple(range(first, end))
            yield replace(file, row_groups=groups_of, rows=rows, weight=int(weight))
        first = end
