"""Imports in Airflow: the new files of a folder that others keep writing become rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from firnline.airflow import imports
from firnline.airflow.alerts import Told
from firnline.airflow.dags import operation_dag
from firnline.airflow.imports import ImportFolders, ImportWork
from firnline.airflow.job_output import JobOutput
from firnline.airflow.runs import run_identity
from firnline.airflow.spark_submit import SubmitHook
from firnline.airflow.tables import OneTable, TableOfRun, asset_of
from firnline.airflow.tasks import PlanOperation
from firnline.airflow.versions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)
from firnline.errors import CommitConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.operations.import_files.folders import import_folders, options_of
from firnline.operations.import_options import ImportFoldersOptions, ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.table import Table, open_table
from tests.support.airflow_context import run_context
from tests.support.histories import parquet_bytes
from tests.support.reading import stored_ids
from tests.support.tables import loaded
from tools.s3server import StoreRoot

WORK = ImportWork()


class Standing:
    """A table that imports folders, and the tasks of its DAG; Spark is played by this process."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        more: str = "",
        table: str = "",
        lake: str = "",
    ) -> None:
        (folder / "lake").mkdir()
        self.lake = lake or f"file://{folder}/lake"
        section = f"import: {{source: '{self.lake}/in'{more}}}"
        text = f"tables: {{t: {{root: '{self.lake}/t', {section}{table}}}}}"
        self.settings = loaded(folder, text).table("t")
        monkeypatch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
        self.table: Table = open_table(self.settings)
        self.submitted, self.scratch = 0, folder / "scratch"
        self.scratch.mkdir()
        with operation_dag(WORK, OneTable(self.settings), doc="", title="t"):
            self.plan = PlanOperation(task_id="plan", work=WORK, table=OneTable(self.settings))
            self.job = ImportFolders(
                task_id="import", work=WORK, table=OneTable(self.settings), jobs=folder
            )
            self.plan >> self.job
        hook = SubmitHook.__new__(SubmitHook)
        hook.output = JobOutput()
        monkeypatch.setattr(
            "firnline.airflow.submit.spark_connection",
            lambda _: SimpleNamespace(conn_type="spark", host="local[1]", extra_dejson={}),
        )
        monkeypatch.setattr(SubmitHook, "check", lambda _: None)
        monkeypatch.setattr(self.job, "_get_hook", lambda: hook)
        monkeypatch.setattr(
            "airflow.providers.apache.spark.operators.spark_submit.SparkSubmitOperator.execute",
            lambda _, context: self.spark(context, hook),
        )

    def spark(self, context: Any, hook: SubmitHook) -> None:
        self.submitted += 1
        table = self.table
        engine = LocalEngine(lambda: table.store, self.scratch, table.ids, table.clock, 1)
        options = WORK.parse_params(context)
        report = import_folders(
            Work(table, run_identity(context), lambda: engine, lambda _: None), options
        )
        hook.output.report = report.to_json()

    def put(self, name: str, **columns: list[Any]) -> None:
        self.put_bytes(name, parquet_bytes(pa.table(columns)))

    def put_bytes(self, name: str, data: bytes) -> None:
        prefix = self.table.paths.data_dir.removesuffix("t/_data/")
        self.table.store.put_new(f"{prefix}in/{name}", data)

    def run(self, run_type: str = "scheduled", **conf: Any) -> Any:
        """All tasks of a run; the context of the last one that ran."""
        context = run_context(WORK, conf, run_type)
        try:
            planned = self.plan.execute(context)
        except DownstreamTasksSkipped:
            return context
        context = run_context(WORK, conf, run_type, plan=planned)
        try:
            self.job.execute(context)
        except AirflowSkipException:
            context["skipped"] = True
        return context

    @property
    def ids(self) -> Counter[Any]:
        return Counter(stored_ids(self.table))


@pytest.fixture
def standing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Standing]:
    return lambda *given, **named: Standing(tmp_path, monkeypatch, *given, **named)


def said(context: Any) -> str:
    return str(context["ti"].pushed["said"])


def figures(context: Any) -> dict[str, Any]:
    found: dict[str, Any] = context["ti"].pushed["return_value"]
    return found


def event(table: Standing, context: Any) -> dict[str, Any]:
    """The extra of the event on the table's asset."""
    found: dict[str, Any] = vars(context["outlet_events"][asset_of(table.settings)])
    return found


