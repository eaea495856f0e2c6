"""The planner's task, with an Airflow that only remembers what it was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG

from firnline.airflow import fleet, triggering
from firnline.airflow.figures import shortened
from firnline.airflow.fleet import (
    PlanFleet,
    is_dry_run,
    members_of,
    plan_lines,
    start_chores,
    start_merges,
)
from firnline.airflow.merge import MergeWork
from firnline.airflow.settings import current_settings
from firnline.airflow.versions import AirflowFailException
from firnline.appends.append import Appender
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.operations.fleet.chores import Due
from firnline.operations.fleet.need import Need
from firnline.operations.fleet.plan import Chore, Held, Start, plan_fleet
from firnline.operations.options import MergeOptions
from firnline.settings.dags import PLANNED
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import TableSettings, load_settings
from firnline.settings.sections import OWN_DAGS
from firnline.store.access import StoreAccess
from firnline.table import open_table
from tests.support.airflow_context import XComs, run_context

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
LATER = NOON.replace(minute=5)


class Runs:
    """Stands for the runs of the tables' DAGs."""

    held_: dict[str, Held]
    refusing: set[str]
    started: list[tuple[str, str, dict[str, Any]]]
    remembered: dict[str, list[str]]
    under_way: set[str]

    def __init__(self, _: object) -> None:
        pass

    def held(
        self,
        dag_id: str,
        most: int = 1,
        run_id: str | None = None,
        begun: Collection[str] | None = None,
    ) -> Held | None:
        assert most == 1
        assert (begun is None) is ("__" in dag_id)
        if self.under_way.intersection(begun or ()):
            return Held("one is under way", under_way=True)
        if any(run[:2] == (dag_id, run_id) for run in self.started):
            return Held(f"its run {run_id} is over")
        return self.held_.get(dag_id)

    def begun(self) -> dict[str, list[str]]:
        return dict(self.remembered)

    def remember(self, begun: dict[str, list[str]]) -> None:
        self.remembered.clear()
        self.remembered.update(begun)

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str) -> bool:
        assert note.startswith("Started by fleet__merge: ")
        if dag_id in self.refusing:
            raise EnvironmentFaultError("no", next_step="wait")
        known = any(run[:2] == (dag_id, run_id) for run in self.started)
        self.started.append((dag_id, run_id, conf))
        return not known


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> type[Runs]:
    Runs.held_, Runs.refusing, Runs.started = {}, set(), []
    Runs.remembered, Runs.under_way = {}, set()
    monkeypatch.setattr(triggering, "PlannedRuns", Runs)
    return Runs


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the planner remembers."""
    kept: dict[str, Any] = {}
    monkeypatch.setattr(fleet, "recall", lambda name, _, empty: kept.get(name, empty))
    monkeypatch.setattr(fleet, "keep", lambda name, value, _: kept.update({name: value}))
    return kept


def settings(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    fleet: str = "{}",
    more: str = "",
    dags: str = "all",
) -> None:
    """Tables a and b with six parts and three, and c with one."""
    path = folder / "tables.yaml"
    lines = [f"  {name}: {{root: 'file://{folder}/{name}'{more}}}" for name in "abc"]
    own = "verify: {schedule: null}"  # by the week, which tests do not wait for
    merge = f"defaults: {{merge: {{min_inputs: 2}}, {own}, own_dags: {dags}}}"
    path.write_text("\n".join([f"fleet: {fleet}", merge, "tables:", *lines, ""]))
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings(tmp_path, monkeypatch)
    for name, count in (("a", 3), ("b", 6), ("c", 1)):
        appender = Appender(open_table(load_settings().table(name)))
        for number in range(count):
            appender.append(pa.table({"id": [number]}))
    return tmp_path


def context(**conf: Any) -> Any:
    return {
        "dag_run": SimpleNamespace(conf=conf or None, run_type="scheduled", run_after=NOON),
        "params": {"dry_run": False, **conf},
        "run_id": "scheduled__1",
        "ti": XComs({}),
    }


def fake(runs: type[Runs]) -> Any:
    return runs(None)


def table_of(name: str, dags: tuple[str, ...] = OWN_DAGS) -> TableSettings:
    return TableSettings.model_validate(
        {"name": name, "root": f"memory://{name}", "own_dags": list(dags)}
    )


OWN = {name: table_of(name) for name in "stu"}


def execute(**conf: Any) -> dict[str, Any]:
    return PlanFleet(task_id="plan").execute(context(**conf))


@pytest.mark.usefixtures("tables")
def test_merges_are_started_in_their_order_with_ids_of_this_run(runs: type[Runs]) -> None:
    figures = execute()
    assert figures["started"] == ["b", "a"]
    run_id = "fleet__scheduled__1"
    assert runs.started == [
        ("merge__b", run_id, {"dry_run": False}),
        ("merge__a", run_id, {"dry_run": False}),
    ]
    assert (figures["idle"], figures["refused"]) == (1, [])


@pytest.mark.long
@pytest.mark.usefixtures("tables")
def test_a_dry_run_starts_nothing(runs: type[Runs]) -> None:
    given = context(dry_run=True)
    figures = PlanFleet(task_id="plan").execute(given)
    assert [row["table"] for row in figures["starts"]] == ["b", "a"]
    assert runs.started == []
    assert "started" not in figures
    assert given["ti"].pushed["said"].startswith("dry run, nothing started: 3 tables: 2 to merge")


@pytest.mark.usefixtures("tables")
def test_a_merge_that_is_held_waits_with_the_reason(runs: type[Runs]) -> None:
    runs.held_["merge__b"] = Held("a run of merge__b is queued or running", under_way=True)
    figures = execute()
    assert figures["started"] == ["a"]
    assert [(row["table"], row["reason"]) for row in figures["waiting"]] == [
        ("b", "a run of merge__b is queued or running")
    ]
    assert figures["under_way_bytes"] == figures["waiting"][0]["bytes"]


@pytest.mark.long
@pytest.mark.usefixtures("tables")
def test_the_rest_of_the_budget_is_a_param_of_the_merge_that_it_takes(runs: type[Runs]) -> None:
    whole = Need("t", parts_in=9, parts_out=2, bytes=5_000, least_bytes=1_000)
    own = {"t": table_of("t")}
    started, refused = start_merges([Start(whole, max_bytes=4_999)], own, context(), fake(runs))
    assert (started, refused) == (["t"], [])
    ((_, _, conf),) = runs.started
    assert conf == {"dry_run": False, "max_bytes": "4999"}
    run = run_context(MergeWork(), conf, run_type="operator_triggered")
    assert MergeWork().parse_params(run) == MergeOptions(max_bytes=4_999)


@pytest.mark.long
def test_in_quiet_hours_no_log_is_read(
    runs: type[Runs], tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tables, monkeypatch, "{quiet_hours: '00:00-24:00'}")
    assert execute() == {"quiet": "quiet hours 00:00-24:00 UTC", "dry_run": False}
    assert runs.started == []
    # A dry run plans, and says it of each table.
    reasons = {row["reason"] for row in execute(dry_run=True)["waiting"]}
    assert reasons == {"quiet hours 00:00-24:00 UTC"}


def mirrored(folder: Path, monkeypatch: pytest.MonkeyPatch, fleet: str = "{}") -> None:
    """The tables with mirrors of which everything is old enough to be published."""
    settings(folder, monkeypatch, fleet, ", mirror: [delta]")
    for path in folder.glob("*/_log/*"):
        os.utime(path, (0, 0))


def with_dag(run_after: datetime = NOON) -> Any:
    run = SimpleNamespace(
        conf=None, run_type="scheduled", triggering_user_name="", run_after=run_after
    )
    return {**context(), "dag_run": run, "dag": DAG("fleet__merge")}


@pytest.mark.long
@pytest.mark.parametrize("fleet", ["{}", "{quiet_hours: '00:00-24:00'}"])
def test_mirrors_that_lack_something_are_published_in_quiet_hours_too(
    runs: type[Runs], tables: Path, monkeypatch: pytest.MonkeyPatch, fleet: str
) -> None:
    mirrored(tables, monkeypatch, fleet)
    given = with_dag()
    figures = PlanFleet(task_id="plan").execute(given)
    assert (figures["mirrors"], figures["published"]) == (["a", "b", "c"], ["a", "b", "c"])
    assert [len(list(tables.glob(f"{name}/_delta_log/*.json"))) for name in "abc"] == [1, 1, 1]
    assert figures["started"] == ([] if "quiet" in figures else ["b", "a"])
    assert ("quiet" in figures) is ("quiet" in fleet)
    assert execute(dry_run=True)["mirrors"] == []


@pytest.mark.long
def test_where_tables_have_schedules_of_their_own_the_planner_only_publishes(
    runs: type[Runs], tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it can run each minute (docs/mirrors.md, "How late a mirror is")."""
    own = ", merge: {schedule: '@hourly'}"
    settings(tables, monkeypatch, "{schedule: '* * * * *'}", f"{own}, mirror: [delta]")
    for path in tables.glob("*/_log/*"):
        os.utime(path, (0, 0))
    figures = PlanFleet(task_id="plan").execute(with_dag(LATER))
    assert (figures["published"], figures["started"]) == (["a", "b", "c"], [])
    settings(tables, monkeypatch, "{schedule: '* * * * *'}", own)
    read = PlanFleet(task_id="plan").execute(with_dag(LATER))
    assert read["tables"] == 0, "no log is read"
    assert execute()["tables"] == 3, "once an hour, for what else may be due"


