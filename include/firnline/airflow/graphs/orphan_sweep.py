"""### Delete objects that no log file of a table names, once a person has seen the list.

One DAG for all tables, started by hand: `table` names that of the run. A table with
`sweep.schedule` (UTC) has a DAG of its own besides, which runs by the clock. Dead runs and appends
leave orphans behind: parts, probes of the store, uploads that were never completed. They cost money
but do no harm.

1. `plan` lists the orphans with their sizes and ages; an object younger than a day never counts as
   an orphan, whatever the settings say. If there is nothing to do, the run ends here.
2. `approve` waits for a person to look at the list ("Required actions" of the run). At most 5,000
   objects at a time.
3. `orphan_sweep` holds the only slot of the pool `<table>.cleanup` and deletes exactly the objects
   of the list that are still orphans. No JVM starts.

**By hand** a run only lists unless `dry_run` is switched off. Scheduled runs ask for approval.
`older_than` (`7d`) is the minimum age of an orphan.

**Who may approve:** the `approvers` in the table's settings, except the person who started the run;
without that setting, everyone who may edit the DAG.

**Without an answer** within `answer_within` (24 h), and after a rejection, nothing is deleted and
the run ends as a success. The waiting task does not hold the pool and needs no triggerer.

**When it fails,** the end of the task's log says what failed and what to do next. Running it again
is always safe.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.approvals import Approve
from firnline.airflow.dags import READING, longest, operation_dag
from firnline.airflow.sweep import ApprovedSweep, PlanSweep, SweepWork
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import RunInTask

SWEEP, APPROVED = SweepWork(), ApprovedSweep()


def make(table: DagTable, _: Path) -> None:
    """Make the DAG."""
    with operation_dag(
        SWEEP,
        table,
        doc=__doc__,
        title=f"Delete objects that no log file of {table.name} names",
        schedule=table.clock,
    ):
        (
            PlanSweep(task_id="plan", work=SWEEP, table=table, execution_timeout=READING)
            >> Approve(task_id="approve", work=SWEEP, table=table)
            >> RunInTask(
                task_id=SWEEP.operation,
                work=APPROVED,
                table=table,
                execution_timeout=longest(table),
                **table.lock(SWEEP.operation),
            )
        )
