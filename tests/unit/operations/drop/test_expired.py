from __future__ import annotations

import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import UsageError
from firnline.log import codec
from firnline.log.records import LogContent, Marker, stats_json
from firnline.operations.drop.expired import FORMER, OLDER, YOUNG, TtlPlan, plan_ttl
from firnline.parquet.partition import partition_batches
from firnline.parquet.stats import from_table
from firnline.settings.fields import PartitionField
from tests.support.log_tables import put_append, snapshot
from tests.support.world import World, make_world

HOUR, DAY = 3_600_000, 86_400_000
UTC = datetime.UTC


def ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def plan(world: World, now: str | int, *partitions: str) -> TtlPlan:
    at = ms(now) if isinstance(now, str) else now
    return plan_ttl(snapshot(world), world.settings, at, partitions=partitions)


def gone(found: TtlPlan) -> list[str]:
    return [r.partition for r in found.removals]


def undecided(found: TtlPlan) -> dict[str, str]:
    return {u.partition: u.reason for u in found.undecided}


def by_regex(pattern: str, *partitions: str, keep: str = "1d", zone: str = "UTC") -> World:
    world = make_world(ttl={"keep": keep, "partition": pattern, "time_zone": zone})
    put_append(world, *partitions)
    return world


def test_a_partition_goes_when_its_whole_span_is_past() -> None:
    world = make_world(partition_by=["day(ts)"], ttl={"keep": "2d"})
    put_append(world, "ts_day=2026-01-01", "ts_day=2026-01-02", rows=3)
    put_append(world, "ts_day=2026-01-01", rows=4)
    assert plan(world, "2026-01-03T23:59:59.999").nothing_to_do
    found = plan(world, "2026-01-04")
    assert gone(found) == ["ts_day=2026-01-01"]
    assert (found.parts, found.rows, found.kept) == (2, 7, {YOUNG: 1})
    data = found.to_json()
    assert (data["by"], data["cutoff_ms"], data["keep_ms"]) == (
        "transform",
        ms("2026-01-02"),
        2 * DAY,
    )
    assert data["partitions"][0]["end_ms"] == ms("2026-01-02")


def test_a_name_without_a_time_is_reported_and_never_dropped() -> None:
    world = make_world(partition_by=["month(ts)", "carrier"], ttl={"keep": "1h"})
    odd = ["ts_month=__null__/carrier=x", "ts_month=2013-13/carrier=x", "other", "ts_month=2013-01"]
    put_append(world, "ts_month=2013-01/carrier=__null__", *odd)
    found = plan(world, "2026-01-01")
    assert gone(found) == ["ts_month=2013-01/carrier=__null__"]
    assert undecided(found) == {
        odd[0]: "its rows have no ts (null)",
        **dict.fromkeys(odd[1:], f"{FORMER}, and a part of it has no statistics of ts"),
    }
    assert sum(found.kept.values()) == 4
    assert found.to_json()["undecided_count"] == 4


def test_of_several_time_columns_the_later_counts() -> None:
    world = make_world(partition_by=["year(ts)", "month(ts)", "day(seen)"], ttl={"keep": "1h"})
    put_append(
        world,
        "ts_year=2013/ts_month=2013-01/seen_day=2026-01-01",
        "ts_year=2013/ts_month=2013-02/seen_day=2013-01-01",
        "ts_year=2013/ts_month=2014-02/seen_day=2013-01-01",
        "ts_year=2013/ts_month=2013-02/seen_day=__null__",
    )
    found = plan(world, "2026-01-01T12:00:00")
    assert gone(found) == ["ts_year=2013/ts_month=2013-02/seen_day=2013-01-01"]
    assert set(undecided(found).values()) == {
        "the levels of its name contradict each other on ts",
        "its rows have no seen (null)",
    }


