"""The legal holds that the page of a table shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.run import run_erase
from firnline.operations.health import held
from firnline.operations.health.detail import detail_of
from firnline.operations.health.held import PARTITIONS
from firnline.operations.health.reading import read
from firnline.operations.health.run import glance
from firnline.operations.hold.run import run_end, run_hold
from firnline.operations.operation import Work
from firnline.operations.options import EndHoldOptions, EraseOptions, HoldOptions
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r", user="ana")
KEY, OTHER = "needle-17", "needle-18"


def world_of(**settings: Any) -> World:
    """Two persons, each with a partition, of one day."""
    world = make_world(**{"partition_by": ["day", "person"], **settings})
    rows = pa.table({"day": [1, 1], "person": [KEY, OTHER], "x": [3, 4]})
    Appender(world.table).append(rows)
    return world


def hold(world: World, name: str = "case-17", **options: Any) -> None:
    world.clock.advance(10)
    asked = HoldOptions(name=name, why="Miller v. Acme", by="bo", approved_by="cy", **options)
    run_hold(Work(world.table, RUN), asked)


def erase(world: World, scratch: Path) -> str:
    world.clock.advance(10)
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    asked = EraseOptions(columns=("person",), keys=(("needle-99",),))
    found = run_erase(Work(world.table, RUN, lambda: engine), asked).certificate
    assert found is not None
    return found


def shown(world: World) -> list[dict[str, Any]]:
    holds: list[dict[str, Any]] = detail_of(read(world.table, erases={}))["holds"]
    return holds


def test_a_hold_says_by_whom_why_since_when_and_what_it_covers() -> None:
    world = world_of(sort_by=["x"])
    hold(world, where="x = 3")
    (one,) = shown(world)
    assert (one["name"], one["by"], one["approved_by"]) == ("case-17", "bo", "cy")
    assert (one["why"], one["t"]) == ("Miller v. Acme", world.clock.now_ms())
    assert (one["live"]["parts"], one["live"]["rows"], one["dead"]["parts"]) == (1, 1, 0)
    assert one["live"]["bytes"] > 0


def test_of_a_condition_its_columns_are_shown_and_no_value() -> None:
    world = world_of()
    hold(world, where=f"person in ('{KEY}', '{OTHER}') or x = 4711")
    (one,) = shown(world)
    assert one["rows"] == "person in (…, …) or x = …"
    assert (one["by_partition"], one["partition_count"], one["partitions"]) == (False, 2, [])
    text = json.dumps(shown(world))
    assert "needle" not in text
    assert "4711" not in text


def test_partitions_are_named_without_values_of_columns_by_which_rows_are_held() -> None:
    world = world_of()
    hold(world, where=f"person = '{KEY}'", partitions=("*",))
    (one,) = shown(world)
    assert (one["partition_count"], one["partitions"]) == (2, ["day=1/person=…"])


def test_partitions_are_named_without_values_of_the_primary_key() -> None:
    world = world_of(primary_key=["day", "person"])
    hold(world, partitions=(f"*{KEY}",))
    (one,) = shown(world)
    assert (one["rows"], one["partition_count"]) == (None, 1)
    assert one["partitions"] == ["day=…/person=…"]


def test_partitions_are_named_without_values_of_columns_by_which_was_erased(
    tmp_path: Path,
) -> None:
    plain, erased = world_of(), world_of()
    certificate = erase(erased, tmp_path)
    for world in (plain, erased):
        hold(world, partitions=("day=1*",))
    (before,), (after,) = shown(plain), shown(erased)
    assert before["partitions"] == [f"day=1/person={KEY}", f"day=1/person={OTHER}"]
    assert after["partitions"] == ["day=1/person=…"]
    # By which columns, the certificate says: of one that does not read no value is shown.
    erased.store.objects[erased.table.paths.certificate(certificate)] = (b"{", erased.clock.now)
    (unknown,) = shown(erased)
    assert unknown["partitions"] == ["day=…/person=…"]


def test_only_so_many_partitions_are_named_and_all_are_counted() -> None:
    world = make_world(partition_by=["day"])
    days = list(range(PARTITIONS + 5))
    Appender(world.table).append(pa.table({"day": days}))
    hold(world, partitions=("day=*",))
    (one,) = shown(world)
    assert (one["partition_count"], len(one["partitions"])) == (PARTITIONS + 5, PARTITIONS)


def test_a_hold_is_shown_also_where_too_many_parts_would_have_to_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of()
    for name in ("first", "second"):
        hold(world, name, where="x = 3")
    monkeypatch.setattr(held, "LOOKS", 3)  # of two parts each
    first, second = shown(world)
    assert first["live"]["parts"] == 2
    assert (second["name"], second["rows"]) == ("second", "x = …")
    assert (second["live"], second["dead"]) == (None, None)


@pytest.mark.parametrize("count", [0, 2])
def test_the_figures_of_a_table_count_its_holds_until_they_end(count: int) -> None:
    world = world_of()
    for number in range(count):
        hold(world, f"case-{number}", where="x = 3")
    figures = glance(world.table).figures
    assert figures is not None
    assert figures.holds == len(shown(world)) == count
    for number in range(count):
        run_end(Work(world.table, RUN), EndHoldOptions(name=f"case-{number}", why="settled"))
    ended = glance(world.table).figures
    assert ended is not None
    assert ended.holds == 0
