"""A user's query over the rows: what it may do, what it must return, how it is ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.kernel.query import process as query_process
from firnline.kernel.query import worker as query_child
from firnline.kernel.query.process import check_query
from firnline.kernel.task import KernelResult
from tests.kernel.conftest import Group
from tests.support.effort import examples

pytestmark = pytest.mark.usefixtures("in_process")

COLUMNS = {"k": "BIGINT", "n": "BIGINT", "s": "VARCHAR"}
ROWS = pa.table({"k": [1, 1, 2, 3], "n": [10, 5, 7, None], "s": ["a", "b", "c", None]})


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the query's process does is done here; the process has its own tests."""
    monkeypatch.setattr(query_process, "_ask", lambda request, *_: query_child.answer(request))


def asked(group: Group, query: str, *tables: pa.Table, **changed: Any) -> KernelResult:
    keys = group.put(*(tables or (ROWS,)))
    return group.run(group.task(keys, COLUMNS, query=query, **changed))


def test_a_query_makes_the_rows_of_the_output_sorted_and_in_the_tables_columns(
    group: Group,
) -> None:
    query = "select max(s) as S, sum(n)::BIGINT as n, k from _rows group by k -- per key"
    result = asked(group, query, ROWS, ROWS, sort=["k"], stats_columns=("k",))
    rows = group.read(result)
    assert rows.column_names == ["k", "n", "s"]
    assert rows.to_pylist() == [
        {"k": 1, "n": 30, "s": "b"},
        {"k": 2, "n": 14, "s": "c"},
        {"k": 3, "n": None, "s": None},
    ]
    assert (result.rows_in, result.rows_removed) == (8, 5)
    assert result.parts[0].stats == {"k": (1, 3, 0)}


def test_a_query_that_makes_more_rows_removes_a_negative_number(group: Group) -> None:
    result = asked(group, "from _rows union all from _rows")
    assert (result.parts[0].rows, result.rows_removed) == (8, -4)


def test_a_query_that_makes_no_rows_leaves_no_part(group: Group) -> None:
    result = asked(group, "select * from _rows where k > 99")
    assert (result.error, result.parts, result.rows_removed) == (None, (), 4)
    assert result.requests["put"] == 0


def test_a_query_sees_only_rows_that_deletes_leave_and_is_not_run_over_none(group: Group) -> None:
    keys = group.put(ROWS)
    count = "select count(*)::BIGINT as k, null::BIGINT as n, null::VARCHAR as s from _rows"
    some = group.run(group.task(keys, COLUMNS, query=count, hidden={keys[0]: "k = 1"}))
    assert group.read(some)["k"].to_pylist() == [2]
    assert (some.rows_deleted, some.rows_removed) == (2, 1)
    none = group.run(group.task(keys, COLUMNS, query=count, hidden={keys[0]: "k > 0"}))
    assert (none.parts, none.rows_deleted) == ((), 4)


def test_a_query_sees_one_row_per_primary_key(group: Group) -> None:
    result = asked(group, "from _rows", ROWS, ROWS, primary_key=("k",), sort=["k"])
    assert group.read(result)["n"].to_pylist() == [5, 7, None]
    assert (result.rows_deduplicated, result.rows_removed) == (5, 0)


def test_the_rows_have_the_name_that_the_task_gives_them(group: Group) -> None:
    result = asked(group, "select * from source_files where k = 2", source="source_files")
    assert group.read(result)["k"].to_pylist() == [2]


def test_a_query_that_makes_another_number_each_time_is_counted_once(group: Group) -> None:
    many = pa.table({"k": list(range(5000)), "n": [0] * 5000, "s": [""] * 5000})
    result = asked(group, "select * from _rows where random() < 0.5", many)
    assert result.error is None
    assert result.rows_removed == 5000 - result.parts[0].rows
    group.read(result)


ALLOWED = [
    "from _rows",
    "TABLE _rows",
    "select * from _ROWS where s like 'a%' order by n limit 2;",
    "with a as (select * from _rows), b as materialized (select * from a) select * from b",
    "select distinct on (k) * from _rows order by k, n",
    "select * from _rows qualify row_number() over (partition by k order by n) = 1",
    "select * from _rows where k in (select max(k) from _rows group by s)",
    "select k, n, x as s from _rows, unnest(['p', 'q']) as u(x)",
    "with recursive t(i) as (values (1) union select i+1 from t where i < 3) select * from _rows",
    "select * replace (coalesce(n, 0) as n) from _rows",
]


@pytest.mark.parametrize("query", ALLOWED)
def test_what_one_select_over_the_rows_can_say_is_allowed(group: Group, query: str) -> None:
    check_query(query, "_rows", COLUMNS, SystemClock())
    assert asked(group, query).error is None


