"""### Erase the rows of a set of keys from a table, with a certificate.

One DAG for all tables, started by hand: `table` names that of the run. **Switch `dry_run` off** to
be asked; with it the run ends after the plan.

1. `plan` reads the keys and the table's log and says which parts may hold them, without Spark.
2. `approve` shows how many keys there are and what would be read, never a key, and waits for a
   person to approve it ("Required actions" of the run).
3. `erase` submits the Spark job and holds all slots of the pool `<table>.merge`. Every part
   that holds a key is replaced, in one transaction with delete records for appends under way.
4. `report` hands on what was committed and the id of the certificate, as XCom, in the `extra` of
   the event on the table's asset and in the note of the run. After the clean-up's grace a run of
   `tombstone_cleanup` completes and checks it, and tells the table's notifier.

`columns` are the key columns. **Give the keys as `keys_file`** (Parquet or CSV in the table's
bucket): `keys` are stored in Airflow's database and shown to everyone who may see the run.

**Who may approve:** the `approvers` in the table's settings, except the person who started the run;
without that setting, everyone who may edit the DAG.

**Without an answer** within `answer_within` (24 h), and after a rejection, nothing is erased and
the run ends as a success. The waiting task does not hold the pool and needs no triggerer.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails,** the end of the task's log says what failed and what to do next. It names the
parts that could not be read; the keys are erased from all others. Running it again is always safe.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import READING, longest, operation_dag
from firnline.airflow.erase import ApprovedErase, ApproveErase, EraseWork, ReportErase
from firnline.airflow.mirror import then_mirror
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import PlanOperation

ERASE, APPROVED = EraseWork(), ApprovedErase()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(ERASE, table, doc=__doc__, title=f"Erase keys from {table.name}"):
        plan = PlanOperation(task_id="plan", work=ERASE, table=table, execution_timeout=READING)
        approve = ApproveErase(task_id="approve", work=ERASE, table=table)
        job = SubmitJob(
            task_id=ERASE.operation,
            work=APPROVED,
            table=table,
            jobs=jobs,
            execution_timeout=longest(table),
            **table.lock(ERASE.operation),
        )
        report = ReportErase(task_id="report", work=ERASE, table=table, execution_timeout=READING)
        # Set-up and tear-down: the report also runs after a failed job.
        plan >> approve >> job >> report.as_teardown(setups=plan)
        then_mirror(table, job)
