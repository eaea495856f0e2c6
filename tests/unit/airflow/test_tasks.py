from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firnline.airflow.certificates import CleanupRun
from firnline.airflow.dags import operation_dag, plan_then_run
from firnline.airflow.merge import MergeWork
from firnline.airflow.tables import OneTable, asset_of, assets_of
from firnline.airflow.tasks import ReportRun, RunInTask, progress_log
from firnline.airflow.versions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)
from firnline.airflow.work import InTaskWork
from firnline.airflow.works import CleanupWork, TtlWork
from firnline.commit.base import take_base
from firnline.errors import CommitConflictError, FirnlineError, RunFailedError
from firnline.log.txn_file import RunIdentity
from firnline.operations.properties.run import run_apply
from firnline.operations.registry import REBUILD
from firnline.pages import Page
from firnline.settings.load import SortField, TableSettings
from firnline.state.history import history, newest_head
from firnline.table import Table, open_table
from tests.dags.filled import fill, live_keys
from tests.support.airflow_context import run_context
from tests.support.tables import loaded
from tests.support.world import SetClock

TTL = TtlWork()


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    """A table of two partitions, one of them long past."""
    text = (
        f"tables: {{t: {{root: 'file://{tmp_path}/t', "
        "ttl: {keep: 1h, partition: 'day=(?P<day>.*)'}}}"
    )
    return loaded(tmp_path, text).table("t")


@pytest.fixture
def table(settings: TableSettings) -> Table:
    table = open_table(settings)
    fill(table, 2, partitions=("day=2020-01-01", "day=later"))
    return table


def tasks(work: InTaskWork[Any], settings: TableSettings) -> tuple[Any, Any]:
    with operation_dag(work, OneTable(settings), doc="", title="t"):
        return plan_then_run(work, OneTable(settings))


def test_a_plan_hands_on_its_figures_and_says_them(
    table: Table, settings: TableSettings, caplog: pytest.LogCaptureFixture
) -> None:
    plan, _ = tasks(TTL, settings)
    with caplog.at_level(logging.INFO):
        figures = plan.execute(run_context(TTL, {"dry_run": False}))
    assert (figures["seq"], figures["parts"], figures["dry_run"]) == (0, 2, False)
    # Airflow 3.0 says before that this is no process of a task.
    first, *lines = caplog.messages[caplog.messages.index("the plan, as of transaction 0:") :]
    assert first == "the plan, as of transaction 0:"
    assert lines[0].startswith("partition day=2020-01-01: parts 2, rows 100, bytes ")
    assert lines[-1].startswith("2 parts with 100 rows (")


def test_a_plan_makes_the_table_say_what_the_settings_say_where_that_is_harmless(
    table: Table, settings: TableSettings, caplog: pytest.LogCaptureFixture
) -> None:
    run_apply(table, RunIdentity(run_id="by hand"))
    wanted = settings.model_copy(update={"sort_by": (SortField(column="k"),)})
    plan, _ = tasks(TTL, wanted)
    with caplog.at_level(logging.INFO):
        plan.execute(run_context(TTL, {"dry_run": False}))
    assert take_base(table).table.settings.sort_by == wanted.sort_by
    assert "t: sort_by is now k, as the settings say (it was -)" in caplog.messages
    assert [header.op for header in history(table)] == ["properties", "properties"]


def test_a_plan_ends_where_the_settings_say_something_else_than_the_table(
    table: Table, settings: TableSettings
) -> None:
    run_apply(table, RunIdentity(run_id="by hand"))
    cleanup = settings.cleanup.model_copy(update={"grace": 3_600_000})
    plan, _ = tasks(TTL, settings.model_copy(update={"cleanup": cleanup}))
    with pytest.raises(AirflowFailException, match="`firnline properties apply t`"):
        plan.execute(run_context(TTL, {"dry_run": False}))
    assert (len(history(table)), len(live_keys(table))) == (1, 4)


def test_a_dry_run_ends_with_its_plan(table: Table, settings: TableSettings) -> None:
    plan, run = tasks(TTL, settings)
    context = run_context(TTL)
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        plan.execute(context)
    assert list(skipped.value.tasks) == [run.task_id]
    assert context["ti"].pushed["return_value"]["dry_run"] is True
    said = context["ti"].pushed["said"]
    assert said.startswith("dry run, nothing done: 2 parts with 100 rows (")
    assert " of t would go: wholly before " in said
    assert said.endswith(", as of transaction 0")
    assert len(live_keys(table)) == 4


def test_with_nothing_to_do_a_run_ends_with_its_plan(
    table: Table, settings: TableSettings, caplog: pytest.LogCaptureFixture
) -> None:
    plan, _ = tasks(TTL, settings)
    context = run_context(TTL, {"partitions": ["day=later"], "dry_run": False})
    with pytest.raises(DownstreamTasksSkipped), caplog.at_level(logging.INFO):
        plan.execute(context)
    assert context["ti"].pushed["return_value"]["parts"] == 0
    assert context["ti"].pushed["said"] == "nothing to do"
    assert "t: nothing to do" in caplog.messages


@pytest.mark.long
@pytest.mark.parametrize("work", [TTL, CleanupWork(), MergeWork(), CleanupRun()], ids=type)
@pytest.mark.parametrize("run_type", ["scheduled", "asset_triggered"])
def test_a_run_of_the_schedule_ends_where_nobody_has_appended_yet(
    settings: TableSettings, caplog: pytest.LogCaptureFixture, work: Any, run_type: str
) -> None:
    plan, _ = tasks(work, settings)
    context = run_context(work, run_type=run_type)
    with pytest.raises(DownstreamTasksSkipped), caplog.at_level(logging.INFO):
        plan.execute(context)
    said = "there is no table yet: nobody has appended to it"
    assert context["ti"].pushed["said"] == said
    assert f"t: {said}" in caplog.messages