def test_a_mirror_that_cannot_be_published_fails_the_run_once_all_others_were(
    runs: type[Runs], tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored(tables, monkeypatch)
    (tables / "a" / "_delta_log").mkdir()
    (tables / "a" / "_delta_log" / f"{0:020d}.json").write_text("{}\n")
    os.utime(tables / "a" / "_delta_log" / f"{0:020d}.json", (0, 0))
    given = with_dag()
    with pytest.raises(AirflowFailException, match="1 of 3 mirrors could not be published: a: "):
        PlanFleet(task_id="plan").execute(given)
    figures = given["ti"].pushed["return_value"]
    assert (figures["published"], figures["started"]) == (["b", "c"], ["b", "a"])


def test_a_table_that_cannot_be_read_fails_the_run_once_all_others_were_started(
    runs: type[Runs], tables: Path
) -> None:
    for log_file in (tables / "a" / "_log").iterdir():
        log_file.write_bytes(log_file.read_bytes()[:-20])
    given = context()
    with pytest.raises(AirflowFailException, match="1 of 3 tables could not be read: a; all"):
        PlanFleet(task_id="plan").execute(given)
    assert [dag_id for dag_id, _, _ in runs.started] == ["merge__b"]
    figures = given["ti"].pushed["return_value"]
    assert figures["started"] == ["b"]
    assert given["ti"].pushed["said"].startswith("1 of 3 tables could not be read: a; all others")
    assert any(line.startswith("a: ") for line in plan_lines(figures))


@pytest.mark.long
@pytest.mark.usefixtures("tables")
def test_a_merge_that_airflow_refuses_holds_up_no_other(runs: type[Runs]) -> None:
    runs.refusing.add("merge__b")
    with pytest.raises(AirflowFailException, match="Airflow did not start 1 of 2 runs: b: no; all"):
        execute()
    assert [dag_id for dag_id, _, _ in runs.started] == ["merge__a"]


def test_a_connection_is_looked_up_once_for_all_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path, monkeypatch, more=", connection_id: store")
    asked: list[str] = []

    def access(table: Any) -> StoreAccess:
        asked.append(table.connection_id)
        raise EnvironmentFaultError("there is no Airflow connection 'store'", next_step="make it")

    monkeypatch.setattr(fleet, "store_access", access)
    found = members_of(list(load_settings().tables.values()), PLANNED)
    assert asked == ["store"]
    for member in found:
        with pytest.raises(EnvironmentFaultError, match="no Airflow connection 'store'"):
            member.open()


