"""Rows that are given as dictionaries, as one Arrow table."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa

from firnline.errors import PartSchemaError, UsageError
from firnline.rows.fitting import UnfitError, common_array, fitted, with_more_fields
from firnline.types.arrow import conform, plain_type, to_arrow
from firnline.types.schema import fields_of, repair_command
from firnline.types.sql import is_unicode

Row: TypeAlias = Mapping[str, Any]


def are_dictionaries(data: object) -> TypeGuard[list[Row]]:
    """Return True for a list that begins with a dictionary; ``as_table`` looks at the others."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], Mapping)


def as_table(rows: Sequence[Row], known: Mapping[str, str], always: Iterable[str] = ()) -> pa.Table:
    """Return dictionaries as one table with every column that any of them names.

    Args:
        rows: dictionaries; what one of them does not name is null there.
        known: SQL type by column of the table, which values are cast to.
        always: columns that are there even if no row names them.

    Raises:
        UsageError: an element is not a dictionary.
        PartSchemaError: a value does not fit its column, or the others of a new one; a name is
            no text.
    """
    names = dict.fromkeys([*(name for row in all_rows(rows) for name in row), *always])
    # Each column on its own: the error names it, and a new one takes the type of its values.
    return pa.table(
        {name: _column(name, [row.get(name) for row in rows], known.get(name)) for name in names}
    )


def all_rows(given: Sequence[Any]) -> Sequence[Row]:
    """Return rows of which each is a dictionary.

    Raises UsageError: one is not.
    """
    for row in given:
        if not isinstance(row, Mapping):
            raise UsageError(
                f"a row is of type {type(row).__name__}",
                next_step="pass a list of dictionaries, column to value",
            )
    return given


def _column(name: object, values: list[Any], kind: str | None) -> pa.ChunkedArray:
    if not isinstance(name, str) or not is_unicode(name):
        raise PartSchemaError(
            f"{name!r} is not a column name", next_step="use text for the keys of a row"
        )
    try:
        if kind is None:
            return _new_column(name, values)
        target = with_more_fields(to_arrow({name: kind}).field(0).type, values, name)
        plain = plain_type(target)
        array = pa.array(fitted(target, values, name), plain)
        return conform(pa.chunked_array([array], plain), target)
    except UnfitError as error:
        raise _unfit(error, name, kind) from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error).split("\n", 1)[0]
        raise PartSchemaError(
            f"column {name!r} holds a value that does not fit {kind or 'one type'}: {reason}",
            next_step="correct the rows; none of this call was taken",
        ) from None


def _new_column(name: str, values: list[Any]) -> pa.ChunkedArray:
    """Return values in the type that they have in common; raises as ``pyarrow.array``."""
    array = common_array(values, name)
    given = fitted(array.type, values, name)
    return pa.chunked_array([array if given is values else pa.array(given, array.type)])


def _unfit(error: UnfitError, name: str, kind: str | None) -> PartSchemaError:
    """Return the error for a value that a column, or a field of it, does not hold without loss."""
    types = fields_of(kind, name) if kind is not None else {}
    sql_type = types.get(error.path, kind or "one type")
    step = "correct the rows; none of this call was taken"
    if error.fraction and error.path == name:
        command = repair_command("TABLE", [(name, "DOUBLE")])
        step += f"; `{command} --all-parts` gives the column fractions"
    what = "column" if error.path == name else "field"
    return PartSchemaError(
        f"{what} {error.path!r} holds a value that does not fit {sql_type}: {error}", next_step=step
    )
