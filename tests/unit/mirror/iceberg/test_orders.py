"""Sort orders of a mirror: the table's is the default, and files name the one that they state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
)

from firnline.mirror.iceberg.orders import fields_of, plan_orders
from firnline.mirror.iceberg.publish import publish
from firnline.operations.mirror.check import run_checks
from firnline.operations.properties.run import run_apply
from firnline.settings.load import TableSettings
from firnline.types.order import Order, SortKey
from tests.support.in_catalog import ROOT, catalog_world, drop, loaded, where
from tests.support.log_tables import SCHEMA, put_append
from tests.support.mirrors import RUN
from tests.support.world import World

TS, V = SortKey("ts", descending=True), SortKey("v")
WIDE = {**SCHEMA, "f": "DOUBLE"}
FIELDS = Schema(
    NestedField(1, "ts", LongType()),
    NestedField(2, "v", StringType()),
    NestedField(3, "f", DoubleType()),
    NestedField(4, "l", ListType(5, IntegerType())),
)
By = tuple[tuple[int, str, str], ...]
BY_TS: By = ((1, "desc", "nulls-last"), (2, "asc", "nulls-last"))
BY_V: By = ((2, "asc", "nulls-last"),)


def said(order: SortOrder) -> By:
    return tuple((f.source_id, f.direction.value, f.null_order.value) for f in order.fields)


def orders(world: World) -> tuple[int, dict[int, By]]:
    """The number of the default order, and all orders."""
    metadata = loaded(world).metadata
    return metadata.default_sort_order_id, {o.order_id: said(o) for o in metadata.sort_orders}


def numbers(world: World) -> list[int | None]:
    """What the files that the mirror shows name, in the order of their insertion."""
    files = [task.file for task in loaded(world).scan().plan_files()]
    return [file.sort_order_id for file in sorted(files, key=lambda f: f.file_path)]


def sort_by(world: World, folder: Path, *columns: str) -> None:
    """Change the table's ``sort_by``."""
    plain = {"name": "t", "root": ROOT, "mirror": [{"iceberg": where(folder)}]}
    world.settings = TableSettings.model_validate({**plain, "sort_by": columns})
    world.table = replace(world.table, settings=world.settings)
    run_apply(world.table, RUN)


def shown(world: World, *sorted_by: SortKey) -> list[int | None]:
    """Append a part that states an order and publish it."""
    put_append(world, schema=WIDE, sorted_by=sorted_by)
    assert publish(world.table).written
    assert run_checks(world.table).same
    return numbers(world)


@pytest.mark.long
def test_the_order_of_the_table_is_published_and_named_by_files_that_state_it(
    tmp_path: Path,
) -> None:
    world = catalog_world(tmp_path, sort_by=["ts desc", "v"])
    assert shown(world, TS, V) == [1]
    assert orders(world) == (1, {1: BY_TS})
    assert shown(world) == [1, None], "a part that states nothing"
    assert shown(world, V) == [1, None, None], "or another order"
    assert shown(world, TS, V, SortKey("f")) == [1, None, None, 1], "or one that goes on"
    assert orders(world) == (1, {1: BY_TS}), "no order is added twice"


@pytest.mark.long
def test_a_table_without_an_order_has_a_mirror_without_one(tmp_path: Path) -> None:
    world = catalog_world(tmp_path)
    assert shown(world, TS) == [None]
    assert orders(world) == (0, {0: ()})


@pytest.mark.long
def test_files_keep_the_order_of_their_time_when_the_table_gets_another_one(tmp_path: Path) -> None:
    world = catalog_world(tmp_path, sort_by=["ts desc", "v"])
    shown(world, TS, V)
    sort_by(world, tmp_path, "v")
    assert shown(world, V) == [1, 2]
    assert orders(world) == (2, {1: BY_TS, 2: BY_V})
    sort_by(world, tmp_path)
    assert shown(world, TS, V) == [1, 2, 1], "of an append that began before"
    assert orders(world) == (0, {1: BY_TS, 2: BY_V, 0: ()})
    sort_by(world, tmp_path, "ts desc", "v")
    assert shown(world, V) == [1, 2, 1, 2]
    assert orders(world) == (1, {1: BY_TS, 2: BY_V, 0: ()}), "one that was there has its number"


@pytest.mark.long
def test_a_mirror_of_before_orders_were_published_gets_one_with_the_next_snapshot(
    tmp_path: Path,
) -> None:
    world = catalog_world(tmp_path)
    shown(world)
    sort_by(world, tmp_path, "v")
    assert shown(world, V) == [None, 1]
    assert orders(world) == (1, {0: (), 1: BY_V})


@pytest.mark.long
def test_a_mirror_that_was_dropped_begins_with_todays_order(tmp_path: Path) -> None:
    world = catalog_world(tmp_path, sort_by=["ts desc", "v"])
    shown(world, TS, V)
    sort_by(world, tmp_path, "v")
    drop(world)
    assert shown(world, V) == [None, 1], "the former order has no number in it"
    assert orders(world) == (1, {1: BY_V})


def test_a_column_that_is_another_one_now_makes_another_order() -> None:
    known = SortOrder(*fields_of((V,), FIELDS), order_id=4)
    other = Schema(NestedField(7, "v", StringType()))
    assert plan_orders([known], (V,), FIELDS).default == known
    found = plan_orders([known], (V,), other)
    assert (found.default.order_id, said(found.default)) == (5, ((7, "asc", "nulls-last"),))
    assert [found.number_of(order) for order in ((V, TS), (TS,), ())] == [5, None, None]


@pytest.mark.parametrize(
    ("order", "sayable"),
    [
        ((TS, V), 2),
        ((TS, SortKey("f"), V), 1),  # NaN
        ((SortKey("f"),), 0),
        ((SortKey("l"), V), 0),
        ((SortKey("gone"), V), 0),
        ((), 0),
    ],
)
def test_an_order_is_said_up_to_the_first_column_that_iceberg_sorts_otherwise(
    order: Order, sayable: int
) -> None:
    found = fields_of(order, FIELDS)
    assert len(found) == sayable
    assert all(field.null_order is NullOrder.NULLS_LAST for field in found)
    down = [field.direction is SortDirection.DESC for field in found]
    assert down == [key.descending for key in order[:sayable]]
