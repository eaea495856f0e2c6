"""A run is done once, whatever Airflow starts it again with."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow.dags import operation_dag, plan_then_run, submit_then_report
from firnline.airflow.erase import ApprovedErase, EraseWork
from firnline.airflow.job_output import JobOutput
from firnline.airflow.merge import MergeWork
from firnline.airflow.once import Once, again_param, again_word, as_transactions
from firnline.airflow.removal import ListPartitions, RemoveWork
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.sweep import ApprovedSweep, SweepWork
from firnline.airflow.tables import OneTable
from firnline.airflow.update import UpdateWork
from firnline.airflow.versions import (
    AirflowSkipException,
    DownstreamTasksSkipped,
    ParamValidationError,
)
from firnline.airflow.works import (
    CleanupWork,
    DeleteWork,
    RebuildWork,
    ReplaceWork,
    RestoreWork,
    TtlWork,
    VerifyWork,
)
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete import run as delete
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.operations.replace import run as replace_op
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.run_records import completed
from firnline.operations.update import plan as update_plan
from firnline.settings.load import TableSettings
from firnline.state.history import history
from firnline.table import Table, open_table
from tests.dags.filled import fill, live_keys
from tests.support.airflow_context import run_context
from tests.support.tables import one
from tests.support.world import SetClock

RESTORE, REWRITE = RestoreWork(), RewriteWork()
BACK = {"to": 1, "partitions": ["*"], "exact": True, "dry_run": False}
FILTER = {"where": "k >= 10", "partitions": ["*"], "dry_run": False}


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    return one(tmp_path, "locking: fenced").model_copy(update={"root": f"file://{tmp_path}/t"})


@pytest.fixture
def table(settings: TableSettings) -> Table:
    table = open_table(settings)
    fill(table, 1)
    return table


# --- work in a task: restore ----------------------------------------------------------------------


@pytest.fixture
def grown(table: Table) -> Table:
    """One partition was dropped, as transaction 1, and there were appends after it."""
    run_drop(Work(table, RunIdentity(run_id="by hand")), DropOptions(partitions=("day=b",)))
    append(table)
    return table


def append(table: Table) -> None:
    """Append to both partitions, now: after every transaction."""
    newest = max((header.t for header in history(table)), default=0)
    fill(replace(table, clock=SetClock(max(newest, table.clock.now_ms()) + 60_001)), 1)


class Restoring:
    """Runs of a DAG that takes away what was appended."""

    def __init__(self, settings: TableSettings) -> None:
        with operation_dag(RESTORE, OneTable(settings), doc="", title="t"):
            self.plan, self.run = plan_then_run(RESTORE, OneTable(settings))

    def start(self, conf: dict[str, Any], tries: int = 1, **more: Any) -> dict[str, Any]:
        """Both tasks of a run; what the second hands on."""
        planned = self.plan.execute(run_context(RESTORE, conf))
        return self.again({**conf}, planned, tries)

    def again(self, conf: dict[str, Any], planned: dict[str, Any], tries: int) -> dict[str, Any]:
        """The second task alone, as a retry where ``tries`` is above 1."""
        context = run_context(RESTORE, conf, plan=planned)
        context["ti"].try_number = tries
        found: dict[str, Any] = self.run.execute(context)
        return found


def test_a_run_that_has_completed_is_not_done_again_whatever_it_is_started_with(
    grown: Table, settings: TableSettings, caplog: pytest.LogCaptureFixture
) -> None:
    dag = Restoring(settings)
    assert dag.start(BACK)["transactions"] == [2]
    append(grown)
    context = run_context(RESTORE, BACK)
    with pytest.raises(DownstreamTasksSkipped) as skipped, caplog.at_level(logging.INFO):
        dag.plan.execute(context)
    assert list(skipped.value.tasks) == ["restore"]
    told = context["ti"].pushed["return_value"]
    assert told["transactions"] == [2]
    assert told["done_before"] in caplog.text
    assert told["done_before"].startswith("run manual__1 of restore__t was done on 20")
    assert told["done_before"].endswith(
        " UTC, as transaction 2, and is not done again; trigger a new run to do it again"
    )
    assert len(history(grown)) == 2


def test_its_task_alone_is_not_done_again_either(grown: Table, settings: TableSettings) -> None:
    dag = Restoring(settings)
    dag.start(BACK)
    append(grown)
    context = run_context(RESTORE, BACK, plan={"seq": 1})
    with pytest.raises(AirflowSkipException, match="was done on"):
        dag.run.execute(context)
    assert "was done on" in context["ti"].pushed["return_value"]["done_before"]
    assert len(live_keys(grown)) == 3


def test_a_run_that_is_told_so_is_done_again_and_once_for_each_word(
    grown: Table, settings: TableSettings
) -> None:
    dag = Restoring(settings)
    dag.start(BACK)
    append(grown)
    assert dag.start({**BACK, "again": True})["transactions"] == [3]
    append(grown)
    # Its conf stays with a run: a backfill that sends none starts it with this one again.
    context = run_context(RESTORE, {**BACK, "again": True})
    with pytest.raises(DownstreamTasksSkipped):
        dag.plan.execute(context)
    said = context["ti"].pushed["return_value"]["done_before"]
    assert "(told `again: true`), as transaction 3, and" in said
    with pytest.raises(DownstreamTasksSkipped):
        dag.plan.execute(run_context(RESTORE, BACK))
    assert dag.start({**BACK, "again": "2"})["transactions"] == [4]


def test_a_dry_run_never_counts_and_may_always_be_repeated(
    grown: Table, settings: TableSettings
) -> None:
    dag = Restoring(settings)
    dry = {**BACK, "dry_run": True}
    run = RunIdentity(dag_id="restore__t", run_id="manual__1")
    for _ in range(2):
        with pytest.raises(DownstreamTasksSkipped):
            dag.plan.execute(run_context(RESTORE, dry))
    assert completed(grown, run) == ()
    dag.start(BACK)
    context = run_context(RESTORE, dry)
    with pytest.raises(DownstreamTasksSkipped):
        dag.plan.execute(context)
    assert "done_before" not in context["ti"].pushed["return_value"]


@pytest.mark.long
def test_a_run_that_had_nothing_to_do_is_done(grown: Table, settings: TableSettings) -> None:
    dag = Restoring(settings)
    nothing = {**BACK, "exact": False}
    first, context = (run_context(RESTORE, nothing) for _ in range(2))
    for each in (first, context):
        with pytest.raises(DownstreamTasksSkipped):
            dag.plan.execute(each)
    assert (
        "UTC, with nothing to do, and is not" in context["ti"].pushed["return_value"]["done_before"]
    )
    (record,) = completed(grown, RunIdentity(dag_id="restore__t", run_id="manual__1"))
    assert record.transactions == ()


@pytest.mark.long
def test_other_runs_are_not_concerned(grown: Table, settings: TableSettings) -> None:
    dag = Restoring(settings)
    dag.start(BACK)
    append(grown)
    other = run_context(RESTORE, BACK, "backfill")
    assert dag.plan.execute(other)["seq"] == 2


@pytest.mark.long
def test_a_run_that_failed_goes_on_as_before(
    grown: Table, settings: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = Restoring(settings)
    planned = dag.plan.execute(run_context(RESTORE, BACK))
    with monkeypatch.context() as broken:
        broken.setattr(RestoreWork, "run", died)
        with pytest.raises(OSError, match="the worker died"):
            dag.run.execute(run_context(RESTORE, BACK, plan=planned))
    assert dag.again(BACK, planned, 2)["transactions"] == [2]
    assert len(live_keys(grown)) == 1


def died(*_: object) -> None:
    raise OSError("the worker died")


def test_a_try_that_committed_all_and_died_is_not_repeated(
    grown: Table, settings: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended since is not the run's to take away."""
    dag = Restoring(settings)
    planned = dag.plan.execute(run_context(RESTORE, BACK))
    with monkeypatch.context() as broken:
        broken.setattr(Once, "record", died)
        with pytest.raises(OSError, match="the worker died"):
            dag.run.execute(run_context(RESTORE, BACK, plan=planned))
    append(grown)
    context = run_context(RESTORE, BACK, plan=planned)
    context["ti"].try_number = 2
    assert dag.run.execute(context)["transactions"] == [2]
    assert len(live_keys(grown)) == 3
    (record,) = completed(grown, RunIdentity(dag_id="restore__t", run_id="manual__1"))
    assert record.transactions == (2,)


