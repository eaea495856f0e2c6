"""Convert SQL type names to Arrow types and back.

Parts are Parquet files, so a column has the SQL type that DuckDB reads from the part: Parquet has
no seconds (``timestamp[s]`` is ``TIMESTAMP``), no half floats (``FLOAT``) and no fixed list sizes
(``INTEGER[]``). ``to_arrow`` returns the Arrow types that a part is written with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from firnline.errors import PartSchemaError
from firnline.next_steps import CAST_IT
from firnline.types.schema import normalise
from firnline.types.sql import (
    MAX_DIGITS,
    MAX_LEVELS,
    MAX_REPEATED,
    SqlType,
    fold_name,
    is_too_deep,
    parse_sql_type,
)

_BY_NAME: dict[str, pa.DataType] = {
    '"NULL"': pa.null(),
    "BIGINT": pa.int64(),
    "BIGNUM": pa.string(),
    "BIT": pa.string(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "ENUM": pa.string(),
    "FLOAT": pa.float32(),
    "GEOMETRY": pa.binary(),
    "HUGEINT": pa.decimal128(38, 0),
    "INTEGER": pa.int32(),
    "INTERVAL": pa.month_day_nano_interval(),
    "JSON": pa.json_(),
    "SMALLINT": pa.int16(),
    "TIME": pa.time64("us"),
    "TIME WITH TIME ZONE": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ_NS": pa.timestamp("ns", "UTC"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIME_NS": pa.time64("ns"),
    "TINYINT": pa.int8(),
    "UBIGINT": pa.uint64(),
    "UHUGEINT": pa.decimal128(38, 0),
    "UINTEGER": pa.uint32(),
    "USMALLINT": pa.uint16(),
    "UTINYINT": pa.uint8(),
    "UUID": pa.uuid(),
    "VARCHAR": pa.string(),
}

_SIMPLE: dict[pa.DataType, str] = {
    pa.null(): '"NULL"',
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    **dict.fromkeys([pa.string(), pa.large_string(), pa.string_view()], "VARCHAR"),
    **dict.fromkeys([pa.binary(), pa.large_binary(), pa.binary_view()], "BLOB"),
    **dict.fromkeys([pa.date32(), pa.date64()], "DATE"),
    **dict.fromkeys([pa.time32("s"), pa.time32("ms"), pa.time64("us")], "TIME"),
    pa.time64("ns"): "TIME_NS",
    pa.uuid(): "UUID",
    **dict.fromkeys([pa.json_(), pa.json_(pa.large_string()), pa.json_(pa.string_view())], "JSON"),
    pa.bool8(): "BOOLEAN",
}


def from_arrow(schema: pa.Schema, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the columns of an Arrow schema, which may come from the footer of a part.

    Args:
        schema: columns in their order.
        known: types that the table has already. A column without a type (only nulls) gets its
            known type, and a known type that is more precise than Parquet (``TIMESTAMP_MS`` for
            ``timestamp[ms]``, ``INTEGER[3]``) stays.

    Returns:
        column -> SQL type name, canonical.

    Raises:
        PartSchemaError: a name that occurs twice (in any letter case), an empty name, a type that
            DuckDB does not have or Parquet cannot hold, or that is too deep for a reader.
    """
    columns: dict[str, str] = {}
    spelling: dict[str, str] = {}
    for field in schema:
        _check_name(field.name, spelling)
        try:
            columns[field.name] = _column_type(field, normalise((known or {}).get(field.name, "")))
        except RecursionError:
            raise _too_deep(field.name) from None
    return columns


