"""Columns and fields that hold only nulls have no type: they wait for it, and the rest is taken.

A null type may stand at any depth: an empty list has it as the type of its elements, and an empty
dictionary is a struct without a field. What waits is left out of a part, where it is null. Of nulls
nothing is lost by that; an empty list or dictionary becomes null, and is counted.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from firnline.errors import PartSchemaError
from firnline.next_steps import CAST_IT
from firnline.types.arrow import conform, is_list, is_untyped, parse_type
from firnline.types.schema import fields_of


@dataclass(slots=True)
class Waiting:
    """What was left out so far."""

    left_out: dict[str, int] = field(default_factory=dict)
    """Path of a column or field (``types.schema.fields_of``) -> number of its values that were no
    nulls: empty lists and dictionaries, or such as hold nothing else."""
    tells: bool = True
    """False where nobody is told what was left out: then only nulls may be."""

    def add(self, left_out: Mapping[str, int]) -> None:
        """Take note of more."""
        for path, lost in left_out.items():
            self.left_out[path] = self.left_out.get(path, 0) + lost

    def told(self, columns: Mapping[str, str]) -> dict[str, int]:
        """Return what was left out, without what other rows gave a type and that lost nothing.

        Args:
            columns: SQL type by column, of all rows.
        """
        typed = {path for name, kind in columns.items() for path in fields_of(kind, name)}
        return {path: lost for path, lost in self.left_out.items() if lost or path not in typed}

    def typed(self, rows: pa.Table, known: Mapping[str, str]) -> pa.Table:
        """Return the rows without columns and fields that have no type, here or in the table.

        Args:
            rows: as given.
            known: SQL type by column of the table; one that it has already is kept.

        Raises:
            PartSchemaError: a map without a type has entries, whose keys would be lost; an empty
                list or dictionary would be lost, and nobody told; no column is left, and a part
                without columns has no rows.
        """
        given = rows.column_names
        for at in reversed(range(rows.num_columns)):  # a place is that of a column to the end
            name, column = given[at], rows.column(at)
            if not is_untyped(column.type):
                continue
            wanted = self._typed(column.combine_chunks(), _known_type(name, known), name)
            if wanted is None:
                rows = rows.remove_column(at)
            else:
                rows = rows.set_column(at, name, _converted(column, wanted))
        lost = "" if self.tells else next((p for p, n in self.left_out.items() if n), "")
        if lost:
            raise PartSchemaError(
                f"column {lost!r} holds nothing but empty lists or dictionaries and has no type: "
                "they would become null",
                next_step=CAST_IT,
            )
        if given and not rows.num_columns:
            raise PartSchemaError(
                f"column {given[0]!r} holds only nulls and has no type, and no other has one",
                next_step="append rows with a value, or cast a column to its intended type",
            )
        return rows

    def _typed(self, values: pa.Array, known: pa.DataType | None, path: str) -> pa.DataType | None:
        """Return the type without what has none; None if nothing is left."""
        kind = values.type
        if not is_untyped(kind):
            return kind
        found: pa.DataType | None = None
        if pa.types.is_struct(kind):
            found = self._of_struct(values, known, path)
        elif pa.types.is_map(kind):
            found = self._of_map(values, known, path)
        elif pa.types.is_nested(kind) and not pa.types.is_union(kind):
            inner = known.value_type if known is not None and is_list(known) else None
            element = self._inside(values.flatten(), inner, f"{path}[]")
            found = None if element is None else pa.list_(element)
        if found is None:
            found = known
        if found is None:
            self.add({path: len(values) - values.null_count})
        return found

    def _inside(self, values: pa.Array, known: pa.DataType | None, path: str) -> pa.DataType | None:
        """As ``_typed`` for the elements of a list: one without a type is left out as a whole."""
        within = Waiting()
        found = within._typed(values, known, path)
        if found is not None:
            self.add(within.left_out)
        return found

    def _of_struct(
        self, values: pa.StructArray, known: pa.DataType | None, path: str
    ) -> pa.DataType | None:
        there = {f.name: f.type for f in known} if known and pa.types.is_struct(known) else {}
        within = Waiting()
        fields = []
        for each, child in zip(values.type, values.flatten(), strict=True):
            kind = within._typed(child, there.get(each.name), f"{path}.{each.name}")
            if kind is not None:
                fields.append(pa.field(each.name, kind))
        if not fields:
            return None
        self.add(within.left_out)
        return pa.struct(fields)

    def _of_map(
        self, values: pa.MapArray, known: pa.DataType | None, path: str
    ) -> pa.DataType | None:
        there = known if known is not None and pa.types.is_map(known) else None
        # Keys and items are those of the whole array, offsets say which are of these values.
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        items, keys = (each.slice(begin, end - begin) for each in (values.items, values.keys))
        item = self._inside(items, there and there.item_type, f"{path}{{}}")
        key = self._inside(keys, there and there.key_type, f"{path}{{}}")
        if item is not None and key is not None:
            return pa.map_(key, item)
        if there is None and len(items):
            raise PartSchemaError(
                f"column {path!r} is {values.type}: its values hold only nulls and have no type, "
                "and its keys would be lost",
                next_step=CAST_IT,
            )
        return None


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column in another type; as it is where that has no such values: others say so."""
    if column.null_count == len(column):
        plain = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        return conform(pa.chunked_array([pa.nulls(len(column), plain)]), kind)
    try:
        return conform(column, kind)
    except (pa.ArrowException, NotImplementedError):
        return column


def typed_schema(schema: pa.Schema, known: Mapping[str, str]) -> pa.Schema:
    """Return the schema of rows after ``Waiting.typed``, as far as it follows from their types.

    Raises PartSchemaError: no column is left.
    """
    if not any(is_untyped(each.type) for each in schema):
        return schema
    return Waiting().typed(pa.Table.from_batches([], schema), known).schema


def _known_type(name: str, known: Mapping[str, str]) -> pa.DataType | None:
    return parse_type(known[name]) if name in known else None
