"""SQL that users give: a query of a rewrite or merge, a condition of a rewrite or delete.

Whatever it tries, the answer is one error, the table stays as it is, and no file is read: neither
its rows nor any message ever hold what stands in the canary, a file that only an attack would open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, RunFailedError, UsageError
from firnline.kernel.duckdb import open_duckdb
from firnline.kernel.local import LocalEngine
from firnline.kernel.query import process as query_process
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete import run as delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RewriteOptions
from firnline.operations.rewrite import run as rewrite
from tests.support.effort import sample
from tests.support.hostile import RecordingStore, refusal
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
SECRET = "s3cr3t-canary"
START = query_process._start


@dataclass(frozen=True)
class Attacked:
    """A table in memory, and the canary beside it."""

    world: World
    folder: Path

    @property
    def store(self) -> RecordingStore:
        assert isinstance(self.world.store, RecordingStore)
        return self.world.store

    def engine(self) -> LocalEngine:
        return LocalEngine(
            lambda: self.store, self.folder / "scratch", self.world.ids, SystemClock()
        )

    def fill(self, text: str) -> str:
        """An attack with the canary's place in it."""
        return text.replace("@", str(self.folder / "canary"))


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """One for all tests: whatever they try, nothing changes."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "canary.csv").write_text(f"k,n,s\n1,1,{SECRET}\n")
    (folder / "canary.txt").write_text(SECRET)
    (folder / "canary.json").write_text(f'{{"s": "{SECRET}"}}')
    with duckdb.connect() as connection:
        one = f"SELECT 1::BIGINT AS k, 1::BIGINT AS n, '{SECRET}' AS s"
        connection.execute(f"COPY ({one}) TO '{folder}/canary.parquet' (FORMAT parquet)")
        connection.execute(f"ATTACH '{folder}/canary.db' AS c")
        connection.execute(f"CREATE TABLE c.t AS {one}")
    (folder / "scratch").mkdir()  # not every test makes it
    files = {path.name for path in folder.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRNLINE_CANARY", SECRET)
        yield Attacked(filled({}), folder)
    assert {path.name for path in folder.iterdir()} == files
    assert not list((folder / "scratch").glob("*"))


def filled(settings: dict[str, Any]) -> World:
    world = make_world(**settings)
    store = RecordingStore(world.clock)
    world.store = store
    object.__setattr__(world.table, "store", store)
    appender = Appender(world.table)
    for start in (0, 3):
        world.clock.advance(10)
        numbers = [start, start + 1, start + 2]
        appender.append(pa.table({"k": numbers, "n": numbers, "s": ["a", "b", "c"]}))
    store.forget()
    return world


REACHES = [
    "select k, n, s from read_parquet('@.parquet')",
    "select k, n, s from read_csv('@.csv')",
    "select k, n, s from read_csv_auto(['@.csv'])",
    "select k, n, s from sniff_csv('@.csv')",
    "select k, n, content as s from _rows, read_text('@.txt')",
    "select k, n, content::varchar as s from _rows, read_blob('@*')",
    "select k, n, s from read_json('@.json'), _rows",
    "select k, n, s from read_ndjson_objects('@.json'), _rows",
    "select k, n, file as s from _rows, glob('@*')",
    "select k, n, s from parquet_scan('@.parquet')",
    "select k, n, value as s from _rows, parquet_kv_metadata('@.parquet')",
    "select k, n, s from '@.parquet'",
    'select k, n, s from "@.csv"',
    "from '@.csv'",
    "with a as (from '@.csv') select k, n, s from a",
    "select k, n, (select s from '@.csv') as s from _rows",
    "select k, n, s from _rows where s in (from read_csv('@.csv') select s)",
    "select k, n, s from _rows, lateral (select * from '@.csv')",
    "from _rows union all from '@.csv'",
    "(from _rows) intersect (from '@.csv')",
    "select k, n, s from _rows semi join '@.csv' using (k)",
    "from (pivot '@.csv' on k using max(s))",
    "from (unpivot '@.csv' on k, n)",
    "from (describe '@.csv')",
    "from (summarize '@.csv')",
    "from (show tables)",
    "from c.t",
    "from _rows at (version => 1)",
    "attach '@.db' as c; from c.t",
    "attach '@.db'",
    "copy (from _rows) to '@.out'",
    "copy _rows from '@.csv'",
    "export database '@.out'",
    "import database '@.out'",
    "create table x as from '@.csv'",
    "create or replace temp view _rows as from '@.csv'",
    "create macro m() as table from '@.csv'",
    "create secret (type s3, key_id 'x', secret 'y')",
    "insert into _rows from '@.csv'",
    "update _rows set s = 'x'",
    "delete from _rows",
    "truncate _rows",
    "alter table _rows rename to x",
    "drop view _rows",
    "install httpfs",
    "force install httpfs from '@'",
    "load '@.so'",
    "set allowed_directories = ['/']",
    "set enable_external_access = true",
    "set threads = 64",
    "set variable x = 1",
    "reset lock_configuration",
    "pragma enable_profiling",
    "pragma database_list",
    "call duckdb_settings()",
    "checkpoint",
    "vacuum",
    "begin; from _rows; commit",
    "from _rows; from _rows",
    "from _rows; copy (select 1) to '@.out'",
    "prepare q as from _rows",
    "execute q",
    "from query('from ''@.csv''')",
    "from query_table('_rows')",
    "select k, n, s from _rows, duckdb_settings()",
    "select k, n, s from _rows, duckdb_secrets()",
    "select k, n, s from _rows, duckdb_extensions()",
    "select k, n, s from _rows, duckdb_temporary_files()",
    "select k, n, s from _rows, duckdb_logs()",
    "select k, n, s from _rows, pragma_database_list()",
    "select k, n, s from _rows, information_schema.tables",
    "select k, n, s from _rows, main._rows",
    "select k, n, s from _rows, temp.main._rows",
    "select k, n, getenv('FIRNLINE_CANARY') as s from _rows",
    "select k, n, system.main.getenv('FIRNLINE_CANARY') as s from _rows",
    "select k, n, current_setting('allowed_directories')::varchar as s from _rows",
    "select k, n, pg_catalog.current_setting('temp_directory') as s from _rows",
    "select k, n, list_transform(['x'], x -> getenv('FIRNLINE_CANARY'))[1] as s from _rows",
    "select k, n, s from _rows order by getenv('FIRNLINE_CANARY')",
    "select k, n, s from _rows limit (select length(getenv('FIRNLINE_CANARY')))",
    "select k, n, s from _rows qualify row_number() over (order by getenv('X')) > 0",
    "select k, n, (select max(s) from '@.csv' using sample 10 rows) as s from _rows",
    "select k, n, columns(c -> getenv(c) is null) from _rows",
    "values (getenv('FIRNLINE_CANARY'), 1, 's')",
    "from world",
    "select k, n, s from _rows\0 union all from '@.csv'",
    "select k, n, s from _rows where s = '\udce9'",
    "select k, n" + "+1" * 700 + " as n, s from _rows",
    "from _rows /* ",
    "from _rows where s = 'x",
    "",
    ";",
    "   ",
    "-- from _rows",
]


def unchanged(attacked: Attacked, before: dict[str, Any], error: FirnlineError) -> None:
    assert attacked.world.store.objects == before
    assert not [key for key in attacked.store.read if "/_data/" in key], "no part was read"
    assert SECRET not in str(error)
    assert "Traceback" not in str(error)
    assert "\n" not in str(error)


def is_refused(attacked: Attacked, text: str) -> None:
    """As a query of a rewrite, before anything is read."""
    attacked.store.forget()
    before = dict(attacked.world.store.objects)
    options = RewriteOptions(sql=attacked.fill(text), force=True)
    error = refusal(
        "the query", rewrite.run_rewrite, Work(attacked.world.table, RUN, pytest.fail), options
    )
    assert isinstance(error, UsageError)
    unchanged(attacked, before, error)


@pytest.mark.parametrize("text", REACHES)
def test_a_query_that_reaches_out_is_refused_before_anything_is_read(
    attacked: Attacked, text: str
) -> None:
    is_refused(attacked, text)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of queries are started as the product does it, in this environment."""
    monkeypatch.setattr(query_process, "_start", START)


