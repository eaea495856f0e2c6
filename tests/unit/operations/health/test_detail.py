from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.appends.append import Appender
from firnline.errors import NoTableError
from firnline.operations.health.detail import PARTITIONS, detail_of
from firnline.operations.health.reading import read
from tests.support.histories import append, drop, filled, merge
from tests.support.world import World, make_world


def detail(world: World) -> dict[str, Any]:
    return detail_of(read(world.table))


def test_partitions_say_what_a_merge_would_take_and_why_it_leaves_the_rest() -> None:
    found = detail(filled(4))
    assert found["partition_count"] == 2 < PARTITIONS
    assert [(one["partition"], one["parts"], one["merge"]) for one in found["partitions"]] == [
        ("day=0", 4, 4),
        ("day=1", 4, 4),
    ]
    few = detail(filled(2))["partitions"][0]
    assert few["merge"] == 0
    assert list(few["left_alone"].values()) == [2]


def test_transactions_come_newest_first_with_what_they_did(tmp_path: Path) -> None:
    world = filled(4)
    merge(world, tmp_path)
    drop(world, "day=0")
    found = detail(world)["transactions"]
    assert [(one["seq"], one["op"]) for one in found] == [(2, "drop"), (1, "merge")]
    assert found[1]["counts"]["parts_in"] == 8


def test_transactions_say_whose_appends_they_took_in() -> None:
    world = filled(1)
    append(world, 6, by=Appender(world.table, writer="billing"))
    drop(world, "day=0")
    drop(world, "day=1")
    append(world, 12, by=Appender(world.table, writer="web"))
    found = detail(world)
    last, first = found["transactions"]
    assert last["appends"] == []
    assert [each["words"] for each in found["not_taken_in"]] == ["web: 1 append, 6 rows"]
    assert [each["words"] for each in first["appends"]] == [
        "billing: 1 append, 6 rows",
        "not stated: 1 append, 6 rows",
    ]


def test_the_next_runs_are_planned_or_say_why_not() -> None:
    plain = detail(filled(4))["next"]
    assert (plain["merge"]["parts_in"], plain["merge"]["nothing_to_do"]) == (8, False)
    assert plain["cleanup"]["nothing_to_do"]
    assert plain["ttl"] is None
    wrong = detail(filled(4, ttl={"keep": "1d", "column": "id"}))["next"]["ttl"]
    assert wrong["problem"]
    assert wrong["next_step"]


def test_sizes_columns_and_properties_are_there() -> None:
    found = detail(filled(2))
    assert sum(found["sizes"]["counts"]) == 4
    assert len(found["sizes"]["counts"]) == len(found["sizes"]["steps"]) + 1
    assert "id" in found["schema"]
    assert {one["name"] for one in found["properties"]} >= {"append.ttl", "cleanup.grace"}


def test_a_root_without_a_table_has_no_details() -> None:
    with pytest.raises(NoTableError, match="there is no table at memory://bucket/t"):
        detail(make_world())
