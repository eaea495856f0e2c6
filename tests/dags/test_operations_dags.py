"""What all DAGs of all operations have in common, and how many of them Airflow can take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from firnline.operations.dag_ids import FLEET, dag_id
from firnline.operations.pools import NO_TABLE, pool_of_run
from firnline.settings.cron import spread
from firnline.settings.sections import ALL_OPERATIONS, OWN_DAGS
from tests.dags.parsing import HEAVY, Parser

OPERATIONS = sorted(ALL_OPERATIONS)
QUIET = ("verify", "orphan_sweep")
"""Operations that leave the table as it is and tell no asset."""
TABLES = """
defaults:
  alerts: {notifier: some.where.Notifier, merge_deadline: 6h}
tables:
  plain:
    root: 'file:///tmp/plain'
    own_dags: all
    alerts: {notifier: null, merge_deadline: null}
  aging:
    root: 'file:///tmp/aging'
    own_dags: all
    ttl: {keep: 90d, partition: 'd=(?P<day>.*)', schedule: '11 3 * * *'}
    cleanup: {schedule: '7 4 * * *'}
    sweep: {schedule: '@weekly'}
    import: {source: 'file:///tmp/firehose', schedule: '5 * * * *'}
  few: {root: 'file:///tmp/few', own_dags: all, operations: [merge, ttl, tombstone_cleanup]}
  # Airflow's pages and URLs have to bear it too.
  a__b.c-d: {root: 'file:///tmp/odd', own_dags: [verify]}
  bare: {root: 'file:///tmp/bare'}
