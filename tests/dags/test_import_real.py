"""Imports on a real scheduler: what is copied, what Spark reads, and the merge that follows."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from firnline.table import Table
from tests.dags.maintained import Maintained
from tests.support.histories import parquet_bytes
from tests.support.reading import visible_rows
from tools.airflow_api import wait_until


def put(table: Table, name: str, *keys: int) -> None:
    """A file of the folder that others keep writing."""
    data = parquet_bytes(pa.table({"k": list(keys), "day": ["a"] * len(keys)}))
    folder = table.paths.data_dir.removesuffix(f"{table.settings.name}/_data/")
    table.store.put_new(f"{folder}{table.settings.name}-in/{name}", data)


def keys(table: Table) -> Counter[int]:
    return Counter(row["k"] for row in visible_rows(table))


@pytest.mark.long
def test_new_files_of_a_folder_become_rows_and_start_a_merge(maintained: Maintained) -> None:
    table = maintained.table("fed")
    put(table, "2026/01/01/a.parquet", 1, 2)
    put(table, "2026/01/01/b.parquet", 3)
    run = maintained.start("import", "fed").ended()
    assert run.tasks == {"plan": "success", "import": "success"}, run.log("import")
    assert (run.xcom("import")["files"], run.xcom("import")["copies"]) == (2, 2)
    assert run.note.startswith("firnline: imported: 2 files of 3 rows (")
    assert run.task("import")["pool"] == "default_pool"
    woken = maintained.first_run("fed", "asset_triggered")
    assert woken.state == "success", woken.tasks
    assert "only firnline's own last run" not in woken.log("plan")
    # Its folder alone states a column: Spark reads it.
    put(table, "region=eu/c.parquet", 4)
    read = maintained.start("import", "fed").ended()
    assert read.state == "success", read.log("import")
    assert (read.xcom("import")["files"], read.xcom("import")["anew"]) == (1, 1)
    assert read.note.startswith("firnline: imported: 1 file of 1 row (")
    again = maintained.start("import", "fed").ended()
    assert again.tasks == {"plan": "success", "import": "skipped"}
    assert keys(table) == Counter([1, 2, 3, 4])
    assert {row.get("region") for row in visible_rows(table)} == {None, "eu"}


@pytest.mark.long
def test_the_dag_for_all_tables_takes_a_folder_that_the_run_names(maintained: Maintained) -> None:
    table = maintained.table("poured")
    put(table, "a.parquet", 1)
    source = f"{table.settings.root}-in"
    run = maintained.start("import", "poured", source=[source]).ended()
    assert (run.dag_id, run.state) == ("import", "success"), run.log("import")
    assert keys(table) == Counter([1])
    path = "/assets/events"

    def told() -> list[str]:
        events = maintained.stack.api.call("GET", path, source_dag_id="import")["asset_events"]
        return [each["name"] for each in events]

    assert wait_until(lambda: told() == ["poured"]), told()
