"""What a month of maintenance costs: from the log, the settings, and what operations promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.operations.inspect.arrivals import Arrivals, arrivals_of
from firnline.operations.inspect.cost import Cost, Line, Requests, State, estimate, state_of
from firnline.operations.inspect.merging import DAYS, play
from firnline.operations.inspect.prices import Prices
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.units import DAY_MS
from tests.support.effort import examples
from tests.support.on_store import filled, merge, opened
from tests.support.world import World, make_world
from tools.s3server import StoreRoot

HOUR_MS = DAY_MS // 24
KIB, MIB = 2**10, 2**20
STATE = State(log_files=61, log_files_read=61, live=90, dead=1_440, seq=700, saved=59)
A_MINUTE = Arrivals(window_ms=DAY_MS, appends=1_440, parts=1_440, bytes=1_440 * KIB, partitions=1)
NOTHING = Arrivals(window_ms=DAY_MS, appends=0, parts=0, bytes=0, partitions=0)


def settings(**declared: Any) -> TableSettings:
    return TableSettings.model_validate({"name": "t", "root": "s3://b/t", **declared})


def cost_of(
    arrivals: Arrivals = A_MINUTE,
    state: State = STATE,
    fleet: FleetSettings = FleetSettings(),  # noqa: B008 - frozen
    prices: Prices = Prices(),  # noqa: B008 - frozen
    **declared: Any,
) -> Cost:
    return estimate(arrivals, state, settings(**declared), fleet, prices)


def lines(cost: Cost) -> dict[str, Line]:
    return {line.operation: line for line in cost.lines}


# --- appends of the log ---------------------------------------------------------------------------


def world_of(*ages_ms: int, **declared: Any) -> World:
    """A table with an append of one row for each age."""
    world = make_world(**declared)
    now = world.clock.now
    for age in sorted(ages_ms, reverse=True):
        world.clock.now = now - age
        Appender(world.table).append(pa.table({"a": [1, 2], "day": ["mo", "tu"]}))
    world.clock.now = now
    return world


def seen(world: World) -> Arrivals:
    snapshot = read_snapshot(world.table.store, world.table.paths)
    return arrivals_of(snapshot, world.settings.cleanup.grace, world.clock.now)


def test_appends_are_counted_over_the_grace_in_which_no_log_file_is_deleted() -> None:
    hours = [1, 5, 23, 25, 100]
    found = seen(world_of(*(hour * HOUR_MS for hour in hours), partition_by=["day"]))
    assert (found.window_ms, found.appends, found.parts, found.partitions) == (DAY_MS, 3, 6, 2)
    longer = seen(world_of(*(hour * HOUR_MS for hour in hours), cleanup={"grace": "30d"}))
    assert (longer.window_ms, longer.appends, longer.parts) == (100 * HOUR_MS, 5, 5)


def test_a_table_that_is_younger_is_counted_since_its_first_append_and_an_hour_at_least() -> None:
    assert seen(world_of(6 * HOUR_MS, HOUR_MS)).window_ms == 6 * HOUR_MS
    young = seen(world_of(1_000))
    assert (young.window_ms, young.appends_a_day) == (HOUR_MS, 24)


def test_parts_that_a_merge_has_replaced_are_still_those_of_their_appends(tmp_path: Path) -> None:
    table = filled(opened(StoreRoot("file", f"file://{tmp_path}", {})), 4)

    def look() -> Arrivals:
        snapshot = read_snapshot(table.store, table.paths)
        return arrivals_of(snapshot, table.settings.cleanup.grace, table.clock.now_ms())

    before = look()
    merge(table, tmp_path / "s")
    assert look() == before
    assert (before.appends, before.parts, before.partitions) == (4, 8, 2)


def test_fewer_appends_of_the_same_rows_have_larger_parts() -> None:
    found = A_MINUTE.at(144)
    assert (found.appends, found.parts, found.bytes) == (144, 144, A_MINUTE.bytes)
    assert found.part_bytes == 10 * A_MINUTE.part_bytes
    assert A_MINUTE.at(0.5).appends_a_day == 0.5


# --- merges of a month ----------------------------------------------------------------------------


def test_small_parts_are_merged_each_hour_and_read_once_more_than_their_outputs() -> None:
    month = play(A_MINUTE, settings(), 24)
    assert (month.looks, month.runs) == (720, 720)
    # All of an hour, and mostly the one part that the hours before have left.
    assert 43_200 + 700 < month.parts_in < 43_200 + 720
    assert month.parts_out == 720


def test_what_is_too_few_waits_until_there_are_enough() -> None:
    daily = Arrivals(window_ms=DAY_MS, appends=1, parts=1, bytes=KIB, partitions=1)
    month = play(daily, settings(merge={"min_inputs": 4}), 24)
    assert (month.runs, month.parts_in) == (9, 9 * 4)
    assert month.logs_of_looks > month.logs_of_runs


def test_parts_that_are_full_are_left_alone() -> None:
    full = Arrivals(DAY_MS, appends=24, parts=24, bytes=24 * 512 * MIB, partitions=1)
    assert play(full, settings(), 24).runs == 0


def test_without_an_append_nothing_is_merged() -> None:
    month = play(NOTHING, settings(), 24)
    assert (month.looks, month.runs, month.parts_in) == (720, 0, 0)


@pytest.mark.long
@examples(60, 1_000)
@given(
    appends=st.integers(0, 3_000),
    fan_out=st.integers(1, 5),
    size=st.integers(1, 600 * MIB),
    partitions=st.integers(1, 9),
    keyed=st.booleans(),
    least=st.integers(2, 50),
    looks=st.sampled_from([0, 1 / 7, 1, 4, 24]),
)
def test_a_merge_reads_what_came_and_what_it_has_written_and_no_more(
    appends: int,
    fan_out: int,
    size: int,
    partitions: int,
    keyed: bool,
    least: int,
    looks: float,
) -> None:
    parts = appends * fan_out
    arrivals = Arrivals(DAY_MS, appends, parts, parts * size, partitions if parts else 0)
    declared: dict[str, Any] = {"primary_key": ["a"]} if keyed else {}
    month = play(arrivals, settings(merge={"min_inputs": least}, **declared), looks)
    assert month.runs <= month.looks == round(looks * DAYS)
    assert month.parts_in <= parts * DAYS + month.parts_out
    assert 2 * month.parts_out <= month.parts_in
    assert month.parts_out <= month.uploads
    assert month.logs_of_runs <= month.logs_of_looks + 1e-6


# --- money ----------------------------------------------------------------------------------------


def test_an_append_a_minute_costs_what_the_docs_say() -> None:
    """docs/help.md: 0.65 for appends, 0.10 for merges, 0.02 for the planner, little else."""
    found = lines(cost_of())
    append, planner, merges = found["append"], found["planner"], found["merge"]
    assert append.requests == Requests(list=43_200, put=86_400)
    assert append.usd == pytest.approx(0.648)
    assert planner.requests.list == 1_440
    assert planner.requests.get == pytest.approx(43_200, rel=0.02)
    assert planner.usd == pytest.approx(0.025, abs=0.005)
    assert merges.requests.get == pytest.approx(129_600, rel=0.03)
    assert merges.requests.list + merges.requests.put == pytest.approx(9_000, rel=0.25)
    assert merges.usd == pytest.approx(0.10, abs=0.02)
    assert found["cleanup"].usd < 0.01
    assert list(found) == ["append", "planner", "merge", "cleanup", "verify"]


def test_prices_are_those_that_are_given_and_a_delete_is_free() -> None:
    assert Prices(put=2, get=1).of(Requests(list=500, put=500, get=3_000, delete=9_999)) == 5
    assert cost_of(prices=Prices(0, 0)).total.usd == 0
    assert cost_of(prices=Prices(0.01, 0.0008)).total.usd == pytest.approx(2 * cost_of().total.usd)


def test_the_total_is_the_sum_of_the_lines() -> None:
    found = cost_of()
    assert found.total.usd == pytest.approx(sum(line.usd for line in found.lines))
    assert found.to_json()["requests"]["put"] == round(sum(li.requests.put for li in found.lines))


def test_a_table_to_which_nothing_is_appended_costs_its_looks() -> None:
    found = lines(cost_of(NOTHING))
    assert (found["append"].usd, found["merge"].usd, found["cleanup"].usd) == (0, 0, 0)
    assert found["planner"].requests.list == 2 * 720


def test_without_a_planner_the_schedules_of_the_table_count() -> None:
    nobody = FleetSettings(schedule=None)
    found = lines(cost_of(fleet=nobody))
    assert "planner" not in found
    assert found["merge"].requests == Requests()  # nothing starts it
    assert "fleet.schedule null" in found["merge"].source
    clock = lines(cost_of(fleet=nobody, merge={"schedule": "*/10 * * * *"}))
    assert clock["merge"].runs_a_day == 144
    few = lines(cost_of(NOTHING, fleet=nobody, merge={"schedule": "@daily"}))
    assert few["merge"].requests == Requests(list=2 * 30, get=30)  # plans, of which none merges


def test_ttl_and_sweep_count_where_the_settings_have_them() -> None:
    ttl: dict[str, Any] = {
        "partition_by": ["day(ts)"],
        "ttl": {"keep": "9d"},
        "sweep": {"schedule": "@weekly"},
    }
    found = lines(cost_of(**ttl))
    assert found["ttl"].runs_a_day == 1
    assert found["sweep"].runs_a_day == pytest.approx(1 / 7)


def test_what_is_not_counted_is_said() -> None:
    assert "imports" not in cost_of().left_out
    imports: dict[str, Any] = {"import": {"source": "s3://b/in"}}
    assert "imports" in cost_of(**imports).left_out
    clustered: dict[str, Any] = {"cluster_by": {"columns": ["a"]}}
    assert "that a clustered merge writes several parts" in cost_of(**clustered).left_out


def test_a_read_sends_a_request_for_each_part_and_less_of_them_after_a_merge() -> None:
    found = cost_of()
    assert found.now.requests == Requests(list=2, get=61 + 90)
    assert found.merged.requests == Requests(list=2, get=1 + 31)
    assert found.now.usd == pytest.approx(1_000 * Prices().of(found.now.requests))
    nothing = cost_of(state=replace(STATE, saved=0))
    assert nothing.merged == nothing.now


def test_what_is_promised_of_an_append_and_a_merge_is_at_least_what_they_send(
    tmp_path: Path,
) -> None:
    table = opened(StoreRoot("file", f"file://{tmp_path}", {}))
    appender = Appender(table)
    rows = pa.table({"id": [1, 2], "day": ["mo", "mo"]})
    appender.append(rows)  # the first one of a process looks at the table
    before = table.store.counters.as_dict()
    for _ in range(9):
        appender.append(rows)
    after = table.store.counters.as_dict()
    sent = {kind: after[kind] - before[kind] for kind in ("list", "get", "put")}
    an_append = Arrivals(DAY_MS, appends=9, parts=9, bytes=9_000, partitions=1)
    promised = lines(cost_of(an_append))["append"].requests * (1 / DAYS)
    assert sent == {"list": promised.list, "get": 0, "put": promised.put}
    snapshot = read_snapshot(table.store, table.paths)
    state = state_of(snapshot, 9)
    assert (state.live, state.log_files, state.log_files_read) == (10, 10, 10)
    once = replace(an_append, appends=10, parts=10)
    clock = {"schedule": "@daily", "min_inputs": 2}
    a_day = lines(cost_of(once, state, merge=clock))["merge"].requests * (1 / DAYS)
    report = merge(table, tmp_path / "s")
    # A run of the command reads the log once; one in Airflow plans before.
    for kind in ("list", "get", "put"):
        assert report.requests[kind] <= getattr(a_day, kind) + 1