@pytest.mark.parametrize("work", [TTL, CleanupWork(), MergeWork(), CleanupRun()], ids=type)
@pytest.mark.parametrize("run_type", ["manual", "backfill"])
def test_a_run_of_a_person_is_refused_where_there_is_no_table(
    settings: TableSettings, work: Any, run_type: str
) -> None:
    plan, _ = tasks(work, settings)
    for conf in ({"dry_run": False}, {"dry_run": True}):
        with pytest.raises(AirflowFailException, match="there is no table at"):
            plan.execute(run_context(work, conf, run_type=run_type))


def test_what_is_done_in_the_task_stands_in_history_xcom_and_event(
    table: Table, settings: TableSettings
) -> None:
    plan, run = tasks(TTL, settings)
    context = run_context(TTL, run_type="scheduled")
    context = run_context(TTL, run_type="scheduled", plan=plan.execute(context))
    figures = run.execute(context)
    (header,) = history(table)
    assert (header.run.dag_id, header.run.run_id) == ("ttl__t", "scheduled__1")
    assert figures["transactions"] == [header.seq]
    head = newest_head(table)
    assert head is not None
    assert figures["head"] == {"seq": head.seq, "digest": head.digest}
    assert figures["counts"]["parts_in"] == figures["parts"] == 2
    assert context["outlet_events"][asset_of(settings)].extra == figures
    assert len(live_keys(table)) == 2


def test_a_second_try_reports_what_the_first_committed(
    table: Table, settings: TableSettings
) -> None:
    _, run = tasks(TTL, settings)
    run.execute(run_context(TTL, run_type="scheduled", plan={"seq": 0}))
    again = run.execute(run_context(TTL, run_type="scheduled", plan={"seq": 0}))
    assert again["parts"] == 0
    assert again["transactions"] == [1]
    assert again["counts"]["parts_in"] == 2


def test_a_task_that_finds_nothing_any_more_skips_itself_and_tells_no_asset(
    table: Table, settings: TableSettings
) -> None:
    _, run = tasks(TTL, settings)
    conf = {"partitions": ["day=later"], "dry_run": False}
    context = run_context(TTL, conf, plan={"seq": 0})
    with pytest.raises(AirflowSkipException, match="t: nothing was to be done any more"):
        run.execute(context)
    assert context["ti"].pushed["return_value"]["transactions"] == []


class Report:
    """Of a work that failed half-way."""

    def to_json(self) -> dict[str, Any]:
        return {"table": "t", "parts": 1}


class FailedError(RunFailedError):
    """Carries a report."""

    def __init__(self) -> None:
        super().__init__("1 of 2 is done", next_step="look at the other")
        self.report = Report()


class Failing(InTaskWork[None]):
    """Fails as it is told."""

    about = replace(REBUILD, noun="a failure", once=False)

    def __init__(self, error: FirnlineError) -> None:
        self.error = error

    def options(self, params: Any, *, dry_run: bool) -> None:
        return None

    def preview(self, table: Table, options: None) -> Any:
        raise self.error

    def run(self, table: Table, options: None, run: Any, on_progress: Any) -> Report:
        raise self.error

    def report_page(self, figures: Any) -> Page:
        page = Page()
        page.pairs([("parts", str(figures["parts"]))])
        return page


def test_a_run_that_fails_half_way_hands_on_what_it_did(
    table: Table, settings: TableSettings
) -> None:
    work = Failing(FailedError())
    _, run = tasks(work, settings)
    context = run_context(work, plan=None)
    with pytest.raises(AirflowFailException, match=r"^1 of 2 is done; look at the other$"):
        run.execute(context)
    assert context["ti"].pushed["return_value"]["parts"] == 1
    assert context["ti"].pushed["return_value"]["transactions"] == []


def test_only_what_may_pass_is_tried_again(table: Table, settings: TableSettings) -> None:
    work = Failing(CommitConflictError("a rival was faster", next_step="run again"))
    for task in tasks(work, settings):
        with pytest.raises(AirflowException, match="a rival was faster") as raised:
            task.execute(run_context(work))
        assert not isinstance(raised.value, AirflowFailException)


def test_a_report_of_nothing_skips_itself(table: Table, settings: TableSettings) -> None:
    work = MergeWork()
    report = ReportRun(task_id="report", work=work, table=OneTable(settings))
    context = run_context(work, plan={"seq": 0})
    with pytest.raises(AirflowSkipException, match="this run committed nothing to t"):
        report.execute(context)
    assert context["ti"].pushed["return_value"]["transactions"] == []


def test_what_is_written_is_an_inlet_and_an_outlet_of_its_task(settings: TableSettings) -> None:
    plan, run = tasks(CleanupWork(), settings)
    assert (plan.inlets, plan.outlets) == ([], [])
    rows, upkeep = assets_of(settings)
    assert (run.inlets, run.outlets) == ([rows, upkeep], [upkeep])
    plan, run = tasks(TtlWork(), settings)
    assert (run.inlets, run.outlets) == ([rows, upkeep], [rows])


def test_progress_is_told_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    tell = progress_log(clock)
    with caplog.at_level(logging.INFO):
        for number in range(25):
            clock.advance(1_000)
            tell(number)
    assert caplog.messages == ["9", "19"]


def test_tasks_hold_the_pool_of_their_table_and_may_be_tried_again(
    settings: TableSettings,
) -> None:
    plan, run = tasks(CleanupWork(), settings)
    assert isinstance(run, RunInTask)
    assert (plan.pool, run.pool) == ("default_pool", "t.cleanup")
    assert (plan.retries, run.retries) == (3, 3)
    assert plan.execution_timeout < run.execution_timeout
