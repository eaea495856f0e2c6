"""A time to live for rows: those that are past go, although their part holds younger ones."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.errors import TooMuchRemovedError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.dates import past_before
from firnline.operations.drop.past_rows import find_past_rows
from firnline.operations.drop.ttl import preview, run_ttl
from firnline.operations.merge.run import preview as preview_merge
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, TtlOptions
from firnline.operations.registry import TTL
from firnline.state.history import history
from tests.support.log_tables import put_append, snapshot
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
UTC = datetime.UTC
NOW = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
"""The world's clock stands here."""
HOUR, DAY = 3_600_000, 86_400_000
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])


def ago(days: float) -> datetime.datetime:
    return NOW - datetime.timedelta(days=days)


def append(world: World, *days: float | None, first: int = 0) -> None:
    """One part with a row for each; ids count from ``first``, ``ts`` is so many days ago."""
    world.clock.advance(10)
    rows = [
        {"id": first + i, "ts": None if each is None else ago(each)} for i, each in enumerate(days)
    ]
    Appender(world.table).append(pa.Table.from_pylist(rows, SCHEMA))


def world_of(*appends: Sequence[float | None], **settings: Any) -> World:
    """Each append is a part; its ids begin at 0, 100, 200, …; rows are kept for 10 days."""
    ttl = {"keep": "10d", "column": "ts", "rows": True, "max_removed_fraction": 1}
    given = {"partition": ".*", "sort_by": ["id"], **settings}
    world = make_world(**{**given, "ttl": {**ttl, **settings.get("ttl", {})}})
    for number, days in enumerate(appends):
        append(world, *days, first=100 * number)
    return world


def ttl(world: World, **options: Any) -> Any:
    return run_ttl(Work(world.table, RUN), TtlOptions(**options))


def merge(world: World, scratch: Path, **options: Any) -> Any:
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    return run_merge(Work(world.table, RUN, lambda: engine), MergeOptions(**options))


def seen(world: World) -> list[int]:
    return sorted(visible_ids(world.table).elements())


def stored(world: World) -> list[int]:
    return sorted(stored_ids(world.table).elements())


# --- what a run hides -----------------------------------------------------------------------------


def test_past_rows_of_a_part_with_younger_ones_disappear_and_a_wholly_past_part_goes() -> None:
    world = world_of([30, 20, 5, 1], [40, 30], [2, 1])
    report = ttl(world)
    assert seen(world) == [2, 3, 200, 201]
    assert (report.parts, report.rows, report.transaction) == (1, 2, 1)
    hidden = report.hidden
    assert (hidden.column, hidden.before, hidden.parts) == ("ts", "2023-11-04T22:00:00.000000Z", 1)
    (header,) = history(world.table)
    assert (header.op, header.run) == ("ttl", RUN)
    (record,) = snapshot(world).deletes.values()
    assert msgspec.json.decode(record.where) == {
        "op": "<",
        "column": "ts",
        "value": "2023-11-04T22:00:00.000000Z",
    }


def test_without_the_setting_such_a_part_stays_as_it_is() -> None:
    world = world_of([30, 20, 5, 1], ttl={"rows": False})
    assert ttl(world).transaction is None
    assert seen(world) == [0, 1, 2, 3]


def test_a_row_without_a_time_stays_and_is_reported() -> None:
    world = world_of([30, None, 1])
    report = ttl(world)
    assert seen(world) == [1, 2]
    assert [u.reason for u in report.undecided] == ["has rows without ts (null)"]


def test_a_part_without_statistics_loses_its_past_rows_too() -> None:
    world = make_world(
        partition="d=.*", ttl={"keep": "10d", "column": "ts", "rows": True}, sort_by=[]
    )
    put_append(world)
    plan = preview(world.table, TtlOptions())
    assert (plan.parts, plan.undecided) == (0, ())
    assert plan.hides is not None
    assert (plan.hides.parts, plan.hides.rows) == (1, 10)  # all of them, as far as is known


def test_a_second_run_within_the_hour_has_nothing_to_do_and_one_of_the_next_day_has() -> None:
    world = world_of([30, 10.5, 9.5, 5, 1])
    assert ttl(world).transaction == 1
    world.clock.advance(30 * 60_000)
    again = ttl(world)
    assert (again.transaction, again.hidden) == (None, None)
    world.clock.advance(DAY)
    assert ttl(world).transaction == 2
    assert seen(world) == [3, 4]


