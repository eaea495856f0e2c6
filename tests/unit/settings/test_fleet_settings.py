"""The section ``fleet`` of the settings file, and ``merge.schedule: fleet``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.settings.dags import PLANNED, fleet_tables, planned_by_fleet
from firnline.settings.fleet import FleetSettings, format_budget, minutes_of, parse_budget
from firnline.settings.load import TableSettings
from firnline.settings.sections import Operation
from tests.support.tables import loaded, mistakes, one

TABLE = "tables:\n  t: {root: 's3://b/t'}\n"


def test_a_file_without_the_section_has_the_defaults(tmp_path: Path) -> None:
    fleet = loaded(tmp_path, TABLE).fleet
    assert fleet == FleetSettings()
    assert (fleet.schedule, fleet.budget, fleet.quiet_hours) == ("@hourly", None, ())


def test_a_budget_is_bytes_a_day(tmp_path: Path) -> None:
    text = "fleet: {budget: 2TiB/day, quiet_hours: 08:00-18:30, time_zone: Europe/Berlin}\n"
    fleet = loaded(tmp_path, text + TABLE).fleet
    assert fleet.budget == 2 * 2**40
    assert fleet.quiet_hours == ("08:00-18:30",)
    assert fleet.model_dump(mode="json")["budget"] == "2TiB/day"
    for written in ("1.5GB/day", "500 GiB / day", "7b/d"):
        assert parse_budget(format_budget(parse_budget(written))) == parse_budget(written)


def test_hours_may_pass_midnight() -> None:
    assert minutes_of("22:00-06:30") == (1320, 390)
    assert minutes_of("00:00-24:00") == (0, 1440)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("budget: 2TiB", "fleet.budget: '2TiB' is not a budget; write bytes a day as 2TiB/day"),
        ("budget: 5", "fleet.budget: 5 is not a budget"),
        ("budget: much/day", "fleet.budget: 'much' is not a size"),
        ("budget: 0B/day", "a budget of nothing merges nothing"),
        ("quiet_hours: [25:00-26:00]", "fleet.quiet_hours[0]: '25:00-26:00' are not hours"),
        ("quiet_hours: ['08:00-08:00']", "are not hours of a day; write 08:00-18:30"),
        ("quiet_hours: ['8-18']", "are not hours of a day"),
        ("time_zone: Mars", "'Mars' is not an IANA time zone"),
        ("schedule: fleet", "fleet.schedule: 'fleet' is not a schedule"),
        ("concurrency: 0", "fleet.concurrency: must be greater than or equal to 1"),
        ("concurency: 3", "fleet.concurency: is not a setting; did you mean concurrency?"),
        ("alerts: {notifier: 5}", "fleet.alerts.notifier"),
    ],
)
def test_a_mistake_is_named_with_its_field(tmp_path: Path, wrong: str, sentence: str) -> None:
    assert sentence in mistakes(tmp_path, f"fleet: {{{wrong}}}\n{TABLE}")


def test_a_section_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert "fleet: must be a mapping" in mistakes(tmp_path, f"fleet: 2TiB/day\n{TABLE}")


def test_a_table_is_of_the_fleet_unless_it_has_a_schedule_or_none(tmp_path: Path) -> None:
    default, hourly, by_hand = (
        one(tmp_path, f"merge: {{{text}}}").merge
        for text in ("", "schedule: '@hourly'", "schedule: null")
    )
    assert [each.by_fleet for each in (default, hourly, by_hand)] == [True, False, False]
    assert [each.cron for each in (default, hourly, by_hand)] == [None, "@hourly", None]


def test_a_schedule_of_a_merge_that_is_none_names_fleet_too(tmp_path: Path) -> None:
    wrong = mistakes(tmp_path, "tables:\n  t: {root: 's3://b/t', merge: {schedule: flet}}\n")
    assert "@yearly, fleet, or null" in wrong


def test_members_are_the_tables_whose_merges_nobody_else_starts() -> None:
    def table(name: str, **settings: Any) -> TableSettings:
        return TableSettings.model_validate({"name": name, "root": "memory://t", **settings})

    given = [
        table("default"),
        table("hourly", merge={"schedule": "@hourly"}),
        table("asked", merge={"schedule": "fleet"}),
        table("unmerged", operations=["verify"]),
        table("by_hand", merge={"schedule": None}),
    ]
    assert [each.name for each in given if "merge" in planned_by_fleet(each)] == [
        "default",
        "asked",
    ]


def test_what_the_planner_starts_of_a_table_are_the_operations_without_a_clock_of_their_own() -> (
    None
):
    def planned(**settings: Any) -> frozenset[str]:
        given = {"name": "t", "root": "memory://t", **settings}
        return planned_by_fleet(TableSettings.model_validate(given))

    assert planned() == {"merge", "tombstone_cleanup", "verify"}
    ttl = {"ttl": {"keep": "1d", "column": "ts"}}
    assert planned(**ttl) == {"merge", "ttl", "tombstone_cleanup", "verify"}
    clocks = {"cleanup": {"schedule": "@daily"}, "verify": {"schedule": None}}
    assert planned(**clocks) == {"merge"}
    assert planned(operations=["ttl"], **ttl) == {"ttl"}


def test_logs_are_read_of_tables_of_which_something_is_started_or_published() -> None:
    def table(name: str, **settings: Any) -> TableSettings:
        return TableSettings.model_validate({"name": name, "root": "memory://t", **settings})

    own = {name: {"schedule": None} for name in ("merge", "cleanup", "verify")}
    cleaned = {**own, "cleanup": {}}
    given = [
        table("all"),
        table("none", **own),
        table("cleaned", **cleaned),
        table("mirrored", **own, mirror=["delta"]),
    ]

    def read(*operations: Operation) -> list[str]:
        return [each.name for each in fleet_tables(given, frozenset(operations))]

    assert [each.name for each in fleet_tables(given)] == ["all", "cleaned", "mirrored"]
    assert read(*PLANNED) == ["all", "cleaned", "mirrored"]
    assert read("merge") == ["all", "mirrored"]
    assert read() == ["mirrored"]
