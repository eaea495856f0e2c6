"""Sort orders of the mirror: today's ``sort_by`` is its default, and files name one they are in.

The catalog keeps each order that was ever the default under a number, which the files of that time
go on to name. Nulls are last in both directions, as firnline sorts them. Iceberg also says where a
NaN and a -0 are, and appends put a NaN elsewhere than merges: an order ends before a column of
floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)
from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate, TableUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from firnline.types.order import Order

_ELSEWHERE = (DoubleType, FloatType)


@dataclass(frozen=True)
class Orders:
    """The orders that files of the next snapshot may name."""

    schema: Schema
    default: SortOrder
    known: tuple[SortOrder, ...]
    """Those that the catalog has."""

    def number_of(self, order: Order) -> int | None:
        """Return the number of the order in which a file's rows are; None if there is none.

        Rows that are sorted by more columns are sorted by the first of them.
        """
        fields = fields_of(order, self.schema)
        fitting = [
            each
            for each in (self.default, *self.known)
            if each.fields and fields[: len(each.fields)] == each.fields
        ]
        return max(fitting, key=lambda each: len(each.fields)).order_id if fitting else None


def plan_orders(known: Sequence[SortOrder], order: Order, schema: Schema) -> Orders:
    """Return the orders of the next snapshot.

    Args:
        known: those that the catalog has.
        order: today's ``sort_by``.
        schema: of the snapshot.
    """
    fields = fields_of(order, schema)
    default = UNSORTED_SORT_ORDER
    if fields:
        # Catalogs number a new order like this, and give one that was there before its number.
        number = max((each.order_id for each in known), default=0) + 1
        fresh = SortOrder(*fields, order_id=number)
        default = next((each for each in known if each.fields == fields), fresh)
    return Orders(schema, default, tuple(known))


def fields_of(order: Order, schema: Schema) -> list[SortField]:
    """Return an order in Iceberg's terms, up to the first column that has none."""
    columns = {field.name: field for field in schema.fields}
    fields: list[SortField] = []
    for key in order:
        field = columns.get(key.column)
        kind = None if field is None else field.field_type
        if field is None or not isinstance(kind, PrimitiveType) or isinstance(kind, _ELSEWHERE):
            break
        direction = SortDirection.DESC if key.descending else SortDirection.ASC
        fields.append(
            SortField(field.field_id, IdentityTransform(), direction, NullOrder.NULLS_LAST)
        )
    return fields


def updates_of(metadata: TableMetadata, default: SortOrder) -> Iterator[TableUpdate]:
    """Yield what makes an order the default; nothing if it is."""
    if default.order_id == metadata.default_sort_order_id:
        return
    if all(each.order_id != default.order_id for each in metadata.sort_orders):
        yield AddSortOrderUpdate.model_validate({"sort-order": default})
    yield SetDefaultSortOrderUpdate.model_validate({"sort-order-id": default.order_id})
