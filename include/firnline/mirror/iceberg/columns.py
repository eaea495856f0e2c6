"""The columns of a table as an Iceberg schema: types, field ids, and names in parts.

Parts have no field ids, so readers find columns by the name mapping of the Iceberg table. A column
keeps its id for as long as it keeps its name and a type to which readers widen it, or that has more
fields; otherwise it is another column. Former columns stay in the mapping, so that older snapshots
can be read, unless another column has their name now: such snapshots have to go.
"""

from __future__ import annotations

import hashlib
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

from firnline.types.formats import FORMATS, refuse_column
from firnline.types.sql import SqlType

_KINDS: tuple[Callable[[], PrimitiveType], ...] = (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
_PLAIN = {str(kind()): kind for kind in _KINDS}
"""Types without parts, by their names in Iceberg."""

NextId = Callable[[], int]


def iceberg_type(kind: SqlType, next_id: NextId) -> IcebergType:
    """Return a type that Iceberg has, with fresh ids."""
    if kind.name == "DECIMAL":
        precision, scale = kind.numbers
        return DecimalType(precision, scale)
    if kind.name in ("LIST", "ARRAY"):
        number, element = next_id(), iceberg_type(kind.element, next_id)
        return ListType(element_id=number, element=element, element_required=False)
    if kind.name == "MAP":
        key_id, value_id = next_id(), next_id()
        key, value = (iceberg_type(child, next_id) for _, child in kind.fields)
        return MapType(
            key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=False
        )
    if kind.name == "STRUCT":
        return StructType(*(_field(name, child, next_id) for name, child in kind.fields))
    return _PLAIN[FORMATS["iceberg"].plain[kind.name]]()


def _field(name: str, kind: SqlType, next_id: NextId) -> NestedField:
    number, field_type = next_id(), iceberg_type(kind, next_id)
    return NestedField(field_id=number, name=name, field_type=field_type, required=False)


def kinds_of(table: str, columns: Mapping[str, str]) -> dict[str, SqlType]:
    """Return the columns with their parsed types.

    Args:
        table: name of the table, for the error.
        columns: column -> SQL type.

    Raises MirrorRefusedError: names the first column that Iceberg cannot hold.
    """
    return {name: refuse_column("iceberg", table, name, text) for name, text in columns.items()}


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
        fields.append(field if old is None else _same_field(old, field) or field)
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


def _same_field(old: NestedField, new: NestedField) -> NestedField | None:
    """Return a field with the ids that it has had; None if readers take it for another one."""
    if not old.optional:
        return None
    kind = _same_type(old.field_type, new.field_type)
    if kind is old.field_type:
        return old
    return (
        None
        if kind is None
        else new.model_copy(update={"field_id": old.field_id, "field_type": kind})
    )


def _same_type(old: IcebergType, new: IcebergType) -> IcebergType | None:
    """Return a type with the ids of the old one, if it has all that is in it, maybe wider."""
    if spell(old) == spell(new):
        return old
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _same_struct(old, new)
    if isinstance(old, ListType) and isinstance(new, ListType):
        element = _same_type(old.element_type, new.element_type)
        return None if element is None else old.model_copy(update={"element_type": element})
    if isinstance(old, MapType) and isinstance(new, MapType):
        value = _same_type(old.value_type, new.value_type)
        same_keys = spell(old.key_type) == spell(new.key_type)
        kept = {"value_type": value}
        return old.model_copy(update=kept) if value is not None and same_keys else None
    return new if _widens(old, new) else None


def _same_struct(old: StructType, new: StructType) -> StructType | None:
    had = {field.name: field for field in old.fields}
    if not had.keys() <= {field.name for field in new.fields}:
        return None
    fields = []
    for field in new.fields:
        before = had.get(field.name)
        kept = field if before is None else _same_field(before, field)
        if kept is None:
            return None
        fields.append(kept)
    return StructType(*fields)


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
    ids = dict(_names(mapping))
    return any(ids.get(field.name) != field.field_id for field in schema.fields)


def _names(mapping: NameMapping) -> Iterator[tuple[str, int | None]]:
    for field in mapping.root:
        assert isinstance(field, MappedField)
        for name in field.names:
            yield name, field.field_id
