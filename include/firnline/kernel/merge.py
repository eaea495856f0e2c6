"""Merge one group into one part, or several clustered ones: stage, check, produce, upload.

Memory: the process grows by at most 1.3 times ``kernel_memory`` (or 64 MiB more than it, if that is
more) over what it had when the task began, whatever the size of the group (figures in
docs/operations.md). A larger sort spills to disk; scratch then holds the inputs, the spilled rows
and the output, about three times the inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import msgspec

from firnline.clock import Clock
from firnline.cores import Cores
from firnline.errors import FirnlineError, KernelError, PartSchemaError
from firnline.ids import Ids
from firnline.kernel.convert import check_values
from firnline.kernel.duckdb import interrupted_when, never
from firnline.kernel.faults import kernel_fault, scratch_full
from firnline.kernel.forms import refuse_unsafe, write_anew
from firnline.kernel.inputs import (
    Inputs,
    attribute_error,
    check_keys,
    read_footers,
    stored_types,
)
from firnline.kernel.intake import TakeIn
from firnline.kernel.outputs import FORMS, Produced, Producer, Written, like
from firnline.kernel.small import SmallGroup, is_small
from firnline.kernel.sql import rows_by_file
from firnline.kernel.staging import InputError, put_down, stage, stage_keys, stage_small
from firnline.kernel.task import KernelInput, KernelResult, KernelTask
from firnline.kernel.visibility import NEEDS_PLACES, PLACE_COLUMNS
from firnline.kernel.workplace import Workplace
from firnline.parquet.footers import begin
from firnline.parquet.join import Footer
from firnline.parquet.part import WrittenPart
from firnline.paths import TablePaths
from firnline.store.base import Store
from firnline.types.sql import fold_name


def merge_group(
    task: KernelTask,
    store: Store,
    scratch: Path,
    ids: Ids,
    clock: Clock,
    should_stop: Callable[[], bool] | None = None,
) -> KernelResult:
    """Merge the parts of one group into one new part (or several clustered ones), or none.

    The inputs are read with one GET each and stay; the output is uploaded under a new name, so
    that two attempts at one task never write one object. Nothing is left on disk. A task with an
    ``intake`` is done by ``firnline.kernel.intake``.

    Args:
        task: the group; see KernelTask.
        store: store of the parts; its counters are those of this task while it runs.
        scratch: local folder for this and other tasks; created if missing.
        ids: source of the output's name.
        clock: source of its date, and of the duration.
        should_stop: called from time to time; if it returns True the task ends with an error.

    Returns:
        The new parts and the row counts, each counted on its own (``rows_in`` by the footers,
        ``rows_deleted``, ``rows_removed`` and ``rows_deduplicated`` by queries, the part's rows by
        its footer), or the error that stopped it. Never raises for a fault of input, store or disk.

    Raises ImportError: this machine lacks a Python module.
    """
    with closing(Workplace(scratch, ids, clock, Cores(task.threads - 1))) as place:
        return merge_in(place, task, store, should_stop or never)


def merge_in(
    place: Workplace, task: KernelTask, store: Store, stopped: Callable[[], bool]
) -> KernelResult:
    """Do the same in a place that is kept for further tasks; see ``merge_group``."""
    work: _Work = _Merge if task.intake is None else _taken_in
    return _result_of(work, task, store, place, stopped)


def try_group(
    task: KernelTask, store: Store, scratch: Path, ids: Ids, clock: Clock
) -> KernelResult:
    """Do all of ``merge_group`` but the upload: its result says whether a merge could read a group.

    Raises ImportError: this machine lacks a Python module.
    """
    with closing(Workplace(scratch, ids, clock)) as place:
        return _result_of(_Trial, task, store, place, never)


_Folder = Callable[[], Path]
_Work = Callable[[KernelTask, Store, Workplace, _Folder, Callable[[], bool]], "_Merge | TakeIn"]


def _taken_in(
    task: KernelTask, store: Store, place: Workplace, folder: _Folder, stopped: Callable[[], bool]
) -> TakeIn:
    return TakeIn(task, store, place, folder(), stopped)


def _result_of(
    work: _Work, task: KernelTask, store: Store, place: Workplace, stopped: Callable[[], bool]
) -> KernelResult:
    clock = place.clock
    began, before = clock.elapsed_ms(), store.counters.as_dict()
    try:
        with place.on_demand() as folder:
            result = work(task, store, place, folder, stopped).run()
    except InputError as error:
        result = _failed(task, error.error, error.key)
    except FirnlineError as error:
        result = _failed(task, error, None)
    except ImportError:
        raise  # a missing module on this machine is not the fault of a group
    except Exception as error:  # noqa: BLE001 -- named in the result; a group never stops others
        full = scratch_full(place.scratch, error)
        result = _failed(task, full or kernel_fault(task.name, error), None)
    after, seconds = store.counters.as_dict(), (clock.elapsed_ms() - began) / 1000
    requests = {name: after[name] - before[name] for name in after}
    return msgspec.structs.replace(result, requests=requests, seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Merge:
    task: KernelTask
    store: Store
    place: Workplace
    at: _Folder
    """Makes the scratch folder: a small group in memory needs none."""
    stopped: Callable[[], bool]

    @property
    def folder(self) -> Path:
        """The scratch folder of this group."""
        return self.at()

    def run(self) -> KernelResult:
        _check_task(self.task)
        held = stage_small(self.task.inputs, self.store) if self._is_small() else ()
        produced = self._in_memory(held) if held else None
        if produced is None:
            return self._by_database(held)
        return _result(self.task, self._uploaded(produced), produced, {})

    def _is_small(self) -> bool:
        return is_small(self.task)

    def _in_memory(self, held: Sequence[bytes]) -> Produced | None:
        """Merge a small group without a database; None if it needs one."""
        metadata = self.task.metadata
        return SmallGroup(self.task, held, metadata, self._like, self._stop_if_asked).merge()

    def _like(self) -> Footer:
        """Return the footer of a file that DuckDB writes for these columns, without rows."""
        task = self.task

        def made() -> Footer:
            folder = self.folder
            with self.place.database(task.memory, task.threads) as connection:
                types = stored_types(connection, task.columns, folder)
                return like(task, connection, folder, dict(types.values()))

        return FORMS.get(task.columns, made)

    def _by_database(self, held: Sequence[bytes]) -> KernelResult:
        task = self.task
        if task.leaves_out:
            begin()  # Arrow may do this one, and asks it for the footers
        if held:
            paths = put_down(held, self.folder)
        else:
            paths = stage(task.inputs, self.store, self.folder, self.stopped)
        for source, path in zip(task.inputs, paths, strict=True):
            self._prepare(source, path)
        key_file = stage_keys(task, self.store, self.folder)
        self._stop_if_asked()
        keys = {str(path): source.key for path, source in zip(paths, task.inputs, strict=True)}
        if task.keys is not None:
            keys[str(key_file)] = task.keys.key
        with self.place.database(task.memory, task.threads) as connection:
            inputs = read_footers(connection, task, paths)
            if key_file is not None:
                check_keys(connection, task, key_file, inputs)
            with self._faults(keys, connection), interrupted_when(self.stopped, connection):
                check_values(connection, inputs, keys)
                if task.slice is not None:
                    inputs = _count_rows(connection, task, inputs)
                stops = self.stopped, self._stop_if_asked
                common = self.folder, self.place.clock, self.place.cores
                producer = Producer(task, connection, *common, *stops)
                produced = producer.run(paths, inputs, key_file)
        result = _result(task, self._uploaded(produced), produced, keys)
        return msgspec.structs.replace(result, left_out=inputs.left_out)

    def _uploaded(self, produced: Produced) -> tuple[WrittenPart, ...]:
        return tuple(self._upload(output) for output in produced.outputs)

    def _prepare(self, source: KernelInput, path: Path) -> None:
        write_anew(source, path)

    def _upload(self, output: Written) -> WrittenPart:
        self._stop_if_asked()
        part = self._named(output)
        self.store.put_file(part.key, output.file)
        return part

    def _named(self, output: Written) -> WrittenPart:
        named = self.task.named_ms
        now = self.place.clock.now_ms() if named is None else named
        prefix, partition = self.task.data_prefix, self.task.partition
        if self.task.layout is not None and output.partition is not None:
            partition = output.partition
            prefix = TablePaths(self.task.layout.prefix).partition_dir(partition)
        key = f"{prefix}{self.place.ids.uuid7(now)}.parquet"
        return WrittenPart(
            key=key,
            partition=partition,
            bytes=output.bytes,
            rows=output.rows,
            stats=output.stats,
            hashes=output.hashes,
            digest=None if output.digest is None else str(output.digest),
            sorted_by=output.sorted_by,
        )

    @contextmanager
    def _faults(
        self, keys: dict[str, str], connection: duckdb.DuckDBPyConnection
    ) -> Iterator[None]:
        """Separate errors of a broken input and a full disk from other failures of a query."""
        try:
            yield
        except duckdb.InterruptException as error:
            raise _stopped(self.task) from error
        except (duckdb.Error, OSError) as error:
            full = scratch_full(self.folder.parent, error)
            if full is not None:
                raise full from error
            if isinstance(error, duckdb.Error):
                raise attribute_error(keys, error, connection) from error
            raise

    def _stop_if_asked(self) -> None:
        if self.stopped():
            raise _stopped(self.task)


@dataclass(frozen=True, slots=True)
class _Trial(_Merge):
    """Uploads nothing, and looks at what it does not trust before Arrow does in this process."""

    def _is_small(self) -> bool:
        return False  # what Arrow does not merge DuckDB does: it has the last word

    def _prepare(self, source: KernelInput, path: Path) -> None:
        refuse_unsafe(source.key, path)

    def _upload(self, output: Written) -> WrittenPart:
        return self._named(output)


def _count_rows(connection: duckdb.DuckDBPyConnection, task: KernelTask, inputs: Inputs) -> Inputs:
    """Return the inputs with the numbers of their rows that are in the task's slice."""
    rows_of = dict.fromkeys(inputs.rows_of, 0)
    query = rows_by_file(task, inputs, dict(inputs.stored.values()))
    for path, count in connection.execute(query).fetchall():
        rows_of[Path(path)] += int(count)
    return dataclasses.replace(inputs, rows_of=rows_of)


