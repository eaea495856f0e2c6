"""What a merge by a client of log version 1 loses, and what of it verify finds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.errors import FindingsError
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import VerifyReport, run_verify
from firnline.state.snapshot import read_snapshot
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")


def appended(world: World, rows: pa.Table) -> None:
    world.clock.advance(10)
    Appender(world.table).append(rows, partition="d=1")


def merged(*tables: pa.Table) -> tuple[World, str]:
    world = make_world()
    for rows in tables:
        appended(world, rows)
    world.clock.advance(10)
    return world, V1Client(world).merge_rows("d=1")


def verify(world: World, **options: Any) -> VerifyReport:
    return run_verify(Work(world.table), VerifyOptions(**options))


def found(report: VerifyReport, kind: str) -> list[tuple[str, str, str]]:
    return [(f.severity, f.object, f.sentence) for f in report.findings if f.kind == kind]


NARROW = pa.table({"id": pa.array([1], pa.int64())})
WIDE = pa.table({"id": pa.array([2], pa.int64()), "note": ["kept?"]})


def test_a_column_that_the_first_input_lacks_is_lost_and_reported() -> None:
    world, part = merged(NARROW, WIDE)
    ((severity, key, sentence),) = found(verify(world, deep=True), "v1-lost-columns")
    assert (severity, key) == ("error", part)
    assert "lacks column 'note'" in sentence
    assert found(verify(world), "v1-lost-columns") == []


def test_where_the_inputs_are_gone_the_log_says_that_a_column_may_be_lost() -> None:
    world, part = merged(NARROW, WIDE)
    for marker in read_snapshot(world.store, world.table.paths).parts.values():
        if marker.tmb is not None:
            del world.store.objects[marker.p]
    ((severity, key, _),) = found(verify(world, deep=True), "v1-lost-columns")
    assert (severity, key) == ("warning", part)


def test_a_merge_that_keeps_all_columns_is_right() -> None:
    world, _ = merged(WIDE, NARROW)
    report = verify(world, deep=True, rows=True)
    assert report.kinds.keys().isdisjoint({"v1-lost-columns", "v1-merged-rows"})
    assert (report.checked.read_parts, report.checked.unstated_parts) == (1, 0)


def test_a_column_that_came_to_the_table_later_is_not_lost() -> None:
    world, _ = merged(NARROW, NARROW)
    appended(world, WIDE)
    assert found(verify(world, deep=True), "v1-lost-columns") == []


def test_rows_that_are_not_those_of_the_inputs_are_reported() -> None:
    world, part = merged(NARROW, WIDE)
    ((severity, key, _),) = found(verify(world, rows=True), "v1-merged-rows")
    assert (severity, key) == ("warning", part)


def lose_log(world: World) -> None:
    for key in [key for key in world.store.objects if "/_log/" in key]:
        del world.store.objects[key]


def test_a_log_that_is_lost_after_their_merge_is_not_rebuilt_by_guessing() -> None:
    world, part = merged(NARROW, WIDE)
    inputs = [key for key in world.store.objects if key.endswith(".parquet") and key != part]
    lose_log(world)
    with pytest.raises(FindingsError, match="may be a merge of some of the 2 older parts") as asked:
        run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert part in asked.value.message
    run_rebuild(Work(world.table, RUN), RebuildOptions(include=(part,), exclude=tuple(inputs)))
    assert sorted(visible_ids(world.table).elements()) == [1, 2]


def test_a_part_of_theirs_that_can_be_no_merge_needs_no_decision() -> None:
    world = make_world()
    appended(world, NARROW)
    world.clock.advance(10)
    V1Client(world).append_rows("d=1", WIDE, {"id": "BIGINT", "note": "VARCHAR"})
    lose_log(world)
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert sorted(visible_ids(world.table).elements()) == [1, 2]