def test_a_day_of_a_column_without_zone_is_a_day_of_the_tables_zone() -> None:
    berlin = {"keep": "1h", "time_zone": "Europe/Berlin"}
    kinds = {"TIMESTAMP": ms("2026-07-01T22:00"), "TIMESTAMP WITH TIME ZONE": ms("2026-07-02")}
    for kind, end in kinds.items():
        world = make_world(partition_by=["day(ts)"], ttl=berlin)
        put_append(world, "ts_day=2026-07-01", schema={"ts": kind})
        assert plan(world, end + HOUR - 1).nothing_to_do, kind
        assert gone(plan(world, end + HOUR)) == ["ts_day=2026-07-01"], kind


def test_a_column_that_the_schema_lacks_gets_the_later_of_both_readings() -> None:
    for zone, end in {"Asia/Tokyo": "2026-07-02", "America/New_York": "2026-07-02T04:00"}.items():
        world = make_world(partition_by=["day(x)"], ttl={"keep": "1h", "time_zone": zone})
        put_append(world, "x_day=2026-07-01")
        assert plan(world, ms(end) + HOUR - 1).nothing_to_do
        assert not plan(world, ms(end) + HOUR).nothing_to_do


def test_a_pattern_reads_a_free_layout_level_by_level() -> None:
    pattern = r"d=(?P<day>\d{4}-\d{2}-\d{2})"
    good = ["d=2013-01-05", "cust=a/d=2013-01-05", "d=2013-01-05/cust=a"]
    bad = ["d=2013-01-051", "xd=2013-01-05", "cust=a", "d=2013-02-30", "d=2013-01-05/d=2013-01-06"]
    found = plan(by_regex(pattern, *good, *bad), "2026-01-01")
    assert gone(found) == sorted(good)
    assert undecided(found) == {
        bad[0]: "its name does not match ttl.partition",
        bad[1]: "its name does not match ttl.partition",
        bad[2]: "its name does not match ttl.partition",
        bad[3]: "its name is no date of the calendar",
        bad[4]: "its name matches ttl.partition in several ways",
    }
    assert found.by == "regex"


def test_a_pattern_may_span_levels_and_leave_groups_out() -> None:
    pattern = r"(?P<year>\d{4})/(?P<month>\d\d)(/(?P<day>\d\d))?(/h(?P<hour>\d\d))?"
    world = by_regex(pattern, "2026/01", "2026/01/02", "2026/01/02/h03", "2025", keep="1h")
    # The shorter readings of a longer name are other spans: nobody guesses.
    found = plan(world, "2026-03-01")
    assert gone(found) == ["2026/01"]
    exact = by_regex(rf"^{pattern}$", "2026/01", "2026/01/02", "2026/01/02/h03", keep="1h")
    assert gone(plan(exact, "2026-01-02T05:00")) == []
    whole = by_regex(
        r"(?P<year>\d{4})/(?P<month>\d\d)/(?P<day>\d\d)/h(?P<hour>\d\d)",
        "2026/01/02/h03",
        keep="1h",
    )
    assert plan(whole, "2026-01-02T04:59:59.999").nothing_to_do
    assert gone(plan(whole, "2026-01-02T05:00")) == ["2026/01/02/h03"]


def test_a_pattern_means_days_of_the_tables_zone() -> None:
    world = by_regex(r"d=(?P<day>.*)", "d=2026-01-01", keep="1h", zone="America/New_York")
    assert plan(world, ms("2026-01-02T05:00") + HOUR - 1).nothing_to_do
    assert gone(plan(world, ms("2026-01-02T05:00") + HOUR)) == ["d=2026-01-01"]


