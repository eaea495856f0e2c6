"""Make the rows of anybody's file those of a table: columns of its folders, other types."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import math
import re
from decimal import Decimal

import pyarrow as pa

from firnline.errors import PartSchemaError
from firnline.rows.given import Fitting, GivenColumn
from firnline.types.arrow import conform, parse_type

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)


def value_of(given: GivenColumn, file: str) -> pa.Scalar:
    """Return the value of a column that the folders of a file state. Raises PartSchemaError."""
    kind, text = parse_type(given.type), given.text
    if text and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        text = text.removeprefix("+") if _NUMBER.fullmatch(text) else text  # as Spark reads it
    value = _cast_text(text, kind)
    if value is None:
        raise PartSchemaError(
            f"the folder of {file} states {given.text!r} for column {given.name!r}, which is no "
            f"{given.type}",
            next_step=f"state another type, such as --path-types {given.name}=VARCHAR, or rename "
            "the folder",
        )
    return value


def _cast_text(text: str | None, kind: pa.DataType) -> pa.Scalar | None:
    """Return the value of a text; None if it is none of the type, or would be another number."""
    if text is not None and not _may_be(text, kind):
        return None
    try:
        value = pa.array([text], pa.string()).cast(kind)[0]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return value if _is_same(value, text) else None


def _may_be(text: str, kind: pa.DataType) -> bool:
    """Return False for what Arrow reads as a number, and nobody writes: ``0x10``, ``nan(1)``."""
    if pa.types.is_integer(kind):
        return _WHOLE.fullmatch(text) is not None
    return not pa.types.is_floating(kind) or _NUMBER.fullmatch(text) is not None


def _is_same(value: pa.Scalar, text: str | None) -> bool:
    """Return False for a number that has lost digits of its text."""
    if text is None or not pa.types.is_floating(value.type):
        return True
    if math.isnan(value.as_py()):
        return True
    try:
        return Decimal(text) == Decimal(value.cast(pa.string()).as_py())
    except ArithmeticError:  # an exponent that no number has
        return False


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
