from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from firnline.operations.pools import (
    NO_TABLE,
    NO_TABLE_TAKES,
    RunLock,
    lock_of_run,
    pool_of_run,
    pool_problems,
    pools_json,
)
from firnline.settings.load import load_settings
from tests.support.tables import loaded
from tools.bootstrap import REPO


def test_every_table_has_two_pools_of_one_slot(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "tables: {a: {root: 's3://b/a'}, b.c: {root: 's3://b/c'}}")
    pools = pools_json(settings)
    none = pools.pop(NO_TABLE)
    assert list(pools) == ["a.merge", "a.cleanup", "b.c.merge", "b.c.cleanup"]
    assert all(pool["slots"] == 1 and pool["include_deferred"] for pool in pools.values())
    assert none["slots"] == 1 < NO_TABLE_TAKES, "what has not got the pool of a table never runs"
    for table in settings.tables.values():
        assert {table.merge_pool, table.cleanup_pool} <= set(pools)


def test_a_pool_of_merges_has_the_slots_that_the_table_says(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path, "tables: {a: {root: 's3://b/a', partition_by: [d], merge: {slots: 3}}}"
    )
    pools = pools_json(settings)
    assert {name: pool["slots"] for name, pool in pools.items()} == {
        "a.merge": 3,
        "a.cleanup": 1,
        NO_TABLE: 1,
    }
    said = "3 merges of table a, or one of whatever else replaces its parts"
    assert pools["a.merge"]["description"] == said


def test_a_merge_takes_one_slot_and_what_runs_alone_takes_all(tmp_path: Path) -> None:
    tables = loaded(
        tmp_path, "tables: {a: {root: 's3://b/a', partition_by: [d], merge: {slots: 3}}}"
    ).tables
    assert lock_of_run("merge__a", {}, tables) == RunLock("a.merge", 1, 3)
    for operation in ("restore", "erase", "delete_where", "replace", "remove_partitions"):
        assert lock_of_run(operation, {"table": "a"}, tables) == RunLock("a.merge", 3, 3)
    for dag in ("ttl__a", "rewrite_partitions__a"):
        assert lock_of_run(dag, None, tables) == RunLock("a.merge", 3, 3)
    assert lock_of_run("verify__a", None, tables) == RunLock("a.cleanup", 1, 1)
    assert lock_of_run("merge__gone", None, tables) == RunLock("gone.merge", 1, 1)
    assert lock_of_run("restore", {}, tables) is None
    assert lock_of_run("somebody_elses", {"table": "a"}, tables) is None


def test_rewrites_and_replaces_run_beside_each_other_where_the_table_says_so(
    tmp_path: Path,
) -> None:
    given = "root: 's3://b/a', partition_by: [d], merge: {slots: 3}"
    more = "rewrite: {beside_merges: yes}"
    tables = loaded(tmp_path, f"tables: {{a: {{{given}, {more}}}}}").tables
    for operation in ("rewrite_partitions", "update_where", "replace", "merge"):
        assert lock_of_run(operation, {"table": "a"}, tables) == RunLock("a.merge", 1, 3)
    for operation in ("restore", "erase", "delete_where", "remove_partitions", "ttl"):
        assert lock_of_run(operation, {"table": "a"}, tables) == RunLock("a.merge", 3, 3)


def test_the_pool_of_a_run_is_that_of_its_table() -> None:
    assert pool_of_run("merge__flights", None) == "flights.merge"
    assert pool_of_run("merge__a__b", {"table": "c"}) == "a__b.merge"
    assert pool_of_run("restore", {"table": "flights"}) == "flights.merge"
    assert pool_of_run("merge", {"table": "flights"}) == "flights.merge"
    assert pool_of_run("orphan_sweep", {"table": "flights"}) == "flights.cleanup"
    assert pool_of_run("orphan_sweep__flights", {}) == "flights.cleanup"


@pytest.mark.parametrize(
    "dag_id",
    ["merge__", "other__flights", "flights", "__flights", "restore__", "fleet__merge"],
)
def test_a_foreign_dag_has_no_pool_of_ours(dag_id: str) -> None:
    assert pool_of_run(dag_id, {"table": "flights"}) is None


@pytest.mark.parametrize("conf", [None, {}, {"table": None}, {"table": 3}, {"table": ""}])
def test_a_run_that_names_no_table_has_no_pool(conf: dict[str, object] | None) -> None:
    assert pool_of_run("restore", conf) is None


@pytest.mark.parametrize(("slots", "sound"), [(0, True), (1, True), (2, False), (-1, False)])
def test_the_pool_of_tasks_without_a_table_has_fewer_slots_than_a_task_takes(
    slots: int, *, sound: bool
) -> None:
    problems = pool_problems({NO_TABLE: 1}, {NO_TABLE: slots})
    assert ["would run without a lock; set it to 1 slot" in each for each in problems] == (
        [] if sound else [True]
    )


def test_no_pool_of_the_settings_is_left_out_by_the_astro_cli(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "tables: {a: {root: 's3://b/a'}}")
    assert all(pool["slots"] > 0 for pool in pools_json(settings).values())


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ({}, "the pool a.merge does not exist"),
        ({"a.merge": 0}, "has no slot"),
        ({"a.merge": 2}, "has 2 slots instead of 1"),
        ({"a.merge": -1}, "has any number of slots instead of 1"),
    ],
)
def test_a_pool_that_is_wrong_is_named_with_the_command_that_mends_it(
    slots: dict[str, int], said: str
) -> None:
    (problem,) = pool_problems({"a.merge": 1, "b.merge": 1}, {"b.merge": 1, **slots})
    assert said in problem
    assert "`firnline pools > pools.json` and then `airflow pools import pools.json`" in problem


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        (1, "has 1 slot instead of 3, so fewer merges run at once than merge.slots says"),
        (2, "an operation that takes all 3 slots would wait for ever; widen it with"),
        (4, "so what is to run alone on this table may meet a merge, and work in vain; narrow it"),
        (-1, "has any number of slots instead of 3"),
        (0, "has no slot"),
    ],
)
def test_a_pool_that_several_merges_share_has_exactly_their_number_of_slots(
    slots: int, said: str
) -> None:
    (problem,) = pool_problems({"a.merge": 3}, {"a.merge": slots})
    assert said in problem
    assert pool_problems({"a.merge": 3}, {"a.merge": 3}) == []


def test_the_file_for_the_astro_cli_lists_the_same_pools_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FIRNLINE_FLIGHTS_ROOT", "FIRNLINE_FLIGHTS_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    settings = load_settings(REPO / "include" / "tables.yaml")
    astro = yaml.safe_load((REPO / "airflow_settings.yaml").read_text())["airflow"]
    listed = {
        pool["pool_name"]: (pool["pool_slot"], pool["pool_description"]) for pool in astro["pools"]
    }
    assert listed == {
        name: (pool["slots"], pool["description"]) for name, pool in pools_json(settings).items()
    }
    connections = {conn["conn_id"]: conn for conn in astro["connections"]}
    wanted = {table.spark.conn_id for table in settings.tables.values()}
    wanted |= {table.connection_id for table in settings.tables.values() if table.connection_id}
    assert wanted <= set(connections)
    assert all(not c["conn_password"] and not c["conn_login"] for c in connections.values())
