"""### Delete the objects of a table that nobody needs any more.

Each run names its table, which `tombstone_cleanup__TABLE` of a table with `own_dags` is about
anyway. It runs once a day when `fleet__merge` finds something to delete, or a certificate that may
be complete (`cleanup.schedule: fleet`), or by a clock of its own (a schedule there, UTC), and by
hand.

1. `plan` reads the whole log and says what would be deleted: parts that were replaced or dropped
   and log files that were folded into others, once the grace is over (`cleanup.grace`), and old
   transactions. Its log and XCom also say what has to wait, and until when. If there is nothing to
   do, the run ends here.
2. `tombstone_cleanup` deletes in batches, at a bounded rate, and then confirms the deletions in the
   log with one transaction. It holds the only slot of the pool `<table>.cleanup`, and can run at
   the same time as merges.
3. `certificates` completes the certificates of erases whose grace is over, where there are any, or
   says what is in the way and until when. It calls the table's notifier for each that is complete,
   and runs without a clean-up, too, if there is nothing to delete.

**By hand** a run only plans unless `dry_run` is switched off: deletions cannot be undone. Runs
that the planner or a clock starts delete. `max_deletes` bounds the objects of one run.

**When it fails,** the end of the task's log says what failed and what to do next. The log keeps
each tombstone until its deletion is confirmed, so the next run continues where this one ended.
Transient errors are retried three times, all others fail at once. `certificates` fails if rows of
erased keys may be left where they must not be.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.certificates import (
    CERTIFICATES,
    CleanupRun,
    CompleteCertificates,
    PlanCleanup,
)
from firnline.airflow.dags import READING, longest, operation_dag, plan_then_run
from firnline.airflow.ending import then_end
from firnline.airflow.tables import DagTable

CLEANUP = CleanupRun()


def make(table: DagTable, _: Path) -> None:
    """Make the DAG."""
    with operation_dag(
        CLEANUP,
        table,
        doc=__doc__,
        title=f"Delete the objects of {table.name} that nobody needs any more",
        schedule=table.clock,
    ):
        plan = PlanCleanup(task_id="plan", work=CLEANUP, table=table, execution_timeout=READING)
        run = plan_then_run(CLEANUP, table, plan)[1]
        certificates = CompleteCertificates(
            task_id=CERTIFICATES,
            table=table,
            execution_timeout=longest(table),
            # Also after a clean-up that had nothing to delete, or found nothing any more.
            trigger_rule="none_failed",
        )
        plan >> certificates
        run >> certificates
        if not table.mirrored:
            then_end(run)  # the task of certificates may be skipped beforehand
