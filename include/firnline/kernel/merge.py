"""One group becomes one part: stage, check, merge, upload.

Memory: the process grows by at most 1.3 times ``kernel_memory`` over what it had when the task
began, whatever the size of the group (figures in docs/benchmarks.md). A sort that is larger goes to
disk; scratch then holds the inputs, the spilled rows and the output, about three times the inputs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import msgspec

from firnline.clock import Clock
from firnline.errors import FirnlineError, KernelError, PartSchemaError
from firnline.ids import Ids
from firnline.kernel.duck import open_duckdb, tries
from firnline.kernel.faults import kernel_fault, scratch_full
from firnline.kernel.inputs import Inputs, culprit, read_footers, sql_type
from firnline.kernel.model import KernelResult, KernelTask
from firnline.kernel.scratch import scratch_folder
from firnline.kernel.sql import Statements, copy_to, statements
from firnline.kernel.stage import InputError, stage
from firnline.kernel.written import Written, describe
from firnline.part import WrittenPart
from firnline.sql_types import fold_name
from firnline.store.base import Store

_POLL_S = 0.2
"""How often a running query looks whether it shall stop."""
_RESERVED = ("filename", "file_row_number")
"""DuckDB's own columns of a scan, which say what was inserted last."""


def merge_group(
    task: KernelTask,
    store: Store,
    scratch: Path,
    ids: Ids,
    clock: Clock,
    should_stop: Callable[[], bool] | None = None,
) -> KernelResult:
    """Merge the parts of one group into one new part, or none when no row is left.

    The inputs are read with one GET each and stay; the output is uploaded under a name that is made
    here, so that two attempts at one task never write one object. Nothing is left on disk.

    Args:
        task: the group; see KernelTask.
        store: where the parts are; its counters are those of this task while it runs.
        scratch: local folder for this and other tasks; made when missing.
        ids: names the output.
        clock: dates its name and measures the duration.
        should_stop: asked now and then; once it says True the task ends with an error.

    Returns:
        The new part and the row counts, each counted on its own (``rows_in`` by the footers,
        ``rows_deleted`` and ``rows_deduplicated`` by queries, the part's rows by its footer), or
        the error that stopped it. Never raises for a fault of input, store or disk.
    """
    began, before = clock.elapsed_ms(), store.counters.as_dict()
    try:
        with scratch_folder(scratch, ids, clock) as folder:
            result = _Merge(task, store, folder, ids, clock, should_stop or _never).run()
    except InputError as error:
        result = _failed(task, error.error, error.key)
    except FirnlineError as error:
        result = _failed(task, error, None)
    except Exception as error:  # noqa: BLE001 -- named in the result; one group never stops others
        result = _failed(task, kernel_fault(_name(task), error), None)
    return _with_costs(result, before, store.counters.as_dict(), clock.elapsed_ms() - began)


