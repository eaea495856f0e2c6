"""Whatever every door has to heed stands with the operation, so that no door can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import About, Operation, Work, decided
from firnline.operations.options import (
    CleanupOptions,
    CommitOptions,
    DeleteOptions,
    DowngradeOptions,
    DropOptions,
    DropTableOptions,
    EndHoldOptions,
    EraseOptions,
    Evolution,
    HoldOptions,
    LazyOptions,
    MergeOptions,
    PropertiesOptions,
    RebuildOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
    SweepOptions,
    TtlOptions,
    UpdateOptions,
)
from firnline.operations.registry import OPERATIONS
from tests.support.world import World, make_world

ANY: Mapping[str, msgspec.Struct] = {
    "delete": DeleteOptions(where="a = 1"),
    "commit": CommitOptions(id="019c5f0e-6b6f-7d52-8d0c-3f6d1f0a2b11"),
    "drop": DropOptions(partitions=("",)),
    "downgrade": DowngradeOptions(),
    "end_hold": EndHoldOptions(name="h", why="w"),
    "drop_table": DropTableOptions(name="t"),
    "erase": EraseOptions(columns=("a",), keys=((1,),)),
    "evolve": LazyOptions(evolution=Evolution(drop=("a",))),
    "hold": HoldOptions(name="h", where="a = 1", why="w"),
    "properties": PropertiesOptions(),
    "rebuild": RebuildOptions(force=True),
    "replace": ReplaceOptions(start=0, end=9, column="a", nothing=True),
    "restore": RestoreOptions(to=0),
    "rewrite": RewriteOptions(where="a <> 1"),
    "schema_fix": SchemaFixOptions(evolution=Evolution(drop=("a",))),
    "ttl": TtlOptions(),
    "update": UpdateOptions(set=("a = 0",), where="a = 1"),
}
"""Options by the name of an operation that asks."""
ASKING = pytest.mark.parametrize(
    "about", [each for each in OPERATIONS if each.asks], ids=lambda each: each.title
)


def table_with_rows() -> World:
    world = make_world()
    Appender(world.table).append(pa.table({"a": pa.array([1, 2], pa.int64())}))
    world.clock.advance(10)
    return world


def test_all_that_asks_is_tried_here() -> None:
    assert {each.name for each in OPERATIONS if each.asks} == set(ANY)


@pytest.mark.long
@ASKING
def test_without_somebody_who_agrees_it_does_not_run(about: About[Any, Any, Any]) -> None:
    world = table_with_rows()
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=r"nobody can be asked whether .*t(able|est)?"):
        about.load().run(Work(world.table, RunIdentity()), ANY[about.name])
    assert dict(world.store.objects) == before


@ASKING
def test_what_agrees_is_given_the_operation_and_ends_the_run_by_an_error(
    about: About[Any, Any, Any],
) -> None:
    world, asked = table_with_rows(), list[tuple[str, object]]()
    before = dict(world.store.objects)

    class NoError(Exception):
        pass

    def no(operation: Operation[Any, Any, Any], work: Work, options: object) -> object:
        asked.append((operation.question(work), options))
        raise NoError

    with pytest.raises(NoError):
        about.load().run(Work(world.table, consent=no), ANY[about.name])
    name = world.table.settings.name
    assert asked == [(about.asks.format(table=name), ANY[about.name])]
    assert dict(world.store.objects) == before


@ASKING
def test_a_dry_run_asks_nobody(about: About[Any, Any, Any]) -> None:
    if "dry_run" not in about.options.__struct_fields__:
        assert about.load().preview is not None, "a door plans instead"
        return
    world = table_with_rows()
    options = msgspec.structs.replace(ANY[about.name], dry_run=True)
    assert not about.load().asks(Work(world.table), options)


def test_a_prepare_and_a_replace_of_a_table_to_be_ask_nobody() -> None:
    by_name = {each.name: each.load() for each in OPERATIONS}
    prepare = msgspec.structs.replace(ANY["rewrite"], prepare=True)
    assert not by_name["rewrite"].asks(Work(table_with_rows().table), prepare)
    assert not by_name["replace"].asks(Work(make_world().table), ANY["replace"])


@pytest.mark.parametrize("about", OPERATIONS, ids=lambda each: each.title)
def test_options_of_another_operation_are_refused_by_run_and_plan(
    about: About[Any, Any, Any],
) -> None:
    class Others(msgspec.Struct):
        pass

    operation, world = about.load(), table_with_rows()
    assert operation.about.name == about.name
    with pytest.raises(UsageError, match="the options are of type Others"):
        operation.run(Work(world.table, consent=decided), Others())
    if operation.preview is not None:
        with pytest.raises(UsageError, match="the options are of type Others"):
            operation.plan(world.table, Others())


@pytest.mark.parametrize("about", OPERATIONS, ids=lambda each: each.title)
def test_what_holds_after_an_interrupt_names_the_table_or_says_that_nothing_changes(
    about: About[Any, Any, Any],
) -> None:
    options = ANY.get(about.name)
    if options is None:
        required = {f.name: "a" for f in msgspec.structs.fields(about.options) if f.required}
        options = about.options(**required)
    message, next_step = about.load().stopped("flights", options)
    assert "flights" in message or "changes nothing" in message or "the mirror shows" in message
    assert next_step


PLANNED: Mapping[str, msgspec.Struct] = {
    **{
        name: ANY[name]
        for name in ("delete", "drop", "erase", "rebuild", "replace", "rewrite", "update")
    },
    "cleanup": CleanupOptions(),
    "merge": MergeOptions(full=True),
    "sweep": SweepOptions(),
}


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_has_a_page_by_its_figures_and_the_table_whatever_door_draws_it(name: str) -> None:
    """What else the page needs, such as a merge's SQL, is added with the operation."""
    table = table_with_rows().table
    operation = next(each for each in OPERATIONS if each.name == name).load()
    plan = operation.plan(table, PLANNED[name])
    page = operation.page_of_plan(table, plan.to_json())
    assert list(page.lines())
    assert page.sentence != "nothing"
    assert not page.sentence.endswith(".")


def test_what_a_plan_page_has_of_the_table_besides_its_name() -> None:
    table = table_with_rows().table
    found = {each.name: each.load().plan_data(table, {}) for each in OPERATIONS}
    root = table.settings.root
    assert found["merge"] == {"table": "t", "root": root, "sql": None}
    assert found["drop"] == {"table": "t", "now": table.clock.now_ms()}
    assert found["sweep"] == found["cleanup"] == {"table": "t", "root": root}
    assert found["ttl"] == {"table": "t"}
