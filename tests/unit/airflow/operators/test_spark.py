"""Operators that submit Spark jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.airflow import Delete, Import, Merge, Replace, Rewrite, Update, Verify
from firnline.airflow.making import JOBS
from firnline.airflow.operators.spark import SparkOperator
from firnline.airflow.spark_submit import SubmitHook
from firnline.airflow.submit import SubmitJob, job_arguments
from firnline.airflow.versions import AirflowFailException
from firnline.operations.fields import option_fields
from firnline.state.history import history
from firnline.table import Table
from tests.dags.filled import fill, live_keys, live_rows
from tests.support.signatures import arguments_of
from tests.support.their_dags import context_of, run_jobs_here, tables
from tools.bootstrap import REPO

SETTINGS = """
tables:
  events: {{root: 'file://{folder}/events', partition: 'day=.*', mirror: [delta]}}
  plain: {{root: 'file://{folder}/plain', partition: 'day=.*'}}
  hours: {{root: 'file://{folder}/hours', partition_by: [day(ts)]}}
"""
OPERATORS = [Delete, Import, Merge, Replace, Rewrite, Update, Verify]
NOT_ALONE = {"assertions", "keys", "samples"}
"""Options of a rewrite that is shown before it is committed."""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    found = tables(tmp_path, monkeypatch, SETTINGS)
    fill(found, 4)
    run_jobs_here(monkeypatch)
    return found


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_has_the_options_of_its_operation(operator: type[SparkOperator]) -> None:
    about: Any = operator.kind.about
    offered = {f.name for f in option_fields(about.options) if f.option.form} - NOT_ALONE
    ours = {"table", *([] if about.only_looks else ["dry_run"]), *(["again"] if about.once else [])}
    assert arguments_of(operator).keys() == offered | ours


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_package_has_the_job_of_every_operator(operator: type[SparkOperator]) -> None:
    job = JOBS / operator.kind.job
    same = (REPO / "spark_jobs" / job.name).read_text().split('"""\n', 1)[1]
    assert job.read_text().split('"""\n', 1)[1] == same


def test_a_job_is_told_which_task_it_is(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def hook(task: Any) -> SubmitHook:
        told.extend(task.application_args)
        raise RuntimeError("it would be submitted now")

    monkeypatch.setattr(SubmitJob, "_get_hook", hook)
    task = Merge(table="events", task_id="small_ones")
    with pytest.raises(RuntimeError):
        task.execute(context_of(task))
    expected = ["--dag-id=etl", "--run-id=scheduled__1", "--task-id=small_ones", "--try-number=1"]
    assert told == ["events", *expected]
    assert task.application == str(JOBS / "merge.py")


def test_a_task_of_our_own_dags_is_no_part_of_its_run(table: Table) -> None:
    plain = context_of(Merge(table="events"))
    assert not [each for each in job_arguments(table.settings, plain) if "task" in each]


@pytest.mark.long
def test_what_a_task_commits_is_published_by_it(table: Table) -> None:
    task = Merge(table="events")
    task.execute(context_of(task))
    published = Path(table.settings.root.removeprefix("file://"), "_delta_log")
    assert [file.suffix for file in published.iterdir()]


@pytest.mark.long
def test_a_rewrite_takes_the_partitions_that_a_template_names(table: Table) -> None:
    task = Rewrite(table="events", partitions="day=a", where="k < 150")
    figures = task.execute(context_of(task))
    assert figures["partitions"] == ["day=a"]
    assert len(live_rows(table)) == 350
    hopeless = Rewrite(table="events", partitions=[], where="k < 150", task_id="none")
    with pytest.raises(AirflowFailException, match="a rewrite by hand needs partitions"):
        hopeless.execute(context_of(hopeless))


def test_a_replace_that_is_cleared_replaces_again(table: Table, tmp_path: Path) -> None:
    hours = table_of_hours(tmp_path)
    task = Replace(
        table="hours", start="2026-01-01", end="2026-01-02", files=[str(tmp_path / "staged")]
    )
    for again in range(2):
        context = context_of(task, 1 + again)
        context["ti"].max_tries += again
        task.execute(context)
    assert [header.op for header in history(hours)] == ["replace", "replace"]


def table_of_hours(folder: Path) -> Table:
    import firnline

    staged = folder / "staged"
    staged.mkdir()
    rows = pa.table(
        {"ts": pa.array([datetime(2026, 1, 1, 7, tzinfo=UTC)], pa.timestamp("us", "UTC")), "k": [1]}
    )
    pq.write_table(rows, staged / "one.parquet")
    opened = firnline.open_table("hours", settings=folder / "tables.yaml")
    firnline.append(opened, [{"ts": datetime(2026, 1, 2, tzinfo=UTC), "k": 2}])
    return opened


def test_an_import_may_have_a_template_for_its_table(table: Table, tmp_path: Path) -> None:
    folder = tmp_path / "given" / "day=c"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"k": [1, 2], "day": ["c", "c"]}), folder / "one.parquet")
    task = Import(table="{{ params.into }}", source=f"file://{tmp_path}/given")
    task.options["table"] = "events"  # as it was rendered
    context = context_of(task)
    figures = task.execute(context)
    assert figures["rows"] == 2
    assert [name for name, _ in context["outlet_events"].added] == ["events"]
    assert task.execute(context_of(task))["files"] == 0


@pytest.fixture
def plain(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table without a mirror, and no events in Airflow's database."""
    import firnline

    monkeypatch.setattr("firnline.airflow.witness.of_events", lambda _: ())
    found = firnline.open_table("plain", settings=tmp_path / "tables.yaml")
    fill(found, 1)
    return found


@pytest.mark.long
def test_a_check_without_depth_starts_no_job(plain: Table) -> None:
    task = Verify(table="plain")
    assert task.execute(context_of(task))["findings"] == []
    lost = live_keys(plain)[0]
    Path(plain.settings.root.removeprefix("file://")).parent.joinpath(lost).unlink()
    with pytest.raises(AirflowFailException, match=lost):
        task.execute(context_of(task))


def test_a_deep_check_has_a_job_read_footers(plain: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def launch(task: Any, context: Any, carried: dict[str, Any]) -> None:
        asked.append(task)
        task.concluded(context, carried)

    monkeypatch.setattr(SubmitJob, "launch", launch)
    task = Verify(table="plain", deep="True", task_id="deep")
    context = context_of(task)
    task.execute(context)
    assert asked == [task]
    assert context["ti"].pushed["said"] == "the deep check found nothing"
