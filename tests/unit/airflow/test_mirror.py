"""The task that publishes the mirrors of a table after a DAG has committed to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow import mirror
from firnline.airflow import tasks as airflow_tasks
from firnline.airflow.dags import operation_dag, plan_then_run
from firnline.airflow.mirror import PublishMirror
from firnline.airflow.tables import OneTable, TableOfRun, asset_of
from firnline.airflow.versions import AirflowException, AirflowSkipException, DownstreamTasksSkipped
from firnline.airflow.works import RebuildWork, TtlWork
from firnline.commit.base import take_base
from firnline.errors import StoreUnavailableError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.head import read_head
from firnline.operations.dag_ids import FLEET
from firnline.operations.properties.run import run_apply
from firnline.settings.load import TableSettings, load_settings
from firnline.table import Table, open_table
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.tables import loaded
from tools.reference.dags import load_dags

TTL, REBUILD = TtlWork(), RebuildWork()
PUBLISHING = {
    "delete_where", "erase", "import", "merge", "rebuild", "remove_partitions", "replace",
    "restore", "rewrite_partitions", "tombstone_cleanup", "ttl",
    "update_where",
}  # fmt: skip
"""DAGs of the operations that commit."""


def text(folder: Path, more: str) -> str:
    section = "ttl: {keep: 1h, partition: 'day=(?P<day>.*)'}"
    return f"{{root: 'file://{folder}', {section}{more}}}"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableSettings:
    """The mirrored table ``t``, with a table ``u`` beside it that has no mirror."""
    path = tmp_path / "tables.yaml"
    tables = f"t: {text(tmp_path / 't', ', mirror: [delta]')}, u: {text(tmp_path / 'u', '')}"
    file = f"tables: {{{tables}}}"
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    found = loaded(tmp_path, file).table("t")
    path.write_text(file)
    return found


@pytest.fixture
def table(settings: TableSettings) -> Table:
    table = open_table(settings)
    fill(table, 2, partitions=("day=2020-01-01", "day=later"))
    run_apply(table, RunIdentity(run_id="by hand"))
    return table


def shown(table: Table) -> int | None:
    """The newest transaction that the mirror shows."""
    head = read_head(table.store, table.paths)
    return None if head is None else head.position.seq


@pytest.mark.long
def test_every_dag_that_commits_publishes_afterwards_where_a_table_has_a_mirror() -> None:
    plain, mirrored = load_dags(("t",)), load_dags(("t",), ", mirror: [delta]")
    assert [name for name, dag in plain.items() if dag.has_task("mirror")] == []
    found = {name: dag for name, dag in mirrored.items() if dag.has_task("mirror")}
    assert {name.partition("__")[0] for name in found} == PUBLISHING
    for name, dag in found.items():
        task = dag.task_dict["mirror"]
        committing = name.partition("__")[0]
        # What a person is asked about is committed by a task of its own.
        later = ("commit",) if dag.has_task("commit") else ()
        assert {each.task_id for each in task.upstream_list} == {committing, *later}
        assert (task.pool, list(task.outlets)) == ("default_pool", [])
        # The run fails with it: a tear-down's failure would not be seen.
        assert not task.is_teardown
        assert task.downstream_list == []


def test_the_mirror_of_a_rewrite_waits_for_the_answer_and_the_commit() -> None:
    dag = load_dags(("t",), ", mirror: [delta]")["rewrite_partitions__t"]
    task = task_of(dag)
    assert dag.task_dict["approve"] in task.get_flat_relatives(upstream=True)
    # A job that was not to ask has committed, and `commit` is skipped; a rejection skips all that
    # is downstream of `approve`, `mirror` included.
    assert task.trigger_rule == "none_failed_min_one_success"
    assert task in dag.task_dict["approve"].get_flat_relatives(upstream=False)


def publish(settings: TableSettings) -> PublishMirror:
    with operation_dag(TTL, OneTable(settings), doc="", title="t") as dag:
        plan_then_run(TTL, OneTable(settings))
    return task_of(dag)


def task_of(dag: DAG) -> PublishMirror:
    task = dag.task_dict["mirror"]
    assert isinstance(task, PublishMirror)
    return task


def test_what_was_committed_is_in_the_mirror_and_the_note_says_so(
    table: Table, settings: TableSettings
) -> None:
    task, context = publish(settings), run_context(TTL, run_type="scheduled")
    figures = task.execute(context)
    assert (shown(table), figures["delta"]["files"]) == (figures["delta"]["seq"], 4)
    said = "The Delta mirror of t has a new version: 4 files more, 0 files less"
    assert context["ti"].pushed["said"] == said
    assert asset_of(settings) not in context["outlet_events"]
    again = run_context(TTL, run_type="scheduled")
    assert task.execute(again)["delta"]["written"] is False
    assert again["ti"].pushed["said"] == "The Delta mirror of t shows its newest state"


@pytest.mark.long
def test_a_store_that_does_not_answer_fails_this_task_alone_and_is_asked_again(
    table: Table, settings: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_: Any) -> Table:
        raise StoreUnavailableError("no answer", next_step="try again")

    monkeypatch.setattr(mirror, "open_in_task", silent)
    task = publish(settings)
    with pytest.raises(AirflowException, match="no answer"):
        task.execute(run_context(TTL, run_type="scheduled"))
    assert task.retries == 3


@pytest.mark.usefixtures("settings")
def test_a_run_of_a_dag_for_all_tables_skips_the_task_for_a_table_without_a_mirror() -> None:
    of_run = TableOfRun("rebuild", ("t", "u"), 60_000, mirrored=True)
    with operation_dag(REBUILD, of_run, doc="", title="r") as dag:
        plan, _ = plan_then_run(REBUILD, of_run)
    plain = open_table(load_settings().table("u"))
    fill(plain, 1)
    for key in [meta.key for meta in plain.store.list(plain.paths.log_dir)]:
        list(plain.store.delete_many([key]))
    context = run_context(REBUILD, {"table": "u", "dry_run": False})
    context["dag"].dag_id = "rebuild"
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        plan.execute(context)
    assert list(skipped.value.tasks) == ["mirror"]
    assert context["ti"].pushed["return_value"]["dry_run"] is False
    with pytest.raises(AirflowSkipException, match="u has no mirror"):
        task_of(dag).execute(context)


@pytest.mark.long
def test_the_fleet_has_no_task_of_its_own_for_mirrors() -> None:
    assert load_dags(("t",), ", mirror: [delta]")[FLEET].task_ids == ["plan"]


class HalfDone(TtlWork):
    """Commits, and fails then."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, table: Table, options: Any, run: Any, on_progress: Any) -> Any:
        super().run(table, options, run, on_progress)
        raise self.error