def to_arrow(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema that parts with these columns are written in.

    Raises:
        PartSchemaError: a type name that has no Arrow type; names the column.
    """
    fields = []
    for name, type_text in columns.items():
        try:
            fields.append(pa.field(name, parse_type(type_text)))
        except PartSchemaError as error:
            raise PartSchemaError(
                f"column {name!r}: {error.message}", next_step=error.next_step
            ) from error
    return pa.schema(fields)


@lru_cache(maxsize=4096)
def parse_type(type_text: str) -> pa.DataType:
    """Return the Arrow type of a SQL type name. Raises PartSchemaError when there is none."""
    kind = parse_sql_type(type_text)
    arrow = None if kind is None else _arrow(kind)
    if arrow is None:
        raise PartSchemaError(
            f"SQL type {type_text!r} has no Arrow type",
            next_step="cast the column to a type that Parquet holds before it is appended",
        )
    return arrow


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with that of their storage for UUID and JSON, at any depth.

    pyarrow makes no array of Python values of the others inside of lists, structs and maps.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return _inside(kind, plain_type)


def conform(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to the type that its part is written in: decoded, widened, units unified.

    Raises:
        pa.ArrowInvalid: a value does not fit, such as a timestamp finer than microseconds.
    """
    if column.type == kind:
        return column
    if pa.types.is_run_end_encoded(column.type):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return conform(pa.chunked_array(chunks, column.type.value_type), kind)
    if isinstance(column.type, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        return conform(pa.chunked_array(storage, column.type.storage_type), kind)
    if isinstance(kind, pa.BaseExtensionType):
        plain = column.cast(kind.storage_type)
        return pa.chunked_array([kind.wrap_array(chunk) for chunk in plain.chunks], kind)
    if (coded := _without_views(column.type)) != column.type:
        column = column.cast(coded)
    return _by_itself(column).cast(kind)


_SMALL_BYTES = 2**31 - 1
"""Bytes of texts that one array holds at most, if its type is not a large one."""


def _by_itself(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without what its slices leave out: a cast of large texts minds all of it."""
    if not holds(column.type, _is_large) or column.get_total_buffer_size() <= _SMALL_BYTES:
        return column
    # A copy, since it joins two arrays; one alone would be returned as it is.
    chunks = [pa.concat_arrays([chunk, chunk.slice(0, 0)]) for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type)


def holds(kind: pa.DataType, matches: Callable[[pa.DataType], bool]) -> bool:
    """Return True if a type, or one at any depth of it, matches."""
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return matches(kind) or any(holds(each, matches) for each in inner)


def _is_large(kind: pa.DataType) -> bool:
    larges = (pa.types.is_large_string, pa.types.is_large_binary, pa.types.is_large_list)
    return any(matches(kind) for matches in larges)


def is_list(kind: pa.DataType) -> bool:
    """Return True for a list, also a large one or one of a fixed size; not for a view."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(matches(kind) for matches in lists)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type with dictionaries of plain texts: pyarrow 26 does not decode those of views."""
    if pa.types.is_dictionary(kind):
        views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
        return pa.dictionary(kind.index_type, views.get(kind.value_type, kind.value_type))
    return _inside(kind, _without_views)


def _inside(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a list, struct or map with the types inside of it changed; any other type as it is."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(change(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(change(kind.key_type), change(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(change(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(change(kind.value_type)))
    return kind


def _check_name(name: str, spelling: dict[str, str]) -> None:
    if not name:
        raise PartSchemaError("a column has an empty name", next_step="give every column a name")
    other = spelling.get(fold_name(name))
    spelling[fold_name(name)] = name
    if other is not None:
        raise PartSchemaError(
            f"columns {other!r} and {name!r} are one column in SQL",
            next_step="rename or drop one of them",
        )


def _column_type(field: pa.Field, known: str) -> str:
    untyped = is_untyped(field.type)
    if untyped and known:
        return known
    if untyped:
        raise PartSchemaError(
            f"column {field.name!r} is {field.type}: it holds only nulls and has no type",
            next_step=CAST_IT,
        )
    exact = _sql(field.type, in_parquet=False) if known else None
    if exact is not None and str(exact) == known:
        return known
    kind = _sql(field.type, in_parquet=True)
    if kind is None:
        raise PartSchemaError(
            f"column {field.name!r} has type {field.type}, unknown to Parquet or DuckDB",
            next_step=_instead(field.type),
        )
    if is_too_deep(kind):
        raise _too_deep(field.name)
    return str(kind)


def _too_deep(column: str) -> PartSchemaError:
    return PartSchemaError(
        f"column {column!r} is nested deeper than readers take it: at most {MAX_LEVELS} levels, "
        f"{MAX_REPEATED} of them lists or maps",
        next_step="store what lies deeper as a text, such as JSON",
    )


def _instead(kind: pa.DataType) -> str:
    """Return what to do about a type that no part can hold."""
    if pa.types.is_duration(kind):
        return f"cast it to int64, whole numbers of its unit ({kind.unit}), before it is appended"
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return "build it as a list, with values in order (pyarrow.list_), before it is appended"
    if pa.types.is_struct(kind) and len({fold_name(each.name) for each in kind}) < len(kind):
        return "give fields other names: some are one name in SQL"
    return "cast it to another type before it is appended"


def is_untyped(kind: pa.DataType) -> bool:
    """Return True for types with the null type, or a struct without a field, at any depth.

    An empty list or dictionary of a data frame becomes one.
    """
    return holds(kind, _has_no_value)


def _has_no_value(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return is_untyped(kind.value_type)
    return pa.types.is_null(kind) or (pa.types.is_struct(kind) and not kind.num_fields)


def _sql(kind: pa.DataType, *, in_parquet: bool) -> SqlType | None:
    """Return DuckDB's type for an Arrow type, of an Arrow table or as read from Parquet."""
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return SqlType(simple)
    for matches, convert in _COMPOUND:
        if matches(kind):
            return convert(kind, in_parquet)
    return None


def _timestamp(kind: pa.DataType, in_parquet: bool) -> SqlType:
    nanoseconds = kind.unit == "ns"
    if kind.tz is not None:
        return SqlType("TIMESTAMPTZ_NS" if nanoseconds else "TIMESTAMP WITH TIME ZONE")
    if nanoseconds:
        return SqlType("TIMESTAMP_NS")
    if in_parquet or kind.unit == "us":
        return SqlType("TIMESTAMP")
    return SqlType(f"TIMESTAMP_{kind.unit.upper()}")


def _decimal(kind: pa.DataType, _in_parquet: bool) -> SqlType | None:
    if kind.precision > MAX_DIGITS or not 0 <= kind.scale <= kind.precision:
        return None
    return SqlType("DECIMAL", numbers=(kind.precision, kind.scale))


def _list(kind: pa.DataType, in_parquet: bool) -> SqlType | None:
    element = _sql(kind.value_type, in_parquet=in_parquet)
    if element is None:
        return None
    if pa.types.is_fixed_size_list(kind) and not in_parquet:
        return SqlType("ARRAY", (("", element),), (kind.list_size,))
    return SqlType("LIST", (("", element),))


def _struct(kind: pa.DataType, in_parquet: bool) -> SqlType | None:
    names = [field.name for field in kind]
    if not names or "" in names or len({fold_name(name) for name in names}) < len(names):
        return None
    fields = [(field.name, _sql(field.type, in_parquet=in_parquet)) for field in kind]
    whole = tuple((name, child) for name, child in fields if child is not None)
    return SqlType("STRUCT", whole) if len(whole) == len(fields) else None


def _map(kind: pa.DataType, in_parquet: bool) -> SqlType | None:
    key = _sql(kind.key_type, in_parquet=in_parquet)
    value = _sql(kind.item_type, in_parquet=in_parquet)
    return (
        None if key is None or value is None else SqlType("MAP", (("key", key), ("value", value)))
    )


def _value(kind: pa.DataType, in_parquet: bool) -> SqlType | None:
    return _sql(kind.value_type, in_parquet=in_parquet)


def _storage(kind: pa.DataType, in_parquet: bool) -> SqlType | None:
    return _sql(kind.storage_type, in_parquet=in_parquet)


_COMPOUND: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, bool], SqlType | None]], ...
] = (
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_fixed_size_binary, lambda _kind, _in_parquet: SqlType("BLOB")),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_fixed_size_list, _list),
    # No list views: pyarrow 26 casts them to lists with wrong offsets, and DuckDB has none.
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_dictionary, _value),
    (pa.types.is_run_end_encoded, _value),
    (lambda kind: isinstance(kind, pa.BaseExtensionType), _storage),
)


def _arrow(kind: SqlType) -> pa.DataType | None:
    if kind.name == "DECIMAL":
        return pa.decimal128(*kind.numbers)
    if kind.name in ("LIST", "ARRAY", "MAP", "STRUCT"):
        children = [(name, _arrow(child)) for name, child in kind.fields]
        if not children or any(child is None for _, child in children):
            return None
        return _nested(kind, children)
    return _BY_NAME.get(kind.name)


def _nested(kind: SqlType, children: list[tuple[str, pa.DataType]]) -> pa.DataType:
    if kind.name == "STRUCT":
        return pa.struct([pa.field(name, child) for name, child in children])
    if kind.name == "MAP":
        return pa.map_(children[0][1], children[1][1])
    element = pa.field("element", children[0][1])
    return pa.list_(element, *kind.numbers)