@pytest.mark.long
def test_another_transaction_of_the_run_is_not_the_one_that_it_is_for(
    grown: Table, settings: TableSettings
) -> None:
    """A run may also commit what the table needs first; a retry still has its own work to do."""
    dag = Restoring(settings)
    planned = dag.plan.execute(run_context(RESTORE, BACK))
    fill(grown, 1, partitions=["day=c"])
    mine = RunIdentity(dag_id="restore__t", run_id="manual__1")
    run_drop(Work(grown, mine), DropOptions(partitions=("day=c",)))
    assert dag.again(BACK, planned, 2)["transactions"] == [2, 3]
    assert [header.op for header in history(grown)] == ["restore", "drop", "drop"]


# --- Spark jobs: rewrite --------------------------------------------------------------------------


class Rewriting:
    """Runs of the DAG of rewrites, whose Spark job is played by this process."""

    def __init__(
        self, table: Table, settings: TableSettings, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        self.table, self.scratch, self.dies = table, folder / "scratch", False
        self.scratch.mkdir()
        self.started = 0
        with operation_dag(REWRITE, OneTable(settings), doc="", title="t"):
            self.plan, self.job, self.report = submit_then_report(
                REWRITE, OneTable(settings), folder
            )
        monkeypatch.setattr(
            "firnline.airflow.submit.spark_connection",
            lambda _: SimpleNamespace(conn_type="spark", host="local[1]", extra_dejson={}),
        )
        monkeypatch.setattr("firnline.airflow.submit.refuse_unusable", lambda _: None)
        monkeypatch.setattr(
            self.job, "_get_hook", lambda: SimpleNamespace(check=lambda: None, output=JobOutput())
        )
        monkeypatch.setattr(
            "airflow.providers.apache.spark.operators.spark_submit.SparkSubmitOperator.execute",
            lambda _, context: self.submitted(context),
        )

    def submitted(self, context: Any) -> None:
        self.started += 1
        run = RunIdentity(
            dag_id=context["dag"].dag_id,
            run_id=context["run_id"],
            try_number=context["ti"].try_number,
        )

        def engine() -> LocalEngine:
            return LocalEngine(
                lambda: self.table.store, self.scratch, self.table.ids, self.table.clock
            )

        run_rewrite(Work(self.table, run, engine), REWRITE.parse_params(context))
        if self.dies:
            raise OSError("the driver died")

    def start(self, conf: dict[str, Any], tries: int = 1) -> Any:
        """All tasks of a run; what the last hands on."""
        planned = self.plan.execute(run_context(REWRITE, conf))
        context = run_context(REWRITE, conf, plan=planned)
        context["ti"].try_number = tries
        self.job.execute(context)
        return self.report.execute(context)


@pytest.fixture
def rewriting(
    table: Table, settings: TableSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rewriting:
    return Rewriting(table, settings, monkeypatch, tmp_path)


@pytest.mark.long
def test_a_completed_rewrite_is_not_submitted_again(table: Table, rewriting: Rewriting) -> None:
    assert rewriting.start(FILTER)["transactions"] == [1, 2]
    fill(table, 1)
    context = run_context(REWRITE, FILTER)
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        rewriting.plan.execute(context)
    assert "rewrite_partitions" in skipped.value.tasks
    assert "as transactions 1-2, and" in context["ti"].pushed["return_value"]["done_before"]
    with pytest.raises(AirflowSkipException, match="as transactions 1-2"):
        rewriting.job.execute(run_context(REWRITE, FILTER, plan={"seq": 0}))
    assert rewriting.started == 1
    assert rewriting.start({**FILTER, "again": True})["transactions"] == [3, 4]


@pytest.mark.long
def test_a_rewrite_that_committed_and_died_is_not_complete_and_goes_on(
    table: Table, rewriting: Rewriting
) -> None:
    rewriting.dies = True
    with pytest.raises(OSError, match="the driver died"):
        rewriting.start(FILTER)
    rewriting.dies = False
    assert completed(table, RunIdentity(dag_id="rewrite_partitions__t", run_id="manual__1")) == ()
    rewriting.job.execute(run_context(REWRITE, FILTER, plan={"seq": 0}))
    assert rewriting.started == 2
    (record,) = completed(table, RunIdentity(dag_id="rewrite_partitions__t", run_id="manual__1"))
    assert record.transactions == (1, 2)


def test_only_a_backfill_can_tell_a_run_to_be_done_again(table: Table) -> None:
    run = RunIdentity(dag_id="rewrite_partitions__t", run_id="r")
    once = Once(table, run, "", ()).record((1,))
    assert once.sentence.endswith("; trigger a new run to do it again")
    by_backfill = replace(once, is_backfill=True)
    for word in ("true", '"2"', '"3"'):
        assert by_backfill.sentence.endswith(
            f"; to do it again override its parameters with `again: {word}` among them, or "
            "trigger a new run"
        )
        by_backfill = replace(by_backfill, word=word.strip('"')).record((2,))
    assert len(completed(table, run)) == 4


# --- removal --------------------------------------------------------------------------------------


def test_nobody_is_asked_what_to_remove_in_a_run_that_has_removed(
    table: Table, settings: TableSettings
) -> None:
    work = RemoveWork()
    with operation_dag(work, OneTable(settings), doc="", title="t"):
        listing = ListPartitions(task_id="list", work=work, table=OneTable(settings))
    conf = {"dry_run": False}
    context = run_context(work, conf)
    rows = (listing.execute(context), context["ti"].pushed["listed"])[1]
    assert rows
    run = RunIdentity(dag_id="remove_partitions__t", run_id="manual__1")
    run_drop(Work(table, run), DropOptions(partitions=("day=a",)))
    Once(table, run, "", ()).record((1,))
    with pytest.raises(DownstreamTasksSkipped):
        listing.execute(run_context(work, conf))


# --- which work, and what it is told --------------------------------------------------------------


def test_what_does_as_its_params_say_is_done_once_and_upkeep_as_often_as_it_is_started() -> None:
    works: list[Any] = [
        MergeWork(),
        CleanupWork(),
        TtlWork(),
        VerifyWork(),
        SweepWork(),
        ApprovedSweep(),
        RewriteWork(),
        UpdateWork(),
        ReplaceWork(),
        DeleteWork(),
        RestoreWork(),
        EraseWork(),
        ApprovedErase(),
        RemoveWork(),
        RebuildWork(),
    ]
    once = {work.operation for work in works if work.once}
    assert once == {
        "rewrite_partitions",
        "update_where",
        "replace",
        "delete_where",
        "restore",
        "erase",
        "remove_partitions",
        "rebuild",
    }
    assert {work.operation for work in works if "again" in work.all_params()} == once
    assert {
        work.operation: work.about.one_transaction for work in works if work.about.one_transaction
    } == {
        "delete_where": delete.OP,
        "replace": replace_op.OP,
        "restore": "restore",
        "update_where": update_plan.OP,
    }


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, ""),
        (False, ""),
        ("", ""),
        ("false", ""),
        (True, "true"),
        ("true", "true"),
        (" 2 ", "2"),
    ],
)
def test_again_is_yes_or_a_word(value: object, word: str) -> None:
    assert again_word({"again": value}) == word
    if value is not None:
        again_param().resolve(value)


def test_airflow_refuses_an_again_of_another_form() -> None:
    with pytest.raises(ParamValidationError):
        again_param().resolve([1])


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], "with nothing to do"),
        ([7], "as transaction 7"),
        ([14, 12, 13], "as transactions 12-14"),
        ([1, 3, 4], "as transactions 1, 3-4"),
        (list(range(0, 40, 2)), "as transactions 0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 10 more"),
    ],
)
def test_transactions_are_named_as_ranges(numbers: list[int], text: str) -> None:
    assert as_transactions(numbers) == text