@dataclass(frozen=True, slots=True)
class _Merge:
    task: KernelTask
    store: Store
    folder: Path
    ids: Ids
    clock: Clock
    stopped: Callable[[], bool]

    def run(self) -> KernelResult:
        _check_task(self.task)
        paths = stage(self.task.inputs, self.store, self.folder, self.stopped)
        self._stop_if_asked()
        with open_duckdb(self.folder, self.task.memory, self.task.threads) as connection:
            inputs = read_footers(connection, self.task, paths)
            keys = {
                str(path): source.key for path, source in zip(paths, self.task.inputs, strict=True)
            }
            with self._faults(keys), _interrupted_when(self.stopped, connection):
                deleted, deduplicated, output = self._merge(connection, inputs)
        parts = () if output is None else (self._upload(output),)
        return KernelResult(
            group=self.task.group,
            parts=parts,
            rows_in=inputs.rows,
            rows_deleted=deleted,
            rows_deduplicated=deduplicated,
        )

    def _merge(
        self, connection: duckdb.DuckDBPyConnection, inputs: Inputs
    ) -> tuple[int, int, Written | None]:
        """Rows deleted, rows de-duplicated, the output (None when no row is left)."""
        types = {name: sql_type(connection, name, kind) for name, kind in self.task.columns}
        sql: Statements = statements(self.task, inputs, types)
        deleted = _count(connection, sql.hidden) if sql.hidden else 0
        visible = inputs.rows - deleted
        deduplicated = visible - _count(connection, sql.keys) if sql.keys else 0
        if visible == deduplicated:
            return deleted, deduplicated, None
        output = self.folder / "output.parquet"
        self._write(connection, output, sql.merged, visible - deduplicated)
        wanted = [name for name in self.task.stats_columns if name in types]
        written = describe(connection, output, wanted)
        return deleted, deduplicated, written

    def _write(
        self, connection: duckdb.DuckDBPyConnection, output: Path, rows: str, count: int
    ) -> None:
        """Write the output; more frugally when memory did not suffice."""
        first, last = tries(self.task.memory, self.task.threads)
        with suppress(duckdb.OutOfMemoryException):
            connection.execute(copy_to(output, rows, self.task, count, first.row_group_bytes))
            return
        self._stop_if_asked()
        connection.execute(f"SET threads = {last.threads}")
        connection.execute(copy_to(output, rows, self.task, count, last.row_group_bytes))

    def _upload(self, output: Written) -> WrittenPart:
        self._stop_if_asked()
        key = f"{self.task.data_prefix}{self.ids.uuid7(self.clock.now_ms())}.parquet"
        self.store.put_file(key, output.path)
        return WrittenPart(
            key=key,
            partition=self.task.partition,
            bytes=output.bytes,
            rows=output.rows,
            stats=output.stats,
        )

    @contextmanager
    def _faults(self, keys: dict[str, str]) -> Iterator[None]:
        """Tell a broken input and a full disk from everything else that a query can fail of."""
        try:
            yield
        except duckdb.InterruptException as error:
            raise _stopped(self.task) from error
        except (duckdb.Error, OSError) as error:
            full = scratch_full(self.folder.parent, error)
            if full is not None:
                raise full from error
            if isinstance(error, duckdb.Error):
                raise culprit(keys, error) from error
            raise

    def _stop_if_asked(self) -> None:
        if self.stopped():
            raise _stopped(self.task)


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    return int(connection.execute(query).fetchall()[0][0])


@contextmanager
def _interrupted_when(
    stopped: Callable[[], bool], connection: duckdb.DuckDBPyConnection
) -> Iterator[None]:
    """Interrupt what runs on the connection as soon as ``stopped`` says so."""
    if stopped is _never:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            if stopped():
                connection.interrupt()

    watcher = threading.Thread(target=watch, name="firnline-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _check_task(task: KernelTask) -> None:
    """Raise PartSchemaError for columns that the task names and the table does not have."""
    known = {fold_name(name) for name, _ in task.columns}
    if len(known) != len(task.columns):
        raise PartSchemaError(
            f"the schema of {_name(task)} has two columns that differ only in the case of letters",
            next_step="find their log files with firnline schema and correct the writer",
        )
    named = [*(key.column for key in task.sort_by), *task.primary_key]
    for column in (*named, *([task.version] if task.version else [])):
        if fold_name(column) not in known:
            raise PartSchemaError(
                f"column {column!r} of sort_by, primary_key or version is not in the table "
                f"of {_name(task)}",
                next_step="correct the column in tables.yaml",
            )
    if task.primary_key and known.intersection(_RESERVED):
        raise PartSchemaError(
            f"a table with a primary key has a column named {' or '.join(_RESERVED)}, which "
            "DuckDB needs to tell what was inserted last",
            next_step="rename the column",
        )


def _name(task: KernelTask) -> str:
    return f"group {task.group} (partition {task.partition or 'of the whole table'!r})"


def _stopped(task: KernelTask) -> KernelError:
    return KernelError(f"{_name(task)} was stopped", next_step="run the merge again")


def _never() -> bool:
    return False


def _failed(task: KernelTask, error: FirnlineError, key: str | None) -> KernelResult:
    return KernelResult(
        group=task.group,
        error=error.message,
        error_type=type(error).__name__,
        error_next_step=error.next_step,
        error_key=key,
    )


def _with_costs(
    result: KernelResult, before: dict[str, int], after: dict[str, int], elapsed_ms: int
) -> KernelResult:
    requests = {name: after[name] - before[name] for name in after}
    return msgspec.structs.replace(result, requests=requests, seconds=elapsed_ms / 1000)