REFUSED = [
    "select * from read_parquet('{file}')",
    "select * from read_csv('/etc/passwd')",
    "select k, n, content as s from _rows, read_text('/etc/passwd')",
    "select k, n, file as s from _rows, glob('/**')",
    "select * from '{file}'",
    'select * from "{file}"',
    'select _rows.* from _rows, "{file}", (with "{file}" as (select 1) select * from "{file}")',
    'with "{file}" as (select * from "{file}") select * from "{file}"',
    'with a as (select * from "{file}"), "{file}" as (select 1) select * from a',
    "select * from _rows where k = (select count(*) from read_csv('/etc/passwd'))",
    "copy (select * from _rows) to '/tmp/firnline-query.csv'",
    "with x as (copy (from _rows) to '/tmp/firnline-query.csv') from _rows",
    "attach '/tmp/firnline-query.db'",
    "install httpfs",
    "load json",
    "set memory_limit = '1TB'",
    "reset memory_limit",
    "pragma version",
    "call pragma_version()",
    "export database '/tmp/firnline-query'",
    "explain from _rows",
    "create table x as from _rows",
    "insert into x from _rows",
    "with x as (insert into y values (1) returning *) from _rows",
    "delete from _rows",
    "drop view _rows",
    "from _rows; from _rows",
    "from _rows) to '/tmp/firnline-query.csv' (format csv); select (1",
    "select k, n, getenv('HOME') as s from _rows",
    "select k, n, current_setting('temp_directory') as s from _rows",
    "select k, n, 'temp_directory'.current_setting() as s from _rows",
    "select k, n, \"current_setting\"('temp_directory') as s from _rows",
    "select k, n, current_query() as s from _rows",
    "select k, n, s from _rows, duckdb_settings()",
    "select k, n, s from _rows, duckdb_secrets()",
    "select k, n, s from _rows, information_schema.tables",
    "select k, n, s from _rows, pg_catalog.pg_settings",
    "select k, n, s from _rows, sqlite_master",
    "select _rows.* from _rows, query('select 1')",
    "select _rows.* from _rows, query_table('_rows')",
    "summarize _rows",
    "show tables",
    "",
    "selec * from _rows",
    "select * from _rows -- /*\n */ x",
]


@pytest.mark.parametrize("query", REFUSED)
def test_a_query_reaches_nothing_but_the_rows(group: Group, query: str) -> None:
    (key,) = group.put(ROWS)
    query = query.replace("{file}", str(group.root / key))
    with pytest.raises(UsageError) as caught:
        check_query(query, "_rows", COLUMNS, SystemClock())
    assert "Traceback" not in str(caught.value)
    result = group.run(group.task([key], COLUMNS, query=query))
    assert (result.error_type, result.parts) == ("UsageError", ())
    assert not list(Path("/tmp").glob("firnline-query*"))


def test_a_query_does_not_see_the_staged_files_either(group: Group) -> None:
    """The scratch folder is open to the database: only the parse tree keeps the query out."""
    for reach in ("glob('**')", "'000000.parquet'", "read_parquet('*.parquet')"):
        assert asked(group, f"select _rows.* from _rows, {reach}").error_type == "UsageError"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("select *, 1 as extra from _rows", "makes a column 'extra' (INTEGER)"),
        ("select k, n from _rows", "leaves out column 's'"),
        ("select *, k from _rows", "makes column 'k' twice"),
        ("select k, sum(n) as n, max(s) as s from _rows group by k", "'n' as HUGEINT"),
        ("select k, n, null as s from _rows", "the table has it as VARCHAR"),
        ("select k, n, nothing as s from _rows", "nothing"),
    ],
)
def test_other_columns_and_types_are_refused_by_name(group: Group, query: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_query(query, "_rows", COLUMNS, SystemClock())
    assert says in str(caught.value)
    assert says in str(asked(group, query).error)


def test_types_that_parquet_does_not_keep_are_those_that_it_gives_back(group: Group) -> None:
    check_query(
        "from _rows",
        "_rows",
        {"e": "ENUM('a', 'b')", "h": "HUGEINT", "l": "INTEGER[]"},
        SystemClock(),
    )
    with pytest.raises(UsageError, match="HUGEINT"):
        check_query("select 1::HUGEINT as h from _rows", "_rows", {"h": "HUGEINT"}, SystemClock())


def test_a_query_that_fails_on_a_row_says_so_without_paths(group: Group) -> None:
    result = asked(group, "select k, n, error('bad row')::VARCHAR as s from _rows where k = 1")
    assert result.error_type == "UsageError"
    assert "bad row" in str(result.error)
    assert str(group.scratch) not in str(result.error)


@examples(15, 400)
@given(
    parts=st.lists(
        st.lists(st.tuples(st.none() | st.integers(0, 4), st.integers(-9, 9)), max_size=5),
        min_size=1,
        max_size=4,
    ),
    least=st.integers(0, 4),
)
def test_an_aggregate_is_what_python_makes_of_all_rows(
    group: Group, parts: list[list[tuple[int | None, int]]], least: int
) -> None:
    kinds = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    tables = [pa.Table.from_pylist([{"k": k, "n": n} for k, n in part], kinds) for part in parts]
    query = f"select k, sum(n)::BIGINT as n from _rows where k >= {least} group by k"
    keys = group.put(*tables)
    task = group.task(keys, {"k": "BIGINT", "n": "BIGINT"}, query=query, sort=["k"])
    result = group.run(task)
    sums: dict[int, int] = {}
    for k, n in (row for part in parts for row in part):
        if k is not None and k >= least:
            sums[k] = sums.get(k, 0) + n
    made = group.read(result).to_pylist() if result.parts else []
    assert made == [{"k": k, "n": n} for k, n in sorted(sums.items())]
    assert result.rows_removed == sum(map(len, parts)) - len(sums)