def test_globs_bound_what_is_hidden() -> None:
    world = world_of(partition_by=["id"], partition=None)
    append(world, 30, 30)
    append(world, 1, 1)
    world.clock.advance(10)
    rows = [{"id": i, "ts": ago(days)} for i in (0, 1) for days in (30, 1)]
    Appender(world.table).append(pa.Table.from_pylist(rows, SCHEMA))
    ttl(world, partitions=("id=0",))
    assert seen(world) == [0, 0, 1, 1, 1, 1]
    (record,) = snapshot(world).deletes.values()
    assert record.partitions == ("id=0",)


def test_a_dry_run_hides_nothing() -> None:
    world = world_of([30, 1])
    before = dict(world.store.objects)
    report = ttl(world, dry_run=True)
    assert (report.transaction, report.hidden.rows) == (None, 1)
    assert world.store.objects == before


def test_an_append_that_was_under_way_loses_its_past_rows_too() -> None:
    world = world_of([30, 1])

    def slowly() -> Iterator[pa.RecordBatch]:
        rows = [{"id": 7 + i, "ts": ago(days)} for i, days in enumerate((30, 1))]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)
        ttl(world)

    Appender(world.table).append(pa.RecordBatchReader.from_batches(SCHEMA, slowly()))
    assert seen(world) == [1, 8]


# --- how much goes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "rows"),
    [([20, 0], 1), ([40, 30, 20, 0], 3), ([11, 9, 5, 1, 0], 0), ([30, 30, 30, 1], 3)],
)
def test_the_rows_that_go_are_estimated_from_bounds(days: list[float], rows: int) -> None:
    plan = preview(world_of(days).table, TtlOptions())
    assert plan.hides is not None
    assert plan.hides.rows == rows
    assert plan.fraction == rows / len(days)


def test_rows_that_an_earlier_run_hid_are_not_counted_again() -> None:
    world = world_of([20, 18, 16, 14, 12, 10.5, 8, 6, 4, 2, 0])
    ttl(world)
    world.clock.advance(DAY)
    plan = preview(world.table, TtlOptions())
    assert plan.hides is not None
    assert plan.hides.share == pytest.approx(1 / 20, abs=0.001)


def test_more_than_the_allowed_fraction_is_refused_and_nothing_is_hidden() -> None:
    world = world_of([40, 30, 20, 1], ttl={"max_removed_fraction": 0.5})
    before = dict(world.store.objects)
    with pytest.raises(TooMuchRemovedError, match=r"75 % of t is past"):
        ttl(world)
    assert world.store.objects == before
    ttl(world, force=True)
    assert seen(world) == [3]


# --- merges ---------------------------------------------------------------------------------------


def test_a_merge_leaves_a_part_with_hidden_rows_until_it_is_due(tmp_path: Path) -> None:
    world = world_of([30, 1, 1], merge={"min_inputs": 4}, ttl={"merged_within": "3d"})
    due = ttl(world).hidden.due_ms
    assert due == pytest.approx(world.clock.now + 3 * DAY, abs=1_000)
    plan = preview_merge(world.table, MergeOptions())
    assert (plan.groups, plan.next_due) == ((), due)
    world.clock.now = due - 1
    assert preview_merge(world.table, MergeOptions()).nothing_to_do
    world.clock.now = due
    merge(world, tmp_path)
    assert stored(world) == [1, 2]
    assert seen(world) == [1, 2]
    assert preview_merge(world.table, MergeOptions()).next_due is None


def test_a_merge_that_reads_such_parts_anyway_removes_their_rows(tmp_path: Path) -> None:
    world = world_of(*([30, 1] for _ in range(4)), merge={"min_inputs": 4})
    ttl(world)
    merge(world, tmp_path)
    assert stored(world) == [1, 101, 201, 301]


def test_a_full_merge_does_not_wait(tmp_path: Path) -> None:
    world = world_of([30, 1])
    ttl(world)
    merge(world, tmp_path, full=True)
    assert stored(world) == [1]


def test_a_delete_of_a_person_does_not_wait_for_the_rows_of_a_ttl(tmp_path: Path) -> None:
    world = world_of([30, 1, 1])
    ttl(world)
    run_delete(Work(world.table, RUN), DeleteOptions(where="id = 1", mode="lazy"))
    merge(world, tmp_path)
    assert stored(world) == [2]


def test_in_a_clustered_table_merges_wait_too(tmp_path: Path) -> None:
    world = world_of([30, 1], cluster_by=["id"])
    due = ttl(world).hidden.due_ms
    assert preview_merge(world.table, MergeOptions()).groups == ()
    world.clock.now = due
    merge(world, tmp_path)
    assert stored(world) == [1]