NO_ANSWER = StoreUnavailableError("no answer", next_step="try again")


def fail(settings: TableSettings, work: TtlWork) -> None:
    with operation_dag(work, OneTable(settings), doc="", title="t"):
        _, run = plan_then_run(work, OneTable(settings))
    with pytest.raises(AirflowException, match=r"^no answer; try again$"):
        run.execute(run_context(work, run_type="scheduled", plan={"seq": newest(settings)}))


def newest(settings: TableSettings) -> int:
    return take_base(open_table(settings)).seq


@pytest.mark.long
def test_a_task_that_fails_half_way_publishes_what_it_has_committed(
    table: Table, settings: TableSettings
) -> None:
    """The task of the mirrors does not run after it."""
    publish(settings).execute(run_context(TTL, run_type="scheduled"))
    before = newest(settings)
    assert shown(table) == before
    fail(settings, HalfDone(NO_ANSWER))
    assert shown(table) == newest(settings) == before + 1


def test_a_task_that_fails_before_it_commits_publishes_nothing(
    table: Table, settings: TableSettings
) -> None:
    class Broken(HalfDone):
        def run(self, table: Table, options: Any, run: Any, on_progress: Any) -> Any:
            raise self.error

    fail(settings, Broken(NO_ANSWER))
    assert shown(table) is None


@pytest.mark.long
def test_a_publication_that_fails_leaves_a_failed_task_its_own_error(
    table: Table,
    settings: TableSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def silent(*_: Any) -> Any:
        raise StoreUnavailableError("nor here", next_step="wait")

    monkeypatch.setattr(airflow_tasks, "publish", silent)
    fail(settings, HalfDone(NO_ANSWER))
    assert "the next publication shows what this run has committed" in caplog.text
