"""The columns of a table as an Iceberg schema: types, field ids, and names in parts.

Parts have no field ids, so readers find columns by the name mapping of the Iceberg table. A column
keeps its id for as long as it keeps its name and a type to which readers widen it; otherwise it is
another column. Former columns stay in the mapping, so that older snapshots can be read, unless
another column has their name now: such snapshots have to go.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import (
    MappedField,
    NameMapping,
    create_mapping_from_schema,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from firnline.errors import MirrorRefusedError
from firnline.types.sql import SqlType, parse_sql_type

_PLAIN: Mapping[str, Callable[[], PrimitiveType]] = {
    "BOOLEAN": BooleanType,
    "TINYINT": IntegerType,
    "SMALLINT": IntegerType,
    "INTEGER": IntegerType,
    "BIGINT": LongType,
    # No unsigned ones: readers in Java refuse such columns of Parquet files.
    "FLOAT": FloatType,
    "DOUBLE": DoubleType,
    "VARCHAR": StringType,
    "BLOB": BinaryType,
    "DATE": DateType,
    "TIMESTAMP": TimestampType,
    "TIMESTAMP WITH TIME ZONE": TimestamptzType,
}
MAX_PRECISION = 38
_NO_NAME = re.compile(r"[.\x00-\x1f\x7f]")
"""A point separates the names of nested fields."""

NextId = Callable[[], int]


def iceberg_type(kind: SqlType, next_id: NextId) -> IcebergType | None:
    """Return a type as Iceberg has it, with fresh ids; None if Iceberg has no such type."""
    if kind.name == "DECIMAL":
        precision, scale = kind.numbers
        return DecimalType(precision, scale) if precision <= MAX_PRECISION else None
    if kind.name in ("LIST", "ARRAY"):
        number, element = next_id(), iceberg_type(kind.element, next_id)
        if element is None:
            return None
        return ListType(element_id=number, element=element, element_required=False)
    if kind.name == "MAP":
        return _map(kind, next_id)
    if kind.name == "STRUCT":
        fields = [_field(name, child, next_id) for name, child in kind.fields]
        whole = [field for field in fields if field is not None]
        return StructType(*whole) if whole and len(whole) == len(fields) else None
    plain = _PLAIN.get(kind.name)
    return None if plain is None else plain()


def _map(kind: SqlType, next_id: NextId) -> MapType | None:
    numbers = next_id(), next_id()
    key, value = (iceberg_type(child, next_id) for _, child in kind.fields)
    if key is None or value is None:
        return None
    return MapType(
        key_id=numbers[0], key_type=key, value_id=numbers[1], value_type=value, value_required=False
    )


def _field(name: str, kind: SqlType, next_id: NextId) -> NestedField | None:
    number, found = next_id(), iceberg_type(kind, next_id)
    if found is None or _NO_NAME.search(name) is not None:
        return None
    return NestedField(field_id=number, name=name, field_type=found, required=False)


def kinds_of(table: str, columns: Mapping[str, str]) -> dict[str, SqlType]:
    """Return the columns with their parsed types.

    Args:
        table: name of the table, for the error.
        columns: column -> SQL type.

    Raises MirrorRefusedError: names the first column that Iceberg cannot hold.
    """
    found: dict[str, SqlType] = {}
    for name, text in columns.items():
        if _NO_NAME.search(name) is not None:
            raise MirrorRefusedError(
                f"table {table} has a column {name!r}, and names in an Iceberg mirror have no "
                "point and no control character",
                next_step="rename it with `firnline evolve TABLE --rename "
                f"{shlex.quote(f'{name}=NEW')}`, or take iceberg out of mirror",
            )
        kind = parse_sql_type(text)
        if kind is None or iceberg_type(kind, lambda: 1) is None:
            raise MirrorRefusedError(
                f"column {name!r} of table {table} is {text}, a type that every reader of Iceberg "
                "tables takes for something else or not at all",
                next_step="change the column, or drop it with `firnline evolve TABLE --drop "
                f"{shlex.quote(name)}`, or take iceberg out of mirror",
            )
        found[name] = kind
    return found


def evolve(
    current: Schema | None, last_id: int, schema_id: int, wanted: Mapping[str, SqlType]
) -> Schema:
    """Return the schema with the wanted columns, the current one if it has exactly these.

    Args:
        current: schema in force; None for a new table.
        last_id: highest field id that was ever given.
        schema_id: id of a schema that differs from the current one.
        wanted: column -> type.
    """
    numbers = count(last_id + 1)
    had = {} if current is None else {field.name: field for field in current.fields}
    fields: list[NestedField] = []
    for name, kind in wanted.items():
        field, old = _field(name, kind, lambda: next(numbers)), had.get(name)
        assert field is not None, "see kinds_of"
        if old is not None and old.optional and spell(old.field_type) == spell(field.field_type):
            field = old
        elif old is not None and old.optional and _widens(old.field_type, field.field_type):
            field = field.model_copy(update={"field_id": old.field_id})
        fields.append(field)
    if current is not None and fields == list(current.fields):
        return current
    return Schema(*fields, schema_id=schema_id)


def spell(kind: IcebergType) -> str:
    """Return a type as text, without ids."""
    if isinstance(kind, StructType):
        inner = (f"{field.name!r} {spell(field.field_type)}" for field in kind.fields)
        return f"struct({', '.join(inner)})"
    if isinstance(kind, ListType):
        return f"list({spell(kind.element_type)})"
    if isinstance(kind, MapType):
        return f"map({spell(kind.key_type)}, {spell(kind.value_type)})"
    return str(kind)


def _widens(old: IcebergType, new: IcebergType) -> bool:
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return (type(old), type(new)) in {(IntegerType, LongType), (FloatType, DoubleType)}


def digest(wanted: Mapping[str, SqlType]) -> str:
    """Return a digest of the columns, 16 hexadecimal digits."""
    text = "\n".join(f"{name!r} {kind}" for name, kind in wanted.items())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def mapping_of(schema: Schema, former: Iterable[Schema]) -> NameMapping:
    """Return the mapping of names in parts to field ids.

    Args:
        schema: the schema in force.
        former: those of older snapshots, the newest first.
    """
    fields = list(create_mapping_from_schema(schema).root)
    names = {name for field in fields for name in field.names}
    ids = {field.field_id for field in fields}
    for each in former:
        for field in create_mapping_from_schema(each).root:
            if field.field_id not in ids and names.isdisjoint(field.names):
                fields.append(field)
                ids.add(field.field_id)
                names.update(field.names)
    return NameMapping(fields)


def misread(schema: Schema, mapping: NameMapping) -> bool:
    """Return True if a snapshot with this schema would not find its columns by the mapping."""
    found = dict(_names(mapping))
    return any(found.get(field.name) != field.field_id for field in schema.fields)


def _names(mapping: NameMapping) -> Iterator[tuple[str, int | None]]:
    for field in mapping.root:
        assert isinstance(field, MappedField)
        for name in field.names:
            yield name, field.field_id
