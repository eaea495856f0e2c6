"""DAGs of operations: their common attributes and the usual chains of tasks.

with operation_dag(WORK, table, doc=__doc__, title="…", schedule=table.clock):
    plan_then_run(WORK, table)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.definitions.param import ParamsDict

from firnline.airflow import versions
from firnline.airflow.alerts import TableAlert, failure_alert, merge_deadline
from firnline.airflow.mirror import then_mirror
from firnline.airflow.prepared import ApprovePrepared, CommitPrepared, PreparedWork
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import PlanOperation, ReportRun, RunInTask
from firnline.airflow.work import InTaskWork, SparkWork, Work
from firnline.operations.dag_ids import TAG
from firnline.operations.pools import pool_slots, shares
from firnline.settings.load import TableSettings

RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": versions.BACKOFF,
    "max_retry_delay": timedelta(minutes=15),
}
"""Retries for transient errors; all others fail at once (``firnline.airflow.failures``)."""

MOST_RUNS = 1_000
"""Active runs and tasks of a DAG for all tables: runs wait for people for days, without the table's
pool, and those of one table must not hold up others."""

NO_DEADLINE = versions.needs(
    "3.1", "a deadline of merges (`alerts.merge_deadline`)", "nobody is told of a late merge"
)
"""Sentence for the doc of a DAG whose table has a deadline, in an Airflow without any."""

READING = timedelta(minutes=15)
"""Time limit of a task that only reads the log."""


@contextmanager
def operation_dag(
    work: Work[Any], table: DagTable, *, doc: str | None, title: str, **more: Any
) -> Iterator[DAG]:
    """Yield a DAG for a ``with`` statement whose body creates its tasks.

    Sets id, params, tags, owner, one run at a time in a DAG for one table (of merges
    ``merge.slots``), no catch-up, retries for transient errors and alerts.

    Args:
        work: the work of its tasks.
        table: the table that its tasks work on.
        doc: Markdown, the docstring of the operation's graph.
        title: description; names the table, or says that each run does.
        more: arguments of DAG, which override the above; ``schedule`` among them (default: manual).
            What users say of it (``table.overrides``) goes before the above, and never takes the
            tag, the alert or the pool of the table away.
    """
    known = table.known
    told = TableAlert() if known is None else failure_alert(known)
    late = table.deadlines if work.operation == "merge" else ()
    if late and not versions.AIRFLOW_3_1_PLUS:
        doc, late = f"{doc or ''}\n**No deadline:** {NO_DEADLINE}.\n", ()
    theirs = table.overrides
    failed = theirs.failure_callbacks(told)
    common: dict[str, Any] = {
        "schedule": None,
        "catchup": False,
        "max_active_runs": active_runs(work, known),
        # Of all tables together; Airflow's default of 16 is that of one table's DAG.
        **({"max_active_tasks": MOST_RUNS} if known is None else {}),
        "params": {**table.params, **work.all_params(known)},
        "tags": theirs.tags({TAG, work.operation, *([known.name] if known else [])}),
        "default_args": {"owner": "firnline", **RETRIES, **theirs.default_args},
        **({"on_failure_callback": failed} if failed else {}),
        **({"deadline": [merge_deadline(each, known) for each in late]} if late else {}),
        **theirs.dag_args,
    }
    with DAG(
        dag_id=table.dag_id(work.operation),
        description=title,
        doc_md=doc,
        **{**common, **more, **theirs.schedule},
    ) as dag:
        yield dag
    for task in dag.tasks:
        # Every task gets the DAG's params anyway. Airflow would validate the schemas of the copies
        # again when it serializes them: two thirds of the parse time of an erase DAG.
        task.params = ParamsDict()


def active_runs(work: Work[Any], known: TableSettings | None) -> int:
    """Return how many runs of a DAG may be active; of one table as many as its lock lets work."""
    if known is None:
        return MOST_RUNS
    return pool_slots(known, work.about.lock) if shares(work.about, known) else 1


def longest(table: DagTable) -> timedelta:
    """Return the time limit of a task that commits: after ``commit_ttl`` it commits nothing."""
    return timedelta(milliseconds=table.commit_ttl) + timedelta(minutes=15)


def run_only(work: InTaskWork[Any], table: DagTable) -> RunInTask:
    """Create the task that does the work itself, in the pool; its id is the operation's name."""
    return RunInTask(
        task_id=work.operation,
        work=work,
        table=table,
        execution_timeout=longest(table),
        **table.lock(work.operation),
    )


def plan_then_run(
    work: InTaskWork[Any], table: DagTable, plan: PlanOperation | None = None
) -> tuple[PlanOperation, RunInTask]:
    """Create ``plan`` outside the pool, then the task of ``run_only``, and that of its mirrors.

    Args:
        work: the work.
        table: the table that they work on.
        plan: the first task, if it is not a plain PlanOperation.
    """
    plan = plan or PlanOperation(task_id="plan", work=work, table=table, execution_timeout=READING)
    run = run_only(work, table)
    plan >> run
    then_mirror(table, run)
    return plan, run


def submit_then_report(
    work: SparkWork[Any],
    table: DagTable,
    jobs: Path,
    plan: PlanOperation | None = None,
    commit: CommitPrepared | None = None,
) -> tuple[PlanOperation, SubmitJob, ReportRun]:
    """Create ``plan`` outside the pool, the Spark job in the pool, ``report`` and ``mirror``.

    Args:
        work: the work; the job's task is named after it.
        table: the table that they work on.
        jobs: the folder ``spark_jobs``.
        plan: the first task, if it is not a plain PlanOperation.
        commit: the task that commits what the job may prepare; ``mirror`` waits for it too.
    """
    plan = plan or PlanOperation(task_id="plan", work=work, table=table, execution_timeout=READING)
    job = SubmitJob(
        task_id=work.operation,
        work=work,
        table=table,
        jobs=jobs,
        execution_timeout=longest(table),
        **table.lock(work.operation),
    )
    report = ReportRun(task_id="report", work=work, table=table, execution_timeout=READING)
    # Set-up and tear-down: the report also runs after a failed job, without making the run a
    # success; and clearing the job clears its plan too.
    plan >> job >> report.as_teardown(setups=plan)
    then_mirror(table, *filter(None, (job, commit)))
    return plan, job, report


def ask_then_commit(work: PreparedWork[Any], table: DagTable, jobs: Path) -> None:
    """Create the tasks of ``submit_then_report``, with ``approve`` and ``commit`` after the job.

    The question stands without the pool, the commit holds it.
    """
    approve = ApprovePrepared(task_id="approve", work=work, table=table)
    commit = CommitPrepared(
        task_id="commit",
        work=work,
        table=table,
        execution_timeout=READING,
        **table.lock(work.operation),
    )
    _, job, report = submit_then_report(work, table, jobs, commit=commit)
    job >> approve >> commit >> report
