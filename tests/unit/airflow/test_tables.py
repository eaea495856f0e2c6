from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import AssetAll, AssetOrTimeSchedule

from firnline.airflow.tables import asset_of, dag_id, schedule_of, tables_of
from firnline.operations.pools import pool_of_dag
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
        return [table.name for table in tables_of("merge")]

    assert found() == ["a", "a__b", "merge__a"]
    for name in ("a", "a__b", "merge__a"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id("merge", name))
        assert found() == [name]
    for other in ("a", "merge", "rewrite__a", "merge__gone"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", other)
        assert found() == []


def test_dag_id_and_pool_name_each_other(tmp_path: Path) -> None:
    table = one(tmp_path, "locking: fenced")
    assert pool_of_dag(dag_id("merge", table.name)) == table.merge_pool


def test_the_asset_is_the_table_under_its_root(tmp_path: Path) -> None:
    asset = asset_of(one(tmp_path, "locking: fenced"))
    assert (asset.name, asset.uri, asset.group) == ("t", "s3://b/t", "firnline")


@pytest.mark.parametrize("name", ["self", "context"])
def test_a_table_whose_name_airflow_refuses_still_has_an_asset(tmp_path: Path, name: str) -> None:
    table = one(tmp_path, "locking: fenced").model_copy(update={"name": name})
    assert asset_of(table).name == f"{name}.table"


def test_without_a_clock_only_the_asset_starts_runs(tmp_path: Path) -> None:
    asset = asset_of(one(tmp_path, "locking: fenced"))
    assert schedule_of(None, asset) == [asset]
    both = schedule_of("@hourly", asset)
    assert isinstance(both, AssetOrTimeSchedule)
    assert both.asset_condition == AssetAll(asset)
