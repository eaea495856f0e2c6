"""Columns that the settings name: a table has them before its first row, and reads rows by them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.appends.service import Appender as Service
from firnline.errors import FirnlineError, PartSchemaError, SchemaConflictError, UsageError
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from tests.support.appends import keys, make, rows_of
from tests.support.cleanups import clean_up
from tests.support.log_tables import do_nothing, v1_state
from tests.support.world import make_world

COLUMNS = {"id": "BIGINT", "ts": "TIMESTAMP", "v": "DOUBLE"}


def schema_of(table: Any) -> dict[str, str]:
    """The columns that every reader sees."""
    return dict(read_snapshot(table.store, table.paths).schema)


def test_an_append_of_no_rows_makes_the_table() -> None:
    table = make(columns=COLUMNS)
    result = Appender(table).append([])
    assert (result.rows, result.parts) == (0, ())
    assert [result.log_key] == keys(table, "_log")
    assert schema_of(table) == COLUMNS
    assert len(keys(table, "_txn")) == 1, "the birth record"
    assert Appender(table).append([]).log_key is None, "it is there"


def test_without_columns_it_makes_nothing() -> None:
    table = make()
    assert Appender(table).append([]).log_key is None
    assert not [*table.store.list("t/")]


@pytest.mark.parametrize("locking", ["fenced", "pool-only"])
def test_clients_of_version_1_read_a_table_without_a_row(locking: str) -> None:
    table = make(columns=COLUMNS, locking=locking)
    result = Appender(table).append([])
    assert result.log_key is not None
    data = table.store.get(result.log_key)
    assert not data.endswith(b"\n")
    assert v1_state({result.log_key: data}) == set()


def test_it_stays_through_folds_and_clean_ups() -> None:
    world = make_world(columns=COLUMNS)
    Appender(world.table).append([])
    for _ in range(4):
        do_nothing(world)
        world.clock.advance(86_400_000)
        clean_up(world)
    assert schema_of(world.table) == COLUMNS


def test_rows_are_read_by_the_types(tmp_path: Path) -> None:
    table = make(columns=COLUMNS)
    appender = Appender(table)
    appender.append([{"id": 1, "ts": "2026-01-01T00:00:00", "v": 1}])
    appender.append([{"id": 2, "v": 1.5}])
    at = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - the column has no zone
    found = sorted(rows_of(table, tmp_path), key=lambda row: int(row["id"]))
    assert [(row["v"], row.get("ts")) for row in found] == [(1.0, at), (1.5, None)]
    assert schema_of(table) == COLUMNS, "also of columns that no row has"


def test_a_service_reads_rows_by_the_types(tmp_path: Path) -> None:
    table = make(columns=COLUMNS)
    with Service(table) as service:
        service.append({"id": 1, "v": 1})
        service.append({"id": 2, "v": 1.5})
    assert sorted(row["v"] for row in rows_of(table, tmp_path)) == [1.0, 1.5]
    assert schema_of(table) == COLUMNS


def test_unknown_columns_are_added_or_refused(tmp_path: Path) -> None:
    table = make(columns=COLUMNS)
    with pytest.raises(UsageError, match="table t has no column or field more"):
        Appender(table).append([{"id": 1, "more": "x"}], new_columns=False)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "more": ["x"]}), file)
    with pytest.raises(UsageError, match="table t has no column more"):
        Appender(table).append_files([file], new_columns=False)
    assert Appender(table).append([{"id": 1, "more": "x"}]).new_columns == {"more": "VARCHAR"}
    assert schema_of(table) == {**COLUMNS, "more": "VARCHAR"}


def test_rows_that_do_not_fit_are_refused() -> None:
    table = make(columns=COLUMNS)
    with pytest.raises((PartSchemaError, SchemaConflictError)):
        Appender(table).append(pa.table({"id": ["x"]}))
    assert not keys(table, "_log")


def test_a_table_that_has_columns_goes_by_its_own(tmp_path: Path) -> None:
    table = make()
    Appender(table).append(pa.table({"id": pa.array([1], pa.int32())}))
    other = make(table.settings.root, columns=COLUMNS)
    Appender(other).append([{"id": 2}])
    assert schema_of(other) == {"id": "INTEGER"}
    assert Appender(other).append([]).log_key is None


def test_a_key_makes_the_table_once() -> None:
    world = make_world(columns=COLUMNS)
    assert not Appender(world.table).append([], key="begin").repeated
    assert Appender(world.table).append([], key="begin").repeated


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"id": "NUMBER"}, "'NUMBER' is not a SQL type"),
        ({"id": "BIGINT", "ID": "BIGINT"}, "columns names 'ID' twice"),
        ({"": "BIGINT"}, "columns"),
        ({"id": "HUGEINT"}, r"no part holds 'HUGEINT' as it is; write DECIMAL\(38,0\)"),
        ({"id": "ENUM('a')[]"}, r"as it is; write VARCHAR\[\]"),
        ({"id": "INTERVAL"}, "as it is; no type of it fits"),
        ({"id": "UNION(a BIGINT)"}, "as it is; no type of it fits"),
    ],
)
def test_settings_say_what_is_no_column(columns: dict[str, str], says: str) -> None:
    with pytest.raises((ValueError, FirnlineError), match=says):
        TableSettings.model_validate({"name": "t", "root": "memory://b/t", "columns": columns})


def test_types_are_written_as_tables_write_them() -> None:
    given = {"a": "int4[]", "b": "decimal(10,2)"}
    settings = TableSettings.model_validate({"name": "t", "root": "memory://b/t", "columns": given})
    assert settings.columns == {"a": "INTEGER[]", "b": "DECIMAL(10,2)"}
