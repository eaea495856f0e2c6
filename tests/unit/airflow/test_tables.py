from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import AssetAll

from firnline.airflow.tables import (
    OneTable,
    TableOfRun,
    any_table,
    asset_of,
    assets_of,
    clock_of,
    clock_or_rows,
)
from firnline.airflow.versions import AssetOrTimeSchedule
from firnline.airflow.works import RestoreWork
from firnline.errors import UsageError
from firnline.operations.pools import NO_TABLE, NO_TABLE_TAKES
from firnline.operations.registry import DAGS, RESTORE
from tests.support.airflow_context import run_context
from tests.support.tables import one


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tables.yaml"
    lines = [f"  {name}: {{root: 's3://b/{name}'}}" for name in ("a", "a__b", "merge__a")]
    lines[0] = "  a: {root: 's3://b/a', own_dags: [merge], sweep: {schedule: '@daily'}}"
    file.write_text("\n".join(["tables:", *lines]))
    monkeypatch.setenv("FIRNLINE_TABLES", str(file))


@pytest.mark.usefixtures("three")
def test_one_dag_for_all_tables_works_on_the_table_that_its_run_names() -> None:
    table = any_table("restore")
    assert table is not None
    assert (table.dag_id("restore"), table.names) == ("restore", ("a", "a__b", "merge__a"))
    assert table.params["table"].schema["enum"] == ["a", "a__b", "merge__a"]
    assert table.of_run(run_context(RestoreWork(), {"table": "a__b"})).name == "a__b"
    assert table.lock("restore") == {"pool": NO_TABLE, "pool_slots": NO_TABLE_TAKES}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("conf", [None, {}, {"table": "b"}, {"table": ["a"]}, {"table": ""}])
def test_a_run_that_names_no_table_of_the_settings_is_refused(conf: dict[str, object]) -> None:
    table = any_table("restore")
    assert table is not None
    with pytest.raises(UsageError, match=r"no table .* start a run with one of the tables a, a__b"):
        table.of_run(run_context(RestoreWork(), conf))


def test_without_a_table_that_has_the_operation_there_is_no_dag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text("tables: {a: {root: 's3://b/a', operations: [merge]}}")
    monkeypatch.setenv("FIRNLINE_TABLES", str(file))
    assert any_table("restore") is None
    here = TableOfRun("restore", ("a",), 0)
    with pytest.raises(UsageError, match="no table 'a' with the operation restore"):
        here.of_run(run_context(RestoreWork(), {"table": "a"}))


@pytest.mark.long
@pytest.mark.usefixtures("three")
def test_what_a_run_reports_is_an_event_on_the_asset_of_its_table(tmp_path: Path) -> None:
    from airflow.sdk.execution_time.context import OutletEventAccessors

    table = any_table("restore")
    assert table is not None
    context = run_context(RestoreWork(), {"table": "a"})
    context["outlet_events"] = events = OutletEventAccessors()
    table.report(context, RESTORE, {"seq": 3})
    (event,) = events[table.outlets(RESTORE)[0]].asset_alias_events
    assert (event.dest_asset_key.name, event.extra) == ("a", {"seq": 3})
    own = OneTable(one(tmp_path, "locking: fenced"))
    own.report(context, RESTORE, {"seq": 4})
    assert events[own.outlets(RESTORE)[0]].extra == {"seq": 4}


def test_only_what_changes_rows_reports_on_the_asset_that_wakes_a_merge(tmp_path: Path) -> None:
    table = OneTable(one(tmp_path, "locking: fenced"))
    rows, upkeep = assets_of(table.known)
    told = {each.name: table.outlets(each) for each in DAGS if each.changes_table}
    assert {name for name, outlets in told.items() if outlets == (upkeep,)} == {"merge", "cleanup"}
    assert all(outlets in ((rows,), (upkeep,)) for outlets in told.values())
    assert (upkeep.name, upkeep.uri) == ("t:upkeep", "s3://b/t/_log")
    assert clock_or_rows(table) == [rows]


def test_the_asset_is_the_table_under_its_root(tmp_path: Path) -> None:
    asset = asset_of(one(tmp_path, "locking: fenced"))
    assert (asset.name, asset.uri, asset.group) == ("t", "s3://b/t", "firnline")


@pytest.mark.parametrize("name", ["self", "context"])
def test_a_table_whose_name_airflow_refuses_still_has_an_asset(tmp_path: Path, name: str) -> None:
    table = one(tmp_path, "locking: fenced").model_copy(update={"name": name})
    assert asset_of(table).name == f"{name}.table"


def test_without_a_clock_only_the_asset_starts_runs(tmp_path: Path) -> None:
    known = one(tmp_path, "locking: fenced")
    assert clock_or_rows(OneTable(known)) == [asset_of(known)]
    both = clock_or_rows(OneTable(known, clock_of("7 * * * *")))
    assert isinstance(both, AssetOrTimeSchedule)
    assert isinstance(both.asset_condition, AssetAll)
    assert list(both.asset_condition.objects) == [asset_of(known)]
