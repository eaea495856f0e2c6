"""Make the rows of anybody's file those of a table: columns of its folders, other types."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from firnline.errors import PartSchemaError
from firnline.rows.given import Fitting, GivenColumn
from firnline.types.arrow import conform, parse_type


def value_of(given: GivenColumn, file: str) -> pa.Scalar:
    """Return the value of a column that the folders of a file state. Raises PartSchemaError."""
    kind, text = parse_type(given.type), given.text
    if text and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        text = text.removeprefix("+")  # Spark reads it, and Arrow does not
    try:
        value = pa.array([text], pa.string()).cast(kind)[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        value = None
    if value is None or not _is_same(value, text):
        raise PartSchemaError(
            f"the folder of {file} states {given.text!r} for column {given.name!r}, which is no "
            f"{given.type}",
            next_step=f"state another type, such as --path-types {given.name}=VARCHAR, or rename "
            "the folder",
        )
    return value


def _is_same(value: pa.Scalar, text: str | None) -> bool:
    """Return False for a number that has lost digits of its text."""
    if text is None or not pa.types.is_floating(value.type):
        return True
    return float(text) != float(text) or Decimal(text) == Decimal(value.cast(pa.string()).as_py())


def fitted(rows: pa.Table, fitting: Fitting, file: str) -> pa.Table:
    """Return the rows of a file as its table has them.

    Args:
        rows: some of them.
        fitting: what is to be done.
        file: its name, for errors.

    Raises:
        PartSchemaError: a value does not fit.
    """
    for name, kind in fitting.casts:
        rows = _cast(rows, name, kind, file)
    for given in fitting.given:
        column = pa.repeat(value_of(given, file), rows.num_rows)
        rows = rows.append_column(given.name, column)
    return rows


def _cast(rows: pa.Table, name: str, kind: str, file: str) -> pa.Table:
    place = rows.schema.get_field_index(name)
    column = rows.column(place)
    try:
        return rows.set_column(place, name, conform(column, parse_type(kind)))
    except (pa.ArrowException, NotImplementedError) as error:
        raise PartSchemaError(
            f"{file}: column {name!r} is {column.type} and holds a value that does not fit "
            f"{kind}: {str(error).splitlines()[0]}",
            next_step="leave the file out with --exclude, or write it anew with values that fit",
        ) from None
