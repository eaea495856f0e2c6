# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder
"""Whether values survive the conversion to another type: what would be changed is an error."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from firnline.errors import PartSchemaError
from firnline.kernel.faults import first_line
from firnline.kernel.fit import Converted
from firnline.kernel.inputs import Inputs, Staged, scan
from firnline.kernel.staging import InputError
from firnline.types.sql import parse_sql_type

_WHOLE = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}
_SHOWN = 60
"""Characters of a sample value."""


def check_values(
    connection: duckdb.DuckDBPyConnection, inputs: Inputs, keys: Mapping[str, str]
) -> None:
    """Look at every value that is converted.

    Args:
        connection: the task's database.
        inputs: its staged files.
        keys: path of a staged file -> key of the input.

    Raises:
        InputError: a value that the wanted type cannot hold exactly (PartSchemaError); names the
            part, the column, how many and one of them.
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
        found = connection.execute(query).fetchall()
    except (duckdb.BinderException, duckdb.NotImplementedException) as error:
        raise _failed(first, made, f"cannot become {made.wanted} ({first_line(error)})") from error
    if found:
        path, count, sample = found[0]
        sample = sample if len(sample) <= _SHOWN else f"{sample[: _SHOWN - 1]}…"
        values = "1 value" if count == 1 else f"{count:,} values"
        what = f"has {values} that {made.wanted} cannot hold exactly, such as {sample!r}"
        raise _failed(keys[path], made, what)


def _changed(made: Converted) -> str:
    """A condition that is true for values ``v`` that would not be the same in the other type."""
    new = f"TRY_CAST(v AS {made.wanted})"
    if made.stored != "VARCHAR":
        # There and back: rounding, overflow, a time of day that is cut off.
        return f"{new} IS NULL OR TRY_CAST({new} AS {made.stored}) IS DISTINCT FROM v"
    # A text may spell a value in many ways ('01', '1.0', '2013-1-5'): only what is read counts.
    wanted = parse_sql_type(made.wanted)
    kind = "" if wanted is None else wanted.name
    wider: tuple[str, ...] = ()
    if kind in _WHOLE or kind == "DECIMAL":
        # Exact to nine places, and as near as a float beyond.
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