def _result(
    task: KernelTask, parts: tuple[WrittenPart, ...], produced: Produced, keys: dict[str, str]
) -> KernelResult:
    hidden = {keys[str(path)]: count for path, count in produced.hidden.items()}
    result = KernelResult(
        group=task.group,
        parts=parts,
        rows_in=produced.rows_in,
        rows_deleted=produced.deleted,
        rows_deduplicated=produced.deduplicated,
        rows_removed=produced.removed,
        rows_changed=produced.changed,
        digest=None if produced.digest is None else str(produced.digest),
    )
    if produced.in_place:
        return msgspec.structs.replace(result, unchanged=tuple(keys.values()))
    if not task.only_touched:
        return result
    unchanged = tuple(source.key for source in task.inputs if source.key not in hidden)
    return msgspec.structs.replace(result, unchanged=unchanged, rows_hidden=hidden)


def _check_task(task: KernelTask) -> None:
    """Raise PartSchemaError for columns that the task names and the table does not have."""
    names = {fold_name(name) for name, _ in task.columns}
    if len(names) != len(task.columns):
        raise PartSchemaError(
            f"the schema of {task.name} has two columns that differ only in the case of letters",
            next_step="give them one spelling with `firnline schema fix`",
        )
    named = [*(key.column for key in task.sort_by), *task.primary_key]
    named += [name for name in (task.version, task.deleted) if name]
    named += task.keys.columns if task.keys else ()
    named += task.cluster.columns if task.cluster else ()
    named += [level.column for level in task.layout.levels] if task.layout else []
    named += [each.column for each in task.slice.ranges] if task.slice else []
    for column in named:
        if fold_name(column) not in names:
            raise PartSchemaError(
                f"column {column!r} of partition_by, sort_by, cluster_by, primary_key, version or "
                f"keys is not in the table of {task.name}",
                next_step="correct the column in tables.yaml or in the call",
            )
    if task.primary_key and names.intersection(PLACE_COLUMNS):
        raise PartSchemaError(
            f"a table with a primary key has {NEEDS_PLACES}",
            next_step="rename the column",
        )


def _stopped(task: KernelTask) -> KernelError:
    return KernelError(f"{task.name} was stopped", next_step="run the merge again")


def _failed(task: KernelTask, error: FirnlineError, key: str | None) -> KernelResult:
    return KernelResult(
        group=task.group,
        error=error.message,
        error_type=type(error).__name__,
        error_next_step=error.next_step,
        error_key=key,
    )