"""


@pytest.fixture(scope="module")
def parsed(parser: Parser, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return parser.parse(tmp_path_factory.mktemp("home"), TABLES)


def of(parsed: Any, operation: str) -> Any:
    """The DAG of an operation: that of the table which has all of them, or that for all tables."""
    return parsed["dags"].get(dag_id(operation, "aging")) or parsed["dags"][operation]


def test_every_operation_has_a_dag_and_a_table_those_that_it_asks_for_besides(parsed: Any) -> None:
    assert parsed["errors"] == {}
    few = {"merge", "tombstone_cleanup"}
    expected = [
        dag_id(operation, table)
        for table in ("plain", "aging", "few")
        for operation in OWN_DAGS
        if (operation not in ("ttl", "import") or table == "aging")
        and (table != "few" or operation in few)
    ]
    more = ["verify__a__b.c-d", "orphan_sweep__aging", FLEET]
    assert parsed["ids"] == sorted([*expected, *OPERATIONS, *more])


def test_the_planner_of_the_fleet_is_one_small_dag_that_runs_by_its_own_clock(
    parsed: Any, parser: Parser, tmp_path: Path
) -> None:
    dag = parsed["dags"][FLEET]
    assert dag["file"].endswith("dags/all_tables.py")
    assert (dag["max_active_runs"], dag["catchup"], dag["owner"]) == (1, False, "firnline")
    assert set(dag["pools"].values()) == {"default_pool"}
    assert "0 * * * *" in json.dumps(dag["timetable"])
    assert dag["params"]["dry_run"][0] is False
    assert dag["doc"].startswith("### ")
    assert dag["size"] < 12_000
    # No table has a clock of its own then; with its own the planner is not needed.
    assert "0 * * * *" not in json.dumps(parsed["dags"]["merge__plain"]["timetable"])
    schedules = {"merge": "'@hourly'", "cleanup": "null", "verify": "null"}
    clocks = [f"  {name}: {{schedule: {text}}}" for name, text in schedules.items()]
    hourly = TABLES.replace("defaults:", "\n".join(["defaults:", *clocks]), 1)
    own = parser.parse(tmp_path, hourly)
    assert FLEET not in own["ids"]
    timetable = json.dumps(own["dags"]["merge__plain"]["timetable"])
    assert f'"{spread("@hourly", "merge__plain")}"' in timetable


def test_parsing_sends_no_request_and_imports_nothing_heavy(parsed: Any) -> None:
    # parse() refuses connections; boto3 is what Airflow itself loads to look at an s3:// asset.
    assert not set(parsed["modules"]) & {*HEAVY, "boto3", "botocore"}


def test_an_import_holds_no_pool_and_tells_the_asset_of_the_rows(parsed: Any) -> None:
    for name in ("import__aging", "import"):
        dag = parsed["dags"][name]
        assert set(dag["pools"].values()) == {"default_pool"}
        assert [task for task, outlets in dag["outlets"].items() if outlets] == ["import"]


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each != "import"])
def test_what_works_on_a_table_holds_its_pool_and_nothing_else_does(
    parsed: Any, operation: str
) -> None:
    for table in ("aging", "few", None):
        dag = parsed["dags"].get(dag_id(operation, table))
        if dag is None:
            continue
        pool = pool_of_run(dag_id(operation, table), None) or NO_TABLE
        held = {task for task, found in dag["pools"].items() if found == pool}
        assert held, "no task holds the pool"
        others = {found for task, found in dag["pools"].items() if task not in held}
        assert others <= {"default_pool"}
        told = {task for task, outlets in dag["outlets"].items() if outlets}
        assert bool(told) is (operation not in QUIET)
        inlets = [[each[0] for each in dag["inlets"][task]] for task in held]
        assert inlets == [[] if table is None else [table, f"{table}:upkeep"]] * len(held)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_dags_are_alike_in_what_an_operator_of_airflow_relies_on(
    parsed: Any, operation: str
) -> None:
    dag = of(parsed, operation)
    own = dag_id(operation, "aging") in parsed["dags"]
    assert dag["file"].endswith(f"dags/{'own_dags' if own else 'all_tables'}.py")
    at_once, tags = (1, ["aging"]) if own else (1_000, [])
    assert (dag["max_active_runs"], dag["catchup"], dag["owner"]) == (at_once, False, "firnline")
    assert dag["tags"] == sorted(["firnline", operation, *tags])
    # A person is given a time of their own, and the last task is never started.
    assert set(dag["timeouts"]) <= {"pick", "approve", "end"}
    assert dag["doc"].startswith("### ")
    assert "**When " in dag["doc"]
    # Characters of JSON in Airflow's database, for each table; a rewrite also asks and discards.
    assert dag["size"] < (14_000 if operation == "rewrite_partitions" else 12_000)


def test_what_cannot_be_taken_back_starts_as_a_dry_run(parsed: Any) -> None:
    starts = {
        operation: of(parsed, operation)["params"].get("dry_run", [None])[0]
        for operation in OPERATIONS
    }
    assert {name: default for name, default in starts.items() if default is not True} == {
        name: default
        for name, default in {"merge": False, "import": False, "verify": None}.items()
        if name in OPERATIONS
    }


def test_the_clock_starts_what_has_a_schedule(parsed: Any) -> None:
    times = {name: json.dumps(of(parsed, name)["timetable"]) for name in OPERATIONS}
    assert "7 4 * * *" in times["tombstone_cleanup"]
    assert "11 3 * * *" in times["ttl"]
    assert "5 * * * *" in times["import"]


def test_who_asked_for_alerts_gets_them(parsed: Any) -> None:
    for operation in OPERATIONS:
        told = of(parsed, operation)
        assert told["on_failure"] is True
        assert told["deadline"] is (operation == "merge")
        if plain := parsed["dags"].get(f"{operation}__plain"):
            assert (plain["on_failure"], plain["deadline"]) == (False, False)


def fleet(count: int, own: str = "all") -> str:
    """Settings of so many tables that have every operation."""
    tables = [f"  t{i:04d}: {{root: 's3://bucket/t{i:04d}'}}" for i in range(count)]
    ttl = "  ttl: {keep: 90d, partition: 'd=(?P<day>.*)'}"
    rest = ["  import: {source: 's3://bucket/in'}", f"  own_dags: {own}", "tables:", *tables]
    return "\n".join(["defaults:", ttl, *rest])


def growth(efforts: Sequence[Mapping[str, Sequence[int]]], name: str) -> list[int]:
    """Functions called more than for the half of the tables, by size of the fleet."""
    return [more[name][0] - less[name][0] for less, more in pairwise(efforts)]


@pytest.fixture(scope="module")
def efforts(parser: Parser, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[int]]]:
    """By DAG file: functions called and settings opened, for 3, 6 and 12 tables."""
    found = []
    for count in (3, 6, 12):
        folder = tmp_path_factory.mktemp("fleet")
        parsed = parser.parse(folder, fleet(count), shown=0, measured=True)
        assert parsed["errors"] == {}
        assert len(parsed["ids"]) == count * len(OWN_DAGS) + len(OPERATIONS) + 1
        found.append(parsed["effort"])
    return found


@pytest.mark.parametrize("file", ["all_tables.py", "own_dags.py"])
def test_the_work_of_a_parse_grows_in_proportion_to_the_tables(
    efforts: list[dict[str, list[int]]], file: str
) -> None:
    twice, four_times = growth(efforts, file)
    # What does not grow at all differs from run to run by this much.
    noise = 0.2 * efforts[0][file][0]
    assert four_times == pytest.approx(2 * twice, rel=0.02, abs=noise), (twice, four_times)


def test_a_task_that_starts_makes_its_own_dag_only(
    parser: Parser, tmp_path: Path, efforts: list[dict[str, list[int]]]
) -> None:
    mine = [
        parser.parse(tmp_path, fleet(count), measured=True, task_of="merge__t0001")
        for count in (3, 6)
    ]
    assert [found["ids"] for found in mine] == [["merge__t0001"]] * 2
    # Each table more is a line of settings to read, and nothing else.
    (more,) = growth([found["effort"] for found in mine], "own_dags.py")
    assert more < growth(efforts, "own_dags.py")[0] / 4
    other = parser.parse(tmp_path, fleet(3), task_of="someone_s_dag")
    assert (other["ids"], other["errors"]) == ([], {})


@pytest.mark.full("5,000 DAGs: a minute of CPU")
def test_a_thousand_tables_are_parsed(parser: Parser, tmp_path: Path) -> None:
    found = parser.parse(tmp_path, fleet(1000))
    assert found["errors"] == {}
    assert len(found["ids"]) == 1000 * len(OWN_DAGS) + len(OPERATIONS) + 1
    assert not set(found["modules"]) & set(HEAVY)


def test_however_many_tables_there_are_each_operation_has_one_dag_unless_they_ask(
    parser: Parser, tmp_path: Path
) -> None:
    found = parser.parse(tmp_path, fleet(300, own="[]"), shown=0)
    assert found["errors"] == {}
    assert found["ids"] == sorted([*OPERATIONS, FLEET])
