"""Which merges of the fleet are started, in which order, and why others wait."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from firnline.operations.fleet.need import GIB, Need, Unreadable
from firnline.operations.fleet.plan import FleetPlan, Held, plan_fleet
from firnline.settings.fleet import FleetSettings

NOON = int(datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp() * 1000)


def need(table: str, parts: int = 10, gib: float = 1.0, **more: Any) -> Need:
    """A merge of so many parts into one."""
    size = int(gib * GIB)
    made = {"parts_in": parts, "parts_out": 1, "bytes": size, "least_bytes": size, **more}
    return Need(table=table, **made)


def planned(*found: Need | Unreadable, **settings: Any) -> FleetPlan:
    return plan_fleet(found, FleetSettings.model_validate(settings), NOON)


def started(plan: FleetPlan) -> list[str]:
    return [start.need.table for start in plan.starts]


def reasons(plan: FleetPlan) -> dict[str, str]:
    return {waiting.need.table: waiting.reason for waiting in plan.waiting}


def test_most_requests_saved_per_byte_rewritten_comes_first() -> None:
    plan = planned(
        need("large", parts=1_000, gib=100),  # 10 a GiB
        need("small", parts=50, gib=0.5),  # 98 a GiB
        need("unread", parts=3, gib=0, parts_out=0),
        need("b", parts=21, gib=1),
        need("a", parts=21, gib=1),
        Need("idle"),
    )
    assert started(plan) == ["unread", "small", "a", "b", "large"]
    assert plan.idle == ("idle",)
    assert plan.waiting == ()
    assert plan.starts[1].need.score == 98


def test_a_merge_that_a_mirror_waits_for_goes_first_however_little_it_saves() -> None:
    plan = planned(
        need("best", parts=1_000),
        need("waited", parts=2, gib=5, ends_wait=True),
        need("waited too", parts=3, gib=5, ends_wait=True),
        max_runs=2,
    )
    assert started(plan) == ["waited too", "waited"]
    assert plan.to_json()["starts"][0]["ends_wait"]


def test_the_budget_takes_the_best_and_gives_its_rest_to_the_next_as_a_limit() -> None:
    plan = planned(
        need("first", parts=100, gib=6),
        need("second", parts=50, gib=6, least_bytes=GIB),
        need("third", parts=10, gib=2),
        budget="10GiB/day",
    )
    assert [(s.need.table, s.max_bytes) for s in plan.starts] == [
        ("first", None),
        ("second", 4 * GIB),
    ]
    assert reasons(plan) == {"third": "nothing is left of the budget of 10GiB/day"}
    assert plan.to_json()["bytes"] == 10 * GIB


def test_a_table_whose_smallest_group_does_not_fit_leaves_the_budget_to_the_next() -> None:
    plan = planned(need("large", parts=900, gib=6), need("small", gib=2), budget="5GiB/day")
    assert started(plan) == ["small"]
    assert reasons(plan) == {
        "large": "5.0 GiB are left of the budget of 5GiB/day, it needs 6.0 GiB"
    }


def test_what_fits_exactly_is_started() -> None:
    plan = planned(need("t", gib=5), budget="5GiB/day")
    assert [(s.need.table, s.max_bytes) for s in plan.starts] == [("t", None)]


def test_parts_that_go_unread_need_no_budget() -> None:
    plan = planned(
        need("spent", spent=5 * GIB, parts=0, parts_out=0, gib=0),
        need("hidden", gib=0, parts_out=0),
        need("mixed", gib=1, least_bytes=0),
        budget="5GiB/day",
    )
    assert started(plan) == ["hidden"]
    assert reasons(plan) == {"mixed": "nothing is left of the budget of 5GiB/day"}


def test_what_was_spent_and_what_is_under_way_count() -> None:
    held = {"busy": Held("a run is queued", under_way=True), "paused": Held("paused")}
    found = [
        need("busy", gib=2),
        need("paused", gib=2),
        need("free", gib=2, spent=GIB),
        Need("idle", spent=3 * GIB),
    ]
    plan = plan_fleet(found, FleetSettings.model_validate({"budget": "8GiB/day"}), NOON, held)
    assert (plan.spent, plan.under_way) == (4 * GIB, 2 * GIB)
    assert [(s.need.table, s.max_bytes) for s in plan.starts] == [("free", None)]
    assert reasons(plan) == {"busy": "a run is queued", "paused": "paused"}
    tighter = FleetSettings.model_validate({"budget": "6GiB/day"})
    assert plan_fleet(found, tighter, NOON, held).starts == ()


def test_without_a_budget_everything_is_started_whatever_was_spent() -> None:
    assert started(planned(need("t", gib=10_000, spent=10**15))) == ["t"]


def test_one_run_starts_at_most_max_runs() -> None:
    plan = planned(need("a", parts=30), need("b", parts=20), need("c", parts=10), max_runs=2)
    assert started(plan) == ["a", "b"]
    assert reasons(plan) == {"c": "the planner starts at most 2 merges in one run (fleet.max_runs)"}


@pytest.mark.parametrize(
    ("hours", "zone", "quiet"),
    [
        ("12:00-13:00", "UTC", True),
        ("11:00-12:00", "UTC", False),  # the end is not part of it
        ("22:00-12:01", "UTC", True),
        ("22:00-06:00", "UTC", False),
        ("13:00-13:30", "Europe/Berlin", True),
        ("12:00-13:00", "Europe/Berlin", False),
        ("00:00-24:00", "UTC", True),
    ],
)
def test_in_quiet_hours_nothing_is_started(hours: str, zone: str, quiet: bool) -> None:
    plan = planned(need("t"), quiet_hours=[hours], time_zone=zone)
    assert plan.nothing_to_do is quiet
    assert reasons(plan) == ({"t": f"quiet hours {hours} {zone}"} if quiet else {})


def test_a_table_that_cannot_be_read_is_told_and_holds_up_no_other() -> None:
    plan = planned(Unreadable("torn", "the log is torn", "rebuild it"), need("t"))
    assert started(plan) == ["t"]
    plain = plan.to_json()
    assert plain["unreadable"] == [
        {"table": "torn", "message": "the log is torn", "next_step": "rebuild it"}
    ]
    assert plain["tables"] == 2


def test_the_figures_are_plain_data() -> None:
    plan = planned(need("t", gib=0, parts_out=0), need("u"), Need("idle"))
    plain = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert [(row["table"], row["score"]) for row in plain["starts"]] == [("t", None), ("u", 9.0)]
