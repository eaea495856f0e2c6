"""Run the feed of changes in DuckDB: the multiset difference of the rows before and after.

Rows that are on one side more often than on the other are changes (``multiset``).
"""

# ruff: noqa: S608 -- every name is quoted; conditions come from predicate trees

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import duckdb
import pyarrow as pa

from firnline.errors import PartGoneError, StreamBehindError
from firnline.kernel.duckdb import quote_text
from firnline.read.duckdb import BATCH_ROWS, Limits, faults, open_connection, rows_query
from firnline.read.multiset import differing
from firnline.read.steps import BEGIN_AGAIN
from firnline.read.task import ChangeTask, ReadTask
from firnline.store.base import Store
from firnline.types.json_values import JsonForm
from firnline.types.sql import free_name, quote_name

OPERATION, SEQUENCE, REASON = "_operation", "_sequence", "_reason"
ADDED = {OPERATION: "VARCHAR", SEQUENCE: "BIGINT", REASON: "VARCHAR"}
"""Columns that the feed adds to those of the table: column -> SQL type."""
INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"


def change_query(
    task: ChangeTask, rows: Callable[[ReadTask], str], columns: Sequence[str] | None = None
) -> str:
    """Return the SELECT of the changed rows of a step, with ``ADDED``.

    Args:
        task: the step, or one partition of it.
        rows: returns the SELECT of a read.
        columns: columns of the table to return, in this order; None for all.
    """
    names = [name for name, _ in task.reads[0].columns]
    if task.before and task.after:
        changed, operation = _difference(task, rows)
    else:
        changed = " UNION ALL ".join(f"({rows(read)})" for read in task.reads)
        operation = quote_text(INSERT if task.after else DELETE)
    shown = ", ".join(map(quote_name, names if columns is None else columns))
    sequence = "NULL" if task.sequence is None else str(int(task.sequence))
    added = (
        f"{operation} AS {OPERATION}, CAST({sequence} AS BIGINT) AS {SEQUENCE}, "
        f"{quote_text(task.reason)} AS {REASON}"
    )
    told = f"SELECT {', '.join(map(quote_name, names))}, {added} FROM ({changed})"
    where = f" WHERE {task.where}" if task.where else ""
    return f"SELECT {shown}{', ' if shown else ''}{', '.join(ADDED)} FROM ({told}){where}"


def _difference(task: ChangeTask, rows: Callable[[ReadTask], str]) -> tuple[str, str]:
    """Return the SELECT of the rows that differ, and the expression of their operation."""
    columns = task.reads[0].columns
    name = free_name("count", dict(columns))
    before, after = (list(map(rows, side)) for side in (task.before, task.after))
    differ, count = differing(columns, before, after, name), quote_name(name)
    each = f"SELECT * FROM ({differ}), unnest(range(abs({count})))"
    gone = f"{count} < 0"
    if not task.primary_key:
        return each, f"CASE WHEN {gone} THEN '{DELETE}' ELSE '{INSERT}' END"
    key = ", ".join(map(quote_name, task.primary_key))
    both = quote_name(free_name("both", dict(columns)))
    paired = f"SELECT *, count(*) OVER (PARTITION BY {key}) > 1 AS {both} FROM ({each})"
    operation = (
        f"CASE WHEN {gone} AND {both} THEN '{UPDATE_BEFORE}' WHEN {gone} THEN '{DELETE}'"
        f" WHEN {both} THEN '{UPDATE_AFTER}' ELSE '{INSERT}' END"
    )
    return paired, operation


def empty_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of the changed rows: these columns and ``ADDED``."""
    fields = {**columns, **ADDED}
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quote_name(n)}" for n, kind in fields.items())
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(f"SELECT {nulls} WHERE false").to_arrow_table().schema


def run_changes(
    tasks: Sequence[ChangeTask],
    store: Store,
    limits: Limits,
    columns: Sequence[str] | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield the changed rows step by step; within a step they are in no order.

    Raises StreamBehindError for a part that was deleted meanwhile; others as ``duckdb.stream``.
    """
    yield from _run(tasks, store, limits, lambda task, rows: change_query(task, rows, columns))


def count_changes(
    tasks: Sequence[ChangeTask], store: Store, limits: Limits
) -> Iterator[tuple[str, int | None, str, int]]:
    """Yield (operation, sequence, reason, rows) of each step; a step may come several times."""

    def query(task: ChangeTask, rows: Callable[[ReadTask], str]) -> str:
        return f"SELECT *, count(*) FROM ({change_query(task, rows, ())}) GROUP BY ALL"

    for batch in _run(tasks, store, limits, query):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def change_texts(
    tasks: Sequence[ChangeTask], store: Store, limits: Limits, columns: Sequence[str]
) -> Generator[tuple[str | None, ...]]:
    """Yield changed rows with all values as text by DuckDB, first those of ``ADDED``."""
    kinds = dict.fromkeys((*ADDED, *columns), "VARCHAR")
    yield from _cast(tasks, store, limits, kinds, columns)


def change_values(
    tasks: Sequence[ChangeTask], store: Store, limits: Limits, columns: Mapping[str, str]
) -> Generator[list[object]]:
    """Yield changed rows with all values as JSON has them, first those of ``ADDED``.

    Args:
        tasks: the changes.
        store: of their parts.
        limits: of the read.
        columns: SQL type by column.
    """
    forms = {name: JsonForm.of(kind) for name, kind in (*ADDED.items(), *columns.items())}
    kinds = {name: str(form.kind) for name, form in forms.items()}
    with closing(_cast(tasks, store, limits, kinds, list(columns))) as rows:
        for row in rows:
            yield [form.value(v) for form, v in zip(forms.values(), row, strict=True)]


def _cast(
    tasks: Sequence[ChangeTask],
    store: Store,
    limits: Limits,
    kinds: Mapping[str, str],
    columns: Sequence[str],
) -> Generator[tuple[Any, ...]]:
    """Yield changed rows with their values in other types; ``kinds``: column -> that type."""
    shown = ", ".join(f"CAST({quote_name(name)} AS {kind})" for name, kind in kinds.items())

    def query(task: ChangeTask, rows: Callable[[ReadTask], str]) -> str:
        return f"SELECT {shown} FROM ({change_query(task, rows, columns)})"

    for batch in _run(tasks, store, limits, query):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _run(
    tasks: Sequence[ChangeTask],
    store: Store,
    limits: Limits,
    query: Callable[[ChangeTask, Callable[[ReadTask], str]], str],
) -> Generator[pa.RecordBatch]:
    if not tasks:
        return
    connection = open_connection(limits)
    try:
        for task in tasks:
            with faults(connection, limits):
                text = query(task, lambda read: rows_query(read, store, connection))
                source = connection.sql(text).to_arrow_reader(BATCH_ROWS)
            while True:
                with faults(connection, limits):
                    try:
                        batch = source.read_next_batch()
                    except StopIteration:
                        break
                if batch.num_rows:
                    yield batch
    except PartGoneError as error:
        raise StreamBehindError(
            f"{error.message}: `since` is further back than cleanup.grace", next_step=BEGIN_AGAIN
        ) from None
    finally:
        connection.close()