ASKS_ENVIRONMENT = [text for text in REACHES if "getenv" in text]


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    "text", sample(REACHES, 3, "started") + sample(ASKS_ENVIRONMENT, 2, "started with the canary")
)
def test_a_process_that_is_started_and_not_forked_refuses_it_too(
    attacked: Attacked, text: str
) -> None:
    is_refused(attacked, text)


def test_every_attack_has_a_harmless_sister(attacked: Attacked) -> None:
    """Else the test above might pass because every query is refused."""
    harmless = Attacked(filled({}), attacked.folder)
    options = RewriteOptions(sql="select k, n, s || 'x' as s from _rows", force=True)
    report = rewrite.run_rewrite(Work(harmless.world.table, RUN, harmless.engine), options)
    assert report.counts.rows_out == 6


@pytest.mark.parametrize(
    "text",
    [
        "select k, n, s from '@.csv'",
        "from read_parquet('@.parquet')",
        "copy (from _rows) to '@.out'",
        "from _rows; set threads = 9",
        "select k, n, getenv('FIRNLINE_CANARY') as s from _rows",
    ],
)
def test_the_query_of_a_merge_is_no_way_out_either(attacked: Attacked, text: str) -> None:
    sql = attacked.fill(text)
    world = filled({"merge": {"sql": sql, "min_inputs": 2}, "partition_by": []})
    case = Attacked(world, attacked.folder)
    before = dict(world.store.objects)
    error = refusal("the query", run_merge, Work(world.table, RUN, case.engine), MergeOptions())
    unchanged(case, before, error)


