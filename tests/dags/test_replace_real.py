"""Replaces and restores on a real scheduler, with rows staged in the bucket of the table.

The tests are one story: what is replaced in one of them is brought back in a later one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, DropOptions
from firnline.state.history import history
from firnline.table import Table
from tests.dags.filled import fill, live_keys, live_rows
from tests.dags.maintained import Maintained, Run, wait_due
from tools.airflow_api import wait_until

Row = tuple[int, datetime | None]
BY_HAND = RunIdentity(dag_id="by hand")
MIDNIGHT = datetime(2024, 3, 1, tzinfo=UTC)
"""Of the first of three days."""
INTERVAL = {"start": "2024-03-01T12:00", "end": "2024-03-03"}
"""Half of the first day and all of the second."""
UNTIMED: Row = (72, None)
ALL_AT_FIRST: list[Row] = [
    *((k, MIDNIGHT + timedelta(hours=k, minutes=30)) for k in range(72)),
    UNTIMED,
]
NEW: list[Row] = [(1000 + k, MIDNIGHT + timedelta(hours=12 + 6 * k)) for k in range(6)]
"""The first of them right at the start of the interval."""
OUTSIDE: list[Row] = [(2000, MIDNIGHT + timedelta(days=2))]
"""Right at its end, which is no part of it."""
LATE: list[Row] = [(3000, MIDNIGHT + timedelta(days=1, hours=3))]


def is_within(row: Row, first: int, end: int) -> bool:
    """Whether it lies in an interval of hours since ``MIDNIGHT``."""
    _, ts = row
    return ts is not None and first <= (ts - MIDNIGHT) / timedelta(hours=1) < end


def as_table(rows: Iterable[Row]) -> pa.Table:
    keys, times = zip(*rows, strict=True)
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
    )


def as_parquet(rows: Iterable[Row], *, statistics: bool = True) -> bytes:
    sink = io.BytesIO()
    pq.write_table(as_table(rows), sink, write_statistics=statistics)
    return sink.getvalue()


@dataclass
class Hourly:
    """The table, whose store only an Airflow connection opens, and what is staged beside it."""

    maintained: Maintained
    table: Table

    def staged(self, folder: str, name: str, content: bytes) -> str:
        """The URL of the folder, with one file more."""
        beside, _, _ = self.table.paths.prefix.rstrip("/").rpartition("/")
        key = f"{beside}/{folder}/{name}".lstrip("/")
        self.table.store.put_new(key, content)
        return f"{self.table.settings.root.rpartition('/')[0]}/{folder}/"

    @property
    def rows(self) -> list[Row]:
        """All rows of the live parts, sorted; nothing but pyarrow has read them."""
        found: list[Row] = []
        for _, data in self.table.store.get_many(live_keys(self.table)):
            assert data is not None
            read = pq.read_table(io.BytesIO(data), columns=["k", "ts"])
            found += zip(read["k"].to_pylist(), read["ts"].to_pylist(), strict=True)
        return sorted(found)

    @property
    def state(self) -> tuple[list[Row], list[str], int]:
        """Rows, objects and transactions: what a run that refuses its work does not change."""
        objects = [meta.key for meta in self.table.store.list(self.table.paths.data_dir)]
        return self.rows, objects, len(history(self.table))

    def start(self, operation: str, **conf: Any) -> Run:
        """Start a run by hand."""
        return self.maintained.start(operation, "hourly", **conf)

    def newest(self, operation: str) -> Run:
        """The run of it that was started last."""
        runs = self.maintained.stack.api.runs(operation)
        mine = [run for run in runs if run["conf"].get("table") == "hourly"]
        return Run(self.maintained.stack, operation, mine[-1]["dag_run_id"])


@pytest.fixture(scope="module")
def hourly(maintained: Maintained) -> Hourly:
    """Three days with a row for every hour, a part for each day, and a row without a time."""
    table = maintained.table("hourly")
    for day in range(3):
        Appender(table).append(as_table(ALL_AT_FIRST[day * 24 : day * 24 + 24]))
    Appender(table).append(as_table([UNTIMED]))
    return Hourly(maintained, table)


@pytest.fixture(scope="module")
def files(hourly: Hourly) -> list[str]:
    """The new rows in two files, and what a writer that was killed has left beside them."""
    hourly.staged("staged", "a.parquet", as_parquet(NEW[:2]))
    hourly.staged("staged", "deeper/b.parquet", as_parquet(NEW[2:]))
    return [hourly.staged("staged", "_temporary/0/c.parquet", b"half")]


# --- replace --------------------------------------------------------------------------------------


def test_a_replace_by_hand_only_plans_unless_told_otherwise(
    hourly: Hourly, files: list[str]
) -> None:
    before = hourly.state
    run = hourly.start("replace", **INTERVAL, files=files).ended()
    assert run.tasks == {"plan": "success", "replace": "skipped", "report": "skipped"}
    plan = run.xcom("plan")
    assert (plan["dry_run"], plan["mode"], plan["column"]) == (True, "eager", "ts")
    assert (plan["parts_to_drop"], plan["rows_to_drop"], plan["parts_to_read"]) == (1, 24, 1)
    assert sum(plan["left_alone"].values()) == 2
    log = run.log("plan")
    interval = "[2024-03-01T12:00:00Z, 2024-03-03T00:00:00Z) of ts"
    assert f"To replace {interval} in hourly: " in log
    assert "1 part would be dropped unread: all 24 rows lie inside." in log
    assert hourly.state == before


def test_a_replace_puts_exactly_the_staged_rows_in_the_place_of_an_interval(
    hourly: Hourly, files: list[str]
) -> None:
    assert hourly.rows == ALL_AT_FIRST
    parts = set(live_keys(hourly.table))
    pools = hourly.maintained.stack.api.pools
    with hourly.maintained.held("hourly"):
        run = hourly.start("replace", **INTERVAL, files=files, dry_run=False)
        assert wait_until(lambda: pools()["hourly.merge"]["occupied_slots"] == 1), run.tasks
    assert run.ended().state == "success", run.log("replace")
    assert pools()["hourly.merge"]["occupied_slots"] == 0
    kept = [row for row in ALL_AT_FIRST if not is_within(row, 12, 48)]
    assert hourly.rows == sorted(kept + NEW)
    stayed = parts & set(live_keys(hourly.table))
    assert len(stayed) == 2, "of the third day, and the one without times"
    assert [run.task(task)["pool"] for task in ("plan", "replace", "report")] == [
        "default_pool",
        "hourly.merge",
        "default_pool",
    ]


def test_a_replace_is_one_transaction_that_names_its_run(hourly: Hourly) -> None:
    (header,) = history(hourly.table)
    run = hourly.newest("replace")
    assert (header.seq, header.op) == (1, "replace")
    assert (header.run.dag_id, header.run.run_id) == (run.dag_id, run.run_id)
    assert header.run.try_number == 1
    assert header.run.user
    assert header.run.application_id
    report = run.xcom("report")
    assert (report["transactions"], report["counts"]["rows_added"]) == ([1], len(NEW))
    assert report["partitions"] == ["ts_day=2024-03-01", "ts_day=2024-03-02"]
    events = hourly.maintained.stack.api.call("GET", "/assets/events", source_dag_id=run.dag_id)
    (event,) = events["asset_events"]
    assert event["extra"]["transactions"] == [1]


@pytest.mark.turn("a DAG whose job rewrites rows")
def test_a_replace_by_nothing_empties_the_interval(hourly: Hourly) -> None:
    before, transactions = hourly.rows, len(history(hourly.table))
    conf = {"start": "2024-03-03", "end": "2024-03-04", "nothing": True}
    run = hourly.start("replace", **conf, dry_run=False).ended()
    assert run.state == "success", run.log("replace")
    gone = [row for row in before if is_within(row, 48, 72)]
    assert len(gone) == 24
    assert hourly.rows == [row for row in before if row not in gone]
    header, *others = history(hourly.table)
    assert len(others) == transactions
    assert (header.seq, header.op, header.run.run_id) == (
        transactions + 1,
        "replace",
        run.run_id,
    )
    assert run.xcom("report")["counts"].get("rows_added", 0) == 0


def test_a_replace_without_an_interval_is_refused_before_there_is_a_run(hourly: Hourly) -> None:
    before = len(hourly.maintained.stack.api.runs("replace"))
    for name in INTERVAL:
        conf = {key: value for key, value in INTERVAL.items() if key != name}
        with pytest.raises(UsageError, match=f"400.*Invalid input for param {name}"):
            hourly.start("replace", **conf, nothing=True)
    assert len(hourly.maintained.stack.api.runs("replace")) == before


def test_what_cannot_be_meant_by_a_replace_fails_at_once_in_one_sentence(hourly: Hourly) -> None:
    before = hourly.state
    neither = hourly.start("replace", **INTERVAL, dry_run=False).ended()
    assert neither.state == "failed"
    assert neither.error("plan") == (
        "a replace takes either new rows or `nothing`, and neither is given; give files with the "
        "new rows, or say that there are none (`nothing`, `--nothing`)"
    )
    assert neither.task("plan")["try_number"] == 1
    assert hourly.state == before


@pytest.mark.turn("a DAG whose job rewrites rows")
def test_rows_that_lie_outside_the_interval_fail_the_job_and_change_nothing(hourly: Hourly) -> None:
    before = hourly.state
    rows = as_parquet([*NEW, *OUTSIDE], statistics=False)  # else the plan refuses them
    wrong = hourly.staged("wrong", "a.parquet", rows)
    outside = hourly.start("replace", **INTERVAL, files=[wrong], dry_run=False)
    assert outside.ended().state == "failed"
    assert outside.error("replace") == (
        "1 of 7 new rows do not lie in ts from 2024-03-01T12:00:00Z to 2024-03-03T00:00:00Z; the "
        "first has ts = 2024-03-03 00:00:00+00:00; leave them out or widen the interval; nothing "
        "was changed"
    )
    assert outside.tasks["report"] == "skipped", "nothing was committed"
    assert outside.task("replace")["try_number"] == 1
    assert hourly.state == before


def test_rows_that_lie_outside_by_their_footers_fail_the_plan(hourly: Hourly) -> None:
    before = hourly.state
    wrong = hourly.staged("told", "a.parquet", as_parquet([*NEW, *OUTSIDE]))
    outside = hourly.start("replace", **INTERVAL, files=[wrong], dry_run=False)
    assert outside.ended().state == "failed"
    assert "told/a.parquet has rows that do not lie in ts from 2024-03-01" in outside.error("plan")
    assert outside.task("plan")["try_number"] == 1
    assert hourly.state == before


# --- restore --------------------------------------------------------------------------------------


def test_a_restore_brings_the_replaced_rows_back_and_keeps_what_was_appended_since(
    hourly: Hourly,
) -> None:
    Appender(hourly.table).append(as_table(LATE))
    done = [header.seq for header in reversed(history(hourly.table))]
    run = hourly.start("restore", to=0, partitions=["*"], dry_run=False).ended()
    assert run.tasks == {"plan": "success", "restore": "success"}, run.log("restore")
    assert hourly.rows == sorted(ALL_AT_FIRST + LATE)
    (header, *_) = history(hourly.table)
    assert (header.seq, header.op, header.why) == (len(done) + 1, "restore", "to 0")
    assert (header.run.dag_id, header.run.run_id) == (run.dag_id, run.run_id)
    assert header.run.user
    assert run.task("restore")["pool"] == "hourly.merge"
    assert (run.xcom("plan")["to"], run.xcom("plan")["undone"]) == (0, done)
    assert run.xcom("restore")["transactions"] == [header.seq]
    undone = f"transaction{'s' * (len(done) > 1)} {', '.join(map(str, done))}"
    assert f"undone: {undone}" in run.log("plan")


def test_a_restore_by_hand_only_plans_unless_told_otherwise(hourly: Hourly) -> None:
    before = hourly.state
    newest = history(hourly.table)[0].seq
    run = hourly.start("restore", to=newest - 1, partitions=["*"]).ended()
    assert run.tasks == {"plan": "success", "restore": "skipped"}
    assert (run.xcom("plan")["dry_run"], run.xcom("plan")["undone"]) == (True, [newest])
    assert hourly.state == before


@pytest.fixture(scope="module")
def faded(maintained: Maintained) -> Table:
    """A table from which a partition was dropped and cleaned up: nothing brings it back."""
    table = maintained.table("faded")
    fill(table, 2)
    run_drop(Work(table, BY_HAND), DropOptions(partitions=("day=a",)))
    wait_due(table, 2)
    report = run_cleanup(Work(table, BY_HAND), CleanupOptions())
    assert report.parts == 2
    return table


def test_a_restore_to_what_is_not_there_any_more_fails_at_once_in_one_sentence(
    maintained: Maintained, hourly: Hourly, faded: Table
) -> None:
    before, rows = hourly.state, live_rows(faded)
    unknown = hourly.start("restore", to=999, partitions=["*"], dry_run=False)
    late = maintained.start("restore", "faded", to=0, partitions=["day=a"], dry_run=False)
    assert unknown.ended().state == late.ended().state == "failed"
    assert unknown.error("plan") == (
        f"table hourly has no transaction 999, the newest is {before[2]}; see them with "
        "`firnline history hourly`"
    )
    said = late.error("plan")
    assert said.startswith("parts that partition day=a held after transaction 0 are deleted: ")
    assert said.endswith("; restore to 1 or later, or from a backup")
    assert unknown.task("plan")["try_number"] == late.task("plan")["try_number"] == 1
    assert (hourly.state, live_rows(faded)) == (before, rows)
    with pytest.raises(UsageError, match=r"400.*Invalid input for param to"):
        hourly.start("restore", partitions=["*"])
