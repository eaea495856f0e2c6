"""A play of arrivals: nothing is lost or doubled, and the real planner decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firnline.log.records import Marker, stats_json
from firnline.operations.groups import SPLIT_MARK
from firnline.operations.merge.plan import plan_merge
from firnline.operations.requests import FIXED_REQUESTS
from firnline.operations.what_if.arrivals import Arrival, Dropped, Recorded
from firnline.operations.what_if.calendar import Calendar
from firnline.operations.what_if.outcome import Outcome
from firnline.operations.what_if.play import Rules, _Table, play
from firnline.units import DAY_MS
from tests.support.effort import examples
from tests.support.world import START_MS, make_world

HOUR_MS = DAY_MS // 24
START = START_MS // DAY_MS * DAY_MS
MIB = 2**20
WORLD = make_world()
PATHS = WORLD.table.paths


def arrival(hour: float, size: int, partition: str = "d=1", **marker: Any) -> Arrival:
    t = START + round(hour * HOUR_MS)
    key = PATHS.data_part(partition, WORLD.ids.uuid7(t))
    given = {"p": key, "b": size, "t": t, "n": 10, "q": 0, **marker}
    return Arrival(t, partition, Marker(**given), 1.0)


def recorded(arrivals: list[Arrival], hours: float, **fields: Any) -> Recorded:
    end = START + round(hours * HOUR_MS)
    ordered = tuple(sorted(arrivals, key=lambda each: (each.t, each.marker.p)))
    return Recorded(START, end, START, fields.pop("initial", ()), ordered, **fields)


def rules(hours: int, every: int = 1, **settings: Any) -> Rules:
    times = tuple(START + hour * HOUR_MS for hour in range(every, hours + 1, every))
    days = tuple(START + day * DAY_MS for day in range(1, hours // 24 + 1))
    calendar = Calendar(times, days, days, 2, 2, idle_chores=False, source="each hour")
    declared = make_world(**settings).settings
    if declared.ttl is None:
        calendar = replace(calendar, ttls=())
    return Rules(declared, calendar, PATHS, {"ts": "TIMESTAMP", "v": "INTEGER"})


def balanced(arrived: Recorded, outcome: Outcome) -> bool:
    came = arrived.bytes + sum(m.b for m in arrived.initial)
    return came == outcome.bytes + outcome.dropped + outcome.shrunk


SIZES = st.one_of(st.integers(1, 4 * MIB), st.just(MIB), st.integers(1, 1_000))
ARRIVALS = st.lists(
    st.tuples(st.floats(0.01, 71), SIZES, st.sampled_from(["d=1", "d=2", "d=3"])), max_size=60
)
POLICIES = st.fixed_dictionaries(
    {"target_size": st.sampled_from(["1MiB", "4MiB", "64MiB"])},
    optional={
        "min_inputs": st.integers(2, 6),
        "max_bytes_per_run": st.just("64MiB"),
        "settle": st.sampled_from(["1h", "1d"]),
        "finish_after": st.sampled_from(["1h", "1d", None]),
        "split_above": st.just("1MiB"),
    },
)


@given(ARRIVALS, POLICIES, st.integers(1, 7), st.sampled_from([(), ("v",)]))
@examples(60, 1_000)
def test_no_byte_is_lost_or_doubled(
    given_arrivals: list[tuple[float, int, str]],
    policy: dict[str, Any],
    every: int,
    sort_by: tuple[str, ...],
) -> None:
    arrived = recorded([arrival(*each) for each in given_arrivals], 72)
    outcome = play(arrived, rules(72, every, merge=policy, sort_by=list(sort_by)))
    # Without a measured ratio an output has the bytes of its inputs.
    assert (outcome.shrunk, outcome.dropped) == (0, 0)
    assert outcome.bytes == arrived.bytes
    assert outcome.read == outcome.written
    assert outcome.parts == len(arrived.arrivals) - outcome.parts_in + outcome.parts_out


@given(ARRIVALS, POLICIES, st.floats(0.05, 1.5), st.lists(st.floats(1, 70), max_size=3))
@examples(40, 600)
def test_what_merges_save_and_people_drop_is_accounted_for(
    given_arrivals: list[tuple[float, int, str]],
    policy: dict[str, Any],
    ratio: float,
    drops: list[float],
) -> None:
    dropped = tuple(Dropped(START + round(h * HOUR_MS), ("d=1", "d=9")) for h in sorted(drops))
    arrivals = [arrival(*each) for each in given_arrivals]
    arrived = recorded(arrivals, 72, ratio=ratio, drops=dropped)
    assert balanced(arrived, play(arrived, rules(72, merge=policy)))


def test_nothing_is_left_that_the_planner_would_merge_at_the_last_look() -> None:
    arrived = recorded([arrival(hour / 7, 5_000) for hour in range(300)], 48)
    table = _Table(arrived, rules(48))
    for each in arrived.arrivals:
        table.scans.advance(each.t)
        table.arrive(each)
    now = arrived.end
    table.scans.advance(now)
    table.look(now)
    plan = plan_merge(table._state(list(table.parts)), table.settings, now + 1)
    assert plan.nothing_to_do


def test_requests_of_a_merge_are_those_that_the_planner_estimates() -> None:
    arrived = recorded([arrival(0.5, 5 * MIB) for _ in range(9)], 2)
    table = _Table(arrived, rules(2, merge={"split_above": "16MiB"}, sort_by=["v"]))
    for each in arrived.arrivals:
        table.arrive(each)
    now = START + HOUR_MS
    plan = plan_merge(table._state(["d=1"]), table.settings, now)
    (group,) = plan.groups
    assert group.slices > 1
    table.look(now)
    requests = table.ledger.requests
    # Three readings of the log, of nine appends: the look, and the plan and merge of the run.
    others = requests.get + requests.put + requests.list + requests.delete - 3 * (2 + 9)
    # The log of this table has a transaction, so that the estimate is one LIST above.
    assert others == plan.requests - FIXED_REQUESTS + 7
    assert {m.c is not None and m.c[:8] for m in table.parts["d=1"].values()} == {SPLIT_MARK}


def test_a_part_shrinks_once() -> None:
    arrivals = [arrival(hour + 0.5, 1_000) for hour in range(16)]
    policy = {"min_inputs": 4, "finish_after": "1h"}
    outcome = play(recorded(arrivals, 24, ratio=0.25), rules(24, merge=policy))
    assert outcome.parts == 1
    assert outcome.bytes == 4_000
    assert outcome.read > 16_000


def test_a_ttl_by_a_column_knows_the_newest_row_of_what_was_merged() -> None:
    def of_days(partition: str, days: tuple[int, ...]) -> list[Arrival]:
        bounds = [(f"2023-11-{day:02} 00:00:00", f"2023-11-{day:02} 12:00:00", 0) for day in days]
        return [arrival(0.5, 1_000, partition, s=stats_json({"ts": each})) for each in bounds]

    arrivals = of_days("d=1", (9, 10, 10, 10)) + of_days("d=2", (10, 14, 10, 10))
    ttl = {"keep": "2d", "column": "ts", "max_removed_fraction": 1}
    outcome = play(
        recorded(arrivals, 30), rules(30, ttl=ttl, merge={"min_inputs": 4, "finish_after": None})
    )
    # START is 2023-11-14: at the next midnight what ended by the 13th goes, with all its inputs.
    assert (outcome.dropped, outcome.bytes, outcome.parts) == (4_000, 4_000, 1)


def test_a_ttl_that_would_take_too_much_takes_nothing() -> None:
    arrivals = [arrival(0.5, 1_000, "ts_day=2023-11-01"), arrival(0.5, 1_000, "ts_day=2023-11-02")]
    ttl = {"keep": "2d", "max_removed_fraction": 0.5}
    outcome = play(recorded(arrivals, 48), rules(48, ttl=ttl, partition_by=["day(ts)"]))
    assert (outcome.dropped, outcome.parts) == (0, 2)


def test_parts_wait_and_are_merged_when_their_partition_is_finished() -> None:
    arrived = recorded([arrival(0.5, 1_000), arrival(1.5, 1_000)], 72)
    waits = play(arrived, rules(72, merge={"finish_after": None}))
    ends = play(arrived, rules(72, merge={"finish_after": "1d"}))
    assert (waits.parts, waits.runs, ends.parts, ends.runs) == (2, 0, 1, 1)


def test_progress_is_told_and_ends_with_all_arrivals() -> None:
    told: list[int] = []
    play(recorded([arrival(1, 1) for _ in range(2_500)], 2), rules(2), told.append)
    assert told == [1_000, 2_000, 2_500]