CONDITIONS = [
    "k = (select count(*) from '@.csv')",
    "k in (select k from read_csv('@.csv'))",
    "exists (from '@.parquet')",
    "s = getenv('FIRNLINE_CANARY')",
    "s = current_setting('temp_directory')",
    "k = 1; copy (select 1) to '@.out'",
    "k = 1 union select * from '@.csv'",
    "k = 1) or (select true from '@.csv'",
    "true) ; attach '@.db' ; select (true",
    "k = 1 -- \n; drop view _rows",
    "s like '%'",
    "regexp_matches(s, '(a+)+$')",
    "s = read_text('@.txt')",
    "k = cast('1' as bigint)",
    "k = {'a': 1}.a",
    "s = $$a$$ || getenv('x')",
    "k = nextval('x')",
    "s = (values ('a'))",
    "k = any (from '@.csv' select k)",
    "set threads = 4",
    "k = ${FIRNLINE_CANARY}",
    "k = " + "(" * 3000 + "1" + ")" * 3000,
    "s = '\udce9'",
    "n = 1e",
    "n = " + "9" * 6000,
    "",
]


@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("operation", ["rewrite", "delete"])
def test_a_condition_that_is_more_than_one_is_refused_before_anything_is_read(
    attacked: Attacked, operation: str, text: str
) -> None:
    attacked.store.forget()
    before = dict(attacked.world.store.objects)
    where, table = attacked.fill(text), attacked.world.table
    if operation == "rewrite":
        options = RewriteOptions(where=where, force=True)
        error = refusal("", rewrite.run_rewrite, Work(table, RUN, pytest.fail), options)
    else:
        error = refusal(
            "", delete.run_delete, Work(table, RUN, pytest.fail), DeleteOptions(where=where)
        )
    assert isinstance(error, UsageError)
    unchanged(attacked, before, error)


ENDLESS = [
    "with recursive t(i) as (values (1) union all from t) select _rows.* from _rows, t where i < 0",
    "select k, n, s from _rows, range(1000000000000) as r(i) where i % 7 = 8",
    "select k, n, s from _rows, generate_series(1, 1000000000000) as r(i) where md5(i || '') = s",
]


@pytest.mark.parametrize("sql", ENDLESS)
def test_a_query_without_end_is_ended_and_changes_nothing(attacked: Attacked, sql: str) -> None:
    table = attacked.world.table
    settings = table.settings.model_copy(
        update={"rewrite": table.settings.rewrite.model_copy(update={"time_limit": 300})}
    )
    object.__setattr__(table, "settings", settings)
    before = set(attacked.world.store.objects)
    options = RewriteOptions(sql=sql, force=True)
    error = refusal(
        "ran longer than", rewrite.run_rewrite, Work(table, RUN, attacked.engine), options
    )
    assert isinstance(error, RunFailedError)
    assert set(attacked.world.store.objects) == before


@pytest.mark.usefixtures("started")
def test_a_query_that_fills_the_memory_ends_with_one_error_and_changes_nothing(
    attacked: Attacked,
) -> None:
    world = filled({"merge": {"kernel_memory": "512MiB"}})
    case = Attacked(world, attacked.folder)
    before = set(world.store.objects)
    options = RewriteOptions(sql="select k, n, repeat(s, 1000000000) as s from _rows", force=True)
    refusal("memory", rewrite.run_rewrite, Work(world.table, RUN, case.engine), options)
    assert set(world.store.objects) == before


# --- the second wall, alone -----------------------------------------------------------------------


WALLED = [
    "from read_csv('@.csv')",
    "from read_parquet('@.parquet')",
    "from read_text('@.txt')",
    "from read_blob('@.txt')",
    "from read_json('@.json')",
    "from '@.csv'",
    "from '@.parquet'",
    "from glob('@*') where error('it lists')",
    "attach '@.db' as c",
    "copy (select 1) to '@.out'",
    "export database '@.out'",
    "install httpfs",
    "load httpfs",
    "load '@.so'",
    "set allowed_directories = ['/']",
    "set allowed_paths = ['@.csv']",
    "set enable_external_access = true",
    "set temp_directory = '@.out'",
    "set lock_configuration = false",
    "set memory_limit = '1TB'",
    "set home_directory = '/'",
    "reset memory_limit",
    "from read_csv('https://example.invalid/x.csv')",
    "from read_parquet('s3://bucket/x.parquet')",
    "attach 'https://example.invalid/x.db' as c",
]


@pytest.mark.parametrize("text", WALLED)
def test_the_database_itself_reaches_nothing_outside_its_folder(
    attacked: Attacked, tmp_path: Path, text: str
) -> None:
    (tmp_path / "scratch").mkdir()
    with open_duckdb(tmp_path / "scratch", 2**28, 1) as connection:
        with pytest.raises(duckdb.Error) as caught:
            connection.execute(attacked.fill(text)).fetchall()
        assert SECRET not in str(caught.value)
        assert "it lists" not in str(caught.value)