@pytest.mark.long
def test_ten_days_of_a_firehose_are_ten_runs_and_each_row_is_there_once(
    standing: Callable[..., Standing], s3_environ: StoreRoot
) -> None:
    table = standing(", path_types: {day: DATE}", lake=s3_environ.url)
    expected = Counter[int]()
    for day in range(10):
        for number in range(3):
            # The fourth and the eighth day have a folder of Hive, whose column no file has.
            folder = f"day=2026-01-{day:02}" if day in (3, 7) else f"2026/01/{day:02}"
            first = 10 * (3 * day + number)
            table.put(f"{folder}/stream-{number}.parquet", id=list(range(first, first + 10)))
            expected.update(range(first, first + 10))
        context = table.run()
        found = figures(context)
        assert (found["files"], found["rows"], found["known"]) == (3, 30, 3 * day)
        assert table.submitted == (day >= 3) + (day >= 7)
        assert event(table, context)["extra"] == found
        assert said(table.run()) == "nothing to do"
    assert table.ids == expected
    assert run_verify(Work(table.table), VerifyOptions(deep=True)).kinds == {}


def test_the_note_says_files_rows_and_what_was_left_out(
    standing: Callable[..., Standing], caplog: pytest.LogCaptureFixture
) -> None:
    table = standing(", skip_bad: true, exclude: ['tmp/*']")
    table.put("1.parquet", id=[1, 2])
    table.put("tmp/2.parquet", id=[3])
    table.put("empty.parquet", id=pa.array([], "int64"))
    table.put_bytes("bad.parquet", b"no Parquet")
    context = table.run()
    note = said(context)
    assert note.startswith("imported: 1 file of 2 rows (")
    assert ", 1 copied; left out: 1 object (without a row), 1 object (no Parquet, hidden" in note
    assert "; 1 file that cannot be taken: " in note
    assert "in/bad.parquet" in note
    assert caplog.messages[-1] == f"t: {note}"
    assert any(line.startswith(f"from {table.lake}/in: files 1") for line in caplog.messages)
    assert any(line.startswith("to import: 1 file of 2 rows") for line in caplog.messages)


def test_a_bad_file_fails_the_run_or_is_told_to_the_notifier_of_the_table(
    standing: Callable[..., Standing], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Told] = []
    monkeypatch.setattr("firnline.airflow.alerts.notify", lambda *given: told.append(given[-1]))
    table = standing(table=", alerts: {notifier: some.where.Notifier}")
    table.put("1.parquet", id=[1])
    table.put_bytes("bad.parquet", b"no Parquet")
    with pytest.raises(AirflowFailException, match=r"bad\.parquet"):
        table.run()
    assert table.ids == Counter()
    assert table.run(skip_bad=True)["ti"].pushed["said"].startswith("imported: 1 file of 1 row")
    context = table.run(skip_bad=True)
    assert context["skipped"], "nothing is new, and the bad file is there still"
    assert said(context).startswith("nothing was to be imported; 1 file that cannot be taken: ")
    assert [(each.reason, each.table) for each in told] == [(imports.LEFT_OUT, "t")] * 2
    assert told[0].sentence.startswith("an import into table t has left out 1 file that cannot be")
    assert table.ids == Counter([1])


def test_a_dry_run_imports_nothing_and_says_what_it_would_take(
    standing: Callable[..., Standing],
) -> None:
    table = standing()
    table.put("1.parquet", id=[1])
    assert said(table.run("manual", dry_run=True)).startswith(
        "dry run, nothing done: to import: 1 file of 1 row ("
    )
    assert table.ids == Counter()


@pytest.mark.long
def test_a_file_that_has_to_be_read_and_came_after_the_plan_is_left_to_spark(
    standing: Callable[..., Standing],
) -> None:
    table = standing()
    table.put("0.parquet", id=[0])
    table.run()  # the folder is known, so that one below it may have no file yet
    table.put("1.parquet", id=[1])
    both = {"source": [f"{table.lake}/in", f"{table.lake}/in/day=1"]}
    planned = table.plan.execute(run_context(WORK, both))
    assert planned["anew"] == 0
    table.put("day=1/2.parquet", id=[2])
    context = run_context(WORK, both, plan=planned)
    table.job.execute(context)
    assert (table.submitted, table.ids) == (1, Counter([0, 1, 2]))
    assert event(table, context)["extra"]["anew"] == 1


