"""### Merge small parts of a table into large sorted ones.

One DAG for each table of the settings file. It runs by the clock (`merge.schedule` of the table,
UTC), whenever the table's asset reports new data, and by hand.

1. `plan` reads the table's log and decides which parts to merge: without Spark, in seconds. Its log
   and XCom say what would be done, and why parts are left alone. With nothing to do the run ends
   here.
2. `merge` submits the Spark job and holds the only slot of the pool `<table>.merge`. Groups are
   committed as they complete: a run that is killed keeps what it has done.
3. `report` reads from the table's history what this run committed, also when `merge` failed
   half-way, and hands it on: as XCom, and in the `extra` of the event on the table's asset.

**By hand:** `partitions` are globs (`ts_month=2013-*`), `max_bytes` bounds what the run reads
(`10GiB`), `dry_run` stops after the plan.

**When it fails,** the end of the task's log says what, and what to do next. Errors that may pass
(the store cannot be reached, a rival was faster) are tried again three times, all others fail at
once. The table is never half-merged: readers see the old parts or the new one. Running it again is
always safe.

**When `merge` waits,** another run holds the table's pool. A missing pool fails the run at its
start; the note on the run names the command that creates it.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from firnline.airflow.merge import RETRIES, PlanMerge, ReportMerge, SubmitMerge
from firnline.airflow.params import merge_params
from firnline.airflow.tables import asset_of, dag_id, schedule_of, tables_of
from firnline.settings import TableSettings

JOB = Path(__file__).resolve().parent.parent / "spark_jobs" / "merge.py"


def merge_dag(table: TableSettings) -> DAG:
    """The DAG of one table."""
    asset = asset_of(table)
    # Beyond its time to live a job commits nothing any more.
    longest = timedelta(milliseconds=table.commit_ttl) + timedelta(minutes=15)
    with DAG(
        dag_id=dag_id("merge", table.name),
        description=f"Merge small parts of {table.name} into large sorted ones",
        doc_md=__doc__,
        schedule=schedule_of(table.merge.schedule, asset),
        catchup=False,
        max_active_runs=1,
        params=merge_params(),
        tags={"firnline", "merge", table.name},
        default_args={"owner": "firnline", **RETRIES},
    ) as dag:
        plan = PlanMerge(task_id="plan", table=table, execution_timeout=timedelta(minutes=15))
        merge = SubmitMerge(
            task_id="merge",
            table=table,
            application=JOB,
            pool=table.merge_pool,
            execution_timeout=longest,
        )
        report = ReportMerge(
            task_id="report", table=table, asset=asset, execution_timeout=timedelta(minutes=15)
        )
        # Set-up and tear-down: the report comes also after a failed merge, without making the run
        # a success; and clearing the merge plans it anew.
        plan >> merge >> report.as_teardown(setups=plan)
    return dag


for settings in tables_of("merge"):
    merge_dag(settings)
