"""### Merge small parts of a table into large sorted ones.

Each run names its table, which `merge__TABLE` of a table with `own_dags` is about anyway. It runs
when `fleet__merge` finds something to do (`merge.schedule: fleet`) and by hand; `merge__TABLE` also
by a clock of its own (a schedule there, UTC), and whenever the table's asset reports new rows.

1. `plan` reads the table's log and decides which parts to merge: without Spark, in seconds. Its log
   and XCom say what would be done, and why parts are left alone. If there is nothing to do, the run
   ends here.
2. `merge` submits the Spark job and holds one slot of the pool `<table>.merge`, which has one
   unless `merge.slots` says more. Groups are committed as they complete: a run that is killed keeps
   what it has done.
3. `report` reads from the table's history what this run committed, also when `merge` failed
   half-way, and hands it on: as XCom, and in the `extra` of the event on the asset
   `<table>:upkeep`.

**By hand:** `partitions` are globs, `max_bytes` bounds what the run reads (`10GiB`), `dry_run`
stops after the plan.

**When it fails,** the end of the task's log says what failed and what to do next. Transient errors
(the store cannot be reached, a commit conflict) are retried three times, all others fail at once.
The table is never half-merged: readers see the old parts or the new ones. Running it again is
always safe.

**When `merge` waits,** other runs hold the table's pool. A missing pool fails the run at its
start; the note on the run names the command that creates it.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import READING, operation_dag, submit_then_report
from firnline.airflow.merge import MergeWork, PlanMerge
from firnline.airflow.tables import DagTable, clock_or_rows

MERGE = MergeWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(
        MERGE,
        table,
        doc=__doc__,
        title=f"Merge small parts of {table.name} into large sorted ones",
        schedule=clock_or_rows(table),
    ):
        first = PlanMerge(task_id="plan", work=MERGE, table=table, execution_timeout=READING)
        submit_then_report(MERGE, table, jobs, first)
