from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import AssetAll, AssetOrTimeSchedule

from firnline.airflow.tables import (
    OneTable,
    TableOfRun,
    asset_of,
    schedule_of,
    tables_by_hand,
    tables_of,
)
from firnline.airflow.works import RestoreWork
from firnline.errors import UsageError
from firnline.operations.dag_ids import dag_id
from firnline.operations.pools import NO_TABLE
from firnline.settings.cron import spread
from firnline.settings.load import TableSettings
from firnline.settings.sections import CleanupSettings
from tests.support.airflow_context import run_context
from tests.support.tables import one


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tables.yaml"
    lines = [f"  {name}: {{root: 's3://b/{name}'}}" for name in ("a", "a__b", "merge__a")]
    file.write_text("\n".join(["tables:", *lines]))
    monkeypatch.setenv("FIRNLINE_TABLES", str(file))


@pytest.mark.usefixtures("three")
def test_a_dag_file_makes_all_tables_and_a_task_only_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> list[str]:
        return [table.known.name for table in tables_of("merge")]

    assert found() == ["a", "a__b", "merge__a"]
    for name in ("a", "a__b", "merge__a"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id("merge", name))
        assert found() == [name]
    for other in ("a", "merge", "rewrite__a", "merge__gone"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", other)
        assert found() == []


@pytest.mark.usefixtures("three")
def test_one_dag_for_all_tables_works_on_the_table_that_its_run_names() -> None:
    (table,) = tables_by_hand("restore")
    assert isinstance(table, TableOfRun)
    assert (table.dag_id("restore"), table.names) == ("restore", ("a", "a__b", "merge__a"))
    assert table.params["table"].schema["enum"] == ["a", "a__b", "merge__a"]
    assert table.of_run(run_context(RestoreWork(), {"table": "a__b"})).name == "a__b"
    assert table.lock("restore") == {"pool": NO_TABLE}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("conf", [None, {}, {"table": "b"}, {"table": ["a"]}, {"table": ""}])
def test_a_run_that_names_no_table_of_the_settings_is_refused(conf: dict[str, object]) -> None:
    (table,) = tables_by_hand("restore")
    with pytest.raises(UsageError, match=r"no table .* start a run with one of the tables a, a__b"):
        table.of_run(run_context(RestoreWork(), conf))


@pytest.mark.usefixtures("three")
def test_a_table_with_a_schedule_has_a_dag_of_its_own_besides() -> None:
    def schedule(table: TableSettings) -> str | None:
        return "@daily" if table.name == "a" else None

    found = [table.dag_id("restore") for table in tables_by_hand("restore", schedule)]
    assert found == ["restore", "restore__a"]


@pytest.mark.usefixtures("three")
def test_a_task_makes_only_its_own_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted, found in (("restore", 1), ("replace", 0), ("merge__a", 0), ("restore__a", 0)):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
        assert len(list(tables_by_hand("restore"))) == found
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "restore__a")
    (own,) = tables_by_hand("restore", lambda _: "@daily")
    assert own.dag_id("restore") == "restore__a"


def test_without_a_table_that_has_the_operation_there_is_no_dag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text("tables: {a: {root: 's3://b/a', operations: [merge]}}")
    monkeypatch.setenv("FIRNLINE_TABLES", str(file))
    assert list(tables_by_hand("restore")) == []
    assert list(tables_by_hand("restore", lambda _: "@daily")) == []
    here = TableOfRun("restore", ("a",), 0)
    with pytest.raises(UsageError, match="no table 'a' with the operation restore"):
        here.of_run(run_context(RestoreWork(), {"table": "a"}))


@pytest.mark.long
@pytest.mark.usefixtures("three")
def test_what_a_run_reports_is_an_event_on_the_asset_of_its_table(tmp_path: Path) -> None:
    from airflow.sdk.execution_time.context import OutletEventAccessors

    (table,) = tables_by_hand("restore")
    context = run_context(RestoreWork(), {"table": "a"})
    context["outlet_events"] = events = OutletEventAccessors()
    table.report(context, {"seq": 3})
    (event,) = events[table.outlets[0]].asset_alias_events
    assert (event.dest_asset_key.name, event.extra) == ("a", {"seq": 3})
    own = OneTable(one(tmp_path, "locking: fenced"))
    own.report(context, {"seq": 4})
    assert events[own.outlets[0]].extra == {"seq": 4}


def test_the_asset_is_the_table_under_its_root(tmp_path: Path) -> None:
    asset = asset_of(one(tmp_path, "locking: fenced"))
    assert (asset.name, asset.uri, asset.group) == ("t", "s3://b/t", "firnline")


@pytest.mark.parametrize("name", ["self", "context"])
def test_a_table_whose_name_airflow_refuses_still_has_an_asset(tmp_path: Path, name: str) -> None:
    table = one(tmp_path, "locking: fenced").model_copy(update={"name": name})
    assert asset_of(table).name == f"{name}.table"


def test_without_a_clock_only_the_asset_starts_runs(tmp_path: Path) -> None:
    asset = asset_of(one(tmp_path, "locking: fenced"))
    assert schedule_of(None, "merge__a", asset) == [asset]
    both = schedule_of("7 * * * *", "merge__a", asset)
    assert isinstance(both, AssetOrTimeSchedule)
    assert both.asset_condition == AssetAll(asset)


@pytest.mark.parametrize(
    ("planner", "section", "clock"),
    [
        (True, CleanupSettings(), None),
        (True, CleanupSettings(schedule="7 4 * * *"), "7 4 * * *"),
        (True, CleanupSettings(schedule=None), None),
        (False, CleanupSettings(), spread("@daily", "tombstone_cleanup__t")),
        (False, CleanupSettings(schedule=None), None),
        (False, None, None),
    ],
)
def test_an_operation_has_a_clock_of_its_own_if_it_says_so_or_no_planner_starts_it(
    planner: bool,
    section: CleanupSettings | None,
    clock: str | None,
) -> None:
    known = TableSettings.model_validate({"name": "t", "root": "memory://t"})
    found = OneTable(known, planner).clock("tombstone_cleanup", section, "@daily")
    assert (None if found is None else found.expression) == clock