def test_a_former_layout_is_dated_by_statistics_part_by_part() -> None:
    world, kind = make_world(partition_by=["month(ts)"], ttl={"keep": "1d"}), {"ts": "TIMESTAMP"}
    low, high = "2026-01-01T00:00:00.000000", "2026-01-01T12:00:00.000000"
    day = "ts_day=2026-01-01"
    past = put_stats(world, day, {"ts": (low, low, 0)}, kind)
    put_stats(world, day, {"ts": (low, high, 0)}, kind)
    put_stats(world, day, {"ts": (low, low, 1)}, kind)
    whole = put_stats(world, "", {"ts": (low, low, 0)}, kind)
    put_stats(world, "ts_month=2026-01", {"ts": (low, low, 0)}, kind)
    assert plan(world, ms("2026-01-02") - 1).nothing_to_do
    found = plan(world, "2026-01-02")
    assert {r.partition: [m.p for m in r.parts] for r in found.removals} == {
        "": [whole],
        day: [past],
    }
    assert sorted(found.single_parts) == sorted([past, whole])
    # The month goes as a whole once it is over, and so does the day's second part, at its own time.
    reason = f"{FORMER}, and a part of it has rows without ts (null)"
    assert found.kept == {YOUNG: 2, reason: 1}
    assert [(u.partition, u.parts) for u in found.undecided] == [(day, 1)]
    assert len(gone(plan(world, "2026-03-02"))) == 3


def test_a_former_layout_is_dated_by_the_latest_of_several_columns() -> None:
    world = make_world(partition_by=["day(ts)", "day(seen)"], ttl={"keep": "1d"})
    kinds = {"ts": "TIMESTAMP", "seen": "DATE"}
    stats = {
        "ts": ("2026-01-01T00:00:00.000000", "2026-01-01T00:00:00.000000", 0),
        "seen": ("2026-01-01", "2026-01-05", 0),
    }
    put_stats(world, "ts_day=2026-01-01", stats, kinds)
    assert plan(world, ms("2026-01-07") - 1).nothing_to_do
    assert gone(plan(world, "2026-01-07")) == ["ts_day=2026-01-01"]


def test_a_former_layout_without_times_in_the_column_stays() -> None:
    world = make_world(partition_by=["day(v)"], ttl={"keep": "1d"})
    put_stats(world, "x=1", {"v": (1, 2, 0)}, {"v": "INTEGER"})
    found = plan(world, "2100-01-01")
    assert found.nothing_to_do
    assert undecided(found) == {
        "x=1": f"{FORMER}, and a part of it has no times in v, which is INTEGER"
    }


def test_a_former_layout_of_a_primary_key_brings_no_older_row_back() -> None:
    world = make_world(partition_by=["month(ts)"], primary_key=["id"], ttl={"keep": "1d"})
    kinds, day = {"ts": "TIMESTAMP", "id": "INTEGER"}, "ts_day=2026-01-01"
    low, high = "2026-01-01T00:00:00.000000", "2026-01-09T00:00:00.000000"
    put_stats(world, day, {"ts": (low, high, 0), "id": (1, 1, 0)}, kinds)
    put_stats(world, day, {"ts": (low, low, 0), "id": (1, 1, 0)}, kinds)
    other = put_stats(world, day, {"ts": (low, low, 0), "id": (2, 2, 0)}, kinds)
    found = plan(world, "2026-01-03")
    assert [[m.p for m in r.parts] for r in found.removals] == [[other]]
    assert undecided(found) == {day: OLDER}


def test_globs_bound_a_run() -> None:
    world = by_regex(r".*d=(?P<day>.*)", "eu/d=2013-01-01", "us/d=2013-01-01")
    assert gone(plan(world, "2026-01-01", "eu/*")) == ["eu/d=2013-01-01"]
    with pytest.raises(UsageError, match="no partition of t matches 'asia/"):
        plan(world, "2026-01-01", "asia/*")


def put_stats(world: World, partition: str, stats: Any, schema: dict[str, str]) -> str:
    world.clock.advance(1)
    at = world.clock.now
    key = world.table.paths.data_part(partition, world.ids.uuid7(at))
    marker = Marker(p=key, b=10, t=at, n=1, s=stats_json(stats))
    content = LogContent(t=at, schema=schema, markers=[marker])
    name = world.table.paths.append_log(at, f"host-{world.ids.uuid7(at)}")
    world.store.put_new(name, codec.encode(content))
    return key


def by_column(kind: str, zone: str = "UTC") -> World:
    world = make_world(ttl={"keep": "1h", "column": "ts", "time_zone": zone})
    put_append(world, "old", schema={"ts": kind})
    return world