def test_what_was_copied_before_spark_was_needed_counts_too(
    standing: Callable[..., Standing],
) -> None:
    table = standing()
    table.put("a/1.parquet", id=[1])
    table.put("day=1/2.parquet", id=[2, 3])
    both = {"source": [f"{table.lake}/in/a", f"{table.lake}/in/day=1"]}
    context = run_context(WORK, both, plan={"anew": 0})
    table.job.execute(context)
    found = figures(context)
    assert (found["files"], found["rows"], found["anew"], found["copies"]) == (2, 3, 1, 1)
    assert len(found["log_files"]) == 2
    assert said(context).startswith("imported: 2 files of 3 rows (")


def test_a_retry_whose_first_try_died_after_it_had_imported_reports_the_rows(
    standing: Callable[..., Standing],
) -> None:
    table = standing()
    table.put("1.parquet", id=[1])
    planned = table.plan.execute(run_context(WORK))
    table.job.execute(run_context(WORK, plan=planned))
    context = run_context(WORK, plan=planned)
    context["ti"].try_number = 2
    table.job.execute(context)
    assert "extra" in event(table, context)
    assert table.ids == Counter([1])


def test_another_import_that_was_quicker_is_a_reason_to_try_again(
    standing: Callable[..., Standing], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = standing()
    table.put("1.parquet", id=[1])
    planned = table.plan.execute(run_context(WORK))

    def overtaken(*_: Any, **__: Any) -> None:
        raise CommitConflictError("another import was quicker", next_step="run it again")

    with monkeypatch.context() as patched:
        patched.setattr("firnline.operations.import_files.folders.run_import", overtaken)
        with pytest.raises(AirflowException, match="another import was quicker") as caught:
            table.job.execute(run_context(WORK, plan=planned))
    assert not isinstance(caught.value, AirflowFailException)
    table.job.execute(run_context(WORK, plan=planned))
    assert table.ids == Counter([1])


@pytest.mark.long
def test_what_one_folder_has_brought_is_told_when_the_next_one_fails(
    standing: Callable[..., Standing],
) -> None:
    table = standing()
    table.put("a/1.parquet", id=[1])
    table.put_bytes("b/bad.parquet", b"no Parquet")
    both = {"source": [f"{table.lake}/in/a", f"{table.lake}/in/b"]}
    context = run_context(WORK, both, plan={"anew": 0})
    with pytest.raises(AirflowFailException, match=r"bad\.parquet"):
        table.job.execute(context)
    assert (figures(context)["files"], table.ids) == (1, Counter([1]))


def test_a_run_takes_the_options_of_the_settings_where_it_gives_none(
    standing: Callable[..., Standing],
) -> None:
    table = standing(", exclude: [x], path_types: {day: DATE}, skip_bad: true, split: true")
    source = f"{table.lake}/in"
    assert options_of(table.settings, ImportFoldersOptions()) == [
        ImportOptions(
            source=source,
            new=True,
            exclude=("x",),
            path_types=("day=DATE",),
            skip_bad=True,
            split=True,
        )
    ]
    given = ImportFoldersOptions(
        source=("s3://b/1", "s3://b/2", "s3://b/1"),
        new=False,
        exclude=("y",),
        path_types=("day=VARCHAR",),
        no_path_columns=True,
    )
    assert [each.source for each in options_of(table.settings, given)] == ["s3://b/1", "s3://b/2"]
    (first, _) = options_of(table.settings, given)
    assert (first.new, first.exclude, first.path_types) == (False, ("y",), ("day=VARCHAR",))
    assert (first.no_path_columns, first.skip_bad) == (True, True)
    bare = table.settings.model_copy(update={"imports": None})
    with pytest.raises(UsageError, match="needs a folder") as caught:
        options_of(bare, ImportFoldersOptions())
    assert "import.source" in caught.value.next_step


def test_runs_by_the_clock_import_and_forms_ask_for_new_files_only() -> None:
    assert WORK.parse_params(run_context(WORK, run_type="scheduled")) == ImportFoldersOptions()
    params = WORK.all_params()
    assert (params["new"].value, params["dry_run"].value) == (True, False)
    assert WORK.options(
        {**{n: p.value for n, p in params.items()}, "new": False}, dry_run=True
    ) == (ImportFoldersOptions(new=False, dry_run=True))


def test_an_import_waits_for_no_pool(standing: Callable[..., Standing]) -> None:
    assert OneTable(standing().settings).lock("import") == {}
    assert TableOfRun("import", ("t",), 0).lock("import") == {}
