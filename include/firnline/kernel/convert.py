"""Checks of values: that they survive a conversion to another type, or meet a condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from firnline.errors import PartSchemaError, cut
from firnline.kernel.duckdb import open_duckdb
from firnline.kernel.faults import first_line
from firnline.kernel.inputs import Converted, Inputs, Staged, scan
from firnline.kernel.staging import InputError
from firnline.kernel.visibility import stays
from firnline.types.sql import parse_sql_type, quote_name

# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder

_WHOLE = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}
_MEMORY = 256 * 2**20
_ROWS = "_rows"


def check_values(
    connection: duckdb.DuckDBPyConnection, inputs: Inputs, keys: Mapping[str, str]
) -> None:
    """Check every value that is converted.

    Args:
        connection: the task's database.
        inputs: its staged files.
        keys: key of the input by path of a staged file.

    Raises:
        InputError: a value that the wanted type cannot hold exactly (PartSchemaError); names the
            part, the column, the number of such values and one of them.
    """
    for group in inputs.staged:
        for made in group.converted.values():
            if made.stored != made.wanted and not made.exact:
                _check(connection, group, made, keys)


def _check(
    connection: duckdb.DuckDBPyConnection, group: Staged, made: Converted, keys: Mapping[str, str]
) -> None:
    rows = f"SELECT {made.value} AS v, filename AS f FROM {scan(group.paths, 'filename')}"
    query = (
        f"SELECT f, count(*), min(CAST(v AS VARCHAR)) FROM ({rows}) "
        f"WHERE v IS NOT NULL AND ({_changed(made)}) GROUP BY f ORDER BY f LIMIT 1"
    )
    first = keys[str(group.paths[0])]
    try:
        changed = connection.execute(query).fetchall()
    except (duckdb.BinderException, duckdb.NotImplementedException) as error:
        raise _failed(first, made, f"cannot become {made.wanted} ({first_line(error)})") from error
    if changed:
        path, count, sample = changed[0]
        sample = cut(sample)
        values = "1 value" if count == 1 else f"{count:,} values"
        what = f"has {values} that {made.wanted} cannot hold exactly, such as {sample!r}"
        raise _failed(keys[path], made, what)


def _changed(made: Converted) -> str:
    """Return a condition that is true for values ``v`` that the other type would change."""
    new = f"TRY_CAST(v AS {made.wanted})"
    if made.stored != "VARCHAR":
        # There and back: finds rounding, overflow, and a time of day that is cut off.
        return f"{new} IS NULL OR TRY_CAST({new} AS {made.stored}) IS DISTINCT FROM v"
    # A text may spell a value in many ways ('01', '1.0', '2013-1-5'): only the parsed value counts.
    target = parse_sql_type(made.wanted)
    kind = "" if target is None else target.name
    wider: tuple[str, ...] = ()
    if kind in _WHOLE or kind == "DECIMAL":
        # Exact to nine places, and to the precision of a float beyond.
        wider = ("DECIMAL(38,9)", "DOUBLE")
    elif kind == "DATE":
        wider = ("TIMESTAMP",)
    rounded = [f"TRY_CAST(v AS {other}) <> TRY_CAST({new} AS {other})" for other in wider]
    return " OR ".join([f"{new} IS NULL", *rounded])


def _failed(key: str, made: Converted, what: str) -> InputError:
    error = PartSchemaError(
        f"column {made.column!r} ({made.stored}) of part {key} {what}",
        next_step="choose a type that holds them, or keep both under two names with --rename",
    )
    return InputError(key, error)


class RowCheck:
    """Finds rows of Arrow tables that violate a condition."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def breaking(
        self, rows: pa.Table, condition: str, columns: Sequence[str]
    ) -> tuple[int, tuple[object, ...]]:
        """Return the number of rows for which the condition is not true, and the values of one.

        Args:
            rows: rows in the types of a part.
            condition: as ``predicate.tree.to_sql`` makes it; false and null both violate it.
            columns: columns of ``rows`` whose values are returned.

        Returns:
            Number of rows; values of ``columns`` of the first of them, () without one.
        """
        shown = ", ".join(quote_name(column) for column in columns)
        self._connection.register(_ROWS, rows)
        try:
            where = f"FROM {_ROWS} WHERE {stays(condition)}"
            counted = self._connection.execute(f"SELECT count(*) {where}").fetchall()
            count = int(counted[0][0])
            if not count:
                return 0, ()
            first = self._connection.execute(f"SELECT {shown} {where} LIMIT 1").fetchall()
            return count, tuple(first[0])
        finally:
            self._connection.unregister(_ROWS)


@contextmanager
def row_check(scratch: Path) -> Iterator[RowCheck]:
    """Open a database for checks. ``scratch``: a folder of the caller's."""
    with open_duckdb(scratch, _MEMORY, 1) as connection:
        yield RowCheck(connection)