def test_a_part_goes_when_its_statistics_prove_every_row_past() -> None:
    world, kind = by_column("TIMESTAMP"), {"ts": "TIMESTAMP"}
    low, high = "2026-01-01T00:00:00.000000", "2026-01-01T12:00:00.000001"
    past = put_stats(world, "p", {"ts": (low, high, 0)}, kind)
    put_stats(world, "p", {"ts": (low, "2026-01-01T20:00:00.000000", 0)}, kind)
    put_stats(world, "p", {"ts": (low, low, 1)}, kind)
    put_stats(world, "p", {"ts": (low, None, 0)}, kind)
    put_stats(world, "p", {"ts": (low, "yesterday", 0)}, kind)
    assert plan(world, ms("2026-01-01T13:00")).nothing_to_do, "a microsecond is missing"
    found = plan(world, ms("2026-01-01T13:00") + 1)
    assert [(r.partition, [m.p for m in r.parts]) for r in found.removals] == [("p", [past])]
    assert found.by == "column"
    assert found.kept == {
        YOUNG: 1,
        "has no statistics of ts": 1,
        "has rows without ts (null)": 1,
        "has no upper bound of ts": 1,
        "has statistics of ts that are no TIMESTAMP": 1,
    }
    assert sorted(u.partition for u in found.undecided) == ["old", "p", "p", "p"]


@pytest.mark.parametrize(
    ("kind", "zone", "high", "end"),
    [
        ("DATE", "UTC", "2026-07-01", "2026-07-02T00:00"),
        ("DATE", "Europe/Berlin", "2026-07-01", "2026-07-01T22:00"),
        ("TIMESTAMP", "Europe/Berlin", "2026-07-01T12:00:00.000000", "2026-07-01T10:00"),
        ("TIMESTAMP WITH TIME ZONE", "Europe/Berlin", "2026-07-01T12:00:00Z", "2026-07-01T12:00"),
        ("TIMESTAMP_NS", "UTC", "2026-07-01T12:00:00.000000", "2026-07-01T12:00"),
        ("TIMESTAMP_S", "Asia/Tokyo", "2026-07-01T12:00:00.000000", "2026-07-01T03:00"),
    ],
)
def test_a_column_means_times_of_its_type_and_zone(
    kind: str, zone: str, high: str, end: str
) -> None:
    world = by_column(kind, zone)
    put_stats(world, "p", {"ts": (high, high, 0)}, {"ts": kind})
    assert plan(world, ms(end) + HOUR - 1).nothing_to_do
    assert gone(plan(world, ms(end) + HOUR)) == ["p"]


def test_a_column_that_is_not_there_or_no_time_is_refused() -> None:
    for schema, message in (
        ({"v": "INTEGER"}, r"no column 'ts' \(setting ttl.column\).*columns are v"),
        ({"ts": "VARCHAR"}, "is VARCHAR, no time"),
    ):
        world = make_world(ttl={"keep": "1h", "column": "ts"})
        put_append(world, schema=schema)
        with pytest.raises(UsageError, match=message):
            plan(world, "2026-01-01")
    empty = make_world(ttl={"keep": "1h", "column": "ts"})
    assert plan(empty, "2026-01-01").nothing_to_do


def test_a_table_without_ttl_keeps_its_rows_for_ever() -> None:
    world = make_world()
    put_append(world)
    with pytest.raises(UsageError, match=r"set ttl\.keep"):
        plan_ttl(snapshot(world), world.settings, ms("2026-01-01"))


# --- never a row that is younger than keep -------------------------------------------------------

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]
KINDS = {
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "DATE": pa.date32(),
}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
# Around changes of the clocks in these zones (Apia skipped the 30th of December 2011).
CHANGES = [(2011, 12, 30), (2026, 3, 29), (2026, 10, 25), (2026, 3, 8), (2026, 4, 5), (2026, 10, 4)]