def test_a_param_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="has no param dryrun; use dry_run"):
        is_dry_run(context(dryrun=True))


def test_lines_and_figures_of_a_large_fleet_are_cut() -> None:
    needs = [
        Need(f"t{number:03}", parts_in=5, parts_out=1, bytes=1_000, least_bytes=1_000)
        for number in range(200)
    ]
    budget = FleetSettings.model_validate({"budget": "100KB/day"})
    figures = shortened(plan_fleet(needs, budget, 0).to_json())
    assert (len(figures["starts"]), figures["starts_in_all"]) == (50, 100)
    lines = plan_lines(figures)
    assert lines[0] == "200 tables: 100 to merge, 100 wait, 0 have nothing to do, 0 unreadable"
    assert "starts: and 50 more" in lines
    assert "waiting: and 50 more" in lines
    assert "merge t000: 5 parts become 1, 1000 B, 4,294,967 requests per GiB" in lines


# --- what else is due -----------------------------------------------------------------------------


def test_what_is_due_is_started_once_under_the_time_at_which_it_was_due(
    runs: type[Runs],
) -> None:
    chore = Chore("t", Due("ttl", 1_764_213_420_000, "parts in 2 partitions are past"))
    verify = Chore("u", Due("verify", 1_764_213_480_000, "it has changed"))
    begun, refused = start_chores([chore, verify], OWN, fake(runs))
    assert (begun, refused) == (["ttl of t", "verify of u"], [])
    assert runs.started == [
        ("ttl__t", "fleet__2025-11-27T03:17:00", {"dry_run": False}),
        ("verify__u", "fleet__2025-11-27T03:18:00", {}),
    ]
    assert start_chores([chore], OWN, fake(runs)) == ([], []), "its run is there, however it ended"


