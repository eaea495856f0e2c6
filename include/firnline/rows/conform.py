"""Convert rows to the types of their table, and check them before they reach a part."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from firnline.errors import PartSchemaError, UsageError
from firnline.next_steps import CORRECT_COLUMNS
from firnline.rows.json_texts import malformed
from firnline.rows.source import CAST
from firnline.types.arrow import conform, from_arrow, to_arrow
from firnline.types.schema import SchemaUnion, added, as_known
from firnline.types.untyped import Waiting, typed_schema

_SOURCE = "the rows to append"


@dataclass(frozen=True, slots=True)
class Conformed:
    """Rows in the form in which a part holds them."""

    rows: pa.Table
    columns: dict[str, str]
    """SQL type by column, of these rows."""


def conform_rows(rows: pa.Table, known: SchemaUnion, waiting: Waiting | None = None) -> Conformed:
    """Convert rows to the types of the table; a narrower type that loses nothing is widened.

    Args:
        rows: the rows as given.
        known: columns of the table; extended by those of the rows, and by their fields at any
            depth. After an error it may already contain some of them.
        waiting: takes note of columns and fields that are left out because they have no type.

    Raises:
        UsageError: the rows have no columns.
        PartSchemaError: columns or values that a part cannot hold.
        SchemaConflictError: a column has a type that the table's type does not hold exactly.
    """
    if rows.num_columns == 0:
        raise UsageError("the rows have no columns", next_step="append rows with columns")
    rows = (waiting or Waiting()).typed(rows, known.columns)
    columns = as_known(from_arrow(rows.schema, known.columns), known.columns)
    known.add(_SOURCE, columns, next_step=CAST)
    schema = to_arrow(columns)
    arrays = [
        _checked(name, rows.column(index), schema.field(index).type, columns[name])
        for index, name in enumerate(columns)
    ]
    return Conformed(pa.Table.from_arrays(arrays, schema=schema), columns)


def new_in(schema: pa.Schema, known: Mapping[str, str]) -> dict[str, str]:
    """Return the columns, and fields of columns, of rows that the table is not known to have.

    Args:
        schema: of the rows as given; what has no type in it is nothing new.
        known: SQL type by column.

    Returns:
        as ``types.schema.added``.

    Raises PartSchemaError as ``conform_rows``.
    """
    columns = as_known(from_arrow(typed_schema(schema, known), known), known)
    return added(known, {**known, **columns})


def newest_of_each_key(rows: pa.Table, primary_key: Sequence[str], version: str | None) -> pa.Table:
    """Keep of several rows of one key the largest version, else the last; others are superseded.

    A part is sorted before it is written, and its rows no longer show which of them came last.

    Args:
        rows: in order of arrival.
        primary_key: columns; none: all rows stay. A missing column is null in all rows.
        version: column, or None.

        Returns the rows that stay, in their order. Keys of types that pyarrow cannot group, and
        floating-point numbers, which it orders differently, are left to merges and readers.
    """
    names = [name for name in primary_key if name in rows.column_names]
    ranked = [version] if version is not None and version in rows.column_names else []
    floating = any(pa.types.is_floating(rows.column(name).type) for name in (*names, *ranked))
    if not primary_key or rows.num_rows < 2 or floating:
        return rows
    # Executors load this module, and have numpy only where they split.
    import numpy as np

    place = pa.array(np.arange(rows.num_rows))
    by = pa.table({f"k{i}": _plain(rows.column(name)) for i, name in enumerate(names)})
    by = by.append_column("place", place)
    try:
        if ranked:
            versions = _plain(rows.column(ranked[0]))
            # Nulls come first by a column: how a sort is told so differs between pyarrows.
            keys = {"valid": versions.is_valid().cast(pa.uint8()), "v": versions, "place": place}
            order = pc.sort_indices(
                pa.table(keys), sort_keys=[(name, "ascending") for name in keys]
            )
            ranks = np.empty(rows.num_rows, np.int64)
            # Not `to_numpy`, which would import pandas.
            at = np.frombuffer(order.buffers()[1], np.uint64, len(order), 8 * order.offset)
            ranks[at] = np.arange(rows.num_rows)
            rank = pa.array(ranks)
        else:
            rank = place
        by = by.append_column("rank", rank)
        best = by.group_by([f"k{i}" for i in range(len(names))]).aggregate([("rank", "max")])
    except pa.ArrowNotImplementedError:
        return rows
    if best.num_rows == rows.num_rows:
        return rows
    return rows.filter(pc.is_in(rank, value_set=best["rank_max"].combine_chunks()))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([c.storage for c in column.chunks], column.type.storage_type)
    return column


def check_columns(table: str, named: Sequence[str], columns: Mapping[str, str]) -> None:
    """Raise UsageError if the settings name columns that neither the table nor the rows have."""
    for name in named:
        if name not in columns:
            raise UsageError(
                f"the settings of table {table} name column {name!r}, which is not among "
                f"the columns of rows and table ({', '.join(columns)})",
                next_step=CORRECT_COLUMNS,
            )


def _checked(
    name: str, column: pa.ChunkedArray, kind: pa.DataType, sql_type: str
) -> pa.ChunkedArray:
    """Convert a column to its part's type; text that is not UTF-8 would break every reader."""
    try:
        conformed = conform(column, kind)
        conformed.validate(full=True)
    except (pa.ArrowException, NotImplementedError) as error:
        reason = str(error).split("\n", 1)[0]
        raise PartSchemaError(
            f"column {name!r} holds a value that does not fit {sql_type}: {reason}",
            next_step="correct the rows; nothing was appended",
        ) from None
    wrong = malformed(conformed)
    if wrong is not None:
        raise PartSchemaError(
            f"column {name!r} is {sql_type}, and {wrong}",
            next_step="correct the rows, or make it a column of texts (VARCHAR); nothing was "
            "appended",
        )
    return conformed