def test_daily_runs_rewrite_a_part_as_often_as_its_rows_may_wait(tmp_path: Path) -> None:
    world = world_of([30, 9.5, 8.5, 7.5, 6.5, 0], ttl={"merged_within": "2d"})
    sizes = []
    for _ in range(6):
        ttl(world)
        merge(world, tmp_path)
        (marker,) = snapshot(world).live.values()
        sizes.append(marker.n)
        world.clock.advance(DAY)
    # One merge in two days, of all that was hidden until then.
    assert sizes == [6, 6, 3, 3, 3, 1]
    assert len(seen(world)) == 1


# --- zones and types ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "zone", "cutoff", "before"),
    [
        ("DATE", "UTC", "2026-03-05T23:00", "2026-03-05"),
        ("TIMESTAMP", "UTC", "2026-03-05T23:00", "2026-03-05T23:00:00.000000"),
        ("TIMESTAMP", "Asia/Tokyo", "2026-03-05T23:00", "2026-03-06T08:00:00.000000"),
        ("DATE", "Asia/Tokyo", "2026-03-05T23:00", "2026-03-06"),
        ("TIMESTAMP WITH TIME ZONE", "Asia/Tokyo", "2026-03-05", "2026-03-05T00:00:00.000000Z"),
        # Clocks went forward at 01:00 UTC on the 29th: for two days the smaller offset counts.
        ("TIMESTAMP", "Europe/Berlin", "2026-03-30T12:00", "2026-03-30T13:00:00.000000"),
        ("TIMESTAMP", "Europe/Berlin", "2026-04-01T12:00", "2026-04-01T14:00:00.000000"),
    ],
)
def test_the_time_before_which_rows_are_past(
    kind: str, zone: str, cutoff: str, before: str
) -> None:
    at = datetime.datetime.fromisoformat(cutoff).replace(tzinfo=UTC)
    assert past_before(int(at.timestamp() * 1000), kind, zone) == before


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
    st.integers(1_262_304_000, 1_798_675_200),
    st.integers(0, 1000),
    st.sampled_from([0, 1]),
)
def test_no_row_is_hidden_whose_time_may_not_be_past(
    zone: str, cutoff: int, minutes: int, fold: int
) -> None:
    at = datetime.datetime.fromtimestamp(cutoff, UTC)
    text = past_before(cutoff * 1000, "TIMESTAMP", zone)
    row = datetime.datetime.fromisoformat(text) - datetime.timedelta(minutes=minutes, seconds=1)
    assert row.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) <= at


# --- what is refused ------------------------------------------------------------------------------


def test_rows_of_one_key_may_not_differ_in_the_column() -> None:
    with pytest.raises(ValidationError, match="goes by a column of it, or by one that part"):
        world_of([30, 1], primary_key=["id"])
    world = world_of([30, 1])
    # Not even with settings that nobody has checked.
    keyed_later = world.settings.model_copy(update={"primary_key": ("id",)})
    with pytest.raises(UsageError, match="a TTL of rows on table t can only name columns of its"):
        find_past_rows(take_base(world.table).snapshot, keyed_later, world.clock.now, ())
    keyed = world_of([30, 1], primary_key=["id", "ts"])
    ttl(keyed)
    assert seen(keyed) == [1]


def test_rows_have_a_time_only_in_a_column() -> None:
    with pytest.raises(ValidationError, match="rows needs column, the time of a row"):
        make_world(partition_by=["day(ts)"], ttl={"keep": "1d", "rows": True})


# --- what is shown --------------------------------------------------------------------------------


def test_the_pages_say_how_many_rows_and_until_when() -> None:
    operation = TTL.load()
    assert operation.plan_page is not None
    world = world_of([30, 20, 5, 1])
    plan = preview(world.table, TtlOptions())
    text = "\n".join(operation.plan_page({"table": "t", **plan.to_json()}).lines())
    assert "about 3 rows with ts before 2023-11-04T22:00:00.000000Z in 1 part" in text
    report = "\n".join(operation.report_page(ttl(world).to_json()).lines())
    assert "are hidden from readers; merges remove them, by 2023-11-21 22:13" in report


def test_a_delete_of_some_of_the_past_rows_does_not_count_for_all_of_them() -> None:
    world = world_of([30, 20, 5, 1])
    where = f"ts < '{ago(3):%Y-%m-%d %H:%M:%S}' and id = 0"
    run_delete(Work(world.table, RUN), DeleteOptions(where=where, mode="lazy"))
    assert seen(world) == [1, 2, 3]
    assert ttl(world).hidden is not None
    assert seen(world) == [2, 3]
    assert ttl(world).transaction is None
