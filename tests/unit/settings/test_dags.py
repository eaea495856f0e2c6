"""The DAGs of a table, and what starts their runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.settings.dags import cron_of, own_dags, runs_of
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import Settings, TableSettings, load_settings
from firnline.settings.sections import OWN_DAGS, Operation
from tests.support.tables import loaded, mistakes


def with_table(tmp_path: Path, section: str, fleet: str = "{}") -> Settings:
    text = f"fleet: {fleet}\ntables: {{t: {{root: 's3://b/t'{section}}}}}"
    return loaded(tmp_path, text)


@pytest.mark.parametrize(
    ("section", "own"),
    [
        ("", ()),
        (", own_dags: [verify, merge]", ("merge", "verify")),
        (", partition_by: [day(ts)], ttl: {keep: 9d}, import: {}, own_dags: all", OWN_DAGS),
        (", own_dags: all", tuple(each for each in OWN_DAGS if each not in ("ttl", "import"))),
        (", own_dags: all, operations: [verify]", ("verify",)),
        (", cleanup: {schedule: '@daily'}", ("tombstone_cleanup",)),
        (", merge: {schedule: null}", ("merge",)),
        (", cleanup: {schedule: null}", ()),
        (", sweep: {schedule: '@weekly'}", ("orphan_sweep",)),
        (", import: {source: 's3://b/in', schedule: '@daily'}", ("import",)),
        (", import: {source: 's3://b/in'}", ()),
        (", import: {source: 's3://b/in'}, own_dags: [import]", ("import",)),
        (", own_dags: [import]", ()),
    ],
)
def test_a_table_has_the_dags_that_it_asks_for_and_those_that_have_a_schedule(
    tmp_path: Path, section: str, own: tuple[Operation, ...]
) -> None:
    assert set(with_table(tmp_path, section).table("t").own_dags) == set(own)


@pytest.mark.parametrize(
    ("section", "fleet", "cron"),
    [
        ("", "{}", None),
        (", cleanup: {schedule: '7 4 * * *'}", "{}", "7 4 * * *"),
        (", cleanup: {schedule: null}", "{}", None),
        ("", "{schedule: null}", "@daily"),
        (", cleanup: {schedule: null}", "{schedule: null}", None),
    ],
)
def test_what_no_planner_starts_has_a_dag_with_a_schedule_of_its_own(
    tmp_path: Path, section: str, fleet: str, cron: str | None
) -> None:
    settings = with_table(tmp_path, section, fleet)
    table = settings.table("t")
    assert cron_of(table, "tombstone_cleanup", settings.fleet) == cron
    assert ("tombstone_cleanup" in own_dags(table, settings.fleet)) is (cron is not None)
    assert cron_of(table, "restore", settings.fleet) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "[restore]",
            "restore runs in one DAG for all tables; allowed are merge, tombstone_cleanup",
        ),
        ("some", "own_dags"),
        ("[merg]", "own_dags"),
    ],
)
def test_a_dag_that_there_is_not_is_refused(tmp_path: Path, value: str, said: str) -> None:
    text = f"tables: {{t: {{root: 's3://b/t', own_dags: {value}}}}}"
    assert said in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    ("section", "own"),
    [
        ("", ("merge",)),
        (", own_dags: [verify]", ("verify",)),
        (", own_dags: all", ("merge", "tombstone_cleanup", "rewrite_partitions", "verify")),
        (", verify: {schedule: '@daily'}", ("verify",)),
        (", import: {source: 's3://b/in', schedule: '@daily'}", ("import",)),
        (", import: {source: 3}, own_dags: [import]", ("import",)),
        (", operations: [restore]", ("restore",)),
        (", own_dags: 3", ("merge",)),
    ],
)
def test_a_table_with_mistakes_keeps_the_dags_that_it_asks_for_and_has_one_at_least(
    tmp_path: Path, section: str, own: tuple[Operation, ...]
) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(f"tables: {{t: {{root: 's3://b/t', sort_bi: [a]{section}}}}}")
    settings = load_settings(file)
    assert set(settings.broken["t"].own_dags) == set(own)


def test_a_table_names_the_folders_whose_new_files_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", "s3://lake")
    several = "source: ['${LAKE}/a', '${LAKE}/b'], path_types: {day: DATE}, skip_bad: true"
    settings = with_table(tmp_path, f", import: {{{several}, schedule: '@hourly'}}")
    found = settings.table("t").imports
    assert found is not None
    assert found.source == ("s3://lake/a", "s3://lake/b")
    assert (found.path_types, found.skip_bad, found.split) == ({"day": "DATE"}, True, False)
    assert cron_of(settings.table("t"), "import", settings.fleet) == "@hourly"
    assert settings.table("t").model_dump()["import"]["schedule"] == "@hourly"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{schedule: '@daily'}", "tables.t.import: schedule needs a source"),
        ("{source: in}", "tables.t.import.source[0]: 'in' is not the URL of a folder"),
        ("{source: '${NOWHERE}/in'}", "import.source: the environment variable NOWHERE"),
        ("{sources: 's3://b/in'}", "is not a setting; did you mean source?"),
        ("{source: 's3://b/in', schedule: fleet}", "'fleet' is not a schedule"),
        (
            "{source: 's3://b/in', schedule: '@daily'}, locking: pool-only",
            "import.schedule and locking: pool-only exclude each other",
        ),
    ],
)
def test_an_import_that_cannot_work_is_refused_with_the_settings(
    tmp_path: Path, section: str, said: str
) -> None:
    assert said in mistakes(tmp_path, f"tables: {{t: {{root: 's3://b/t', import: {section}}}}}")


def test_a_mistyped_import_is_named(tmp_path: Path) -> None:
    text = "tables: {t: {root: 's3://b/t', imports: {source: 's3://b/in'}}}"
    assert "tables.t.imports: is not a setting; did you mean import?" in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    ("declared", "planner", "operation", "expected"),
    [
        ({}, "@hourly", "merge", (24, "merge.schedule fleet, fleet.schedule @hourly")),
        ({}, "@weekly", "merge", (1 / 7, "merge.schedule fleet, fleet.schedule @weekly")),
        ({}, None, "merge", (0, "merge.schedule fleet, fleet.schedule null")),
        ({"merge": {"schedule": None}}, "@hourly", "merge", (0, "merge.schedule null")),
        (
            {"merge": {"schedule": "*/30 * * * *"}},
            "@hourly",
            "merge",
            (48, "merge.schedule */30 * * * *"),
        ),
        (
            {},
            "@hourly",
            "tombstone_cleanup",
            (1, "cleanup.schedule fleet, fleet.schedule @hourly"),
        ),
        ({}, None, "tombstone_cleanup", (1, "cleanup.schedule fleet, fleet.schedule null, so @")),
        ({}, "@hourly", "verify", (1 / 7, "verify.schedule fleet, fleet.schedule @hourly")),
        ({}, "@hourly", "ttl", (0, "no ttl in the settings")),
        ({}, "@hourly", "orphan_sweep", (0, "sweep.schedule null")),
        ({"sweep": {"schedule": "@monthly"}}, None, "orphan_sweep", (0.0329, "sweep.schedule @")),
    ],
)
def test_how_often_a_clock_starts_an_operation(
    declared: dict[str, Any], planner: str | None, operation: Operation, expected: tuple[float, str]
) -> None:
    table = TableSettings.model_validate({"name": "t", "root": "s3://b/t", **declared})
    a_day, source = runs_of(table, operation, FleetSettings(schedule=planner))
    assert a_day == pytest.approx(expected[0], rel=0.01)
    assert source.startswith(expected[1])