def test_what_is_held_is_not_started_and_what_airflow_refuses_holds_up_no_other(
    runs: type[Runs],
) -> None:
    due = Due("tombstone_cleanup", 0, "2 objects may be deleted")
    runs.refusing.add("tombstone_cleanup__t")
    chores = [Chore("s", due, "the DAG is paused"), Chore("t", due), Chore("u", due)]
    begun, refused = start_chores(chores, OWN, fake(runs))
    assert (begun, refused) == (["tombstone_cleanup of u"], ["tombstone_cleanup of t: no"])


@pytest.mark.long
def test_a_table_past_its_time_to_live_is_begun_by_the_planner(
    runs: type[Runs], tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = {"ts": [datetime(2020, 1, 1, tzinfo=UTC)]}
    ttl = ", partition_by: ['day(ts)'], ttl: {keep: 30d}, merge: {schedule: null}"
    file = tables / "tables.yaml"
    file.write_text(file.read_text() + f"  d: {{root: 'file://{tables}/d'{ttl}}}\n")
    Appender(open_table(load_settings().table("d"))).append(pa.table(days))
    figures = execute()
    assert figures["begun"] == ["ttl of d"]
    ((_, run_id, conf),) = (run for run in runs.started if run[0] == "ttl__d")
    assert (run_id[:7], conf) == ("fleet__", {"dry_run": False})
    (line,) = (line for line in plan_lines(figures) if "ttl of d" in line)
    assert line == "start ttl of d: parts in 1 partition are past their time to live"
    again = execute()
    assert again["begun"] == []
    assert [row["reason"] for row in again["due"]] == [f"its run {run_id} is over"]
    runs.started.clear()
    runs.held_["ttl__d"] = Held("the DAG ttl__d is paused")
    (row,) = execute()["due"]
    assert row["reason"] == "the DAG ttl__d is paused"


@pytest.mark.long
def test_a_table_that_cannot_be_read_or_merged_gets_its_other_runs_all_the_same(
    runs: type[Runs], tables: Path
) -> None:
    file = tables / "tables.yaml"
    file.write_text(file.read_text().replace(", verify: {schedule: null}", ""))
    for log_file in (tables / "a" / "_log").iterdir():
        log_file.write_bytes(log_file.read_bytes()[:-20])
    given = context()
    with pytest.raises(AirflowFailException, match="1 of 3 tables could not be read: a"):
        PlanFleet(task_id="plan").execute(given)
    figures = given["ti"].pushed["return_value"]
    assert "its log could not be read" in [
        row["why"] for row in figures["due"] if row["table"] == "a"
    ]
    assert len(figures["begun"]) == 1, "a quarter of the tables, rounded up"
    reasons = {row["reason"] for row in figures["due"]}
    assert reasons == {"", "other tables are verified first"}


# --- tables without DAGs of their own -------------------------------------------------------------


@pytest.fixture
def shared(tables: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings(tables, monkeypatch, dags="[]")
    return tables


@pytest.mark.usefixtures("shared")
def test_their_merges_are_runs_of_one_dag_that_name_the_table(runs: type[Runs]) -> None:
    assert execute()["started"] == ["b", "a"]
    assert runs.started == [
        ("merge", "fleet__scheduled__1__b", {"table": "b", "dry_run": False}),
        ("merge", "fleet__scheduled__1__a", {"table": "a", "dry_run": False}),
    ]


@pytest.mark.long
@pytest.mark.usefixtures("shared")
def test_a_merge_under_way_holds_up_its_own_table_alone(runs: type[Runs]) -> None:
    execute()
    assert runs.remembered == {
        "a": ["fleet__scheduled__1__a"],
        "b": ["fleet__scheduled__1__b"],
    }
    runs.under_way = {"fleet__scheduled__1__b"}
    later: Any = {**context(), "run_id": "scheduled__2"}
    figures = PlanFleet(task_id="plan").execute(later)
    assert figures["started"] == ["a"]
    assert [(row["table"], row["reason"]) for row in figures["waiting"]] == [
        ("b", "one is under way")
    ]
    assert runs.remembered == {
        "a": ["fleet__scheduled__2__a"],
        "b": ["fleet__scheduled__1__b"],
    }


def test_what_else_is_due_has_the_table_in_its_id(runs: type[Runs]) -> None:
    chore = Chore("t", Due("ttl", 1_764_213_420_000, "parts in 2 partitions are past"))
    begun, _ = start_chores([chore], {"t": table_of("t", ())}, fake(runs))
    assert begun == ["ttl of t"]
    assert runs.started == [
        ("ttl", "fleet__2025-11-27T03:17:00__t", {"table": "t", "dry_run": False})
    ]


# --- troubles that last ---------------------------------------------------------------------------


def tear(log: Path) -> None:
    for log_file in log.iterdir():
        log_file.write_bytes(log_file.read_bytes()[:-20])


@pytest.mark.long
def test_a_table_that_stays_unreadable_fails_one_run_and_its_end_is_told(
    runs: type[Runs], tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tables / "told"
    alerts = f"{{notifier: tests.support.notifier.Told, arguments: {{file: '{told}'}}}}"
    settings(tables, monkeypatch, f"{{alerts: {alerts}}}")
    whole = {each: each.read_bytes() for each in (tables / "a" / "_log").iterdir()}
    tear(tables / "a" / "_log")
    with pytest.raises(AirflowFailException, match="1 of 3 tables could not be read: a"):
        execute()
    given = with_dag()
    PlanFleet(task_id="plan").execute(given)
    assert given["ti"].pushed["said"].startswith("as before, 1 of 3 tables could not be read: a")
    tear(tables / "c" / "_log")
    with pytest.raises(AirflowFailException, match="2 of 3 tables could not be read: a, c"):
        execute()
    for file, content in whole.items():
        file.write_bytes(content)
    PlanFleet(task_id="plan").execute(with_dag())
    assert [json.loads(line)["reason"] for line in told.read_text().splitlines()] == ["recovered"]
    manual = context()
    manual["dag_run"].run_type = "manual"
    with pytest.raises(AirflowFailException, match="1 of 3 tables could not be read: c"):
        PlanFleet(task_id="plan").execute(manual)


# --- mistakes in the settings ---------------------------------------------------------------------


def test_a_table_with_a_mistake_is_named_and_all_others_are_handled(
    tables: Path, runs: type[Runs]
) -> None:
    file = tables / "tables.yaml"
    file.write_text(file.read_text().replace("tables:", "tables:\n  d: {root: 3}"))
    given = context()
    with pytest.raises(AirflowFailException) as raised:
        PlanFleet(task_id="plan").execute(given)
    assert str(raised.value).startswith("1 of 4 tables could not be read: d; all others were")
    assert [each[0] for each in runs.started] == ["merge__b", "merge__a"]
    (row,) = given["ti"].pushed["return_value"]["unreadable"]
    assert "tables.d.root: " in row["message"]


@pytest.mark.long
def test_settings_of_before_are_gone_by_and_the_run_says_so_and_fails(
    tables: Path, runs: type[Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tables / "logs"))
    current_settings()
    (tables / "tables.yaml").write_text("defaults: {merge: {slotz: 2}}")
    with pytest.raises(AirflowFailException, match=r"^the settings of 2.* are in force, because "):
        execute()
    assert [each[0] for each in runs.started] == ["merge__b", "merge__a"]