@st.composite
def moments(draw: st.DrawFn) -> datetime.datetime:
    year, month, day = draw(st.sampled_from(CHANGES))
    around = datetime.datetime(year, month, day)  # noqa: DTZ001 - on the clocks of any zone
    return around + datetime.timedelta(seconds=draw(st.integers(-40 * 3600, 40 * 3600)))


def latest_of(value: Any, zone: str, kind: str) -> int:
    """Latest unix ms that a row's time can mean, from Python's own calendar."""
    if kind == "DATE":
        value = datetime.datetime.combine(value, datetime.time(23, 59, 59, 999_000))
    where = UTC if kind.endswith("ZONE") else ZoneInfo(zone)
    folds = [value.replace(tzinfo=where, fold=fold) for fold in (0, 1)]
    return max(int((moment - EPOCH) // datetime.timedelta(milliseconds=1)) for moment in folds)


@pytest.mark.long
@given(
    rows=st.lists(moments(), min_size=1, max_size=12),
    kind=st.sampled_from(list(KINDS)),
    transform=st.sampled_from(["year", "month", "day", "hour", "column", "former"]),
    zone=st.sampled_from(ZONES),
    keep=st.integers(1, 50).map(lambda hours: hours * HOUR),
    late=st.integers(-5 * HOUR, 60 * HOUR),
)
def test_no_partition_goes_that_has_a_row_younger_than_keep(
    rows: list[datetime.datetime], kind: str, transform: str, zone: str, keep: int, late: int
) -> None:
    values = [row.date() for row in rows] if kind == "DATE" else rows
    table = pa.table({"ts": pa.array(values, KINDS[kind])})
    ttl: dict[str, Any] = {"keep": f"{keep // 1000}s", "time_zone": zone}
    layout: dict[str, Any] = {"partition_by": [f"{transform}(ts)"], "ttl": ttl}
    by_part = transform in ("column", "former")
    if transform == "column":
        layout = {"partition_by": ["hour(ts)"], "ttl": {**ttl, "column": "ts"}}
    elif transform == "former":
        layout = {"partition_by": ["month(ts)"], "ttl": ttl}
    world = make_world(**layout)
    held: dict[str, pa.Table] = {}
    fields = [PartitionField.model_validate("hour(ts)" if by_part else f"{transform}(ts)")]
    for partition, batch in partition_batches(table, fields):
        held[partition] = batch
        put_stats(world, partition, from_table(batch, ["ts"]), {"ts": kind})
    youngest = max(latest_of(v, zone, kind) for v in values)
    now = youngest + keep + late
    found = plan(world, now)
    for partition in gone(found):
        for value in held[partition].column("ts").to_pylist():
            plain = value.replace(tzinfo=None) if kind != "DATE" else value
            assert latest_of(plain, zone, kind) <= now - keep
    assert not found.undecided
    if by_part and late >= 2 * DAY:
        assert set(gone(found)) == set(held), "and what is long past goes"


@given(
    rows=st.lists(moments(), min_size=1, max_size=6),
    unit=st.sampled_from(["day", "hour"]),
    zone=st.sampled_from(ZONES),
    late=st.integers(-5 * HOUR, 60 * HOUR),
)
def test_no_free_layout_loses_a_row_younger_than_keep(
    rows: list[datetime.datetime], unit: str, zone: str, late: int
) -> None:
    text = "%Y-%m-%d" if unit == "day" else "%Y-%m-%d/%H"
    pattern = r"d=(?P<day>[-\d]+)" + (r"/(?P<hour>\d\d)" if unit == "hour" else "")
    held: dict[str, list[datetime.datetime]] = {}
    for row in rows:
        held.setdefault(f"d={row.strftime(text)}", []).append(row)
    world = by_regex(pattern, *held, keep="1h", zone=zone)
    now = max(latest_of(row, zone, "TIMESTAMP") for row in rows) + HOUR + late
    for partition in gone(plan(world, now)):
        assert max(latest_of(r, zone, "TIMESTAMP") for r in held[partition]) <= now - HOUR
